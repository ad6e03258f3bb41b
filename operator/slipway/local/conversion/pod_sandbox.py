"""What the containers of a pod share: the container that has it, and how the others join that."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slipway.api.resources import amount
from slipway.core.model.parts import Body
from slipway.local.conversion.containers_of_pod import LABEL_PART_OF, SANDBOX, all_containers
from slipway.local.conversion.docker_run import ContainerRequest
from slipway.local.conversion.unconvertible import Refusals
from slipway.local.conversion.volumes import in_memory

IMAGE: Final = "slipway.dev/sandbox:1"
"""The image whose program does nothing; Slipway makes it on the engine."""
PROGRAM: Final = "/pause"
VOLUMES: Final = "/volumes"
"""Where the volumes that the containers of a host share are in its sandbox."""
_NOBODY: Final = "65535:65535"
_HOST: Final = "host"
_OF_NETWORK: Final = ("ExtraHosts", "Dns", "DnsSearch", "DnsOptions", "PortBindings")
_OF_SANDBOX: Final = ("Sysctls", "ShmSize", "Init")
"""Options of a HostConfig that the sandbox has for all."""


def shared_volumes(pod: Body) -> dict[str, str]:
    """The empty volumes that are mounted at several places in the containers of a pod, and the source of each.

    The source is a word for the volume of the sandbox, whose name only the engine knows; `with_volumes` puts it in.
    """
    spec = pod["spec"]
    everyone = list(all_containers(spec))
    if len(everyone) == 1:
        return {}
    mounted = Counter(mount["name"] for one in everyone for mount in one.get("volumeMounts", ()))
    empty = (volume["name"] for volume in spec.get("volumes", ()) if set(volume) <= {"name", "emptyDir"})
    holder = SANDBOX.container(pod["metadata"]["name"])
    return {name: f"{holder}:{VOLUMES}/{name}" for name in empty if mounted[name] > 1}


def sandbox(pod: Body, worker: Body, others: Iterable[Body], shared: Iterable[str], refusals: Refusals) -> Body:
    """The container that has what the others share.

    Args:
        pod: the whole pod.
        worker: its worker as it would be alone.
        others: the containers beside it, likewise.
        shared: names of the empty volumes that are mounted at several places.
        refusals: where to put what Docker cannot do.
    """
    host = worker["HostConfig"]
    everyone = [worker, *others]
    bindings: dict[str, list[Body]] = {}
    for one in everyone:
        for port, wanted in one["HostConfig"].get("PortBindings", {}).items():
            bindings.setdefault(port, []).extend(wanted)
    sizes = [one["HostConfig"]["ShmSize"] for one in everyone if "ShmSize" in one["HostConfig"]]
    own = {key: host[key] for key in ("NetworkMode", *_OF_NETWORK, *_OF_SANDBOX, "LogConfig") if key in host}
    own |= {
        "IpcMode": host.get("IpcMode", "shareable"),
        "RestartPolicy": {"Name": "no"},
        "CapDrop": ["ALL"],
        "Mounts": [_volume(pod, name, refusals) for name in shared],
    }
    own |= ({"PortBindings": bindings} if bindings else {}) | ({"ShmSize": max(sizes)} if sizes else {})
    body = {key: worker[key] for key in ("Hostname", "NetworkingConfig") if key in worker}
    return body | {
        "Image": IMAGE,
        "Entrypoint": [PROGRAM],
        "User": _NOBODY,
        # It does not listen to SIGTERM.
        "StopSignal": "SIGKILL",
        "Labels": pod["metadata"].get("labels", {}) | {LABEL_PART_OF: pod["metadata"]["name"]},
        **({"ExposedPorts": {port: {} for port in bindings}} if bindings else {}),
        "HostConfig": own,
    }


def _volume(pod: Body, name: str, refusals: Refusals) -> Body:
    """A mount of the sandbox that makes an empty volume, and keeps it as long as the pod is there."""
    source = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == name).get("emptyDir") or {}
    options: Body = {"NoCopy": True}
    if source.get("medium"):
        options["DriverConfig"] = in_memory(int(amount(source.get("sizeLimit", 0)) or 0))
    return {"Type": "volume", "Target": f"{VOLUMES}/{name}", "VolumeOptions": options}


def joined(pod: Body, body: Body) -> Body:
    """A container as a part of its pod: what the sandbox has, it has from there."""
    there = f"container:{SANDBOX.container(pod['metadata']['name'])}"
    host = {key: value for key, value in body["HostConfig"].items() if key not in _OF_SANDBOX}
    body = dict(body)
    if host["NetworkMode"] != _HOST:
        host = {key: value for key, value in host.items() if key not in _OF_NETWORK} | {"NetworkMode": there}
        for key in ("Hostname", "NetworkingConfig", "ExposedPorts"):
            body.pop(key, None)
    host.setdefault("IpcMode", there)
    if pod["spec"].get("shareProcessNamespace"):
        host["PidMode"] = there
    return body | {"HostConfig": host}


def with_volumes(request: ContainerRequest, made: Mapping[str, Any]) -> ContainerRequest:
    """A request that names the volumes of the sandbox.

    Args:
        request: one with the sources of `shared_volumes`.
        made: the sandbox, as the engine describes it.
    """
    host, name = request.body["HostConfig"], str(made["Name"]).removeprefix("/")
    volumes = {f"{name}:{mount['Destination']}": mount["Name"] for mount in made.get("Mounts") or () if "Name" in mount}
    mounts = [
        mount | {"Source": volumes.get(mount["Source"], mount["Source"])} if "Source" in mount else mount
        for mount in host.get("Mounts", ())
    ]
    return ContainerRequest(request.name, request.body | {"HostConfig": host | ({"Mounts": mounts} if mounts else {})})
