"""The applier on a real API server, in a namespace of its own."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.wire import JsonObject
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import Action, Plan
from slipway.core.planner.contract.snapshot import Snapshot


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Bench:
    """An applier on a namespace of its own, and the cache it writes to."""

    api: ApiConnection
    namespace: str
    cache: Cache
    recorder: EventRecorder
    applier: Applier

    async def job(self, name: str = "train", **spec: Any) -> Job:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {"image": "busybox:1", "nodeSelector": {"nowhere": "at-all"}} | spec,
        }
        made = await self.api.create(paths.jobs(self.namespace), body, JsonObject)
        self.cache.jobs.upsert(made)
        return self.now(name).job

    def now(self, name: str = "train") -> Snapshot:
        snapshot = self.cache.snapshot((self.namespace, name))
        assert snapshot is not None
        return snapshot

    async def act(self, job: Job, *actions: Action) -> float | None:
        return await self.applier.apply(Plan(job.status, actions), job)

    async def pods(self) -> dict[str, Any]:
        found = await self.api.list(paths.pods(self.namespace), JsonObject)
        return {one["metadata"]["name"]: one for one in found.items}

    async def end(self, name: str, phase: str) -> None:
        path = f"{paths.pods(self.namespace)}/{name}"
        await self.api.patch_status(path, {"status": {"phase": phase}}, JsonObject)
