from collections.abc import AsyncIterator

import pytest

from slipway.cluster.access import open_access
from slipway.cluster.connection import ApiConnection
from tests.cluster.replay import Replay, replaying
from tests.cluster.things import Time


@pytest.fixture
async def replay() -> AsyncIterator[Replay]:
    async with replaying() as server:
        yield server


@pytest.fixture
async def api(replay: Replay) -> AsyncIterator[ApiConnection]:
    async with ApiConnection(open_access(replay.url)) as connection:
        yield connection


@pytest.fixture
def time() -> Time:
    return Time()
