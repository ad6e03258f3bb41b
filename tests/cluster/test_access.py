"""Credentials: read by the official client, kept fresh by us."""

import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
import yaml
from kubernetes.aio.config import incluster_config

from slipway.cluster import access
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Unauthorized
from slipway.cluster.wire import JsonObject
from tests.cluster.replay import Replay, answer, refusal


def kubeconfig(folder: Path, server: str, user: dict[str, Any]) -> Path:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def plugin(folder: Path, **status: str) -> dict[str, Any]:
    """An exec plugin whose token counts how often it was run."""
    count, program = folder / "count", folder / "plugin.py"
    count.write_text("0")
    program.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "count.write_text(str(int(count.read_text()) + 1))\n"
        f"status = {status!r} | {{'token': 'token-' + count.read_text()}}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': status}))\n"
    )
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(program)]}
    return {"exec": command}


def headers(replay: Replay) -> list[str | None]:
    return [request.headers.get("Authorization") for request in replay.requests]


async def test_a_token_of_the_kubeconfig_goes_into_every_request(replay: Replay, tmp_path: Path) -> None:
    found = await access.load_access(kubeconfig(tmp_path, replay.url, {"token": "abc"}))
    async with ApiConnection(found) as api:
        replay.then(answer({}), answer({}))
        await api.get("/x", JsonObject)
        async with api.new_session() as session, session.get(replay.url + "/y"):
            pass
    assert headers(replay) == ["Bearer abc", "Bearer abc"]


async def test_an_exec_plugin_is_run_again_when_its_token_is_refused(replay: Replay, tmp_path: Path) -> None:
    found = await access.load_access(kubeconfig(tmp_path, replay.url, plugin(tmp_path)))
    async with ApiConnection(found) as api:
        replay.then(refusal(401, "Unauthorized"), answer({"ok": 1}))
        assert await api.create("/x", {"a": 1}, JsonObject) == {"ok": 1}
    assert headers(replay) == ["Bearer token-1", "Bearer token-2"]
    assert replay.bodies == [b'{"a":1}'] * 2


async def test_an_exec_plugin_is_run_again_before_its_token_expires(replay: Replay, tmp_path: Path) -> None:
    user = plugin(tmp_path, expirationTimestamp="2020-01-01T00:00:00Z")
    found = await access.load_access(kubeconfig(tmp_path, replay.url, user))
    async with ApiConnection(found) as api:
        replay.then(answer({}))
        await api.get("/x", JsonObject)
    assert headers(replay) == ["Bearer token-2"]


async def test_a_refusal_that_lasts_is_an_error_and_not_a_loop(replay: Replay, tmp_path: Path) -> None:
    found = await access.load_access(kubeconfig(tmp_path, replay.url, {"token": "abc"}))
    async with ApiConnection(found) as api:
        replay.then(refusal(401, "Unauthorized"), refusal(401, "Unauthorized"))
        with pytest.raises(Unauthorized):
            await api.get("/x", JsonObject)


async def test_a_kubeconfig_that_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(access.AccessError, match=r"the kubeconfig .*nowhere does not exist; name a kubeconfig with"):
        await access.load_access(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "- list", "broken: [", "kind: Config"])
async def test_a_file_that_is_no_kubeconfig_is_said_in_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    with pytest.raises(
        access.AccessError, match=r"^cannot connect .* the kubeconfig .*file cannot be used \(.+\); name"
    ):
        await access.load_access(file)


async def test_without_any_configuration_the_error_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(access.AccessError, match=r"KUBECONFIG is not set, there is no file ~/.kube/config, and"):
        await access.load_access()


async def test_the_token_of_a_pod_is_read_again_every_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 1, 1)
    clock = SimpleNamespace(now=lambda: moment)
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=clock, timedelta=timedelta))
    found = await access.load_access()
    assert found.server == "https://[fd00::1]:443"
    token.write_text("second")
    assert await found.authorization() == "bearer first"
    moment += timedelta(minutes=1)
    assert await found.authorization() == "bearer second"
