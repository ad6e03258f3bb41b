"""What earlier versions left on a real API server, under the CRDs and the operator of this one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.devcluster.native.simulated import EXIT_CODE
from tests.clusters import cluster_of, install_crds, kubectl_for, operator_of
from tests.kubectl import Kubectl
from tests.places import CRDS
from tests.running import Jobs, Operator
from tests.upgrades.record import POOLS
from tests.upgrades.restored import create, namespace_of, restore
from tests.upgrades.versions import RECORDED

NEWEST = list(RECORDED)[-1]
pytestmark = [
    pytest.mark.stage("versions"),
    pytest.mark.parametrize(
        "commit", [one if one == NEWEST else pytest.param(one, marks=pytest.mark.thorough) for one in RECORDED]
    ),
]

ENDED = ("phase", "attempts", "failures", "preemptions", "result", "startTime", "completionTime")
"""What an ended job says for good. A newer version adds conditions."""


class Left:
    """The jobs of one version, in their own namespace."""

    def __init__(self, kubectl: Kubectl, operator: Operator) -> None:
        self.jobs = Jobs(kubectl, operator)
        self.pods = self.uids()
        """UIDs of the pods that it left."""
        self.statuses = self.now()
        """The statuses that it left."""

    def now(self) -> dict[str, Any]:
        """The statuses by job."""
        return {one["metadata"]["name"]: one["status"] for one in self.jobs.kubectl.get("sj")["items"]}

    def uids(self) -> dict[str, str]:
        """The UIDs of all pods."""
        pods = self.jobs.kubectl.get("pods", selector="slipway.dev/job-uid")["items"]
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}

    def end(self, name: str, *pods: str) -> Any:
        """Let the containers of these pods exit with 0; returns the status of their job once it has succeeded."""
        assert {pod: self.pods[pod] for pod in pods}.items() <= self.uids().items()
        self.jobs.kubectl("annotate", "pods", *pods, f"{EXIT_CODE}=0")
        return self.jobs.until("Succeeded", name)


@pytest.fixture(scope="module")
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Left]]:
    """The versions' jobs, stored under their CRDs; then the CRDs and the operator of this version over all of them."""
    commits = chosen(request.session.items)
    pools = [pool.model_copy(update={"count": pool.count * len(commits)}) for pool in POOLS]
    for cluster in cluster_of("test-upgrades", pools):
        waiting = [restore(commit, cluster, number) for number, commit in enumerate(commits)]
        create([pod for pods in waiting for pod in pods], cluster)
        install_crds(kubectl_for(cluster, "default"), [yaml.safe_load(crd.read_text()) for crd in CRDS])
        with contextmanager(operator_of)(cluster, tmp_path_factory.mktemp("upgrades")) as operator:
            left = {commit: Left(kubectl_for(cluster, namespace_of(commit)), operator) for commit in commits}
            until_it_has_looked_at_every_job(Jobs(kubectl_for(cluster, "default"), operator))
            yield left


def chosen(items: Sequence[pytest.Item]) -> list[str]:
    """The versions that tests of this run are about, oldest first."""
    given = {str(one.callspec.params["commit"]) for one in items if one.path == Path(__file__)}
    return [commit for commit in RECORDED if commit in given]


def until_it_has_looked_at_every_job(elsewhere: Jobs) -> None:
    """Jobs are looked at in the order in which they became known: when a new one runs, all others have been."""
    elsewhere.operator.until_ready()
    elsewhere.apply()
    elsewhere.until("Running")


def test_the_api_server_takes_what_is_stored(upgraded: dict[str, Left], commit: str) -> None:
    jobs = upgraded[commit].jobs
    for subresource in ("", "status"):

        def taken(subresource: str = subresource) -> bool:
            """Whether it takes every job; not if the operator has written to one meanwhile."""
            stored = jobs.kubectl("get", "slicejobs", "-o", "json").stdout
            strict = (f"--subresource={subresource}", "--validate=strict", "-f", "-")
            said = jobs.kubectl("replace", *strict, stdin=stored, check=False).stderr
            assert all("(Conflict)" in line for line in said.splitlines()), said
            return not said

        jobs.until_true("no conflict", taken)


def test_no_pod_is_touched_and_every_job_is_in_its_phase(upgraded: dict[str, Left], commit: str) -> None:
    left = upgraded[commit]
    phases = {
        "failed": "Failed",
        "ray": "Running",
        "restarted": "Running",
        "restarting": "Restarting",
        "running": "Running",
        "succeeded": "Succeeded",
        "waiting": "WaitingForCapacity",
    }
    left.jobs.until_true(
        "every job in its phase", lambda: {name: one["phase"] for name, one in left.now().items()} == phases
    )
    assert left.uids() == left.pods


def test_what_has_ended_stays_as_it_was_told(upgraded: dict[str, Left], commit: str) -> None:
    left = upgraded[commit]
    for name in ("failed", "succeeded"):
        before, now = left.statuses[name], left.now()[name]
        assert [now.get(field) for field in ENDED] == [before.get(field) for field in ENDED]


def test_what_runs_succeeds_in_its_own_pods(upgraded: dict[str, Left], commit: str) -> None:
    left = upgraded[commit]
    for name, hosts in {"running": ("0-0-0", "0-0-1", "0-1-0", "0-1-1"), "restarted": ("1-0-0", "1-0-1")}.items():
        status = left.end(name, *(f"{name}-{host}" for host in hosts))
        assert [one["number"] for one in status["attempts"]] == list(range(int(hosts[0][0]), -1, -1))
        assert status["attempts"][1:] == left.statuses[name]["attempts"][1:]
    assert left.end("ray", "ray-0-head")["attempt"] == 0


def test_what_waited_gets_the_room_for_its_own_pods(upgraded: dict[str, Left], commit: str) -> None:
    left = upgraded[commit]
    left.jobs.until("Running", "waiting")
    assert left.end("waiting", "waiting-0-0-0", "waiting-0-0-1")["attempt"] == 0


def test_a_restart_goes_on_once_its_last_pod_is_gone_and_is_charged_once(
    upgraded: dict[str, Left], commit: str
) -> None:
    left = upgraded[commit]
    left.jobs.kubectl("delete", "pod", "restarting-0-0-1", "--grace-period=0", "--force")
    status = left.jobs.until("Running", "restarting")
    assert (status["attempt"], status["failures"], status["preemptions"]) == (1, 1, 0)
    assert (status["attempts"][1]["cause"], status["attempts"][1]["reason"]) == ("failure", "ExitCode")
