"""Clusters that tests share, and operators beside them: each lives until its last test.

Two clusters take a large part of a small machine even when idle, so the tests of one follow each other.
"""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from slipway.devcluster import Cluster, ClusterSpec, LocalClusterError, NativeCluster, NativeProvider, Pool
from tests.kubectl import Kubectl, api_of
from tests.places import CRDS
from tests.running import Jobs, Operator
from tests.waiting import ANSWER_SECONDS, until

SHARED: Final[tuple[str, ...]] = (
    "control_plane",
    "operator",
    "kueue_cluster",
    "kueue_operator",
    "real_nodes",
    "node_operator",
    "other_control_plane",
    "other_operator",
)
"""Clusters, each with its operator, in the order in which tests use them: first those that have another, or none."""
_RUNNING: Final[dict[str, Generator[Any]]] = {}
_LAST_TEST: Final[dict[str, str]] = {}


def in_order(items: list[pytest.Item]) -> None:
    """Sort tests by the last of SHARED that they use, and remember which is the last test of each."""
    items.sort(key=_place)
    _LAST_TEST.update((name, item.nodeid) for item in items for name in _shared(item))


def _place(item: pytest.Item) -> tuple[int, str, int]:
    """By cluster, by the version of a cluster, and then by operator."""
    last = max(map(SHARED.index, _shared(item)), default=-1)
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return last // 2, str(given.get("other_control_plane", "")), last


def _shared(item: pytest.Item) -> list[str]:
    """What a test uses of SHARED: another version's cluster has the name of its stand-in, too."""
    used = [name for name in SHARED if name in fixtures_of(item)]
    return [name for name in used if name.startswith("other_")] or used


def fixtures_of(item: pytest.Item) -> list[str]:
    """The names of all fixtures that a test uses."""
    return item.fixturenames if isinstance(item, pytest.Function) else []


def end_after(test: str) -> None:
    """End what was needed until this test."""
    for name in [name for name in reversed(SHARED) if _LAST_TEST.get(name) == test]:
        _end(name)


def until_its_last_test(name: str, made: Generator[Any]) -> Iterator[Any]:
    """The value of a fixture that ends with its last test, and not with the session."""
    _RUNNING[name] = made
    yield next(made)
    _end(name)


def _end(name: str) -> None:
    if name in _RUNNING:
        try:
            next(_RUNNING.pop(name), None)
        except LocalClusterError as error:
            print(f"the cluster {name} is not wholly gone, which is no test's error: {error}", file=sys.stderr)


def kubectl_for(cluster: Cluster, namespace: str) -> Kubectl:
    """kubectl in a namespace of a cluster."""
    return Kubectl(str(cluster.state.binaries["kubectl"]), cluster.kubeconfig, namespace)


def cluster_of(
    name: str, pools: list[Pool], images: list[Path] | None = None, provider: NativeProvider | None = None
) -> Generator[NativeCluster]:
    """A cluster with the CRDs of this version, for as long as the generator is open."""
    provider, unique = provider or NativeProvider(), f"{name}-{os.getpid()}"
    try:
        cluster = provider.up(ClusterSpec(name=unique, pools=pools, images=images or []))
        install_crds(kubectl_for(cluster, "default"), [yaml.safe_load(crd.read_text()) for crd in CRDS])
        yield cluster
    finally:
        provider.down(unique)


def create_namespace(cluster: NativeCluster, name: str) -> None:
    """Create a namespace, and wait for what each has some time after its creation."""
    api, here = api_of(cluster.kubeconfig), f"/api/v1/namespaces/{name}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for made_later in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        until(f"{made_later} of namespace {name}", partial(api.has, f"{here}/{made_later}"), every=0.01)


def install_crds(kubectl: Kubectl, crds: list[dict[str, Any]]) -> None:
    """Install CRDs, or upgrade to them."""
    kubectl.apply(*crds)
    kubectl.until_established(*(crd["spec"]["names"]["plural"] for crd in crds))


def operator_of(cluster: NativeCluster, folder: Path, **options: Any) -> Generator[Operator]:
    """An operator that serves every namespace of a cluster, for as long as the generator is open."""
    given: dict[str, Any] = {"kubeconfig": cluster.kubeconfig, "namespace": "default", "whole_cluster": True} | options
    yield from _until_stopped(Operator(log=folder / "operator.log", **given))


def _until_stopped(operator: Operator) -> Generator[Operator]:
    """An operator that runs for as long as the generator is open, and then stops as it should."""
    operator.start()
    try:
        yield operator
    finally:
        code = operator.stop()
    assert code == 0, operator.tail()


def jobs_of(
    kubectl: Kubectl, folder: Path, *, access: Path | None = None, seconds: float = ANSWER_SECONDS, **options: Any
) -> Iterator[Jobs]:
    """SliceJobs with an operator of their own, for what no shared one can have: settings, rights, another version.

    `access` is the operator's own kubeconfig, for one that has not every right.
    """
    own = Operator(access or kubectl.kubeconfig, folder / "operator.log", kubectl.namespace, **options)
    with contextmanager(_until_stopped)(own) as operator:
        yield from served(Jobs(kubectl, operator, seconds), wait=seconds == ANSWER_SECONDS)


def served(jobs: Jobs, *, wait: bool) -> Iterator[Jobs]:
    """Jobs of which nothing is left to the next test.

    With `wait` no pod is left either. Kubelets that are real take their time to terminate pods.
    """
    try:
        yield jobs
    finally:
        # Before an operator goes: it removes the pods at once.
        jobs.delete_all()
        jobs.operator.is_as_asked()
        if wait:
            until("the pods of the jobs are gone", lambda: not jobs.all_pods())


@contextmanager
def having_gpus(cluster: NativeCluster, *nodes: str) -> Iterator[None]:
    """Nodes say that they have four GPUs each meanwhile, as GKE labels and taints them."""
    kubectl = kubectl_for(cluster, "default")
    try:
        for node in nodes:
            _give_gpus(kubectl, node, "4")
        yield
    finally:
        for node in nodes:
            _give_gpus(kubectl, node, None)


def _give_gpus(kubectl: Kubectl, node: str, count: str | None) -> None:
    """None takes them away."""
    has = count is not None
    sizes = {"status": {kind: {"nvidia.com/gpu": count} for kind in ("capacity", "allocatable")}}
    kubectl.patch("node", node, sizes, status=True)
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4" if has else None}
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if has else None
    body = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
    kubectl.patch("node", node, body)
