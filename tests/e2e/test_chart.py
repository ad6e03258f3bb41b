"""The chart on real nodes, by the real Helm and its README: the operator is a pod with its own rights."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.devcluster import KindCluster, NativeCluster
from tests.chart.conftest import Helm
from tests.chart.conftest import helm as helm  # the fixture
from tests.clusters import kubectl_for
from tests.e2e.test_faults import counters
from tests.kubectl import Kubectl, api_of
from tests.places import CRDS, ROOT
from tests.running import Jobs, Operator
from tests.waiting import START_SECONDS

README = (ROOT / "charts/slipway/README.md").read_text()
TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 2, "command": ["sleep", "3600"]}
HOME = "slipway-system"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "pods", "endpointslices.discovery.k8s.io"}
"""Kinds of which there are others, that come and go by themselves."""


class Shell:
    """A shell with helm and kubectl for a cluster, which runs what the README shows."""

    def __init__(self, helm: Helm, kubectl: Kubectl, image: str, folder: Path) -> None:
        (folder / "helm").symlink_to(helm.program)
        (folder / "kubectl").symlink_to(kubectl.program)
        homes = {f"HELM_{name}_HOME": str(helm.home) for name in ("CACHE", "CONFIG", "DATA")}
        paths = {"PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(kubectl.kubeconfig)}
        self.environment = os.environ | homes | paths
        repository, _, tag = image.rpartition(":")
        self.image = f"--set image.repository={repository} --set-string image.tag={tag}"

    def run(self, block: str, *extra: str, **instead: str) -> str:
        """Run the commands of a block of the README.

        Args:
            block: its name.
            extra: further words of `helm install` and `helm upgrade`, besides the image, which is in no registry.
            instead: words that take the place of others.
        """
        [script] = re.findall(rf"<!-- commands: {block} -->\n```sh\n(.*?)```", README, re.DOTALL)
        given = " ".join((self.image, *extra))
        script = re.sub(r"^(helm (?:install|upgrade) .*)$", rf"\1 {given}", script, flags=re.MULTILINE)
        for old, new in instead.items():
            script = script.replace(old.replace("_", "-"), new)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}{self.said_by_the_test()}"
        return done.stdout

    def helm(self, *words: str) -> None:
        """Run helm about the release, to its end."""
        subprocess.run(["helm", *words, "--namespace", HOME, "--wait"], env=self.environment, check=True, timeout=300)

    def said_by_the_test(self) -> str:
        """The log of the pod of a `helm test` that failed; one that succeeded is gone."""
        command = ["kubectl", "logs", "slipway-test", "--namespace", HOME, "--ignore-errors"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout


@pytest.fixture
def shell(helm: Helm, real_nodes: NativeCluster, operator_image: str, tmp_path: Path) -> Iterator[Shell]:
    """Afterwards the cluster has its CRDs again."""
    folder = tmp_path / "bin"
    folder.mkdir()
    kubectl = kubectl_for(real_nodes, HOME)
    try:
        yield Shell(helm, kubectl, operator_image, folder)
    finally:
        # What a test that failed has left would serve the jobs of the next one.
        where = ("--namespace", HOME, "--kubeconfig", str(kubectl.kubeconfig))
        helm("uninstall", "slipway", *where, "--ignore-not-found", "--wait")
        for crd in CRDS:
            kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crd))
        kubectl.until_established()


@pytest.fixture
def jobs(real_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path) -> Jobs:
    """Jobs without an operator of the test's own."""
    kubectl = namespace_of(real_nodes)
    log = tmp_path / "none.log"
    log.touch()
    return Jobs(kubectl, Operator(kubectl.kubeconfig, log, kubectl.namespace), START_SECONDS)


def everything(kubectl: Kubectl) -> set[str] | None:
    """Every object of the cluster by kind, namespace and name; None when a kind of them has gone meanwhile."""
    kinds = set(kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()) - PASSING
    columns = "custom-columns=:.kind,:.metadata.namespace,:.metadata.name"
    wanted = (",".join(sorted(kinds)), "--all-namespaces", "--no-headers", "-o", columns)
    listed = kubectl("get", *wanted, check=False)
    if listed.returncode != 0:
        return None
    return {" ".join(line.split()) for line in listed.stdout.splitlines()}


def leases(kubectl: Kubectl) -> set[str]:
    """Of operators."""
    names = {one["metadata"]["name"] for one in kubectl.get("leases")["items"]}
    return {name for name in names if name.startswith("slipway-")}


def uids(kubectl: Kubectl) -> set[str]:
    """Of the pods that have not ended."""
    return {
        pod["metadata"]["uid"]
        for pod in kubectl.get("pods")["items"]
        if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
    }


@pytest.mark.thorough
def test_a_release_is_installed_tested_upgraded_and_removed(
    shell: Shell, jobs: Jobs, real_nodes: NativeCluster
) -> None:
    whole_life(shell, jobs, real_nodes)


def whole_life(shell: Shell, jobs: Jobs, real_nodes: NativeCluster | KindCluster) -> None:
    """A release from its installation to its end, with a job that outlives two of its operators."""
    cluster = kubectl_for(real_nodes, HOME)
    before = jobs.until_true("every object", lambda: everything(cluster)) or set()
    cluster("create", "namespace", HOME)
    cluster("label", "namespace", HOME, RESTRICTED)
    assert "Phase:          Succeeded" in shell.run("install", "--take-ownership", "--force-conflicts")

    jobs.apply(**TPU)
    jobs.until("Running")
    node = jobs.kubectl.get("pod", "train-0-1-0")["spec"]["nodeName"]
    real_nodes.preempt(node)
    real_nodes.restore(node)
    jobs.until_true("attempt 1", lambda: jobs.status()["attempt"] == 1)
    assert counters(jobs.until("Running")) == (0, 1)

    workers, operators = uids(jobs.kubectl), uids(cluster)
    shell.run("upgrade", "--set", "log.level=debug,maxPods=500")
    assert "<= 500" in json.dumps(cluster.get("crd", "slicejobs.slipway.dev"))
    assert uids(cluster).isdisjoint(operators)
    assert uids(jobs.kubectl) == workers
    # The new leader reads the status of the job and goes on with attempt 1.
    # `sleep` does not end by itself, and the next attempt waits for it.
    jobs.kubectl("delete", "pod", "train-1-0-0", "--wait=false", "--grace-period=1")
    jobs.until_true("attempt 2", lambda: jobs.status()["attempt"] == 2)
    assert counters(jobs.until("Running")) == (0, 2)

    workers = uids(jobs.kubectl)
    shell.helm("uninstall", "slipway")
    assert leases(cluster) == {"slipway-operator"}
    assert uids(jobs.kubectl) == workers
    shell.run("install", "--take-ownership", "--force-conflicts", "--set", "operatorId=blue")
    assert leases(cluster) == {"slipway-operator", "slipway-operator-blue"}
    assert uids(jobs.kubectl) == workers
    jobs.apply("other", labels={"slipway.dev/operator-id": "blue"}, command=["true"])
    jobs.until("Succeeded", "other")
    shell.run("upgrade", "--set", "operatorId=")
    assert uids(jobs.kubectl) == workers
    jobs.kubectl("delete", "pod", "train-2-0-0", "--wait=false", "--grace-period=1")
    jobs.until_true("attempt 3", lambda: jobs.status()["attempt"] == 3)
    assert counters(jobs.until("Running")) == (0, 3)

    shell.run("uninstall")
    jobs.until_true("nothing left", lambda: (left := everything(cluster)) is not None and left <= before)
    assert leases(cluster) == set()
    of_jobs = {"labelSelector": "slipway.dev/job-name"}
    api = api_of(cluster.kubeconfig)
    jobs.until_true("the end of the job's pods", lambda: not api.read("/api/v1/pods", **of_jobs)["items"])


def test_an_operator_of_one_namespace_sees_only_that(
    shell: Shell, jobs: Jobs, real_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]
) -> None:
    other = Jobs(namespace_of(real_nodes), jobs.operator, jobs.seconds)
    namespace = jobs.kubectl.namespace
    for one in (jobs, other):
        one.apply(command=["true"])
    shell.run("namespaces", team_a=namespace)
    try:
        jobs.until("Succeeded")
        assert jobs.condition("NodesVisible")["reason"] == "NodesForbidden"
        assert other.status() == {"observedGeneration": -1}
        assert "Traceback" not in jobs.kubectl("logs", "--selector=app.kubernetes.io/name=slipway", "--tail=-1").stdout
    finally:
        jobs.kubectl("delete", "sj", "--all")
        uninstall = ["helm", "uninstall", "slipway", "--namespace", namespace, "--wait"]
        subprocess.run(uninstall, env=shell.environment, check=True)
