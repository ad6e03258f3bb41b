"""What an API server that stalls costs, and a leader that is killed, with different times of the Lease.

`python -m tests.bench.stalls` prints the table of docs/operator.md. The API server is stopped by SIGSTOP, as an etcd
that compacts or a control plane that is upgraded would do it. An operator that ends is started again as a kubelet does
it: at once, and then ten seconds after its next end. When the API server goes on, one pod of every job fails; a job is
followed again once its next attempt is in its status.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Final

from slipway.controller.lease import LeaseTimes
from slipway.devcluster import Pool
from tests.bench import audit
from tests.bench.place import Place, place
from tests.clusters import kubectl_for
from tests.running import Jobs, Operator
from tests.waiting import until

JOBS: Final = 50
TIMES: Final = (LeaseTimes(8, 7, 1), LeaseTimes(15, 10, 2), LeaseTimes(40, 35, 2))
BACKOFF_SECONDS: Final = 10.0
"""After an operator's second end and later ones; kubelets double it."""
FAILED: Final = json.dumps({"status": {"phase": "Failed", "containerStatuses": None}})


class Kubelet:
    """Keeps operators running."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._over, self.ends = Event(), 0
        """How often one has ended by itself."""
        self._threads = [Thread(target=self._keep, args=(one,)) for one in operators]
        for thread in self._threads:
            thread.start()

    def _keep(self, operator: Operator) -> None:
        restarts = 0
        while not self._over.wait(0.02):
            if operator.process is not None and operator.process.poll() is not None:
                self.ends += 1
                if restarts and self._over.wait(BACKOFF_SECONDS * 2 ** (restarts - 1)):
                    return
                restarts += 1
                operator.start()

    def stop(self) -> None:
        """Let them end."""
        self._over.set()
        for thread in self._threads:
            thread.join()


@dataclass(frozen=True)
class Fault:
    """What happens while the jobs run."""

    name: str
    operators: int
    stall: float = 0.0
    """Seconds in which the API server does nothing."""
    kills: bool = False
    """Whether it is the leader that is killed."""


FAULTS: Final = (
    Fault("nothing", 1),
    Fault("the leader is killed", 2, kills=True),
    *(Fault(f"a stall of {stall:.0f} s", operators, stall) for stall in (10.0, 30.0) for operators in (1, 2)),
)


@dataclass(frozen=True)
class Cost:
    """Of one fault."""

    seconds: float
    """From the end of the stall, or the death of the leader, until every job is followed again."""
    requests: int
    """Of the operators, in the same time and in the stall."""
    ends: int
    """How often an operator ended by itself."""


def measure(where: Place, times: LeaseTimes, fault: Fault) -> Cost:
    """One fault."""
    account, kubectl = where.account("slipway"), kubectl_for(where.cluster, "bench-slipway")
    folder = Path(tempfile.mkdtemp(dir=where.folder))
    operators = [
        Operator(account, folder / f"{number}.log", "bench-slipway", whole_cluster=True, times=times).start()
        for number in range(fault.operators)
    ]
    leader = until("a leader", lambda: next((one for one in operators if one.said("ready:")), None))
    assert leader is not None
    jobs = Jobs(kubectl, leader, 240.0)
    kubelet = Kubelet(operators if fault.stall else [])
    names = [f"job-{number:02}" for number in range(JOBS)]
    try:
        for name in names:
            jobs.apply(name, hosts=2)
        jobs.until_all(names, "Running")
        began = datetime.now(UTC)
        if fault.stall:
            where.cluster.pause("kube-apiserver")
            time.sleep(fault.stall)
            where.cluster.resume("kube-apiserver")
        elif fault.kills:
            leader.kill()
        since = time.monotonic()
        pods = [f"{name}-0-0-0" for name in names]
        kubectl("patch", "pods", *pods, "--subresource=status", "--type=merge", "-p", FAILED)

        def followed() -> bool:
            found = kubectl.get("sj")["items"]
            return all(one["status"].get("attempt") == 1 for one in found)

        until("every job is followed", followed, seconds=240.0, every=0.02)
        took = time.monotonic() - since
        time.sleep(2)
        asked = audit.requests(where.audit_log, began, datetime.now(UTC))
        own = {name: count for name, count in asked.items() if name.startswith("slipway ")}
        leases = sum(count for name, count in own.items() if name.split()[2].startswith("leases"))
        return Cost(took, sum(own.values()) - leases, kubelet.ends)
    finally:
        kubelet.stop()
        jobs.delete_all()
        for one in operators:
            one.stop()
        kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        kubectl("delete", "lease", "--all")


async def main() -> None:
    """Measure all and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stalls", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    turns = parser.parse_args().turns
    print("| Lease, s | fault | operators | every job followed after, s | requests | ends of operators |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        async with place([Pool(kind="simulated", type="cpu", count=JOBS)], "unthrottled", Path(folder)) as where:
            for times in TIMES:
                for fault in FAULTS:
                    _print(times, fault, [await asyncio.to_thread(measure, where, times, fault) for _ in range(turns)])


def _print(times: LeaseTimes, fault: Fault, costs: Sequence[Cost]) -> None:
    took = sorted(one.seconds for one in costs)
    given = f"{times.duration}, {times.deadline:g}, {times.retry:g}"
    seconds = f"{median(took):.1f} ({took[0]:.1f} to {took[-1]:.1f})"
    requests = f"{median(one.requests for one in costs):.0f}"
    print(
        f"| {given} | {fault.name} | {fault.operators} | {seconds} | {requests} | {[one.ends for one in costs]} |",
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main())
