"""A pod as a container of Docker: the JSON of `POST /containers/create` for a body that the planner has made.

Pure, so that the same job is seen to be the same here and on a cluster. What a container of Docker cannot be is refused
by the name of its field; the table of all fields is in `conversion_table`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from slipway.api import names
from slipway.api.resources import amount
from slipway.docker_engine.conversion.devices import KINDS, LABEL_DEVICES, NO_DEVICES, Assigned, DeviceMapping
from slipway.docker_engine.conversion.docker_run import ContainerRequest, docker_run
from slipway.docker_engine.conversion.expansion import expanded
from slipway.docker_engine.conversion.security import security
from slipway.docker_engine.conversion.unconvertible import Refusals, Unconvertible, refuse_by_table
from slipway.docker_engine.conversion.variables import environment
from slipway.docker_engine.conversion.volumes import mounts
from slipway.planner.actions import Body
from slipway.planner.environment import HOSTNAMES_KEY, PROCESS_ADDRESSES_KEY
from slipway.planner.merge import without_nulls

__all__ = ["ContainerRequest", "Surroundings", "Unconvertible", "container", "docker_run", "problems"]

HOST_NETWORK: Final = "host"
LOG_MAX_SIZE: Final = "64m"
LOG_MAX_FILE: Final = "2"
_LOOPBACK: Final = "127.0.0.1"
_WORKER: Final = f"spec.containers[{names.WORKER_CONTAINER}]"
_MOST_SHARES: Final = 262144
"""Of the CPU: what the kernel takes at most; 1024 are one CPU."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod is converted for."""

    network: str = HOST_NETWORK
    """Name of a Docker network, or "host"."""
    peers: tuple[str, ...] = ()
    """With the host network: names that resolve to this machine."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Ids of images by reference, so that all hosts run the same; a reference that is missing stays."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Data of the ConfigMaps that Slipway itself made, by name."""
    devices: Assigned = NO_DEVICES
    """The devices of this container."""
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Soft and hard limits by name; -1 for none."""
    extra_devices: tuple[DeviceMapping, ...] = ()
    """Device nodes besides those of `devices`."""


def container(pod: Body, around: Surroundings) -> ContainerRequest:
    """The container that a pod is on this machine.

    Args:
        pod: the body as `PodFactory.pod` returns it.
        around: what it is converted for.

    Raises:
        Unconvertible: for the first field, by path, that no container can have.
    """
    refusals = Refusals()
    body = _body(pod, around, refusals)
    for refusal in refusals:
        raise refusal
    return ContainerRequest(pod["metadata"]["name"], body)


def problems(pod: Body) -> tuple[str, ...]:
    """All that cannot be converted, sorted by path; each names the field, its value and the reason."""
    labels, refusals = pod["metadata"].get("labels", {}), Refusals()
    # The planner's own host lists will be there; so is whatever a device stands for.
    own = "-".join(labels.get(name, "") for name in (names.LABEL_JOB_NAME, names.LABEL_ATTEMPT, names.LABEL_SLICE))
    _body(pod, Surroundings(config_maps={own: {HOSTNAMES_KEY: "", PROCESS_ADDRESSES_KEY: ""}}), refusals)
    return tuple(str(one) for one in refusals)


def _body(pod: Body, around: Surroundings, refusals: Refusals) -> Body:
    pod = without_nulls(pod)
    metadata, spec = pod["metadata"], pod["spec"]
    if metadata.get("labels", {}).get(names.LABEL_ROLE) == names.ROLE_HEAD:
        why = "a Ray cluster needs several containers in its head, and a Secret: run it on a cluster"
        refusals.add(f"metadata.labels[{names.LABEL_ROLE}]", names.ROLE_HEAD, why)
        return {}
    worker = next(one for one in spec["containers"] if one["name"] == names.WORKER_CONTAINER)
    refuse_by_table(pod | {"spec": spec | {"containers": [worker]}}, "", "", refusals)
    if refusals.malformed:
        return {}
    _refuse_others(spec, refusals)
    variables = environment(pod, worker, _WORKER, _told(worker, around.devices), around.config_maps, refusals)
    user, rights = security(spec, worker, _WORKER, refusals)
    exposed, bindings = _ports(spec, worker, around)
    body = {
        "Image": around.images.get(worker["image"], worker["image"]),
        "Hostname": spec.get("hostname"),
        "User": user,
        "WorkingDir": worker.get("workingDir"),
        "Entrypoint": [expanded(one, variables) for one in worker.get("command", ())],
        "Cmd": [expanded(one, variables) for one in worker.get("args", ())],
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": _labels(metadata.get("labels", {}), around.devices),
        "StopTimeout": spec.get("terminationGracePeriodSeconds"),
        "ExposedPorts": exposed,
        "NetworkingConfig": _endpoints(pod, around),
    }
    host_config = {
        **_network(spec, around),
        "PortBindings": bindings,
        **_namespaces(spec, refusals),
        **_limits(worker, refusals),
        **rights,
        **_devices(around, rights.get("GroupAdd", [])),
        **mounts(spec, worker, _WORKER, variables, refusals).host_config,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_MAX_SIZE, "max-file": LOG_MAX_FILE}},
        "RestartPolicy": {"Name": "no"},
    }
    return _given(body) | {"HostConfig": _given(host_config)}


def _given(fields: Body) -> Body:
    """Without what is empty; 0 is a value."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def _refuse_others(spec: Body, refusals: Refusals) -> None:
    """Refuse all containers beside the worker, but for the one whose work the local engine does itself."""
    for one in spec["containers"]:
        if one["name"] != names.WORKER_CONTAINER:
            refusals.add(f"spec.containers[{one['name']}]", None, "a host of the local engine is one container")
    for one in spec.get("initContainers", ()):
        if (name := one.get("name")) != names.WORKSPACE_CONTAINER:
            why = "Docker runs nothing before a container: let the program, or its image, do it"
            refusals.add(f"spec.initContainers[{name}]", None, why)


def _told(worker: Body, devices: Assigned) -> dict[str, str]:
    privileged = (worker.get("securityContext") or {}).get("privileged")
    return {**devices.variables, **(devices.variables_if_privileged if privileged else {})}


def _labels(labels: Mapping[str, str], devices: Assigned) -> dict[str, str]:
    # Only Slipway says who has which devices.
    own = {name: value for name, value in labels.items() if name != LABEL_DEVICES}
    return own | ({LABEL_DEVICES: devices.label} if devices.ids else {})


def _on_host_network(spec: Body, around: Surroundings) -> bool:
    return bool(spec.get("hostNetwork")) or around.network == HOST_NETWORK


def _network(spec: Body, around: Surroundings) -> Body:
    on_host, dns = _on_host_network(spec, around), spec.get("dnsConfig") or {}
    aliases = [f"{name}:{one['ip']}" for one in spec.get("hostAliases", ()) for name in one.get("hostnames", ())]
    options = [one["name"] + (f":{one['value']}" if one.get("value") else "") for one in dns.get("options", ())]
    return {
        "NetworkMode": HOST_NETWORK if on_host else around.network,
        "ExtraHosts": [*aliases, *(f"{peer}:{_LOOPBACK}" for peer in around.peers if on_host)],
        "Dns": dns.get("nameservers"),
        "DnsSearch": dns.get("searches"),
        "DnsOptions": options,
    }


def _endpoints(pod: Body, around: Surroundings) -> Body:
    """The names of the pod in its network, as a headless Service would give them."""
    hostname, subdomain = pod["spec"].get("hostname"), pod["spec"].get("subdomain")
    if _on_host_network(pod["spec"], around) or hostname is None:
        return {}
    aliases = [hostname]
    if subdomain is not None:
        service = f"{hostname}.{subdomain}.{pod['metadata']['namespace']}.svc"
        aliases += [f"{hostname}.{subdomain}", service, f"{service}.cluster.local"]
    return {"EndpointsConfig": {around.network: {"Aliases": aliases}}}


def _ports(spec: Body, worker: Body, around: Surroundings) -> tuple[Body, Body]:
    """ExposedPorts and PortBindings of the ports that this machine opens."""
    bindings: dict[str, list[Body]] = {}
    for one in worker.get("ports", ()) if not _on_host_network(spec, around) else ():
        if one.get("hostPort"):
            port = f"{one['containerPort']}/{one.get('protocol', 'TCP').lower()}"
            binding = {"HostIp": one.get("hostIP", ""), "HostPort": str(one["hostPort"])}
            bindings.setdefault(port, []).append(binding)
    return {port: {} for port in bindings}, bindings


def _namespaces(spec: Body, refusals: Refusals) -> Body:
    if spec.get("hostUsers") is False:
        refusals.add("spec.hostUsers", False, "an engine gives all containers the same users: only true is allowed")
    return {
        "PidMode": "host" if spec.get("hostPID") else None,
        "IpcMode": "host" if spec.get("hostIPC") else None,
        "Init": spec.get("shareProcessNamespace") or None,
    }


def _limits(worker: Body, refusals: Refusals) -> Body:
    """The most, and the share, of CPU and memory; as with Kubernetes a limit is a request where there is none."""
    resources = worker.get("resources") or {}
    limits, requests = (_amounts(resources.get(kind, {}), kind, refusals) for kind in ("limits", "requests"))
    memory, cpu = limits.get("memory"), limits.get("cpu")
    asked = requests.get("cpu", cpu)
    for name in sorted(limits.keys() & requests.keys()):
        if requests[name] > limits[name]:
            path = f"{_WORKER}.resources.requests.{name}"
            refusals.add(
                path, resources["requests"][name], f"at most the limit, {resources['limits'][name]}, is allowed"
            )
    return {
        "NanoCpus": math.ceil(cpu * 10**9) if cpu else None,
        "CpuShares": max(2, min(int(asked * 1024), _MOST_SHARES)) if asked else None,
        # Rounded up, because Docker takes 0 for no limit.
        "Memory": math.ceil(memory) if memory else None,
        # Equal: no swap besides, as on a node.
        "MemorySwap": math.ceil(memory) if memory else None,
        "MemoryReservation": math.ceil(requests["memory"]) if requests.get("memory") else None,
    }


def _amounts(quantities: Mapping[str, Any], kind: str, refusals: Refusals) -> dict[str, Decimal]:
    """Those of CPU and memory. Devices are assigned elsewhere, and for storage Docker has no limit."""
    found: dict[str, Decimal] = {}
    for name, quantity in quantities.items():
        path = f"{_WORKER}.resources.{kind}.{name}"
        if (number := amount(quantity)) is None or number < 0:
            refusals.add(path, quantity, "a quantity such as 2, 500m or 16Gi is needed")
        elif name in ("cpu", "memory"):
            found[name] = number
        elif name not in (*KINDS, "ephemeral-storage"):
            refusals.add(path, quantity, f"the local engine knows cpu, memory, ephemeral-storage, {', '.join(KINDS)}")
    return found


def _devices(around: Surroundings, groups: list[str]) -> Body:
    own = around.devices
    return {
        "Devices": [
            {"PathOnHost": one.src, "PathInContainer": one.dst, "CgroupPermissions": one.permissions}
            for one in (*own.devices, *around.extra_devices)
        ],
        "DeviceRequests": [dict(one) for one in own.requests],
        "GroupAdd": list(dict.fromkeys([*groups, *map(str, own.groups)])),
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in {**own.ulimits, **around.ulimits}.items()
        ],
    }
