"""What is checked and fetched before a job begins: nothing of it costs a retry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slipway.api import names
from slipway.api.resources import amount
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.validation.acceptance import accept, pod_factory
from slipway.local.cancellation import Waiting
from slipway.local.containers.containers import as_engine_errors, network_exists
from slipway.local.conversion.containers_of_pod import all_containers, own_containers, worker_of
from slipway.local.conversion.convert import (
    HOST_NETWORK,
    NETWORKS_WITHOUT_NAMES,
    ContainerRequest,
    containers,
    problems,
)
from slipway.local.conversion.devices import KINDS, WHICHEVER, Assigned, DeviceMapping, GpuChoice, Inventory, Shortage
from slipway.local.engine.address import Address, connect
from slipway.local.images.building import lay_over
from slipway.local.images.pulls import resolve
from slipway.local.jobs import job_files
from slipway.local.jobs.job_files import JobExists, folder
from slipway.local.jobs.options import Options, extended_resources
from slipway.local.supervisor.cache import SETTINGS, read
from slipway.local.supervisor.container_context import surroundings
from slipway.local.supervisor.supervisor import ensure_supervisor
from slipway.local.supervisor.workspaces import WorkspaceRefused, make_directories

if TYPE_CHECKING:
    from docker import APIClient


class Refused(ValueError):
    """The job cannot run on this machine; nothing was stored or pulled."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says beside the manifest."""

    network: str | None = None
    """A Docker network that exists; None for one of the job's own."""
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    devices: tuple[DeviceMapping, ...] = ()
    without_devices: bool = False
    gpus: GpuChoice = WHICHEVER
    profile: Mapping[str, Any] | None = None
    """A SliceJobProfile: its `name` and its `spec`."""
    overlay: Path | None = None
    """A folder to lay over the working directory of the image."""

    def options(self, engine: Address, images: Mapping[str, str], overlaid: str = "") -> Options:
        """The same for an engine, with the ids of the images that it has, and of the one that is laid over."""
        return Options(
            engine=engine,
            network=self.network,
            images=images,
            ulimits=self.ulimits,
            devices=self.devices,
            without_devices=self.without_devices,
            gpus=self.gpus,
            overlaid=overlaid,
            profile=self.profile,
        )


NO_WISHES: Final = Wishes()
_PODMAN: Final = "Podman Engine"
_WORKER: Final = f"spec.containers[{names.WORKER_CONTAINER}]"
_EVERY_ADDRESS: Final = "0.0.0.0"
_WITHOUT_DEVICES: Final = "--without-devices tries the job without them"


def bodies(job: Job) -> list[Body]:
    """The pods of the first attempt of a job: its workers, then its Ray head if it has one.

    Raises:
        Refused: when the spec cannot be accepted.
    """
    if job.spec is None:
        raise Refused(job.problem)
    try:
        asked = accept(job, SETTINGS)
        places = asked.runtime.places(job.granted, asked.resolved.hosts)
        factory = pod_factory(job, SETTINGS)
        return [factory.pod(0, place) for place in sorted(places, key=lambda one: (one.is_head, one))]
    except InvalidSpec as error:
        raise Refused(error.message) from error


def check(body: Mapping[str, Any], wishes: Wishes = NO_WISHES) -> list[Body]:
    """The pods of a manifest, all of which can be containers of this machine.

    Raises:
        Refused: naming what cannot, with the reason.
    """
    if unfit := names.name_problem(body["metadata"].get("name")):
        raise Refused(unfit)
    job = _as_stored(body, wishes)
    named = job.written.profile if job.written is not None else None
    if named is not None and (wishes.profile is None or wishes.profile["name"] != named):
        raise Refused(f"spec.profile {named!r}: give the file of that SliceJobProfile with --profile")
    if not wishes.without_devices:
        _refuse_gpus_of_nobody(job)
    asked = bodies(job)
    if wishes.network is not None:
        _check_network(wishes.network, job, asked)
    # All workers have the same fields; a head has some of its own.
    if found := dict.fromkeys(words for body in (asked[0], asked[-1]) for words in problems(body)):
        raise Refused("; ".join(found))
    _refuse_shared_ports(asked, on_host=wishes.network == HOST_NETWORK)
    if not wishes.without_devices:
        resolved = accept(job, SETTINGS)
        if resolved.hardware.own_pool:
            hosts = resolved.resolved.hosts
            raise Refused(
                f"a slice of {resolved.resolved.type} is {hosts} machines, and this is one; --without-devices tries "
                "the job without TPU chips"
            )
        _refuse_devices_elsewhere(Address.configured(), asked)
        _assigned(asked, wishes)
    return asked


def _refuse_shared_ports(asked: Sequence[Body], *, on_host: bool) -> None:
    """Each host of a cluster has ports of its own. On the network of this machine Docker opens none."""
    known: dict[tuple[int, str], set[str]] = {}
    for path, port in chain.from_iterable(_host_ports(one["spec"]) for one in asked if not on_host):
        address = port.get("hostIP") or _EVERY_ADDRESS
        others = known.setdefault((port["hostPort"], port.get("protocol", "TCP")), set())
        if others and (address in others or _EVERY_ADDRESS in {address, *others}):
            raise Refused(
                f"{path}.hostPort {port['hostPort']}: several containers of the job ask for this port, and this "
                "machine has it once; the hosts reach each other without it"
            )
        others.add(address)


def _host_ports(spec: Body) -> Iterator[tuple[str, Body]]:
    """The ports of a pod that this machine is to open, each after where it stands."""
    for path, container in _containers(spec) if not spec.get("hostNetwork") else ():
        yield from ((f"{path}.ports", port) for port in container.get("ports", ()) if port.get("hostPort"))


def _containers(spec: Body) -> Iterator[tuple[str, Body]]:
    """The containers of a pod, each after where it stands."""
    for kind in ("initContainers", "containers"):
        yield from ((f"spec.{kind}[{one['name']}]", one) for one in spec.get(kind, ()))


def _refuse_gpus_of_nobody(job: Job) -> None:
    """Which vendor's GPUs are meant need not be asked where there are none."""
    asked = job.spec.accelerator if job.spec is not None else None
    if asked is not None and asked.gpu is not None and Address.configured().is_here and not Inventory.read().gpus:
        raise Refused(f"spec.accelerator.gpu: this machine has no GPUs; {_WITHOUT_DEVICES}")


def _refuse_devices_elsewhere(address: Address, asked: Sequence[Body]) -> None:
    """Slipway chooses devices by the device nodes that it sees, and those are of this machine."""
    wanted = sorted({name for one in asked for name in extended_resources(one) if name in KINDS})
    if wanted and not address.is_here:
        raise Refused(
            f"{', '.join(wanted)}: the engine at {address.words} may be another machine's, whose devices Slipway does "
            f"not see: submit the job on that machine; {_WITHOUT_DEVICES}"
        )


def _assigned(asked: Sequence[Body], wishes: Wishes) -> Sequence[Assigned]:
    """The devices of each pod, as if no job used any."""
    try:
        return wishes.options(Address(), {}).assigned(Inventory.read(), asked, {})
    except Shortage as error:
        raise Refused(f"{error}; {_WITHOUT_DEVICES}") from error


def _check_network(network: str, job: Job, asked: Sequence[Body]) -> None:
    if job.spec is not None and job.spec.ray is not None and network == HOST_NETWORK:
        raise Refused(
            "--network host beside spec.ray: all Ray nodes listen on the same ports of this machine, and every client "
            "that connects to this machine could connect to them; leave the option out, or name a network of Docker"
        )
    on_host = asked[0]["spec"].get("hostNetwork")
    if network in NETWORKS_WITHOUT_NAMES and len(asked) > 1 and not on_host:
        raise Refused(
            f"--network {network} beside {len(asked)} hosts: they could not find each other there; leave the option "
            "out, or name a network that docker network create has made"
        )


def submit(body: Mapping[str, Any], wishes: Wishes = NO_WISHES, waiting: Waiting | None = None) -> dict[str, Any]:
    """Store a job, leave a process behind that looks after it, and return the SliceJob as it is stored.

    Raises:
        GivenUp: when nobody waits any more; nothing was stored.
        Refused: when it cannot run on this machine.
        ImageUnavailable: when an image is missing and cannot be pulled.
        EngineUnavailable: when there is no engine to talk to.
        ImageBuildError: when the folder cannot be laid over the image.
        EngineLost: when it stops to answer.
        JobExists: when a job has the name, whatever it is like.
    """
    waiting = waiting or Waiting()
    asked = check(body, wishes)
    job = folder(body["metadata"]["name"])
    if job.is_there:
        raise JobExists(job.name)
    address = Address.configured()
    api = connect(address)
    try:
        _refuse_missing_devices(address, wishes)
        if wishes.network not in (None, HOST_NETWORK) and not network_exists(api, str(wishes.network)):
            raise Refused(f"there is no Docker network {wishes.network}: docker network create {wishes.network}")
        _refuse_more_cpus(api, asked, body["spec"])
        make_directories(api, asked[0])
        images = _images(api, asked, waiting)
        _refuse_nothing_to_run(api, asked, images)
        overlaid = ""
        if wishes.overlay is not None:
            own = worker_of(asked[0]["spec"])["image"]
            overlaid = images[own]
            images |= {own: lay_over(api, overlaid, wishes.overlay, waiting)}
    except WorkspaceRefused as error:
        raise Refused(str(error)) from error
    finally:
        api.close()
    with waiting.storing():
        made = job.create(dict(body), {"options": wishes.options(address, images, overlaid).to_json()})
        ensure_supervisor(job)
    return made


_OPTIONS: Final = {
    "network": "--network",
    "ulimits": "--ulimit",
    "devices": "--device",
    "without_devices": "--without-devices",
    "gpus": "--gpus",
    "profile": "--profile",
}
"""The option that says what a field of Options is."""


def other_options(body: Mapping[str, Any], wishes: Wishes, waiting: Waiting) -> list[str]:
    """The options in which a job that exists differs from what is wished for it; an overlay by its files."""
    stored = Options.from_json(folder(body["metadata"]["name"]).read()["local"]["options"])
    wished = wishes.options(stored.engine, stored.images)
    found = [option for name, option in _OPTIONS.items() if getattr(stored, name) != getattr(wished, name)]
    if bool(stored.overlaid) != (wishes.overlay is not None):
        found.append("--overlay")
    elif wishes.overlay is not None:
        own = worker_of(check(body, wishes)[0]["spec"])["image"]
        with closing(connect(stored.engine)) as api:
            if lay_over(api, stored.overlaid, wishes.overlay, waiting) != stored.images.get(own):
                found.append("--overlay")
    return found


def _images(api: APIClient, asked: list[Body], waiting: Waiting) -> dict[str, str]:
    found: dict[str, str] = {}
    for body in asked:
        for container in all_containers(body["spec"]):
            if container["image"] not in found:
                found[container["image"]] = resolve(api, container["image"], container.get("imagePullPolicy"), waiting)
    return found


def _refuse_missing_devices(address: Address, wishes: Wishes) -> None:
    """An engine would refuse every attempt. What another machine has is not known."""
    if not address.is_here:
        return
    for device in wishes.devices:
        if not Path(device.src).exists():
            raise Refused(f"this machine has no device {device.src}")


def _refuse_more_cpus(api: APIClient, asked: list[Body], written: Mapping[str, Any]) -> None:
    """Docker makes no container with more CPUs than there are, however often it is asked; Podman does."""
    # All workers have the same containers; a head has some of its own.
    limits = {
        path: limit
        for path, container in chain.from_iterable(_containers(one["spec"]) for one in (asked[0], asked[-1]))
        if (limit := (container.get("resources") or {}).get("limits", {}).get("cpu")) is not None
    }
    if not limits:
        return
    with as_engine_errors():
        if any(component["Name"] == _PODMAN for component in api.version().get("Components") or ()):
            return
        there = api.info()["NCPU"]
    for path, limit in limits.items():
        if (amount(limit) or 0) > there:
            own = path == _WORKER and limit == (written.get("resources") or {}).get("limits", {}).get("cpu")
            field = f"{'spec' if own else path}.resources.limits.cpu"
            raise Refused(f"{field} {limit}: a container can have at most the {there} CPUs of the engine")


def _refuse_nothing_to_run(api: APIClient, asked: list[Body], images: Mapping[str, str]) -> None:
    """An engine makes no container without a command, however often it is asked."""
    # All workers have the same containers; a head has some of its own.
    for container in (one for body in (asked[0], asked[-1]) for one in all_containers(body["spec"])):
        words = container.get("command")
        if not words:
            with as_engine_errors():
                own = api.inspect_image(images[container["image"]])["Config"] or {}  # type: ignore[no-untyped-call]
            if own.get("Entrypoint"):
                continue
            words = container.get("args") or own.get("Cmd")
        if not words:
            raise Refused(
                f"container {container['name']} has no command, and neither has its image {container['image']}: "
                "set spec.command"
            )
        if not words[0]:
            raise Refused(
                f"the first word of the command of container {container['name']} is empty, and names no program: "
                "set spec.command"
            )


def rendered(body: Mapping[str, Any], wishes: Wishes = NO_WISHES) -> list[ContainerRequest]:
    """The containers of the first attempt as the engine is asked for them; nothing is asked (E1-17, T-39).

    Raises:
        Refused: when a field cannot be a container's, or a host is several containers.
    """
    asked = check(body, wishes)
    job = _as_stored(body, wishes)
    for part, _ in chain.from_iterable(own_containers(one["spec"]) for one in asked):
        raise Refused(
            f"container {part.name}: one docker command starts one container; slipway local submit starts all"
        )
    on_host = job.spec is not None and job.spec.host_network
    network = HOST_NETWORK if on_host else wishes.network or f"slipway-{job.name}"
    around = surroundings(job, accept(job, SETTINGS).resolved, wishes.options(Address(), {}), network)
    return [
        request
        for one, devices in zip(asked, _assigned(asked, wishes), strict=True)
        for request in containers(one, replace(around, devices=devices))
    ]


def _as_stored(body: Mapping[str, Any], wishes: Wishes) -> Job:
    about = {"uid": "-", "resourceVersion": "0", "generation": 1} | dict(body["metadata"])
    local = {"options": {"profile": wishes.profile}}
    return read(dict(body) | {"metadata": about | {"namespace": job_files.NAMESPACE}, "local": local})
