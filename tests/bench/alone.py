"""What jobs cost the operator alone: its CPU for each pod beside a model of a cluster, with few jobs and with many."""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slipway.devcluster.spec import ClusterSpec
from tests.bench.model import Model, running
from tests.bench.records import Record
from tests.bench.systems import Job, Shape
from tests.bench.systems.slipway import SETTLED_SECONDS, slice_job
from tests.bench.usage import Reading, now_mib, peak_mib
from tests.bench.workloads.base import FILL_SECONDS, QUIET_SECONDS, SECONDS_PER_POD, tpu_nodes
from tests.running import Operator
from tests.serving import kubeconfig
from tests.waiting import holds

_NAMESPACE: Final = "bench"


@dataclass(frozen=True)
class Alone:
    """`count` jobs of one shape that are applied at once."""

    count: int
    shape: Shape

    @property
    def name(self) -> str:
        """Such as `alone 500x8`."""
        return f"alone {self.count}x{self.shape.pods}"

    async def run(self, repetition: int) -> Record:
        """Start the operator, apply the jobs, and wait until all their pods run."""
        record = Record(self.name, "slipway", repetition, self.count * self.shape.pods)
        spec = ClusterSpec(name="model", pools=tpu_nodes(self.shape, self.count * self.shape.slices))
        model = Model(spec.nodes())
        with tempfile.TemporaryDirectory(prefix="slipway-bench-") as name:
            folder = Path(name)
            async with running(model) as server:
                operator = Operator(kubeconfig(folder, server), folder / "log", _NAMESPACE, whole_cluster=True).start()
                try:
                    await holds(lambda: _is_ready(operator, model), seconds=FILL_SECONDS)
                    await asyncio.sleep(SETTLED_SECONDS)
                    await self._measure(record, model, operator)
                finally:
                    await asyncio.to_thread(operator.stop)
        return record

    async def _measure(self, record: Record, model: Model, operator: Operator) -> None:
        assert operator.process is not None
        pid = operator.process.pid
        began, before = time.monotonic(), Reading.of({"controller": pid})
        model.requests.clear()
        for number in range(self.count):
            body = slice_job(Job(f"job-{number}", self.shape))
            body["metadata"]["namespace"] = _NAMESPACE
            model.put("slicejobs", body)
        try:
            async with asyncio.timeout(FILL_SECONDS + SECONDS_PER_POD * record.pods):
                await model.all_run(record.pods)
        except TimeoutError:
            record.problem = f"only {model.running} of {record.pods} pods run"
        record.times["running"] = time.monotonic() - began
        await asyncio.sleep(QUIET_SECONDS)
        record.span = time.monotonic() - began
        record.cpu = Reading.of({"controller": pid}).since(before)
        record.peak_mib, record.rss_mib = peak_mib(pid), now_mib(pid)
        record.requests = {f"slipway {what}": times for what, times in sorted(model.requests.items())}


def _is_ready(operator: Operator, model: Model) -> bool:
    # The operator's first comparison of a list with kopf's watch has begun: it would read jobs again that come before.
    return operator.said("ready:") and model.requests["watch slicejobs"] > 0 and model.requests["list slicejobs"] > 2
