"""Docker's vocabulary, converted to a SliceJob's spec.

The words and their defaults are those of `docker run`; what Kubernetes cannot do is refused with a sentence, never
left out silently.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Any, Final

from slipway.api.resources import docker_size
from slipway.client.manifests.reading import literal
from slipway.sdk.accelerators import GPU_RESOURCE
from slipway.sdk.environment import Environment, variables

_COUNT: Final = re.compile(r"0*[1-9][0-9]*")
_USER: Final = re.compile(r"([0-9]+)(?::([0-9]+))?")
AUTO: Final = "auto"
"""The default network."""
_POD_NETWORKS: Final = ("", "bridge", "pod")


@dataclass(frozen=True)
class DockerConfig:
    """One container, as `docker run` would be told."""

    image: str
    """Image reference."""
    command: str | Sequence[str] = ()
    """What follows the image: its entrypoint still runs. A string is split as a shell would, a list is taken as it
    is; an empty list runs the image's own command."""
    volumes: Mapping[str, str] | None = None
    """Host path to container path, which may end in :ro or :rw."""
    environment: Environment | None = None
    """Environment: a map, whose values become text, and None leaves a name out; or a list of NAME=VALUE, and of NAME
    alone for the value that it has here."""
    network: str | None = AUTO
    """`host`, or `bridge` (or nothing) for the pod's own network. `auto`: on TPUs and GPUs the host's where the site
    allows it, otherwise the pod's; a call that waits prints which. run_docker_async takes the pod's."""
    privileged: bool = False
    """Run privileged. TPU chips do not need it."""
    gpus: str | int | None = None
    """How many NVIDIA GPUs, or `all` of a node; which ones is Kubernetes' choice."""
    shm_size: str | int | None = None
    """Size of /dev/shm: 512m, 2g or 2Gi, or a number of bytes; units are binary."""
    remove: bool = True
    """Delete the SliceJob once it has succeeded and its output was read."""
    workdir: str | None = None
    """Working directory, an absolute path."""
    user: str | int | None = None
    """Numeric uid or uid:gid."""
    entrypoint: str | Sequence[str] = ()
    """What runs instead of the image's entrypoint, with `command` as its arguments; a string is split."""
    ipc_mode: str | None = None
    """`host` for the node's IPC namespace, `private` (or nothing) for the pod's own."""
    cap_add: Sequence[str] = ()
    """Linux capabilities to add."""

    def to_spec(self) -> dict[str, Any]:
        """Fields of a SliceJob's spec.

        Raises:
            ValueError: when a word has no meaning in Kubernetes; the text names it and what is allowed.
        """
        volumes, mounts = _volumes(self.volumes or {})
        found = {
            "image": self.image,
            "command": _words("entrypoint", self.entrypoint),
            "args": _words("command", self.command),
            "env": variables(self.environment or ()),
            "hostNetwork": None if self.network == AUTO else _is_host_network(self.network),
            **_gpus(self.gpus),
            "shmSize": _shm_size(self.shm_size),
            "workingDir": _absolute("workdir", self.workdir) if self.workdir else None,
            "securityContext": _security(self.user, self.privileged, _words("cap_add", self.cap_add)),
            "podTemplate": {"spec": {"hostIPC": True}} if _is_host_ipc(self.ipc_mode) else {},
            "volumes": volumes,
            "volumeMounts": mounts,
        }
        return {name: value for name, value in found.items() if value or value is False}


def _words(what: str, given: str | Sequence[str]) -> list[str]:
    if not isinstance(given, Sequence):
        raise ValueError(f"{what} must be a string or a list of strings, not {given!r}")
    if not isinstance(given, str):
        return [literal(_text(f"{what}[{place}]", word)) for place, word in enumerate(given)]
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise ValueError(f"{what} {given!r} cannot be split into words: {error}; give a list instead") from error
    if not words:
        raise ValueError(f"{what} is empty: give the words to run, or [] for the image's own")
    return [literal(word) for word in words]


def _text(what: str, word: object) -> str:
    if not isinstance(word, str):
        raise ValueError(f"{what} is {word!r}, and must be text: write {str(word)!r}")
    return word


def _is_host_network(network: str | None) -> bool:
    if network == "host":
        return True
    if (network or "") in _POD_NETWORKS:
        return False
    raise ValueError(f"network {network!r} does not exist in a cluster: use auto, host or bridge")


def _is_host_ipc(mode: str | None) -> bool:
    if mode not in (None, "", "private", "host"):
        raise ValueError(f"ipc_mode {mode!r} does not exist in a cluster: use host or private")
    return mode == "host"


def _gpus(gpus: str | int | None) -> dict[str, Any]:
    if gpus is None or gpus == "":
        return {}
    if gpus == "all":
        return {"accelerator": {"gpu": {"vendor": "nvidia"}}}
    if _COUNT.fullmatch(str(gpus)) is None:
        raise ValueError(f"gpus {gpus!r}: Kubernetes chooses the devices, so say how many, such as 2, or all")
    return {"resources": {"limits": {GPU_RESOURCE: str(int(gpus))}}}


def _shm_size(size: str | int | None) -> str | None:
    if not size:
        return None
    if (found := docker_size(str(size))) is None:
        raise ValueError(f"shm_size {size!r} is not a size: write for example 512m, 2g or 2Gi")
    return found


def _security(user: str | int | None, privileged: bool, capabilities: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"privileged": True} if privileged else {}
    if capabilities:
        found["capabilities"] = {"add": capabilities}
    if user is None or user == "":
        return found
    numbers = _USER.fullmatch(str(user))
    if numbers is None:
        raise ValueError(f"user {user!r}: numeric uid[:gid] required, names belong to the image")
    found["runAsUser"] = int(numbers[1])
    if numbers[2] is not None:
        found["runAsGroup"] = int(numbers[2])
    if found["runAsUser"] == 0:
        found["runAsNonRoot"] = False
    return found


def _absolute(what: str, path: object) -> str:
    if not isinstance(path, str | PurePath) or not PurePosixPath(path).is_absolute():
        raise ValueError(f"{what} {path!r} is not an absolute path")
    return str(path)


def _volumes(given: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    volumes, mounts = [], []
    if not isinstance(given, Mapping):
        raise ValueError(f"volumes must be a map of host paths to container paths, not {given!r}")
    for number, (outside, inside) in enumerate(given.items()):
        if not isinstance(inside, str):
            raise ValueError(f"volumes[{outside!r}] is {inside!r}: write the container path, such as /in or /in:ro")
        path, _, mode = inside.partition(":")
        if mode not in ("", "ro", "rw"):
            raise ValueError(f"volume {outside}:{inside} ends in {mode!r}: only :ro and :rw are known")
        name = f"docker-{number}"
        volumes.append({"name": name, "hostPath": {"path": _absolute("volume", outside)}})
        mount: dict[str, Any] = {"name": name, "mountPath": _absolute("volume", path)}
        mounts.append(mount | {"readOnly": True} if mode == "ro" else mount)
    return volumes, mounts
