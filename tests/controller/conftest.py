from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest

from slipway.apiserver.access import load_access
from slipway.apiserver.connection import ApiConnection
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Settings
from slipway.devcluster import NativeCluster
from tests.apiserver.conftest import api, replay
from tests.controller.bench import Bench, now
from tests.controller.things import Time
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS

__all__ = ["api", "replay"]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def bench(
    control_plane: NativeCluster, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    async with ApiConnection(await load_access(control_plane.kubeconfig)) as api:
        send = api._send

        async def patiently(*given: Any, seconds: float, **named: Any) -> bytes:
            # What becomes of a write that is not answered in time is no matter of these tests.
            return await send(*given, seconds=max(seconds, ANSWER_SECONDS), **named)

        monkeypatch.setattr(api, "_send", patiently)
        cache = Cache(Settings(), now, monotonic)
        recorder = EventRecorder(api, "tests", now=now, clock=monotonic)
        yield Bench(api, kubectl.namespace, cache, recorder, Applier(api, cache, recorder, now=now))
