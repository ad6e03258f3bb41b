from collections.abc import AsyncIterator

import pytest

from slipway.apiserver.connection import ApiConnection
from tests.apiserver.replay import Replay, open_access, replaying


@pytest.fixture
async def replay() -> AsyncIterator[Replay]:
    async with replaying() as server:
        yield server


@pytest.fixture
async def api(replay: Replay) -> AsyncIterator[ApiConnection]:
    async with ApiConnection(open_access(replay.url)) as connection:
        yield connection
