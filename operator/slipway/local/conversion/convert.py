"""A pod as containers of Docker: the JSON of `POST /containers/create` for a body that the planner has made.

Pure, so that the same job is seen to be the same here and on a cluster. What a container of Docker cannot be is refused
by the name of its field; the table of all fields is in `conversion_table`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from slipway.api import names
from slipway.api.resources import amount
from slipway.core.manifests.merge import without_nulls
from slipway.core.manifests.peers import HOSTNAMES_KEY, PROCESS_ADDRESSES_KEY
from slipway.core.model.parts import Body
from slipway.local.conversion.containers_of_pod import (
    ALWAYS,
    LABEL_PART_OF,
    LABEL_PARTS,
    SANDBOX,
    Kind,
    Part,
    is_head,
    label,
    own_containers,
    worker_of,
)
from slipway.local.conversion.devices import KINDS, LABEL_DEVICES, NO_DEVICES, Assigned, DeviceMapping
from slipway.local.conversion.docker_run import ContainerRequest, docker_run
from slipway.local.conversion.expansion import expanded
from slipway.local.conversion.pod_sandbox import joined, sandbox, shared_volumes
from slipway.local.conversion.ray import without_kubelet
from slipway.local.conversion.security import security
from slipway.local.conversion.unconvertible import Refusals, Unconvertible, refuse_by_table
from slipway.local.conversion.variables import environment
from slipway.local.conversion.volumes import mounts

__all__ = ["ContainerRequest", "Surroundings", "Unconvertible", "containers", "docker_run", "problems"]

HOST_NETWORK: Final = "host"
NETWORKS_WITHOUT_NAMES: Final = ("bridge", "none")
"""Those of every engine in which containers have no names, so that none finds another."""
LOG_MAX_SIZE: Final = "64m"
LOG_MAX_FILE: Final = "2"
_LOOPBACK: Final = "127.0.0.1"
_MOST_SHARES: Final = 262144
"""Of the CPU: what the kernel takes at most; 1024 are one CPU."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod is converted for."""

    network: str = HOST_NETWORK
    """Name of a Docker network, or "host"."""
    peers: tuple[str, ...] = ()
    """Names of the hosts: where the network has none, they resolve to the loopback address."""
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


def containers(pod: Body, around: Surroundings) -> tuple[ContainerRequest, ...]:
    """The containers that a pod is on this machine, in the order in which to create them: its worker is the last.

    Args:
        pod: the body as `PodFactory.pod` returns it.
        around: what it is converted for.

    Raises:
        Unconvertible: for the first field, by path, that no container can have.
    """
    refusals = Refusals()
    requests = _requests(without_nulls(pod), around, refusals)
    for refusal in refusals:
        raise refusal
    return tuple(requests)


def problems(pod: Body) -> tuple[str, ...]:
    """All that cannot be converted, sorted by path; each names the field, its value and the reason."""
    labels, refusals = pod["metadata"].get("labels", {}), Refusals()
    # The planner's own host lists will be there; so is whatever a device stands for.
    own = "-".join(labels.get(name, "") for name in (names.LABEL_JOB_NAME, names.LABEL_ATTEMPT, names.LABEL_SLICE))
    lists = {own: {HOSTNAMES_KEY: "", PROCESS_ADDRESSES_KEY: ""}}
    _requests(without_nulls(pod), Surroundings(config_maps=lists), refusals)
    return tuple(str(refusal) for refusal in refusals)


def _requests(pod: Body, around: Surroundings, refusals: Refusals) -> list[ContainerRequest]:
    pod = without_kubelet(pod)
    metadata, spec = pod["metadata"], pod["spec"]
    _refuse_fields(pod, refusals)
    if refusals.malformed:
        return []
    shared, others = shared_volumes(pod), list(own_containers(spec))
    worker = worker_of(spec)
    alone = _body(pod, worker, f"spec.containers[{worker['name']}]", around, shared, refusals)
    if not others:
        return [ContainerRequest(metadata["name"], alone)]
    beside = replace(around, devices=NO_DEVICES)
    bodies = {part: _body(pod, own, _path(part), beside, shared, refusals) for part, own in others}
    made = {SANDBOX: sandbox(pod, alone, bodies.values(), shared, refusals)}
    made |= {part: _labelled(joined(pod, body), LABEL_PART_OF, metadata["name"]) for part, body in bodies.items()}
    for part, body in made.items():
        # A Ray head that is started again has no workers: its first end is the end of the attempt.
        if part.kind is Kind.SIDECAR and not is_head(metadata["labels"]):
            body["HostConfig"]["RestartPolicy"] = {"Name": "always"}
    own = _labelled(joined(pod, alone), LABEL_PARTS, label(made))
    return [
        *(ContainerRequest(part.container(metadata["name"]), body) for part, body in made.items()),
        ContainerRequest(metadata["name"], own),
    ]


def _path(part: Part) -> str:
    """Where a container stands in its pod, for people."""
    return f"spec.{'containers' if part.kind is Kind.BESIDE else 'initContainers'}[{part.name}]"


def _labelled(body: Body, name: str, value: str) -> Body:
    return body | {"Labels": body["Labels"] | {name: value}}


def _refuse_fields(pod: Body, refusals: Refusals) -> None:
    """Refuse what the table refuses; the init containers have the fields of the others, and may be sidecars."""
    refuse_by_table(pod, "", "", refusals)
    if refusals.malformed:
        return
    for container in pod["spec"].get("initContainers", ()):
        if container.get("name") != names.WORKSPACE_CONTAINER:
            fields = {key: value for key, value in container.items() if key != "restartPolicy"}
            refuse_by_table([fields], "spec.containers", "spec.initContainers", refusals)
    if refusals.malformed:
        return
    for part, own in own_containers(pod["spec"]):
        for name in sorted(KINDS.keys() & own.get("resources", {}).get("limits", {}).keys()):
            refusals.add(f"{_path(part)}.resources.limits.{name}", None, f"only {names.WORKER_CONTAINER} gets devices")
        if part.kind is not Kind.BESIDE and own.get("restartPolicy") not in (None, ALWAYS):
            why = f"only {ALWAYS} is allowed, which makes it a sidecar"
            refusals.add(f"{_path(part)}.restartPolicy", own["restartPolicy"], why)


def _body(pod: Body, own: Body, path: str, around: Surroundings, shared: Mapping[str, str], refusals: Refusals) -> Body:
    """A container of a pod as it would be alone."""
    metadata, spec = pod["metadata"], pod["spec"]
    variables = environment(pod, own, path, _told(own, around.devices), around.config_maps, refusals)
    user, rights = security(spec, own, path, refusals)
    exposed, bindings = _ports(spec, own, around)
    body = {
        "Image": around.images.get(own["image"], own["image"]),
        "Hostname": spec.get("hostname"),
        "User": user,
        "WorkingDir": own.get("workingDir"),
        "Entrypoint": [expanded(one, variables) for one in own.get("command", ())],
        "Cmd": [expanded(argument, variables) for argument in own.get("args", ())],
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
        **_limits(own, path, refusals),
        **rights,
        **_devices(around, rights.get("GroupAdd", [])),
        **mounts(spec, own, path, variables, shared, refusals).host_config,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_MAX_SIZE, "max-file": LOG_MAX_FILE}},
        "RestartPolicy": {"Name": "no"},
    }
    return _given(body) | {"HostConfig": _given(host_config)}


def _given(fields: Body) -> Body:
    """Without what is empty; 0 is a value."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def _told(own: Body, devices: Assigned) -> dict[str, str]:
    privileged = (own.get("securityContext") or {}).get("privileged")
    return {**devices.variables, **(devices.variables_if_privileged if privileged else {})}


def _labels(labels: Mapping[str, str], devices: Assigned) -> dict[str, str]:
    # Only Slipway says who has which devices.
    own = {name: value for name, value in labels.items() if name != LABEL_DEVICES}
    return own | ({LABEL_DEVICES: devices.label} if devices.ids else {})


def _on_host_network(spec: Body, around: Surroundings) -> bool:
    return bool(spec.get("hostNetwork")) or around.network == HOST_NETWORK


def _without_names(spec: Body, around: Surroundings) -> bool:
    return _on_host_network(spec, around) or around.network in NETWORKS_WITHOUT_NAMES


def _network(spec: Body, around: Surroundings) -> Body:
    dns = spec.get("dnsConfig") or {}
    aliases = [f"{name}:{alias['ip']}" for alias in spec.get("hostAliases", ()) for name in alias.get("hostnames", ())]
    peers = around.peers if _without_names(spec, around) else ()
    options = [
        option["name"] + (f":{option['value']}" if option.get("value") else "") for option in dns.get("options", ())
    ]
    return {
        "NetworkMode": HOST_NETWORK if _on_host_network(spec, around) else around.network,
        "ExtraHosts": [*aliases, *(f"{peer}:{_LOOPBACK}" for peer in peers)],
        "Dns": dns.get("nameservers"),
        "DnsSearch": dns.get("searches"),
        "DnsOptions": options,
    }


def _endpoints(pod: Body, around: Surroundings) -> Body:
    """The names of the pod in its network, as a headless Service would give them."""
    hostname, subdomain = pod["spec"].get("hostname"), pod["spec"].get("subdomain")
    if _without_names(pod["spec"], around) or hostname is None:
        return {}
    aliases = [hostname]
    if subdomain is not None:
        namespace = pod["metadata"]["namespace"]
        aliases += _service_names(f"{hostname}.{subdomain}", namespace)
        if is_head(pod["metadata"].get("labels", {})):
            # The Service of a head has one pod, so its name is a name of that.
            aliases += _service_names(subdomain, namespace)
    return {"EndpointsConfig": {around.network: {"Aliases": aliases}}}


def _service_names(name: str, namespace: str) -> list[str]:
    return [name, f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]


def _ports(spec: Body, own: Body, around: Surroundings) -> tuple[Body, Body]:
    """ExposedPorts and PortBindings of the ports that this machine opens."""
    bindings: dict[str, list[Body]] = {}
    for one in own.get("ports", ()) if not _on_host_network(spec, around) else ():
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


def _limits(own: Body, path: str, refusals: Refusals) -> Body:
    """The most, and the share, of CPU and memory; as with Kubernetes a limit is a request where there is none."""
    resources = own.get("resources") or {}
    limits, requests = (
        _amounts(resources.get(kind, {}), f"{path}.resources.{kind}", refusals) for kind in ("limits", "requests")
    )
    memory, cpu = limits.get("memory"), limits.get("cpu")
    asked = requests.get("cpu", cpu)
    for name in sorted(limits.keys() & requests.keys()):
        if requests[name] > limits[name]:
            why = f"at most the limit, {resources['limits'][name]}, is allowed"
            refusals.add(f"{path}.resources.requests.{name}", resources["requests"][name], why)
    return {
        "NanoCpus": math.ceil(cpu * 10**9) if cpu else None,
        "CpuShares": max(2, min(int(asked * 1024), _MOST_SHARES)) if asked else None,
        # Rounded up, because Docker takes 0 for no limit.
        "Memory": math.ceil(memory) if memory else None,
        # Equal: no swap besides, as on a node.
        "MemorySwap": math.ceil(memory) if memory else None,
        "MemoryReservation": math.ceil(requests["memory"]) if requests.get("memory") else None,
    }


def _amounts(quantities: Mapping[str, Any], path: str, refusals: Refusals) -> dict[str, Decimal]:
    """Those of CPU and memory. Devices are assigned elsewhere, and for storage Docker has no limit."""
    found: dict[str, Decimal] = {}
    for name, quantity in quantities.items():
        if (number := amount(quantity)) is None or number < 0:
            refusals.add(f"{path}.{name}", quantity, "a quantity such as 2, 500m or 16Gi is needed")
        elif name in ("cpu", "memory"):
            found[name] = number
        elif name not in (*KINDS, "ephemeral-storage"):
            refusals.add(
                f"{path}.{name}", quantity, f"the local engine knows cpu, memory, ephemeral-storage, {', '.join(KINDS)}"
            )
    return found


def _devices(around: Surroundings, groups: list[str]) -> Body:
    own = around.devices
    return {
        "Devices": [
            {"PathOnHost": mapping.src, "PathInContainer": mapping.dst, "CgroupPermissions": mapping.permissions}
            for mapping in (*own.devices, *around.extra_devices)
        ],
        "DeviceRequests": [dict(request) for request in own.requests],
        "GroupAdd": list(dict.fromkeys([*groups, *map(str, own.groups)])),
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in {**own.ulimits, **around.ulimits}.items()
        ],
    }
