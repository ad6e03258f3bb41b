"""Credentials: read by the official client, kept fresh by us."""

import asyncio
import os
import sys
from base64 import b64encode
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import incluster_config

from slipway.apiserver import access
from slipway.apiserver.access import Access, AccessError, proxy_of
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import ConnectionLost, Unauthorized
from slipway.apiserver.wire import JsonObject
from tests.apiserver.replay import Replay, answer, refusal
from tests.serving import kubeconfig
from tests.waiting import ANSWER_SECONDS, holds, passing


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


class Login:
    """An exec plugin that waits for somebody to log in, and the credentials that it is to renew."""

    def __init__(self) -> None:
        self.runs, self.done = 0, asyncio.Event()
        self.read = Configuration(host="http://nowhere")
        self.read.api_key["BearerToken"] = "old"
        self.access = access.Access(self.read, self._run)

    async def _run(self, configuration: Configuration) -> None:
        self.runs += 1
        await self.done.wait()
        configuration.api_key["BearerToken"] = "new"


async def test_an_exec_plugin_that_hangs_is_given_up_by_all_who_wait_and_what_it_says_late_counts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(access, "_RENEWAL_SECONDS", 0.1)
    login = Login()
    async with asyncio.timeout(ANSWER_SECONDS):
        assert await asyncio.gather(*(login.access.renew() for _ in range(5))) == [False] * 5
        assert not await login.access.renew()
        assert await login.access.authorization() == "old"
        login.done.set()
        await holds(lambda: login.read.api_key["BearerToken"] == "new", seconds=ANSWER_SECONDS)
    assert await login.access.authorization() == "new"
    assert (login.runs, caplog.text.count("credentials could not be read again within")) == (1, 1)


async def test_an_exec_plugin_goes_on_when_the_request_that_began_it_is_over() -> None:
    login = Login()
    request = asyncio.create_task(login.access.renew())
    await passing(0)
    request.cancel()
    await asyncio.wait({request})
    login.done.set()
    assert await login.access.renew()
    assert (login.runs, await login.access.authorization()) == (1, "new")


async def test_credentials_are_those_of_the_context_that_was_chosen_at_first(replay: Replay, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, replay.url, {"token": "old"})
    content = yaml.safe_load(file.read_text())
    async with ApiConnection(await access.load_access(file)) as api:
        # As by `gcloud container clusters get-credentials`, which makes another cluster the current one.
        content["users"] = [{"name": "it", "user": {"token": "new"}}, {"name": "prod", "user": {"token": "of-prod"}}]
        content["clusters"] += [{"name": "prod", "cluster": {"server": "http://prod"}}]
        content["contexts"] += [{"name": "prod", "context": {"cluster": "prod", "user": "prod"}}]
        file.write_text(yaml.safe_dump(content | {"current-context": "prod"}))
        replay.then(refusal(401, "Unauthorized"), answer({}))
        await api.get("/x", JsonObject)
    assert headers(replay) == ["Bearer old", "Bearer new"]


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


def part(folder: Path, name: str, current: str, **contexts: tuple[str, str]) -> Path:
    """A kubeconfig whose contexts are pairs of a cluster and a namespace; the server of a cluster tells of the file."""
    clusters = {cluster for cluster, _ in contexts.values()}
    content = {
        "current-context": current,
        "contexts": [
            {"name": key, "context": {"cluster": cluster, "namespace": namespace}}
            for key, (cluster, namespace) in contexts.items()
        ],
        "clusters": [{"name": each, "cluster": {"server": f"http://{each}.{name}"}} for each in clusters],
    }
    (folder / name).write_text(yaml.safe_dump(content))
    return folder / name


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A folder with kubeconfigs."""
    part(tmp_path, "one", "a", a=("k", "of-a"))
    part(tmp_path, "two", "b", b=("m", "of-b"), a=("m", "other-a"))
    part(tmp_path, "elsewhere", "b", c=("k", "of-c"))
    part(tmp_path, "none", "", c=("k", "of-c"))
    (tmp_path / "empty").touch()
    return tmp_path


SEVERAL = {
    # What `kubectl config view --minify` says of the same files.
    "the first current-context wins": ("one:two", None, "http://k.one", "of-a"),
    "in the other order, too": ("two:one", None, "http://m.two", "of-b"),
    "a context of the second file is asked for": ("one:two", "b", "http://m.two", "of-b"),
    "the first context of a name wins": ("two:one", "a", "http://m.two", "other-a"),
    "the context is in the second file": ("elsewhere:two", None, "http://m.two", "of-b"),
    "the first file names no context": ("none:two", None, "http://m.two", "of-b"),
    "an empty entry": (":two:", None, "http://m.two", "of-b"),
    "a file that is not there": ("nowhere:two", None, "http://m.two", "of-b"),
    "an empty file before": ("empty:two", None, "http://m.two", "of-b"),
    "an empty file behind": ("two:empty", None, "http://m.two", "of-b"),
}


@pytest.mark.parametrize(("files", "context", "server", "namespace"), SEVERAL.values(), ids=SEVERAL)
async def test_several_kubeconfigs_are_read_as_kubectl_reads_them(
    parts: Path, monkeypatch: pytest.MonkeyPatch, files: str, context: str | None, server: str, namespace: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(name and str(parts / name) for name in files.split(":")))
    assert (await access.load_access(context=context)).server == server
    assert access.configured_namespace(context=context) == namespace


async def test_kubeconfigs_without_a_current_context_are_said_to_have_none(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{parts / 'none'}:{parts / 'empty'}")
    with pytest.raises(access.AccessError, match=r"none:.*empty cannot be used \(it has no current-context\); name"):
        await access.load_access()
    assert access.configured_namespace() == ""


@pytest.mark.parametrize("named", ["", ":", "nowhere"])
def test_where_no_kubeconfig_is_no_namespace_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", named)
    assert access.configured_namespace() == ""


async def test_without_any_configuration_the_error_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(access.AccessError, match=r"KUBECONFIG is not set, there is no file ~/.kube/config, and"):
        await access.load_access()


class Pod:
    """The service account of a pod, and the wall clock by which the official client reads it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime(2026, 1, 1)
        self.token = folder / "token"
        self.token.write_text("first\n")
        clock = SimpleNamespace(now=lambda: self.now)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(self.token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
        monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=clock, timedelta=timedelta))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    return Pod(tmp_path, monkeypatch)


async def test_the_token_of_a_pod_is_read_again_every_minute(pod: Pod) -> None:
    found = await access.load_access()
    assert found.server == "https://[fd00::1]:443"
    pod.token.write_text("second")
    assert await found.authorization() == "bearer first"
    pod.now += timedelta(minutes=1)
    assert await found.authorization() == "bearer second"


async def test_the_token_of_a_pod_whose_clock_was_set_back_is_read_again_when_it_is_refused(
    pod: Pod, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await access.load_access()
    pod.now -= timedelta(days=365)
    pod.token.write_text("second")
    # All but the way there is the pod's.
    monkeypatch.setattr(found, "server", replay.url)
    monkeypatch.setattr(found, "ssl", None)
    async with ApiConnection(found) as api:
        replay.then(refusal(401, "Unauthorized"), answer({"ok": 1}))
        assert await api.get("/x", JsonObject) == {"ok": 1}
    assert headers(replay) == ["bearer first", "bearer second"]


SERVER = "https://api.corp.example:6443"
PROXY = "http://proxy:3128"
PROXIES: dict[str, tuple[str, dict[str, str], str | None]] = {
    "no variables": (SERVER, {}, None),
    "upper case": (SERVER, {"HTTPS_PROXY": PROXY}, PROXY),
    "lower case": (SERVER, {"https_proxy": PROXY}, PROXY),
    "upper before lower case": (SERVER, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
    "without a scheme": (SERVER, {"HTTPS_PROXY": "proxy:3128"}, PROXY),
    "that of another scheme": (SERVER, {"HTTP_PROXY": PROXY}, None),
    "a server without TLS": ("http://api.corp.example", {"HTTP_PROXY": PROXY}, PROXY),
    "an empty variable": (SERVER, {"HTTPS_PROXY": ""}, None),
    "the server is excepted": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "a,api.corp.example"}, None),
    "by no_proxy": (SERVER, {"HTTPS_PROXY": PROXY, "no_proxy": "api.corp.example"}, None),
    "its domain is": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "corp.example"}, None),
    "its subdomains are": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": " .corp.example , b"}, None),
    "with a star": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.corp.example"}, None),
    "subdomains of its own name": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": ".api.corp.example"}, PROXY),
    "a name that ends alike": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "orp.example"}, PROXY),
    "everything": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
    "its port": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "corp.example:6443"}, None),
    "another port": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "corp.example:443"}, PROXY),
    "in other letters": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "Corp.Example"}, None),
    "its address": ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.1.2.3"}, None),
    "its network": ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
    "another network": ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.2.0.0/16"}, PROXY),
    "its network of IPv6": ("https://[fd00::1]:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, None),
    "its address and port of IPv6": ("https://[fd00::1]", {"HTTPS_PROXY": PROXY, "NO_PROXY": "[fd00::1]:443"}, None),
    "this machine": ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None),
    "this machine by name": ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
    "this machine by IPv6": ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None),
}


@pytest.mark.parametrize(("server", "environment", "proxy"), PROXIES.values(), ids=PROXIES)
def test_the_environment_names_a_proxy_as_kubectl_reads_it(
    server: str, environment: dict[str, str], proxy: str | None
) -> None:
    assert proxy_of(server, environment) == proxy


@pytest.mark.parametrize("proxy", ["socks5://bob:hunter2@proxy:1080", "ftp://bob:hunter2@proxy"])
def test_a_proxy_that_is_none_of_http_is_refused(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(AccessError, match="a proxy is reached by http:// or https://") as refused:
        Access(Configuration(host="https://api.test:6443"))
    assert "hunter2" not in str(refused.value)


async def test_the_password_of_a_proxy_reaches_the_proxy_and_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://bob:hun%40ter2@127.0.0.1:{port}")
        async with ApiConnection(Access(Configuration(host="https://api.test:6443"))) as api:
            with pytest.raises(ConnectionLost, match="407") as lost:
                await asyncio.wait_for(anext(api.watch("/api/v1/pods", resource_version="1")), ANSWER_SECONDS)
    assert b"Proxy-Authorization: Basic " + b64encode(b"bob:hun@ter2") in asked[0]
    assert "ter2" not in str(lost.value)


async def test_the_proxy_of_the_environment_is_asked_for_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        async with ApiConnection(Access(Configuration(host="https://api.test:6443"))) as api:
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(anext(api.watch("/api/v1/pods", resource_version="1")), ANSWER_SECONDS)
    assert asked[:1] == [b"CONNECT api.test:6443 HTTP/1.1\r\n"]
