"""The image of the operator, built from its Dockerfile on Debian packages."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import docker
import pytest

from slipway.controller.main import EXIT_REFUSED
from slipway.devcluster import paths
from slipway.devcluster.images.python_image import debian_layer
from slipway.devcluster.progress import Silent
from slipway.version import VERSION
from tests.local.servers import Engine
from tests.places import ROOT

pytestmark = pytest.mark.thorough

PACKAGES: Final = "slipway.local/debian-packages"
BASE: Final = "slipway.local/debian:1"
IMAGE: Final = "slipway.local/operator-image:1"
SOURCES: Final = (".ci", "crds", "examples", "operator", "pyproject.toml", "README.md", "LICENSE")
LARGEST_MEGABYTES: Final = 200
"""What Slipway and the packages that it needs add to the base at most."""


def wheels() -> Path:
    """Pip's wheels of everything that the build installs; they are fetched once for each set of versions."""
    pins = (ROOT / ".ci/constraints.txt").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    folder = paths.cache_dir() / "wheels" / sha256(pins).hexdigest()[:12]
    if not folder.exists():
        made = folder.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        fetch = [sys.executable, "-m", "pip", "wheel", "--quiet", f"--wheel-dir={made}"]
        wanted = ["pip", "hatchling", "cyclonedx-bom", str(ROOT)]
        subprocess.run([*fetch, f"--constraint={ROOT / '.ci/constraints.txt'}", *wanted], check=True)
        made.rename(folder)
    return folder


def base(client: docker.DockerClient, folder: Path) -> None:
    """Make an image of Debian packages, and of the pip that the build begins with."""
    client.api.import_image_from_file(str(debian_layer(Silent()).path), repository=PACKAGES, tag="1")
    [pip] = wheels().glob("pip-*.whl")
    shutil.unpack_archive(pip, folder / "pip", "zip")
    (folder / "Dockerfile").write_text(f"FROM {PACKAGES}:1\nCOPY pip /usr/lib/python3/dist-packages\n")
    client.images.build(path=str(folder), tag=BASE)


@pytest.fixture(scope="session")
def client(shared_engine: Engine) -> Iterator[docker.DockerClient]:
    found = docker.DockerClient(base_url=shared_engine.host, timeout=280)
    yield found
    found.close()


@pytest.fixture(scope="session")
def image(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The image, built from what is in the tree as a user builds it."""
    base(client, tmp_path_factory.mktemp("base"))
    context = tmp_path_factory.mktemp("context")
    without = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        source = ROOT / name
        copied = shutil.copytree(source, context / name, ignore=without) if source.is_dir() else None
        assert copied or shutil.copy(source, context / name)
    shutil.copytree(wheels(), context / ".ci/wheels")
    given = {"BASE": BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ".ci/wheels"}
    built, _ = client.images.build(
        path=str(context), dockerfile="operator/Dockerfile", tag=IMAGE, buildargs=given, network_mode="none"
    )
    return built


def run(client: docker.DockerClient, *command: str, **options: Any) -> str:
    """Run a command in the image as Kubernetes would: without a home, on a file system that cannot be written to."""
    said: bytes = client.containers.run(
        IMAGE, list(command), remove=True, read_only=True, network_mode="none", cap_drop=["ALL"], **options
    )
    return said.decode()


def test_it_starts_without_root_and_without_writing(client: docker.DockerClient, image: Any) -> None:
    assert image.attrs["Config"]["User"] == "65532:65532"
    assert "--operator-id" in run(client, "--help")
    assert VERSION in run(client, "--version", entrypoint="slipway")
    assert run(client, "-u", entrypoint="id").strip() == "65532"
    with pytest.raises(docker.errors.ContainerError) as ended:
        run(client)
    assert ended.value.exit_status == EXIT_REFUSED
    assert "KUBECONFIG" in ended.value.stderr.decode()


def test_it_is_small_and_has_no_pip_of_its_own(client: docker.DockerClient, image: Any) -> None:
    added = image.attrs["Size"] - client.images.get(BASE).attrs["Size"]
    assert 0 < added < LARGEST_MEGABYTES * 10**6
    assert "pip" not in {one.split("==")[0] for one in installed(client)}


def installed(client: docker.DockerClient) -> list[str]:
    """The distributions in the image's environment, with their versions."""
    listing = "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()))"
    return run(client, "-c", listing, entrypoint="/opt/slipway/bin/python").split()


def content(client: docker.DockerClient, path: str) -> bytes:
    """A file of the image."""
    container = client.containers.create(IMAGE)
    try:
        chunks, _ = container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            member = archive.extractfile(Path(path).name)
            assert member is not None
            return member.read()
    finally:
        container.remove()


def test_its_versions_are_pinned_and_its_bill_of_materials_names_all_of_them(
    client: docker.DockerClient, image: Any
) -> None:
    bill = json.loads(content(client, "/opt/slipway/sbom.cdx.json"))
    assert bill["bomFormat"] == "CycloneDX"
    listed = {f"{one['name']}=={one['version']}" for one in bill["components"]}
    there = {one for one in installed(client) if not one.startswith("slipway-tpu==")}
    assert listed == there
    pins = {_same(one) for one in (ROOT / ".ci/constraints.txt").read_text().split()}
    assert {one for one in there if _same(one) not in pins} == set()
    assert bill["metadata"]["component"]["name"] == "slipway-tpu"


def _same(pin: str) -> str:
    return pin.lower().replace("_", "-")
