"""Leaders that are killed while a job restarts: `python -m tests.leader_kills --count 50`.

Two operators run. A pod of a job fails, the leader gets a SIGKILL at some moment of the restart, and the other one goes
on with it. Every failure must be charged once, and the jobs beside it must not be touched.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from slipway.controller.lease import DEFAULT_TIMES
from slipway.devcluster import Pool
from tests.clusters import cluster_of, kubectl_for
from tests.kubectl import Kubectl
from tests.running import Jobs, Operator
from tests.waiting import ANSWER_SECONDS, until

POOLS: Final = [Pool(kind="simulated", type="v5p-16", count=4, spot=True), Pool(kind="simulated", type="cpu", count=4)]
SLICES: Final[dict[str, Any]] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 2}
FAULTY: Final[dict[str, Any]] = SLICES | {"retries": {"maxFailures": 1000}}
HEALTHY: Final[dict[str, dict[str, Any]]] = {"slices": SLICES, "processors": {"hosts": 2}}
"""The jobs that must not notice, by their names."""

LASTS: Final = ("phase", "attempt", "attempts", "failures", "preemptions", "uncharged", "capacityWaits")
"""Of the status of a job that runs."""

MOMENTS: Final = {
    "a pod has failed": (),
    # This stays, which a phase may not until kubectl has looked for the first time.
    "the end of the attempt is written": (
        "sj/faulty",
        "--for=jsonpath={{.status.attempts[?(@.number=={now})].endTime}}",
    ),
    "the other pods are gone": ("pod/faulty-{now}-1-1", "--for=delete"),
    "the next attempt is written": ("sj/faulty", "--for=jsonpath={{.status.attempt}}={next}"),
    "the next attempt has pods": ("pod/faulty-{next}-0-0", "--for=create"),
}
"""When the leader is killed, as `kubectl wait` tells it."""


@dataclass
class Operators:
    """Two operators, one of which leads."""

    kubectl: Kubectl
    folder: Path
    running: list[Operator]

    def start(self) -> None:
        """Start one more."""
        log = self.folder / f"operator-{uuid4().hex[:8]}.log"
        # The other one takes over when the Lease has run out.
        self.running.append(Operator(self.kubectl.kubeconfig, log, self.kubectl.namespace, times=DEFAULT_TIMES).start())

    def leader(self) -> Operator | None:
        """The one that has the Lease."""
        lease = self.kubectl("get", "lease", "slipway-operator", "-o", "jsonpath={.spec.holderIdentity}", check=False)
        pids = {str(one.process.pid): one for one in self.running if one.process is not None}
        return next((one for pid, one in pids.items() if f"-{pid}-" in lease.stdout), None)

    def kill_leader(self) -> None:
        """SIGKILL; another one is started in its place, and stands by."""
        leader = until("a leader", self.leader)
        assert leader is not None
        leader.kill()
        self.running.remove(leader)
        self.start()


@contextmanager
def operators(kubectl: Kubectl, folder: Path) -> Iterator[Operators]:
    """Two operators that serve the namespace of `kubectl`."""
    made = Operators(kubectl, folder, [])
    try:
        made.start()
        made.start()
        yield made
    finally:
        # Before the operators go: the next test needs the nodes of the jobs.
        kubectl("delete", "sj", "--all", check=False)
        kubectl("wait", "pods", "--all", "--for=delete", f"--timeout={ANSWER_SECONDS}s", check=False)
        for one in made.running:
            one.stop()


def untouched(jobs: Jobs) -> dict[str, Any]:
    """What must stay as it is of the healthy jobs and their pods; whether nodes answer in time is another matter."""
    found: dict[str, Any] = {}
    for name in HEALTHY:
        job = jobs.kubectl.get("sj", name)
        found[name] = (job["metadata"]["uid"], [job["status"].get(field) for field in LASTS])
        for pod in jobs.pods(name):
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], pod["status"]["phase"])
    return found


def kill_leaders(kubectl: Kubectl, folder: Path, count: int) -> dict[str, Any]:
    """Kill so many leaders; returns the status of the job that restarted.

    Raises:
        AssertionError: when a failure was not charged once, or a healthy job was touched.
    """
    with operators(kubectl, folder) as both:
        jobs = Jobs(kubectl, both.running[0])
        for name, spec in HEALTHY.items():
            jobs.apply(name, **spec)
            jobs.until("Running", name)
        jobs.apply("faulty", **FAULTY)
        jobs.until("Running", "faulty")
        before = untouched(jobs)
        for number in range(count):
            jobs.operator = both.running[-1]
            _restart(jobs, both, number)
            assert untouched(jobs) == before, f"a healthy job was touched after {number + 1} kills"
        status: dict[str, Any] = jobs.status("faulty")
    counts = {name: status[name] for name in ("attempt", "failures", "preemptions", "uncharged")}
    assert counts == {"attempt": count, "failures": count, "preemptions": 0, "uncharged": 0}, counts
    return status


def _restart(jobs: Jobs, both: Operators, number: int) -> None:
    jobs.until_true("a leader", both.leader)
    moment = [word.format(now=number, next=number + 1) for word in list(MOMENTS.values())[number % len(MOMENTS)]]
    with _waiting(jobs.kubectl, moment):
        fails = '{"status": {"phase": "Failed", "containerStatuses": null}}'
        jobs.kubectl.patch("pod", f"faulty-{number}-0-0", fails, status=True)
    both.kill_leader()
    charged = jobs.until_attempt(number + 1, "faulty", every=0.5)["failures"]
    assert charged == number + 1, f"{charged} failures were charged for {number + 1}"


@contextmanager
def _waiting(kubectl: Kubectl, moment: list[str]) -> Iterator[None]:
    """Ends when the moment has come that the body of the `with` leads to."""
    if not moment:
        yield
        return
    where = [kubectl.program, "--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace]
    with subprocess.Popen(
        [*where, "wait", *moment, f"--timeout={ANSWER_SECONDS}s"], stdout=subprocess.DEVNULL
    ) as waiting:
        yield
        assert waiting.wait() == 0, f"{' '.join(moment)} did not come"


def main() -> int:
    """Kill as many as the command line says, on a cluster of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.leader_kills", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="how many leaders are killed")
    asked = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = next(stack.enter_context(closing(cluster_of("leader-kills", POOLS))))
        kubectl = kubectl_for(cluster, "leader-kills")
        kubectl("create", "namespace", kubectl.namespace)
        status = kill_leaders(kubectl, folder, asked.count)
    causes = Counter(one.get("reason", one.get("cause", "running")) for one in status["attempts"])
    print(f"{asked.count} leaders killed in {time.monotonic() - began:.0f} s; attempt {status['attempt']},")
    print(f"{status['failures']} failures, {status['preemptions']} preemptions, {status['uncharged']} uncharged;")
    print(f"the last attempts: {dict(causes)}; {', '.join(HEALTHY)} run in their first pods")
    return 0


if __name__ == "__main__":
    sys.exit(main())
