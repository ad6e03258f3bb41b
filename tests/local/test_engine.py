"""Which engine is meant, as the docker command would find it, and which is not good enough."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner
from docker.context import ContextAPI

from slipway.cli.main import main
from slipway.local.engine import address as engine_module
from slipway.local.engine.address import Address, connect
from slipway.local.engine.errors import EngineUnavailable
from tests.local.servers import Engine

HOST = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
TLS = {"DOCKER_CERT_PATH": "/certs", "DOCKER_TLS_VERIFY": "1"}


@pytest.mark.parametrize(
    ("environ", "current", "expected"),
    [
        pytest.param({}, None, Address(), id="nothing is said: this machine's"),
        pytest.param({}, "far", Address(context="far"), id="the current context"),
        pytest.param({"DOCKER_CONTEXT": "near"}, "far", Address(context="near"), id="DOCKER_CONTEXT over the current"),
        pytest.param(HOST | {"DOCKER_CONTEXT": "near"}, "far", Address("tcp://127.0.0.1:1"), id="DOCKER_HOST over all"),
        pytest.param(HOST | TLS, None, Address("tcp://127.0.0.1:1", "", "/certs", True), id="with certificates"),
    ],
)
def test_the_engine_is_that_of_the_docker_command(
    environ: dict[str, str], current: str | None, expected: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": current} if current else {}))
    assert Address.configured(environ) == expected


def test_an_engine_is_reached_by_its_context(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    (tmp_path / "docker").mkdir(exist_ok=True)
    (tmp_path / "docker/config.json").write_text("{}")
    ContextAPI.create_context("here", host=engine.host)
    address = Address.configured({"DOCKER_CONTEXT": "here"})
    api = connect(address)
    try:
        assert api.ping()
    finally:
        api.close()


def test_a_context_that_there_is_not_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineUnavailable, match="there is no Docker context nowhere"):
        connect(Address(context="nowhere"))


def test_an_engine_behind_ssh_needs_a_library_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    words = "ssh://me@127.0.0.1:9 is reached by SSH, for which the Docker SDK needs paramiko. pip install paramiko"
    with pytest.raises(EngineUnavailable, match=words):
        connect(Address("ssh://me@127.0.0.1:9"))


class NoNetworks(BaseHTTPRequestHandler):
    """An engine that fails where it is asked for its networks."""

    version = "1.41"

    def do_GET(self) -> None:
        said = {"ApiVersion": self.version} if self.path == "/version" else {"message": "the store is damaged"}
        content = json.dumps(said).encode()
        self.send_response(200 if self.path == "/version" else 500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


@contextmanager
def answering(version: str) -> Iterator[Address]:
    """Where such an engine is, which speaks a version of the API."""
    handler = type("Speaking", (NoNetworks,), {"version": version})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        yield Address(f"tcp://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.fixture
def no_networks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with answering("1.41") as address:
        monkeypatch.setenv("DOCKER_HOST", address.host)
        yield


@pytest.mark.usefixtures("no_networks")
@pytest.mark.row("F-14")
def test_a_network_that_the_engine_cannot_look_up_is_named_with_the_cause(tmp_path: Path) -> None:  # F-03
    given = ("--network", "ours", "--image", "app", "--name", "train", "--", "train")
    done = CliRunner().invoke(main, ["local", "submit", *given])
    assert done.exit_code == 3, done.output
    assert "Docker network ours cannot be looked up: the store is damaged" in done.output
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with answering("1.40") as address:
        monkeypatch.setenv("DOCKER_HOST", address.host)
        done = CliRunner().invoke(main, ["local", "submit", "--image", "app", "--name", "train", "--", "train"])
    assert done.exit_code == 3
    assert f"The Docker engine at {address.words} speaks API 1.40; 1.41 is the least." in done.output


def test_an_engine_of_docker_20_10_is_not() -> None:
    with answering("1.41") as address, closing(connect(address)) as found:
        assert found.api_version == "1.41"


@pytest.mark.parametrize(
    ("address", "here"),
    [
        (Address(), True),
        (Address("unix:///run/user/1000/docker.sock"), True),
        (Address("tcp://10.0.0.1:2376"), False),
        (Address("ssh://tpu-vm"), False),
        (Address(context="rootless"), True),
        (Address(context="vm"), False),
        (Address(context="nobody"), False),
    ],
    ids=["the default", "a socket", "an address", "SSH", "a context of a socket", "one of an address", "no context"],
)
def test_whether_an_engine_is_on_this_machine(
    address: Address, here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir(exist_ok=True)
    (tmp_path / "docker/config.json").write_text("{}")
    for name, host in (("rootless", "unix:///run/user/1000/docker.sock"), ("vm", "tcp://10.0.0.1:2376")):
        ContextAPI.create_context(name, host=host)
    assert address.is_here == here
