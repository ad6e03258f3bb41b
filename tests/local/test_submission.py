"""What is refused when a job is submitted, because waiting for it would never help."""

from pathlib import Path
from typing import Any

import pytest

from slipway.core.model.parts import Body
from slipway.local import submission
from slipway.local.jobs.job_files import folders
from slipway.local.submission import Refused, Wishes, check, submit


def job(**spec: Any) -> Body:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    return body | {"spec": {"image": "i:1", "command": ["train"]} | spec}


def ports(*ports: Body, name: str = "worker") -> Body:
    return {"podTemplate": {"spec": {"containers": [{"name": name, "image": "i:1", "ports": list(ports)}]}}}


HTTP: Body = {"containerPort": 80, "hostPort": 18080}
AT_HOME: Body = HTTP | {"hostIP": "127.0.0.1"}


@pytest.mark.parametrize(
    ("spec", "network"),
    [
        pytest.param({"hosts": 2, **ports(HTTP)}, None, id="by two hosts"),
        pytest.param(ports(HTTP, {"containerPort": 81, "hostPort": 18080}), None, id="by two ports of a host"),
        pytest.param(ports(AT_HOME, HTTP), None, id="at one address and at all"),
        pytest.param({"hosts": 2, **ports(HTTP)}, "mine", id="by two hosts in a network that exists"),
    ],
)
def test_a_port_of_this_machine_is_asked_for_twice(spec: Body, network: str | None) -> None:
    words = r"spec\.containers\[worker\]\.ports\.hostPort 18080: several containers of the job ask for this port"
    with pytest.raises(Refused, match=words):
        check(job(**spec), Wishes(network=network))


@pytest.mark.parametrize(
    ("spec", "network"),
    [
        pytest.param(ports(HTTP), None, id="by one host"),
        pytest.param(ports(HTTP, HTTP | {"protocol": "UDP"}), None, id="by two protocols"),
        pytest.param(ports(AT_HOME, HTTP | {"hostIP": "127.0.0.2"}), None, id="at two addresses"),
        pytest.param({"hosts": 2, **ports({"containerPort": 80})}, None, id="in the hosts only"),
        pytest.param({"hosts": 2, **ports(HTTP)}, "host", id="on the network of this machine, where none is opened"),
        pytest.param({"hosts": 2, "hostNetwork": True, **ports(HTTP)}, None, id="with hostNetwork"),
    ],
)
def test_a_port_of_this_machine_is_asked_for_once(spec: Body, network: str | None) -> None:
    assert check(job(**spec), Wishes(network=network))


class Engine:
    """One with two CPUs, and an image that may say what it runs."""

    def __init__(self, kind: str = "Engine", **config: Any) -> None:
        self.kind, self.config = kind, config

    def connect(self, address: Any) -> "Engine":
        return self

    def version(self) -> Body:
        return {"Components": [{"Name": self.kind}, {"Name": "containerd"}]}

    def info(self) -> Body:
        return {"NCPU": 2}

    def inspect_image(self, reference: str) -> Body:
        return {"Id": "sha256:" + "a" * 64, "Config": self.config}

    def close(self) -> None:
        pass


def said(engine: Engine, spec: Body, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What an engine's job is refused with; empty where it is stored."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(submission, "connect", engine.connect)
    monkeypatch.setattr(submission, "ensure_supervisor", lambda job: None)
    try:
        submit(job(**spec))
    except Refused as error:
        assert folders() == []
        return str(error)
    assert [one.name for one in folders()] == ["train"]
    return ""


def cpu(limit: Any) -> Body:
    return {"resources": {"limits": {"cpu": limit}}}


BESIDE = {"name": "beside", "image": "i:1", "command": ["x"], "resources": {"limits": {"cpu": "2001m"}}}
PODMAN = "Podman Engine"
AT_MOST = "a container can have at most the 2 CPUs of the engine"


@pytest.mark.parametrize(
    ("spec", "kind", "words"),
    [
        pytest.param(cpu(64), "Engine", f"spec.resources.limits.cpu 64: {AT_MOST}", id="more than there are"),
        pytest.param(cpu("2500m"), "Engine", f"spec.resources.limits.cpu 2500m: {AT_MOST}", id="a part more"),
        pytest.param(
            {"podTemplate": {"spec": {"containers": [BESIDE]}}}, "Engine",
            f"spec.containers[beside].resources.limits.cpu 2001m: {AT_MOST}", id="by another container",
        ),
        pytest.param(cpu(2), "Engine", "", id="all"),
        pytest.param({"hosts": 3, **cpu("1500m")}, "Engine", "", id="more by all hosts together"),
        pytest.param(cpu(64), PODMAN, "", id="of Podman, which gives what there is"),
        pytest.param({}, "Engine", "", id="no limit"),
    ],
)  # fmt: skip
def test_more_cpus_than_the_engine_has(
    spec: Body, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(Engine(kind), spec, tmp_path, monkeypatch) == words


EMPTY = "the first word of the command of container worker is empty, and names no program: set spec.command"


@pytest.mark.parametrize(
    ("spec", "image", "words"),
    [
        pytest.param({"command": [""]}, {}, EMPTY, id="an empty command"),
        pytest.param({"command": ["", "x"]}, {"Entrypoint": ["run"]}, EMPTY, id="an empty word before others"),
        pytest.param({"command": [], "args": [""]}, {"Cmd": ["run"]}, EMPTY, id="an empty argument alone"),
        pytest.param({"command": [], "args": [""]}, {"Entrypoint": ["run"]}, "", id="an empty argument of a program"),
        pytest.param({"command": ["x", ""]}, {}, "", id="an empty word after others"),
        pytest.param({"command": []}, {"Cmd": ["run"]}, "", id="the command of the image"),
        pytest.param(
            {"command": []}, {},
            "container worker has no command, and neither has its image i:1: set spec.command", id="none",
        ),
    ],
)  # fmt: skip
def test_a_command_that_names_no_program(
    spec: Body, image: Body, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(Engine(**image), spec, tmp_path, monkeypatch) == words
