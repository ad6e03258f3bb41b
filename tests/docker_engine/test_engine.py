"""Which engine is meant, as the docker command would find it, and which is not good enough."""

import json
from pathlib import Path

import pytest
from docker.context import ContextAPI

from slipway.docker_engine.engine import Address, connect
from slipway.docker_engine.errors import EngineUnavailable
from tests.docker_engine.servers import Engine

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


def test_an_engine_that_is_too_old_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipway.docker_engine.engine.LEAST_VERSION", (9, 0))
    with pytest.raises(EngineUnavailable, match=r"speaks API 1\.\d+; 9\.0 is the least"):
        connect(Address(engine.host))
