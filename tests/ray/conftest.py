"""A cluster of real nodes with a real Ray on them, shared by all tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.local_cluster import NativeCluster, Pool
from slipway.local_cluster.progress import Progress, Silent
from slipway.local_cluster.python_image import build_python_image
from tests.conftest import ROOT, Kubectl, cluster_of, jobs_of
from tests.running import Jobs

IMAGE = "slipway.local/ray:1"
EXAMPLE = ROOT / "examples/ray"
OTHER_VERSION = ROOT / "tests/ray/other_version"


def build_image(progress: Progress) -> Path:
    """The archive of the example's image."""
    requirements = [line for line in (EXAMPLE / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    files = {"/app/fan_out.py": EXAMPLE / "fan_out.py", "/other_version": OTHER_VERSION}
    return build_python_image(IMAGE, requirements, files, progress=progress)


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[NativeCluster]:
    """Two spot slices of two real hosts each and one CPU node, with Ray's image on them."""
    pools = [Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="cpu", count=1)]
    yield from cluster_of("test-ray", pools, [build_image(Silent())])


@pytest.fixture
def ray_jobs(
    ray_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator[Jobs]:
    """SliceJobs on those nodes, with an operator of this test's own."""
    yield from jobs_of(namespace_of(ray_nodes), tmp_path)
