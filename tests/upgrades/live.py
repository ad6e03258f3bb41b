"""This version and an earlier one in turns, on real nodes: `python -m tests.upgrades.live COMMIT`.

A job runs under the operator of the earlier version. Then a host fails, and while the job restarts, its operator is
killed, and the CRDs and an operator of the other version take over: forward, back, and forward again. Needs the history
of git.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from slipway.devcluster import ClusterSpec, NativeProvider, Pool
from tests.clusters import install_crds, kubectl_for
from tests.kubectl import Kubectl
from tests.places import ROOT
from tests.running import Jobs, Operator
from tests.upgrades.record import LONG, NAMESPACE, TPU
from tests.upgrades.versions import unpack

FAILS: Final = "trap 'sleep 3; exit 143' TERM; until [ -e /tmp/code ]; do sleep 0.1; done; exit $(cat /tmp/code)"
"""Ends with the code that is written to a file, and some seconds after SIGTERM, so that a restart takes its time."""
HOSTS: Final = ("0-0", "0-1", "1-0", "1-1")


@dataclass(frozen=True)
class Version:
    """A checkout, and the operator in it."""

    folder: Path
    operator: Operator

    def start(self, kubectl: Kubectl) -> Operator:
        """Install its CRDs and start its operator."""
        paths = sorted((self.folder / "crds").glob("*.yaml"))
        install_crds(kubectl, [yaml.safe_load(path.read_text()) for path in paths])
        return self.operator.start_again()


def take_turns(commit: str) -> None:
    """Let the two versions follow each other while a job restarts; fails where one cannot go on from the other."""
    name, provider = f"live-{commit}", NativeProvider()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack(commit, root)
        try:
            cluster = provider.up(ClusterSpec(name=name, pools=[Pool(kind="real", type="v5p-16", count=2, spot=True)]))
            kubectl = kubectl_for(cluster, NAMESPACE)
            this, earlier = (
                Version(folder, Operator(cluster.kubeconfig, root / log, NAMESPACE, sources=folder / "operator"))
                for folder, log in ((ROOT, "this.log"), (root, "earlier.log"))
            )
            jobs = Jobs(kubectl, earlier.start(kubectl))
            jobs.apply(**TPU, slices=2, command=["sh", "-c", FAILS])
            runs(jobs, 0)
            for number, follower in enumerate((this, earlier, this)):
                hand_over(jobs, number, follower)
            for host in HOSTS:
                end(jobs, f"train-3-{host}", 0)
            status = jobs.until("Succeeded", seconds=LONG)
            assert (status["failures"], status["preemptions"]) == (3, 0), status
            assert jobs.operator.stop() == 0
        finally:
            provider.down(name)


def hand_over(jobs: Jobs, number: int, follower: Version) -> None:
    """Let a host fail, kill the operator while the job restarts, and let the other version go on."""
    end(jobs, f"train-{number}-0-1", 1)
    jobs.until("Restarting", seconds=LONG)
    jobs.operator.kill()
    left = {pod["metadata"]["uid"] for pod in jobs.pods()}
    jobs.operator = follower.start(jobs.kubectl)
    status = runs(jobs, number + 1)
    assert status["failures"] == number + 1, status
    assert [one["number"] for one in status["attempts"]] == list(range(number + 1, -1, -1)), status
    assert {(one["cause"], one["reason"]) for one in status["attempts"][1:]} == {("failure", "ExitCode")}, status
    print(f"attempt {number} failed; {len(left)} pods were left; attempt {number + 1} runs", flush=True)


def runs(jobs: Jobs, number: int) -> dict[str, Any]:
    """Wait until all hosts of an attempt run, and no pod of another attempt is there; returns the status."""
    jobs.until_attempt(number, seconds=LONG)
    attempts = [pod["metadata"]["labels"]["slipway.dev/attempt"] for pod in jobs.pods()]
    assert attempts.count(str(number)) == len(HOSTS), attempts
    return dict(jobs.status())


def end(jobs: Jobs, pod: str, code: int) -> None:
    """Let the program of a host end."""
    jobs.kubectl("exec", pod, "--", "sh", "-c", f"echo {code} > /tmp/code.new; mv /tmp/code.new /tmp/code")


if __name__ == "__main__":
    take_turns(sys.argv[1])
