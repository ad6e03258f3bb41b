"""The volumes of a pod, as mounts of its container."""

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from slipway.api.resources import amount
from slipway.core.model.parts import Body
from slipway.core.validation.refusals import engine_place
from slipway.local.conversion.expansion import UnknownVariable, fully_expanded
from slipway.local.conversion.unconvertible import Refusals

SHM: Final = "/dev/shm"
_MADE: Final = ("", "DirectoryOrCreate")
_OF_ROOTLESS: Final = re.compile(r"(/var)?/run/user(/\d+)?")
"""Folders in which an engine that runs as a user has its socket."""
_PROPAGATION: Final = {"None": "rprivate", "HostToContainer": "rslave", "Bidirectional": "rshared"}
_TYPES: Final = (
    *_MADE,
    *("Directory", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"),
)


@dataclass(slots=True)
class Mounts:
    """What the mounts of a container are in its HostConfig."""

    mounts: list[Body] = field(default_factory=list)
    binds: list[str] = field(default_factory=list)
    """Folders of this machine that Docker makes where they are missing, which no `Mounts` do in every version."""
    tmpfs: dict[str, str] = field(default_factory=dict)
    """Options by path. As `Mounts` they could not hold programs before version 1.46 of the API."""
    shm_size: int | None = None
    """Bytes of /dev/shm; None for Docker's default of 64 MB."""

    @property
    def host_config(self) -> Body:
        """The fields of a HostConfig; what is empty is left out."""
        fields = {"Binds": self.binds, "Mounts": self.mounts, "Tmpfs": self.tmpfs, "ShmSize": self.shm_size}
        return {name: value for name, value in fields.items() if value}


def mounts(
    spec: Body,
    container: Body,
    path: str,
    variables: Mapping[str, str],
    shared: Mapping[str, str],
    refusals: Refusals,
) -> Mounts:
    """The mounts of a container, in their order.

    Args:
        spec: the PodSpec.
        container: the container.
        path: the container's path for people.
        variables: its environment, for subPathExpr.
        shared: sources of the empty volumes that are mounted at several places of the pod, by name.
        refusals: where to put what Docker cannot mount.
    """
    found = Mounts(shm_size=_shared_memory(container))
    volumes = {one["name"]: one for one in spec.get("volumes", ())}
    taken: set[str] = set()
    for mount in container.get("volumeMounts", ()):
        place = f"{path}.volumeMounts[{mount['mountPath']}]"
        if not mount["mountPath"].startswith("/") or ":" in mount["mountPath"]:
            refusals.add(f"{place}.mountPath", mount["mountPath"], "an absolute path without : is needed")
        volume = volumes.get(mount["name"])
        if volume is None:
            refusals.add(f"{place}.name", mount["name"], f"the volumes are {', '.join(sorted(volumes)) or 'none'}")
            continue
        below = _below(mount, place, variables, refusals)
        where = f"spec.volumes[{mount['name']}]"
        sources = sorted(volume.keys() - {"name"})
        if len(sources) > 1:
            refusals.add(where, sources, "one source is allowed")
        if "hostPath" in volume:
            _add_bind(found, volume["hostPath"], mount, below, where, place, refusals)
            continue
        if mount.get("mountPropagation", "None") != "None":
            refusals.add(f"{place}.mountPropagation", mount["mountPropagation"], "only a hostPath can have one")
        if "persistentVolumeClaim" in volume or mount["name"] in shared:
            found.mounts.append(_named(volume, shared.get(mount["name"]), mount, below, where, refusals))
        # As the API server has it: a volume that says nothing is an emptyDir.
        elif sources in ([], ["emptyDir"]):
            if mount["name"] in taken:
                refusals.add(f"{place}.name", mount["name"], "Docker mounts an emptyDir at one place only")
            taken.add(mount["name"])
            _add_empty(found, volume.get("emptyDir", {}), mount, container, where, refusals)
    return found


def _shared_memory(container: Body) -> int | None:
    """The size of /dev/shm where nothing is mounted there: what lies in it counts as the container's memory (T-19)."""
    mounted = any(posixpath.normpath(mount["mountPath"]) == SHM for mount in container.get("volumeMounts", ()))
    return None if mounted else math.ceil(_memory(container)) or None


def _memory(container: Body) -> Decimal:
    """The limit of the memory of a container; 0 for none."""
    return amount(container.get("resources", {}).get("limits", {}).get("memory")) or Decimal(0)


def _below(mount: Body, place: str, variables: Mapping[str, str], refusals: Refusals) -> str:
    """The path within the volume; empty for its root."""
    key = "subPathExpr" if mount.get("subPathExpr") else "subPath"
    asked = mount.get(key) or ""
    try:
        below = fully_expanded(asked, variables) if key == "subPathExpr" else asked
    except UnknownVariable as error:
        refusals.add(f"{place}.{key}", asked, f"the container has no variable {error.args[0]}")
        return ""
    if below.startswith("/") or ".." in below.split("/"):
        refusals.add(f"{place}.{key}", asked, "a relative path without .. is needed, so that it stays in the volume")
        return ""
    return posixpath.normpath(below) if below else ""


def _mount(kind: str, source: str, mount: Body, options: Mapping[str, Any], *, read_only: bool) -> Body:
    """One of HostConfig.Mounts."""
    body: Body = {"Type": kind, "Source": source, "Target": mount["mountPath"], "ReadOnly": read_only}
    return {name: value for name, value in body.items() if value} | {name: one for name, one in options.items() if one}


def _add_bind(found: Mounts, source: Body, mount: Body, below: str, where: str, place: str, refusals: Refusals) -> None:
    path, kind = _path(source, below, where, refusals), source.get("type") or ""
    if kind not in _TYPES:
        refusals.add(f"{where}.hostPath.type", kind, f"{', '.join(_TYPES[1:])} are allowed")
    asked = mount.get("mountPropagation") or "None"
    if asked not in _PROPAGATION:
        refusals.add(f"{place}.mountPropagation", asked, f"{', '.join(_PROPAGATION)} are allowed")
    propagation, read_only = _PROPAGATION.get(asked, "rprivate"), bool(mount.get("readOnly"))
    forced = mount.get("recursiveReadOnly") == "Enabled"
    if kind in _MADE and ":" not in path and not forced:
        words = [*(["ro"] if read_only else []), *([propagation] if asked != "None" else [])]
        found.binds.append(f"{path}:{mount['mountPath']}" + (f":{','.join(words)}" if words else ""))
        return
    options: Body = {"Propagation": propagation} if asked != "None" or forced else {}
    options |= {"ReadOnlyForceRecursive": True} if forced else {}
    found.mounts.append(_mount("bind", path, mount, {"BindOptions": options}, read_only=read_only))


def _path(source: Body, below: str, where: str, refusals: Refusals) -> str:
    """The path of this machine that a hostPath stands for."""
    folder: str = source["path"]
    if not folder.startswith("/") or ".." in folder.split("/"):
        refusals.add(f"{where}.hostPath.path", folder, "an absolute path without .. is needed")
        return "/nowhere"
    path = posixpath.join(folder, below) if below else folder
    rootless = _OF_ROOTLESS.fullmatch(posixpath.normpath("/" + path.lstrip("/")))
    if (engine := rootless[0] if rootless else engine_place(path)) is not None:
        why = f"no job gets the socket of a container engine ({engine}): mount another folder"
        refusals.add(f"{where}.hostPath.path", path, why)
    return path


def _named(volume: Body, shared: str | None, mount: Body, below: str, where: str, refusals: Refusals) -> Body:
    """The mount of a Docker volume: that of a claim, or the empty one that is shared."""
    read_only, source = bool(mount.get("readOnly")), volume.get("persistentVolumeClaim")
    if source is None:
        _check_empty(volume.get("emptyDir", {}), where, refusals)
    elif len(source["claimName"]) < 2:
        why = "at least two characters are needed, as Docker has it"
        refusals.add(f"{where}.persistentVolumeClaim.claimName", source["claimName"], why)
    claimed = source or {}
    # Neither is ever filled from the image.
    options = {"NoCopy": True} | ({"Subpath": below} if below else {})
    name = shared or claimed["claimName"]
    return _mount(
        "volume", name, mount, {"VolumeOptions": options}, read_only=read_only or bool(claimed.get("readOnly"))
    )


def _check_empty(source: Body, where: str, refusals: Refusals) -> Decimal:
    """Refuse what no emptyDir says; returns its sizeLimit, 0 for none."""
    if (medium := source.get("medium") or "") not in ("", "Memory"):
        refusals.add(f"{where}.emptyDir.medium", medium, "Memory and the default medium are allowed")
    size = amount(source.get("sizeLimit", 0))
    if size is None:
        refusals.add(f"{where}.emptyDir.sizeLimit", source["sizeLimit"], "a quantity such as 2Gi is needed")
    return size or Decimal(0)


def _add_empty(found: Mounts, source: Body, mount: Body, container: Body, where: str, refusals: Refusals) -> None:
    """Add the mount of an emptyDir. Its path within the volume says nothing: mounted once, it is empty all the same."""
    size, read_only = _check_empty(source, where, refusals), bool(mount.get("readOnly"))
    if source.get("medium") == "Memory":
        # So sizes the kubelet what lies in memory.
        most = math.ceil(min((one for one in (size, _memory(container)) if one), default=0))
        if mount["mountPath"] == SHM and most and not read_only:
            found.shm_size = most
            return
        if _holds_others(mount["mountPath"], container):
            options = {"VolumeOptions": {"NoCopy": True, "DriverConfig": in_memory(most)}}
            found.mounts.append(_mount("volume", "", mount, options, read_only=read_only))
            return
        words = ["exec", *(["ro"] if read_only else []), *([f"size={most}"] if most else [])]
        found.tmpfs[mount["mountPath"]] = ",".join(words)
    else:
        options = {"VolumeOptions": {"NoCopy": True}}
        found.mounts.append(_mount("volume", "", mount, options, read_only=read_only))


def in_memory(size: int) -> Body:
    """The driver of a Docker volume that lies in memory, may be written by all users, and ends with its container.

    The engine makes the working directory and the places of mounts in the image first, for root. A tmpfs takes over
    the mode of the folder that it covers, whatever mode it is given; such a volume does not.

    Args:
        size: its size in bytes; 0 for half of the memory of the machine, as with a tmpfs.
    """
    most = f"size={size}" if size else "size=50%"
    return {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": f"mode=1777,{most}"}}


def _holds_others(place: str, container: Body) -> bool:
    """Whether this place is, or holds, the working directory of a container, or holds another mount."""
    inside = f"{posixpath.normpath(place)}/"
    mounts = (posixpath.normpath(mount["mountPath"]) for mount in container.get("volumeMounts", ()))
    working_dir = posixpath.normpath(container.get("workingDir") or "/")
    return f"{working_dir}/".startswith(inside) or any(path.startswith(inside) for path in mounts)
