"""One engine and two registries for all tests here, and a folder with something to build for each test."""

import gc
import json
import shutil
import tempfile
import urllib.error
import urllib.request
import warnings
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slipway.cli.main import main
from slipway.devcluster.programs import packages
from slipway.devcluster.progress import Silent
from tests.local.servers import PACKAGES, PASSWORD, USER, Engine, engine_in, registry_in, tool
from tests.waiting import START_SECONDS

DOCKERFILE = """\
FROM scratch
COPY busybox /bin/busybox
SHELL ["/bin/busybox", "sh", "-c"]
ARG WHO=nobody
ARG CODE=0
RUN echo "made for $WHO" > /who; echo "to stdout"; echo "to stderr" >&2; exit $CODE
CMD ["/bin/busybox", "cat", "/who"]
"""


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Short, because the paths of sockets may not be long."""
    packages.ensure(PACKAGES, Silent())
    with tempfile.TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared_engine(servers_folder: Path) -> Iterator[Engine]:
    with engine_in(servers_folder) as engine:
        yield engine


@pytest.fixture(scope="session")
def registry(servers_folder: Path) -> Iterator[str]:
    with registry_in(servers_folder / "registry") as address:
        yield address


@pytest.fixture(scope="session")
def locked_registry(servers_folder: Path) -> Iterator[str]:
    with registry_in(servers_folder / "locked", locked=True) as address:
        yield address


@pytest.fixture
def engine(shared_engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """The engine as a user's environment names it; nobody is logged in anywhere."""
    monkeypatch.setenv("DOCKER_HOST", shared_engine.host)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return shared_engine


@pytest.fixture
def forgiving() -> Iterator[None]:
    """The SDK leaves a socket open when TLS fails, or a connection breaks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def source(tmp_path: Path, servers_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Dockerfile that needs no network; also the current folder."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    shutil.copy(tool("busybox"), folder / "busybox")
    monkeypatch.chdir(folder)
    return folder


def slipway(*arguments: str) -> Result:
    """`slipway …`; what a program would read is in `stdout`, what a person would in `stderr`."""
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def log_in(folder: Path, address: str, password: str = PASSWORD) -> None:
    """What `docker login` leaves behind."""
    folder.mkdir(exist_ok=True)
    entry = {"auth": b64encode(f"{USER}:{password}".encode()).decode()}
    (folder / "config.json").write_text(json.dumps({"auths": {address: entry}}))


@dataclass(frozen=True)
class Contents:
    """What a registry has."""

    address: str

    def tags(self, repository: str) -> list[str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/{repository}/tags/list") as answer:
                tags: list[str] = json.load(answer)["tags"] or []
                return tags
        except urllib.error.HTTPError as error:
            with error:
                return []

    def digest(self, repository: str, tag: str) -> str:
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        url = f"http://{self.address}/v2/{repository}/manifests/{tag}"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": kind})) as answer:
            return str(answer.headers["Docker-Content-Digest"])


@pytest.fixture
def contents(registry: str) -> Contents:
    return Contents(registry)


@pytest.fixture
def client(engine: Engine) -> Iterator[Any]:
    """The SDK, to look at what was built."""
    import docker

    found = docker.DockerClient(base_url=engine.host, timeout=START_SECONDS)
    yield found
    found.close()
