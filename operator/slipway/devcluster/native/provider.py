"""Making and removing clusters."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from slipway.devcluster import paths, state
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.interface import Provider
from slipway.devcluster.native import cleanup, controlplane, images, nodes, simulated
from slipway.devcluster.native.addresses import Addresses, choose
from slipway.devcluster.native.cluster import NativeCluster
from slipway.devcluster.programs import binaries, components, packages
from slipway.devcluster.progress import Silent, StepReporter, step
from slipway.devcluster.spec import ClusterSpec
from slipway.devcluster.state import ClusterState


class NativeProvider(Provider):
    """Clusters made of plain processes and namespaces on this Linux machine, without a container engine."""

    def __init__(
        self,
        flags: Mapping[str, Sequence[str]] | None = None,
        programs: Mapping[str, components.Component] = components.COMPONENTS,
    ) -> None:
        """Make clusters of these `programs`, by name; another version of Kubernetes brings its own.

        `flags` are added to those of the components they are named for; measurements tune clusters by them.
        """
        self._flags = {name: list(given) for name, given in (flags or {}).items()}
        self._programs = programs

    def up(self, spec: ClusterSpec, progress: StepReporter | None = None) -> NativeCluster:
        """Make the cluster, or return the one that runs already."""
        progress = progress or Silent()
        check_machine(spec)
        if (existing := self.running(spec)) is not None:
            return existing
        packages.ensure(packages.NODES if spec.nodes("real") else packages.CONTROL_PLANE, progress)
        programs = binaries.ensure(_programs(spec), progress, self._programs)
        with state.locked(spec.name, make=True):
            if (meanwhile := state.load(spec.name)) is not None and meanwhile.phase == "running":
                return _existing(meanwhile, spec, progress)
            if meanwhile is not None:
                state.check_half_made(meanwhile, "native")
                cleanup.stop(spec.name)
                state.clear(spec.name)
            made = ClusterState(spec=spec, binaries=programs, flags=self._flags)
            made.save()
            _create(made, progress)
        return NativeCluster(spec.name, progress)

    def _remove(self, name: str) -> None:
        cleanup.remove(name)

    def running(self, spec: ClusterSpec) -> NativeCluster | None:
        """Return the cluster if it runs already as asked; one that differs or is broken is an error."""
        found = state.load(spec.name)
        return None if found is None or found.phase != "running" else _existing(found, spec, Silent())

    def get(self, name: str) -> NativeCluster:
        """Return a cluster that exists."""
        return NativeCluster(name)

    def alive(self, found: ClusterState) -> dict[str, bool]:
        """Return the cluster's processes, and whether they run."""
        return {process: record.alive() for process, record in found.processes.items()}


def check_machine(spec: ClusterSpec) -> None:
    """Refuse a machine on which the cluster cannot run, before anything is made.

    Raises:
        LocalClusterError: says what is missing.
    """
    if platform.system() != "Linux":
        raise LocalClusterError("Local clusters run on Linux only.", hint="Use a Linux virtual machine.")
    if spec.nodes("real") and os.geteuid() != 0:
        raise LocalClusterError(
            "Real nodes need root, for namespaces and control groups.", hint="Use sudo, or simulated nodes only."
        )
    for folder in (state.cluster_dir(spec.name), paths.cache_dir()):
        if spec.nodes("real") and folder.is_relative_to("/run"):
            raise LocalClusterError(f"{folder} lies under /run, which real nodes replace by their own.")


def _programs(spec: ClusterSpec) -> list[str]:
    kinds = {"simulated": components.SIMULATED, "real": components.REAL}
    return [*components.CONTROL_PLANE, *(name for kind in kinds if spec.nodes(kind) for name in kinds[kind])]  # type: ignore[arg-type]


def _existing(found: ClusterState, spec: ClusterSpec, progress: StepReporter) -> NativeCluster:
    """Return a cluster that runs as asked, or say why it cannot be had."""
    name = spec.name
    state.check_same(found, ClusterState(spec=spec))
    dead = [process for process, record in found.processes.items() if not record.alive()]
    if dead:
        raise LocalClusterError(f"The cluster {name!r} is broken: {', '.join(dead)} ended.", hint=state.again(name))
    return NativeCluster(name, progress)


def _create(made: ClusterState, progress: StepReporter) -> None:
    """Start everything. On a fault nothing keeps running, the logs stay, and `up` can simply be repeated."""
    try:
        _start(made, progress)
    except BaseException:
        cleanup.stop(made.spec.name)
        raise


def _start(made: ClusterState, progress: StepReporter) -> None:
    cluster = NativeCluster(made.spec.name, progress)
    made.images = [images.keep(archive, made.folder) for archive in made.spec.images]
    launch = cluster.launcher(made)
    real, fake = made.spec.nodes("real"), made.spec.nodes("simulated")
    with step(progress, "Starting the control plane"):
        addresses = _claim_addresses(made, launch)
        controlplane.prepare(made, addresses, addresses.host if real else "127.0.0.1")
        api = controlplane.start(made, addresses, launch)
    if fake:
        with step(progress, f"Creating {_count(len(fake), 'simulated node')}"):
            launch("kwok", simulated.command(made, addresses))
            simulated.create(api, fake)
    if real:
        with step(progress, f"Starting {_count(len(real), 'real node')}"):
            nodes.start_services(made, launch)
            nodes.start(made, real, api, launch, progress)
    api.close()
    made.phase = "running"
    made.save()


def _claim_addresses(made: ClusterState, launch: nodes.Launch) -> Addresses:
    """Choose addresses and, if there are real nodes, route them at once, so that nobody else chooses the same."""
    with state.numbering():
        taken = [other.number for name in state.names() if (other := state.readable(name)) is not None]
        real = bool(made.spec.nodes("real"))
        made.number = choose(taken, routed=real).number
        made.save()
        if real:
            nodes.start_router(made, launch)
    return Addresses(made.number)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
