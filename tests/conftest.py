"""Shared by all tests: which of them run, the clusters that they share, and one namespace for each test."""

import json
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from slipway.devcluster import NativeCluster, Pool
from tests import clusters, evidence, quarantine
from tests.clusters import cluster_of, jobs_of, kubectl_for, operator_of, served, until_its_last_test
from tests.kubectl import Kubectl, api_of
from tests.operator_image import IMAGE as OPERATOR_IMAGE
from tests.operator_image import build_image as operator_image_file
from tests.running import Jobs, Operator
from tests.stages import Stage, is_in_the_gate, stage_of
from tests.waiting import START_SECONDS

# How fast a machine is says nothing about the rule. The gate tries fewer examples of each than `make test-all`.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("thorough"), max_examples=50)
settings.load_profile("thorough")

# A shell that starts them in the background has them ignore it, and with them everything that they start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slipway")
    group.addoption("--gate", action="store_true", help="leave out what is marked thorough")
    group.addoption("--stages", default=",".join(Stage), help="run the tests of these stages only, by commas")
    group.addoption("--record", type=Path, help="write what became of each test to this file, one a line")
    group.addoption("--evidence", type=Path, help="keep the logs of failed tests in this folder")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("gate"):
        settings.load_profile("gate")
    if (record := config.getoption("record")) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(record))


class Recorder:
    """Writes the outcome of each test to a file, for `python -m tests`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        excused = getattr(report, "wasxfail", "") == quarantine.WORDS
        outcome = "quarantined" if excused else report.outcome
        _note(self._file, {"test": report.nodeid, "outcome": outcome, "seconds": report.duration})


def _note(record: Path, line: dict[str, Any]) -> None:
    with record.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


def _is_first_worker(config: pytest.Config) -> bool:
    """Whether this process counts the tests: the only one that collects them, or the first of several."""
    given: dict[str, str] = getattr(config, "workerinput", {})
    return given.get("workerid", "gw0") == "gw0"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    stages, gate = set(config.getoption("stages").split(",")), config.getoption("gate")
    here = [item for item in items if stage_of(item) in stages]
    chosen = [item for item in here if not gate or is_in_the_gate(item)]
    if config.getoption("record") is not None and _is_first_worker(config):
        _note(config.getoption("record"), {"chosen": len(chosen), "left_out": len(here) - len(chosen)})
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    clusters.in_order(chosen)
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """What ends with this test fails it when it ends badly."""
    yield
    clusters.end_after(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and stage_of(item) is not Stage.PURE:
        report.sections.append(("this machine", evidence.machine()))
        if (folder := item.config.getoption("evidence")) is not None:
            evidence.keep(item, folder)
    if quarantine.holds(item, datetime.now(UTC).date()):
        quarantine.excuse(report)
    return report


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clusters of a test run live in a folder of its own, so that a developer's clusters are left alone."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_STATE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def control_plane() -> Iterator[NativeCluster]:
    """A real API server with scheduler and controllers, the CRDs, and simulated TPU nodes."""
    pools = [
        Pool(kind="simulated", type="v5p-16", count=4, spot=True),
        Pool(kind="simulated", type="v5litepod-16", count=1),
        Pool(kind="simulated", type="cpu", count=8),
    ]
    yield from until_its_last_test("control_plane", cluster_of("test-a", pools))


@pytest.fixture(scope="session")
def operator(control_plane: NativeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of that cluster, which serves every namespace."""
    yield from until_its_last_test("operator", operator_of(control_plane, tmp_path_factory.mktemp("operator")))


@pytest.fixture(scope="session")
def real_nodes() -> Iterator[NativeCluster]:
    """Two spot slices of two real hosts each and three CPU nodes, with the images of the examples and of Ray."""
    from slipway.demo.run import build_image
    from slipway.devcluster.progress import Silent
    from tests.ray.image import build_image as build_ray_image

    pools = [Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="cpu", count=3)]
    images = [build_image(Silent()), build_ray_image(Silent())]
    yield from until_its_last_test("real_nodes", cluster_of("test-c", pools, images))


@pytest.fixture(scope="session")
def operator_image(real_nodes: NativeCluster) -> str:
    """An image with Slipway and the user of the operator's own, on every node."""
    real_nodes.load_images([operator_image_file()])
    return OPERATOR_IMAGE


@pytest.fixture(scope="session")
def node_operator(real_nodes: NativeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of that cluster, which serves every namespace."""
    made = operator_of(real_nodes, tmp_path_factory.mktemp("node-operator"), image=OPERATOR_IMAGE)
    yield from until_its_last_test("node_operator", made)


@pytest.fixture
def namespace_of() -> Iterator[Callable[[NativeCluster], Kubectl]]:
    """Makes a namespace for this test on a cluster and removes it afterwards."""
    made: list[tuple[NativeCluster, str]] = []

    def make(cluster: NativeCluster) -> Kubectl:
        made.append((cluster, f"t-{uuid4().hex[:8]}"))
        clusters.create_namespace(*made[-1])
        return kubectl_for(*made[-1])

    yield make
    for cluster, name in made:
        api_of(cluster.kubeconfig).delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubectl(control_plane: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]) -> Kubectl:
    """kubectl in a namespace of its own on the cluster with simulated nodes."""
    return namespace_of(control_plane)


@pytest.fixture
def jobs(kubectl: Kubectl, operator: Operator) -> Iterator[Jobs]:
    """SliceJobs in a namespace of their own on the cluster with simulated nodes."""
    yield from served(Jobs(kubectl, operator.running()), wait=True)


@pytest.fixture
def own_jobs(kubectl: Kubectl, tmp_path: Path) -> Iterator[Callable[..., Jobs]]:
    """Makes SliceJobs on the cluster with simulated nodes whose operator has the settings that are given."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(contextmanager(jobs_of)(kubectl, tmp_path, **options))


@pytest.fixture
def real_jobs(
    real_nodes: NativeCluster, node_operator: Operator, namespace_of: Callable[[NativeCluster], Kubectl]
) -> Iterator[Jobs]:
    """SliceJobs in a namespace of their own on real nodes."""
    yield from served(Jobs(namespace_of(real_nodes), node_operator.running(), START_SECONDS), wait=False)
