"""Shared by all tests: one cluster for each tier and session, one namespace for each test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import yaml
from hypothesis import HealthCheck, settings

from slipway.local_cluster import ClusterSpec, LocalClusterError, NativeCluster, NativeProvider, Pool
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.running import Jobs

# How fast a machine is says nothing about the rule.
settings.register_profile("slipway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slipway")

# A shell that starts them in the background has them ignore it, and with them everything that they start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
CRD = ROOT / "crds/slipway.dev_slicejobs.yaml"
CRDS = (CRD, ROOT / "crds/slipway.dev_slicejobprofiles.yaml")
TRIES = 5
READS = ("get", "logs", "wait")
NOT_SENT = ("TLS handshake timeout",)
NOT_ANSWERED = ("etcdserver: request timed out", "client connection lost", "unexpected EOF")
"""What kubectl says of an API server that has too much to do; a read is repeated then, a write if it was not sent."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl against one namespace of a real API server."""

    program: str
    kubeconfig: Path
    namespace: str

    def __call__(
        self, *arguments: str, stdin: Any = None, check: bool = True, seconds: float = 2 * PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; `stdin` is an object or text handed to `-f -`."""
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        overloaded = NOT_SENT + NOT_ANSWERED if arguments[0] in READS else NOT_SENT
        for _ in range(TRIES if check else 1):
            done = subprocess.run(
                [self.program, "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments],
                input=text,
                text=True,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
            if done.returncode == 0 or not any(words in done.stderr for words in overloaded):
                break
            time.sleep(1)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done

    def apply(self, *bodies: Any) -> None:
        """Server-side apply."""
        self("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": bodies})

    def get(self, *arguments: str) -> Any:
        """Read as JSON."""
        return json.loads(self("get", *arguments, "-o", "json").stdout)

    def until_established(self, *plurals: str) -> None:
        """Wait for some CRDs, or all; kubectl itself fails while a CRD has no conditions at all yet."""
        plurals = plurals or ("slicejobs", "slicejobprofiles")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self("get", ",".join(plurals), check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"the API server does not serve {plurals}")

    def refuses(self, body: Any, *arguments: str) -> str:
        """What the API server says when it refuses a body."""
        done = self("apply", "--server-side", *arguments, "-f", "-", stdin=body, check=False)
        assert done.returncode != 0, f"accepted: {body}"
        return done.stderr


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clusters of a test run live in a folder of its own, so that a developer's clusters are left alone."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_STATE", str(folder))
        yield folder


def kubectl_for(cluster: NativeCluster, namespace: str) -> Kubectl:
    return Kubectl(str(cluster.state.binaries["kubectl"]), cluster.kubeconfig, namespace)


def cluster_of(
    name: str, pools: list[Pool], images: list[Path] | None = None, provider: NativeProvider | None = None
) -> Generator[NativeCluster]:
    provider, unique = provider or NativeProvider(), f"{name}-{os.getpid()}"
    try:
        cluster = provider.up(ClusterSpec(name=unique, pools=pools, images=images or []))
        install_crds(kubectl_for(cluster, "default"), [yaml.safe_load(crd.read_text()) for crd in CRDS])
        yield cluster
    finally:
        provider.down(unique)


def install_crds(kubectl: Kubectl, crds: list[dict[str, Any]]) -> None:
    """Install CRDs, or upgrade to them."""
    kubectl.apply(*crds)
    kubectl.until_established(*(crd["spec"]["names"]["plural"] for crd in crds))


CLUSTERS = ("control_plane", "oldest_control_plane", "kueue_cluster", "real_nodes", "ray_nodes", "gpu_nodes")
"""The shared clusters, in the order in which the tests use them."""
RUNNING: dict[str, Generator[NativeCluster]] = {}
LAST_TEST: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one cluster follow each other: two clusters take a large part of a small machine even when idle."""

    def cluster(item: pytest.Item) -> int:
        return max((CLUSTERS.index(name) for name in CLUSTERS if name in fixtures_of(item)), default=-1)

    items.sort(key=cluster)
    LAST_TEST.update((name, item.nodeid) for item in items for name in CLUSTERS if name in fixtures_of(item))


def fixtures_of(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_runtest_logfinish(nodeid: str) -> None:
    for name in [name for name, last in LAST_TEST.items() if last == nodeid]:
        end(name)


def end(name: str) -> None:
    if name in RUNNING:
        try:
            RUNNING.pop(name).close()
        except LocalClusterError as error:
            # It is no test's error, and outside of a test it would end the run.
            print(f"the cluster {name} is not wholly gone: {error}", file=sys.stderr)


def until_its_last_test(name: str, cluster: Generator[NativeCluster]) -> Iterator[NativeCluster]:
    """The value of a fixture whose cluster ends with its last test, and not with the session."""
    RUNNING[name] = cluster
    yield next(cluster)
    end(name)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[NativeCluster]:
    """Tier A: a real API server with scheduler and controllers, the CRD, and simulated TPU nodes."""
    pools = [
        Pool(kind="simulated", type="v5p-16", count=4, spot=True),
        Pool(kind="simulated", type="v5litepod-256", count=2),
        Pool(kind="simulated", type="cpu", count=8),
    ]
    yield from until_its_last_test("control_plane", cluster_of("test-a", pools))


@pytest.fixture(scope="session")
def real_nodes() -> Iterator[NativeCluster]:
    """Tier C: two spot slices of two real hosts each and one CPU node, with the example's image on them."""
    from slipway.demo.run import build_image
    from slipway.local_cluster.progress import Silent

    pools = [Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="cpu", count=1)]
    yield from until_its_last_test("real_nodes", cluster_of("test-c", pools, [build_image(Silent())]))


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[NativeCluster]:
    """Two spot slices of two real hosts each and one CPU node, with Ray's image on them."""
    from slipway.local_cluster.progress import Silent
    from tests.ray.image import build_image

    pools = [Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="cpu", count=1)]
    yield from until_its_last_test("ray_nodes", cluster_of("test-ray", pools, [build_image(Silent())]))


@pytest.fixture(scope="session")
def gpu_nodes() -> Iterator[NativeCluster]:
    """Three CPU nodes with torch's image on them, two of which say that they have four GPUs."""
    from slipway.local_cluster.progress import Silent
    from tests.e2e.torch_image import build_image

    pools = [Pool(kind="real", type="cpu", count=3)]
    for cluster in until_its_last_test("gpu_nodes", cluster_of("test-gpu", pools, [build_image(Silent())])):
        for node in ("cpu-0", "cpu-1"):
            give_gpus(kubectl_for(cluster, "default"), node, "4")
        yield cluster


def give_gpus(kubectl: Kubectl, node: str, count: str | None) -> None:
    """Let a node say that it has GPUs, as GKE labels and taints it; None takes them away."""
    has = count is not None
    sizes = {"status": {kind: {"nvidia.com/gpu": count} for kind in ("capacity", "allocatable")}}
    kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", json.dumps(sizes))
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4" if has else None}
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if has else None
    body = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
    kubectl("patch", "node", node, "--type=merge", "-p", json.dumps(body))


@pytest.fixture
def namespace_of() -> Iterator[Callable[[NativeCluster], Kubectl]]:
    """Makes a namespace for this test on a cluster and removes it afterwards."""
    made: list[Kubectl] = []

    def make(cluster: NativeCluster) -> Kubectl:
        kubectl = kubectl_for(cluster, f"t-{uuid4().hex[:8]}")
        kubectl("create", "namespace", kubectl.namespace)
        # Each namespace has both, some time after its creation.
        for made_later in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
            kubectl("wait", made_later, "--for=create", f"--timeout={PATIENCE}s")
        made.append(kubectl)
        return kubectl

    yield make
    for kubectl in made:
        kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


@pytest.fixture
def kubectl(control_plane: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]) -> Kubectl:
    """kubectl in a namespace of its own on the tier A cluster."""
    return namespace_of(control_plane)


@pytest.fixture
def jobs(kubectl: Kubectl, tmp_path: Path) -> Iterator["Jobs"]:
    """SliceJobs on the tier A cluster, with an operator of this test's own."""
    yield from jobs_of(kubectl, tmp_path, simulated=True)


@pytest.fixture
def real_jobs(
    real_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator["Jobs"]:
    """SliceJobs on real nodes, with an operator of this test's own."""
    yield from jobs_of(namespace_of(real_nodes), tmp_path)


@pytest.fixture
def ray_jobs(
    ray_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator["Jobs"]:
    """SliceJobs on the nodes with Ray's image, with an operator of this test's own."""
    yield from jobs_of(namespace_of(ray_nodes), tmp_path)


@pytest.fixture
def gpu_jobs(
    gpu_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator["Jobs"]:
    """SliceJobs on the nodes with torch's image, with an operator of this test's own."""
    yield from jobs_of(namespace_of(gpu_nodes), tmp_path)


def _delete_all(kubectl: Kubectl, collection: str) -> None:
    """The server breaks off when deleting many takes it longer than a minute; what is left is asked for again."""
    for _ in range(5):
        if kubectl("delete", "--raw", collection, check=False).returncode == 0:
            return
    kubectl("delete", "--raw", collection)


def jobs_of(
    kubectl: Kubectl, folder: Path, *, simulated: bool = False, access: Path | None = None, **options: Any
) -> Iterator["Jobs"]:
    """SliceJobs with an operator; where pods are `simulated` they go at once, and nothing is left to the next test.

    `access` is the operator's own kubeconfig, for one that has not every right.
    """
    from tests.running import Jobs, Operator

    operator = Operator(access or kubectl.kubeconfig, folder / "operator.log", kubectl.namespace, **options).start()
    try:
        yield Jobs(kubectl, operator)
    finally:
        # Before the operator goes: it removes the pods at once, and the next test needs their nodes.
        _delete_all(kubectl, f"/apis/slipway.dev/v1alpha1/namespaces/{kubectl.namespace}/slicejobs")
        if simulated:
            of_jobs = ("pods", "-l", "slipway.dev/job-name")
            kubectl("wait", *of_jobs, "--for=delete", f"--timeout={PATIENCE}s", check=False)
        code = operator.stop()
    assert code == 0 or operator.lost_its_lease, operator.tail()
