"""What a container is made of, and the `docker run` command that makes the same."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slipway.core.model.parts import Body

_OLDEST: Final = (1, 40)
"""That of Docker 19.03, which knows DeviceRequests."""
_SINCE: Final = {"Subpath": (1, 45), "ReadOnlyForceRecursive": (1, 44)}
"""Options of mounts that came later."""
_OPTIONS: Final = ("BindOptions", "VolumeOptions")
_BILLION: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container to be created."""

    name: str
    body: dict[str, Any]
    """JSON of `POST /containers/create`."""

    @property
    def api_version(self) -> tuple[int, int]:
        """The lowest version of the Engine API that knows all of it. An older one passes over what it does not know."""
        mounts = self.body.get("HostConfig", {}).get("Mounts", ())
        since = [_SINCE[key] for mount in mounts for part in _OPTIONS for key in mount.get(part, ()) if key in _SINCE]
        return max(since, default=_OLDEST)


def docker_run(request: ContainerRequest) -> list[str]:
    """The words of the command, for no shell to look through.

    First come the options that every launcher of containers has, in their usual order: --rm, network, privileged,
    gpus, shm-size, workdir, user, volumes, environment. The others follow, then the image and the command. The
    container is removed when it ends, because `docker run` itself shows its log and returns its exit code.
    """
    body, host = request.body, request.body.get("HostConfig", {})
    entrypoint, command = body.get("Entrypoint") or [], body.get("Cmd") or []
    return [
        *("docker", "run", "--rm"),
        *_option("--network", host.get("NetworkMode")),
        *(["--privileged"] if host.get("Privileged") else []),
        *_each("--gpus", map(_gpus, host.get("DeviceRequests", ()))),
        *_option("--shm-size", host.get("ShmSize")),
        *_option("--workdir", body.get("WorkingDir")),
        *_option("--user", body.get("User")),
        *_each("-v", host.get("Binds", ())),
        *_each("--mount", map(_mount, host.get("Mounts", ()))),
        *_each("--tmpfs", (f"{path}:{options}" for path, options in host.get("Tmpfs", {}).items())),
        *_each("-e", body.get("Env", ())),
        *_identity(request),
        *_limits(host),
        *_rights(host),
        *_surroundings(host),
        *(["--entrypoint", entrypoint[0]] if entrypoint else []),
        body["Image"],
        *entrypoint[1:],
        *command,
    ]


def _identity(request: ContainerRequest) -> Iterator[str]:
    body = request.body
    yield from ("--name", request.name)
    yield from _option("--hostname", body.get("Hostname"))
    for endpoint in body.get("NetworkingConfig", {}).get("EndpointsConfig", {}).values():
        yield from _each("--network-alias", endpoint.get("Aliases", ()))
    yield from _each("--label", (f"{name}={value}" for name, value in body.get("Labels", {}).items()))
    yield from _option("--stop-timeout", body.get("StopTimeout"))


def _limits(host: Body) -> Iterator[str]:
    cpus = host.get("NanoCpus")
    yield from _option("--cpus", f"{cpus / _BILLION:f}".rstrip("0").rstrip(".") if cpus else None)
    yield from _option("--cpu-shares", host.get("CpuShares"))
    yield from _option("--memory", host.get("Memory"))
    yield from _option("--memory-swap", host.get("MemorySwap"))
    yield from _option("--memory-reservation", host.get("MemoryReservation"))
    yield from _each(
        "--ulimit", (f"{ulimit['Name']}={ulimit['Soft']}:{ulimit['Hard']}" for ulimit in host.get("Ulimits", ()))
    )


def _rights(host: Body) -> Iterator[str]:
    yield from _each("--cap-add", host.get("CapAdd", ()))
    yield from _each("--cap-drop", host.get("CapDrop", ()))
    yield from _each("--security-opt", host.get("SecurityOpt", ()))
    yield from _each("--group-add", host.get("GroupAdd", ()))
    yield from _each("--sysctl", (f"{name}={value}" for name, value in host.get("Sysctls", {}).items()))
    if host.get("ReadonlyRootfs"):
        yield "--read-only"
    places = ("PathOnHost", "PathInContainer", "CgroupPermissions")
    yield from _each("--device", (":".join(device[key] for key in places) for device in host.get("Devices", ())))


def _surroundings(host: Body) -> Iterator[str]:
    yield from _option("--pid", host.get("PidMode"))
    yield from _option("--ipc", host.get("IpcMode"))
    if host.get("Init"):
        yield "--init"
    yield from _each("--add-host", host.get("ExtraHosts", ()))
    yield from _each("--dns", host.get("Dns", ()))
    yield from _each("--dns-search", host.get("DnsSearch", ()))
    yield from _each("--dns-option", host.get("DnsOptions", ()))
    for port, bindings in host.get("PortBindings", {}).items():
        yield from _each(
            "--publish", (f"{_address(binding['HostIp'])}{binding['HostPort']}:{port}" for binding in bindings)
        )
    log = host.get("LogConfig", {})
    yield from _option("--log-driver", log.get("Type"))
    yield from _each("--log-opt", (f"{name}={value}" for name, value in log.get("Config", {}).items()))


def _option(name: str, value: object) -> list[str]:
    """An option that is left out where there is no value."""
    return [name, str(value)] if value else []


def _each(name: str, values: Any) -> Iterator[str]:
    for value in values:
        yield from (name, value)


def _address(address: str) -> str:
    return f"[{address}]:" if ":" in address else f"{address}:" if address else ""


def _gpus(request: Body) -> str:
    # Docker reads a bare 0,1 as two counts, and adds the capability gpu itself.
    capabilities = [one for sets in request["Capabilities"] for one in sets if one != "gpu"]
    said = [f"capabilities={','.join(capabilities)}"] if capabilities else []
    return _joined([f"device={','.join(request['DeviceIDs'])}", *said])


def _mount(mount: Body) -> str:
    options, volume = mount.get("BindOptions", {}), mount.get("VolumeOptions", {})
    driver = volume.get("DriverConfig", {})
    words = {
        "type": mount["Type"],
        "source": mount.get("Source"),
        "target": mount["Target"],
        "bind-propagation": options.get("Propagation"),
        "bind-recursive": "readonly" if options.get("ReadOnlyForceRecursive") else None,
        "volume-subpath": volume.get("Subpath"),
        "volume-driver": driver.get("Name"),
    }
    flags = {"readonly": mount.get("ReadOnly"), "volume-nocopy": volume.get("NoCopy")}
    fields = [f"{key}={value}" for key, value in words.items() if value]
    fields += [f"volume-opt={key}={value}" for key, value in driver.get("Options", {}).items()]
    return _joined([*fields, *(flag for flag, wanted in flags.items() if wanted)])


def _joined(fields: list[str]) -> str:
    """Fields as Docker reads them back: separated by commas, in quotes where they have some of their own."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
