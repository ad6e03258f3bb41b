"""The `docker run` command that makes the container that the engine is asked for."""

import json
import subprocess
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from slipway.core.model.parts import Body
from slipway.local.conversion.convert import ContainerRequest, Surroundings, containers, docker_run
from slipway.local.conversion.devices import Assigned, DeviceMapping
from tests.local.pods import create, pod, with_spec
from tests.local.servers import Engine

EVERYTHING = with_spec(
    {
        "volumes": [
            {"name": "made", "hostPath": {"path": "/made"}},
            {"name": "there", "hostPath": {"path": "/tmp", "type": "Directory"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
            {"name": "root", "emptyDir": {"medium": "Memory"}},
        ],
        "hostPID": True,
        "hostIPC": True,
        "shareProcessNamespace": True,
        "hostAliases": [{"ip": "::1", "hostnames": ["six"]}],
        "dnsConfig": {
            "nameservers": ["1.1.1.1"],
            "searches": ["example.com"],
            "options": [{"name": "ndots", "value": "2"}],
        },
        "securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": "9"}], "supplementalGroups": [5]},
    },
    command=["python3", "-u"],
    args=["a b", "", "$X; rm -rf /"],
    workingDir="/app",
    env=[{"name": "TEXT", "value": 'a=b "c"\nd'}, {"name": "PATHS", "value": "$HOME,;"}],
    ports=[{"containerPort": 80, "hostPort": 8080}],
    resources={"limits": {"cpu": "1500m", "memory": "4Gi"}, "requests": {"memory": "2Gi"}},
    securityContext={
        "privileged": True,
        "runAsUser": 1000,
        "runAsGroup": 1001,
        "capabilities": {"add": ["SYS_PTRACE"], "drop": ["CHOWN"]},
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "seccompProfile": {"type": "Unconfined"},
    },
    volumeMounts=[
        {"name": "made", "mountPath": "/m", "readOnly": True},
        {"name": "there", "mountPath": "/t", "readOnly": True, "mountPropagation": "HostToContainer"},
        {"name": "claim", "mountPath": '/c,"'},
        {"name": "empty", "mountPath": "/e"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "root", "mountPath": "/app"},
        {"name": "made", "mountPath": "/app/m"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ],
)
DEVICES = Assigned(
    ids=("nvidia:0", "nvidia:1"),
    requests=({"Driver": "nvidia", "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]},),
    ulimits={"memlock": (-1, -1)},
)
MAPPING = DeviceMapping("/dev/null", "/dev/nothing", "rw")


def everything(**around: Any) -> ContainerRequest:
    return containers(EVERYTHING, Surroundings(network="slipway", extra_devices=(MAPPING,), **around))[-1]


def test_every_option_in_its_place() -> None:  # E1-17, E1-07, E1-08, E1-10 to E1-16
    words = docker_run(everything(devices=DEVICES))
    start = words.index("-e")
    assert words[:start] == [
        "docker", "run", "--rm", "--network", "slipway", "--privileged", "--gpus", '"device=0,1"',
        "--shm-size", "2147483648", "--workdir", "/app", "--user", "1000:1001",
        "-v", "/made:/m:ro", "-v", "/made:/app/m",
        "--mount", "type=bind,source=/tmp,target=/t,bind-propagation=rslave,readonly",
        "--mount", 'type=volume,source=data,"target=/c,""",volume-nocopy',
        "--mount", "type=volume,target=/e,volume-nocopy",
        "--mount", "type=volume,target=/app,volume-driver=local,volume-opt=type=tmpfs,volume-opt=device=tmpfs,"
        '"volume-opt=o=mode=1777,size=4294967296",volume-nocopy',
        "--tmpfs", "/memory:exec,size=1073741824",
    ]  # fmt: skip
    end = words.index("--name")
    assert set(words[start:end:2]) == {"-e"}
    assert words[start + 1] == "SLIPWAY_HOST=0"
    assert words[end - 4 : end] == ["-e", 'TEXT=a=b "c"\nd', "-e", "PATHS=$HOME,;"]
    labels = [word for word in words if word.startswith(("slipway.dev/", "app.kubernetes.io/"))]
    assert [word for word in words[end:] if word not in ("--label", *labels)] == [
        "--name", "train-0-0-0", "--hostname", "0-0-0",
        "--network-alias", "0-0-0", "--network-alias", "0-0-0.train", "--network-alias", "0-0-0.train.ml.svc",
        "--network-alias", "0-0-0.train.ml.svc.cluster.local", "--stop-timeout", "30",
        "--cpus", "1.5", "--cpu-shares", "1536", "--memory", "4294967296", "--memory-swap", "4294967296",
        "--memory-reservation", "2147483648", "--ulimit", "memlock=-1:-1",
        "--cap-add", "SYS_PTRACE", "--cap-drop", "CHOWN", "--security-opt", "no-new-privileges:true",
        "--security-opt", "seccomp=unconfined", "--group-add", "5", "--sysctl", "kernel.shmmax=9", "--read-only",
        "--device", "/dev/null:/dev/nothing:rw", "--pid", "host", "--ipc", "host", "--init",
        "--add-host", "six:::1", "--dns", "1.1.1.1", "--dns-search", "example.com", "--dns-option", "ndots:2",
        "--publish", "8080:80/tcp", "--log-driver", "json-file", "--log-opt", "max-size=64m", "--log-opt", "max-file=2",
        "--entrypoint", "python3", "busybox:1", "-u", "a b", "", "$X; rm -rf /",
    ]  # fmt: skip
    assert "slipway.dev/devices=nvidia:0,nvidia:1" in labels


def test_what_is_not_asked_for_is_left_out() -> None:  # E1-17, E1-19
    words = docker_run(containers(pod(), Surroundings())[-1])
    options = {word for word in words if word.startswith("-")}
    assert options == {"--rm", "--network", "-e", "--name", "--hostname", "--label", "--stop-timeout", "--log-driver",
                       "--log-opt"}  # fmt: skip
    assert words[-1] == "busybox:1"


WORDS = some.text(some.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(some.lists(WORDS, max_size=4), some.dictionaries(some.from_regex(r"[A-Z_]{1,5}", fullmatch=True), WORDS))
def test_words_stay_as_they_are(args: list[str], variables: dict[str, str]) -> None:  # E1-04, E1-18
    body = with_spec(
        args=[word.replace("$", "$$") for word in args],
        env=[{"name": name, "value": value.replace("$", "$$")} for name, value in variables.items()],
    )
    words = docker_run(containers(body, Surroundings())[-1])
    assert words[words.index("busybox:1") + 1 :] == args
    given = [after for word, after in pairwise(words) if word == "-e"]
    assert given[len(given) - len(variables) :] == [f"{name}={value}" for name, value in variables.items()]


def inspected(engine: Engine, name: str) -> Body:
    """What the engine has made of a container, without what differs each time."""
    found = json.loads(subprocess.check_output(["docker", "--host", engine.host, "inspect", name]))[0]
    config, host = found["Config"], found["HostConfig"]
    # The command gives them in no order, or with another end of the one at the beginning of the other.
    config["Env"].sort()
    host["Binds"].sort()
    config["Cmd"] = config.pop("Entrypoint") + config["Cmd"]
    for key in ("CapAdd", "CapDrop"):
        host[key] = [one.removeprefix("CAP_") for one in host[key]]
    for mount in host["Mounts"]:
        volume = mount.get("VolumeOptions", {})
        # The command says that there is none.
        if not volume.get("DriverConfig"):
            volume.pop("DriverConfig", None)
    # Docker finds the driver by itself.
    for request in host["DeviceRequests"]:
        request.update(Driver="", Options=None)
    # A terminal that watches, and no more, tells these apart.
    for key in ("AttachStdout", "AttachStderr", "OpenStdin", "Image"):
        config.pop(key, None)
    for key in ("AutoRemove", "ConsoleSize", "Annotations"):
        host.pop(key, None)
    return {key: value for key, value in (*config.items(), *host.items()) if value not in (None, "", [], {}, 0, False)}


def test_the_command_makes_what_the_engine_is_asked_for(engine: Engine, client: Any) -> None:  # E1-17
    subprocess.run(["docker", "--host", engine.host, "import", "-", "busybox:1"], input=b"\0" * 10240, check=True)
    request = everything(devices=DEVICES)
    [_, _, _, *rest] = docker_run(request)
    try:
        create(client, request, "asked")
        subprocess.run(["docker", "--host", engine.host, "create", *rest], check=True)
        made, asked = inspected(engine, request.name), inspected(engine, "asked")
    finally:
        for one in client.containers.list(all=True):
            one.remove(v=True, force=True)
        client.images.remove("busybox:1")
    assert {key: (made.get(key), asked.get(key)) for key in made | asked if made.get(key) != asked.get(key)} == {}
