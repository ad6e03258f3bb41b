"""The same job is the same on a cluster and on this machine (T-04): each pod of the planner beside its container."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import yaml

from slipway.api.places import Place, worker
from slipway.core.model.parts import Body
from slipway.local.conversion.convert import ContainerRequest, Surroundings, containers
from tests.local.pods import pod
from tests.local.test_expansion import as_the_kubelet
from tests.places import ROOT

EXAMPLES = {path.stem: yaml.safe_load(path.read_text())["spec"] for path in sorted((ROOT / "examples").glob("*.yaml"))}
MORE: dict[str, Body] = {
    "on a GPU": {"accelerator": {"gpu": {"vendor": "nvidia", "count": 2}}, "resources": {"limits": {"cpu": 2}}},
    "on CPUs": {
        "hosts": 3,
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}},
        "shmSize": "512Mi",
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1001},
        "workingDir": "/app",
        "args": ["--rank=$(RANK)", "$$(RANK)", "a b"],
        "env": [{"name": "WHERE", "value": "$(SLIPWAY_SLICE)/$(SLIPWAY_HOST)"}],
    },
    "with directories": {
        "workspace": {"persistentVolumeClaim": {"claimName": "work"}, "mountPath": "/mnt", "local": True},
        "volumes": [{"name": "out", "hostPath": {"path": "/out"}}, {"name": "tmp", "emptyDir": {}}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/scratch"}],
        "output": {"volume": "out", "path": "/results"},
    },
}
RUNS_HERE = EXAMPLES | MORE


def both(spec: Body) -> Iterator[tuple[Body, Body, ContainerRequest]]:
    """Each pod, its worker's container, and the container that it is here."""
    count = spec.get("slices", 1)
    hosts = 2 if "type" in spec.get("accelerator", {}) else spec.get("hosts", 1)
    for place in (worker(index, host) for index in range(count) for host in range(hosts)):
        body = made(place, spec)
        [own] = body["spec"]["containers"]
        yield body, own, containers(body, Surroundings(network="slipway"))[-1]


def made(place: Place, spec: Body) -> Body:
    return pod(place, **({"hosts": None} if "accelerator" in spec else {}), **spec)


@pytest.mark.parametrize("spec", RUNS_HERE.values(), ids=RUNS_HERE.keys())
def test_environment_and_command(spec: Body) -> None:
    for body, own, request in both(spec):
        variables: dict[str, str] = {}
        for one in own["env"]:
            # The fieldRef of a Ray worker is its name.
            value = body["metadata"]["name"] if "valueFrom" in one else one.get("value", "")
            variables[one["name"]] = as_the_kubelet(value, variables)
        assert request.body["Env"] == [f"{name}={value}" for name, value in variables.items()]
        for field, option in (("command", "Entrypoint"), ("args", "Cmd")):
            words = [as_the_kubelet(word, variables) for word in own.get(field, ())]
            assert request.body.get(option, []) == words


@pytest.mark.parametrize("spec", RUNS_HERE.values(), ids=RUNS_HERE.keys())
def test_who_it_is_and_where_it_begins(spec: Body) -> None:
    for body, own, request in both(spec):
        context = {**body["spec"].get("securityContext", {}), **own.get("securityContext", {})}
        user = ":".join(str(context[key]) for key in ("runAsUser", "runAsGroup") if key in context)
        found = request.body
        assert (request.name, found["Labels"]) == (body["metadata"]["name"], body["metadata"]["labels"])
        assert (found["Image"], found["Hostname"]) == (own["image"], body["spec"]["hostname"])
        assert (found.get("User", ""), found.get("WorkingDir")) == (user, own.get("workingDir"))
        assert found["StopTimeout"] == body["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("spec", RUNS_HERE.values(), ids=RUNS_HERE.keys())
def test_mounts(spec: Body) -> None:
    for body, own, request in both(spec):
        volumes = {one["name"]: one for one in body["spec"].get("volumes", ())}
        asked = {one["mountPath"]: of_kubernetes(volumes[one["name"]], one) for one in own.get("volumeMounts", ())}
        # Docker's own has the size of the memory limit.
        own_shm = request.body["HostConfig"].get("Memory") and "/dev/shm" not in asked
        assert of_docker(request.body["HostConfig"]) == asked | ({"/dev/shm": IN_MEMORY} if own_shm else {})


IN_MEMORY = ("tmpfs", "", "", False)


def of_kubernetes(volume: Body, mount: Body) -> tuple[Any, ...]:
    """The kind, the source, the folder in it, and whether it is only read."""
    read_only, below = bool(mount.get("readOnly")), mount.get("subPath", "")
    if "hostPath" in volume:
        return "bind", volume["hostPath"]["path"] + (f"/{below}" if below else ""), "", read_only
    if "persistentVolumeClaim" in volume:
        return "volume", volume["persistentVolumeClaim"]["claimName"], below, read_only
    if "secret" in volume:
        # The token of a Ray cluster, which the engine writes into a volume of the container's own.
        return "volume", "", "", False
    medium = "tmpfs" if volume["emptyDir"].get("medium") == "Memory" else "volume"
    return medium, "", "", read_only


def of_docker(host: Body) -> dict[str, tuple[Any, ...]]:
    """The same of a container, by the path at which it is mounted."""
    found: dict[str, tuple[Any, ...]] = dict.fromkeys(host.get("Tmpfs", {}), IN_MEMORY)
    if "ShmSize" in host:
        found["/dev/shm"] = IN_MEMORY
    for one in host.get("Binds", ()):
        source, target, *words = one.split(":")
        found[target] = ("bind", source, "", words == ["ro"])
    for one in host.get("Mounts", ()):
        options = one.get("VolumeOptions", {})
        kind = options.get("DriverConfig", {}).get("Options", {}).get("type", one["Type"])
        found[one["Target"]] = (kind, one.get("Source", ""), options.get("Subpath", ""), one.get("ReadOnly", False))
    return found


@pytest.mark.parametrize("spec", RUNS_HERE.values(), ids=RUNS_HERE.keys())
def test_limits(spec: Body) -> None:  # N-26
    numbers = {"1500m": Decimal("1.5"), "250m": Decimal("0.25"), "1Gi": Decimal(2**30), 2: Decimal(2)}
    for _, own, request in both(spec):
        limits, host = own.get("resources", {}).get("limits", {}), request.body["HostConfig"]
        assert host.get("NanoCpus", 0) == numbers.get(limits.get("cpu"), 0) * 10**9
        assert host.get("Memory", 0) == host.get("MemorySwap", 0) == numbers.get(limits.get("memory"), 0)
