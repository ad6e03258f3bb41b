from collections.abc import AsyncIterator
from time import monotonic

import pytest

from slipway.cluster.access import load_access, open_access
from slipway.cluster.apply import Applier
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.events import EventRecorder
from slipway.local_cluster import NativeCluster
from slipway.planner.snapshot import Settings
from tests.cluster.bench import Bench, now
from tests.cluster.replay import Replay, replaying
from tests.cluster.things import Time
from tests.conftest import Kubectl


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


@pytest.fixture
async def bench(control_plane: NativeCluster, kubectl: Kubectl) -> AsyncIterator[Bench]:
    async with ApiConnection(await load_access(control_plane.kubeconfig)) as api:
        cache = Cache(Settings(), now, monotonic)
        recorder = EventRecorder(api, "tests", now=now, clock=monotonic)
        yield Bench(api, kubectl.namespace, cache, recorder, Applier(api, cache, recorder, now=now))
