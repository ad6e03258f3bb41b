"""Slipway, from this checkout."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from slipway.api import names
from slipway.apiserver.wire import JsonObject
from slipway.controller.lease import DEFAULT_TIMES
from slipway.core.planner.contract.snapshot import SKEW
from tests.bench.systems.base import IMAGE, PAUSE_SECONDS, START_SECONDS, Job, ReplicatedSystem
from tests.running import Operator

SETTLED_SECONDS: Final = SKEW.total_seconds() + 1
"""To a leader of less time a job may be older than itself: it lists the pods of the job's name first."""


def slice_job(job: Job) -> JsonObject:
    """A job as a SliceJob."""
    spec = {"accelerator": {"type": job.shape.type}, "slices": job.shape.slices, "image": IMAGE, "command": ["train"]}
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": job.name}, "spec": spec}


class Slipway(ReplicatedSystem):
    """The operator as its own process."""

    name = "slipway"
    selector = names.LABEL_JOB_UID
    job_label = names.LABEL_JOB_NAME
    slice_label = names.LABEL_SLICE
    ends = True
    collection = f"/apis/{names.API_VERSION}/namespaces/{{namespace}}/{names.PLURAL}"

    async def start(self) -> None:
        self._standby: Operator | None = None
        self._operator = await self._started(self.log, "ready:")
        await asyncio.sleep(SETTLED_SECONDS)

    async def stop(self) -> None:
        await asyncio.to_thread(self._operator.stop)
        if self._standby is not None:
            await asyncio.to_thread(self._standby.stop)

    async def stand_by(self) -> None:
        self._standby = await self._started(self.log.with_suffix(".standby.log"), "standing by")

    async def kill_leader(self) -> None:
        assert self._standby is not None
        await asyncio.to_thread(self._operator.kill)
        self._operator, self._standby = self._standby, None

    async def _started(self, log: Path, said: str) -> Operator:
        await asyncio.to_thread(log.unlink, missing_ok=True)
        operator = Operator(self.kubeconfig, log, self.namespace, whole_cluster=True, times=DEFAULT_TIMES).start()
        end = time.monotonic() + START_SECONDS
        while not operator.said(said):
            if time.monotonic() > end:
                raise SystemExit(f"Slipway did not get ready:\n{operator.tail()}")
            await asyncio.sleep(PAUSE_SECONDS)
        return operator

    @property
    def pid(self) -> int:
        assert self._operator.process is not None
        return self._operator.process.pid

    def manifest(self, job: Job) -> JsonObject:
        return slice_job(job)

    def is_done(self, status: dict[str, Any]) -> bool:
        return status.get("phase") == "Succeeded"
