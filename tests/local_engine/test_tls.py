"""An engine that is reached by TLS, and takes nobody who has no certificate of its authority."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker
import pytest
from docker.context import ContextAPI
from docker.tls import TLSConfig

from slipway.devcluster.native import pki
from slipway.devcluster.programs import packages
from slipway.devcluster.progress import Silent
from tests.local.conftest import forgiving as forgiving
from tests.local.servers import PACKAGES, engine_in, free_port
from tests.local_engine.engine import IMAGE, User, image
from tests.waiting import START_SECONDS, until

pytestmark = pytest.mark.thorough

FILES: Final = {"ca.crt": "ca.pem", "client.crt": "cert.pem", "client.key": "key.pem"}
"""What the files of a client are called by the docker command."""
ON_HOST: Final = ("--network", "host")
"""The engine here has no other networks."""


@dataclass(frozen=True)
class Guarded:
    """An engine that asks for certificates."""

    host: str
    """Its address, what DOCKER_HOST has to be."""
    unix: str
    """Another, which only root may use."""
    certificates: Path
    """Those of a client whom it takes, what DOCKER_CERT_PATH has to be."""
    of_others: Path
    """Those of a client of another authority."""

    @property
    def tls(self) -> TLSConfig:
        ca, *own = (str(self.certificates / name) for name in FILES.values())
        return TLSConfig(client_cert=(own[0], own[1]), ca_cert=ca, verify=True)


def authority(folder: Path) -> Path:
    """Certificates of an engine on this machine and of a client of it, both by an authority of their own."""
    pki.create(folder, [])
    pki.issue(folder, "engine", "/CN=engine", ["127.0.0.1"])
    pki.issue(folder, "client", "/CN=client", [])
    client = folder / "client"
    client.mkdir()
    for source, name in FILES.items():
        shutil.copy(folder / source, client / name)
    return client


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    packages.ensure(PACKAGES | packages.CONTROL_PLANE, Silent())
    with tempfile.TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as name:
        folder, host = Path(name), f"tcp://127.0.0.1:{free_port()}"
        clients = authority(folder / "pki"), authority(folder / "of-others")
        own = [f"--tls{key}={folder}/pki/{file}" for key, file in
               (("cacert", "ca.crt"), ("cert", "engine.crt"), ("key", "engine.key"))]  # fmt: skip
        with engine_in(folder, f"--host={host}", "--tlsverify", *own) as engine:
            with closing(docker.APIClient(engine.host, timeout=START_SECONDS)) as api:
                api.import_image_from_data(image(), repository=IMAGE)
            yield Guarded(host, engine.host, *clients)


@pytest.fixture
def stranger(guarded: Guarded, tmp_path: Path) -> Iterator[User]:
    """Someone who has not said yet how the engine is reached. In the end no container of a job may be left."""
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text("{}")
    # A company's proxy may need this variable; the engine has an authority of its own.
    others = {"REQUESTS_CA_BUNDLE": str(guarded.of_others / "ca.pem")}
    found = User(tmp_path / "state", "", others | {"DOCKER_CONFIG": str(tmp_path / "docker")})
    yield found
    until("the end of all supervisors", lambda: not found.supervisors())
    with closing(docker.APIClient(guarded.unix, timeout=START_SECONDS)) as api:
        assert api.containers(all=True) == []


def by_variables(user: User, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    user.host = guarded.host
    user.environment |= {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(guarded.certificates)}


def by_a_relative_path(user: User, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    by_variables(user, guarded, monkeypatch)
    monkeypatch.chdir(guarded.certificates.parent)
    user.environment["DOCKER_CERT_PATH"] = guarded.certificates.name


def by_a_context(user: User, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", user.environment["DOCKER_CONFIG"])
    ContextAPI.create_context("far", host=guarded.host, tls_cfg=guarded.tls)
    user.environment["DOCKER_CONTEXT"] = "far"


# The command, its supervisor, which begins in another folder, and who reads the logs: all have the certificates.
@pytest.mark.parametrize(
    "reached",
    [
        pytest.param(by_variables, id="DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH"),
        pytest.param(by_a_relative_path, id="DOCKER_CERT_PATH below the current folder"),
        pytest.param(by_a_context, id="a Docker context with certificates"),
    ],
)
def test_a_job_by_tls(
    stranger: User, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, reached: Callable[..., None]
) -> None:
    reached(stranger, guarded, monkeypatch)
    stranger.submit("echo by TLS", "train", *ON_HOST)
    assert stranger.ended()["phase"] == "Succeeded"
    assert stranger.slipway("logs", "train").out == "by TLS\n"
    assert stranger.slipway("prune").out == "train deleted\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(lambda guarded: {}, "HTTP request to an HTTPS server", id="no TLS"),
        pytest.param(
            lambda guarded: {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(guarded.of_others)},
            "certificate verify failed", id="an engine of another authority",
        ),
        pytest.param(
            lambda guarded: {"DOCKER_CERT_PATH": str(guarded.of_others)}, "certificate",
            id="a client of another authority",
        ),
        pytest.param(
            lambda guarded: {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/nowhere"},
            "there is no ca.pem in /nowhere", id="no certificates",
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("forgiving")
def test_without_the_right_certificates_the_sentence_says_where_to_name_them(
    stranger: User, guarded: Guarded, given: Callable[[Guarded], dict[str, str]], words: str
) -> None:
    stranger.host = guarded.host
    stranger.environment |= given(guarded)
    [line] = stranger.submit("true", "train", *ON_HOST, code=3).err.splitlines()
    assert f"The Docker engine is not reachable at {guarded.host}" in line
    assert words in line
    assert "DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH" in line
    assert not stranger.folder().exists()
