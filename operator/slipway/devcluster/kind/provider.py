"""Making and removing clusters of containers."""

from __future__ import annotations

from contextlib import suppress

import yaml

from slipway.devcluster import state
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.interface import Provider
from slipway.devcluster.kind import configuration, credentials, machines
from slipway.devcluster.kind.cluster import KindCluster
from slipway.devcluster.kind.programs import NEEDED, PROGRAMS, check_engine, engine_id, run
from slipway.devcluster.programs import binaries
from slipway.devcluster.progress import Silent, StepReporter, step
from slipway.devcluster.spec import ClusterSpec
from slipway.devcluster.state import ClusterState

CREATE_SECONDS = 1800.0
"""A node image of a gigabyte may have to be pulled."""
CONFIGURATION = "kind.yaml"
"""File in a cluster's folder with what kind is asked for; it also tells a cluster of containers from others."""


class KindProvider(Provider):
    """Clusters made by kind in the Docker engine that the command `docker` leads to."""

    def __init__(self, node_image: str = "") -> None:
        """Make nodes of this image; without one, of the image that kind pulls."""
        self._node_image = node_image

    def up(self, spec: ClusterSpec, progress: StepReporter | None = None) -> KindCluster:
        """Make the cluster, or return the one that runs already."""
        progress = progress or Silent()
        _check(spec)
        if (existing := self.running(spec)) is not None:
            return existing
        check_engine()
        programs = binaries.ensure(NEEDED, progress, PROGRAMS)
        made = ClusterState(
            spec=spec, provider="kind", node_image=self._node_image, engine=engine_id(), binaries=programs
        )
        with state.locked(spec.name, make=True):
            if (meanwhile := state.load(spec.name)) is not None:
                if meanwhile.phase == "running":
                    return self._existing(meanwhile, spec)
                state.check_half_made(meanwhile, "kind")
                machines.check_engine_of(meanwhile)
                machines.remove(spec.name)
                state.clear(spec.name)
            elif machines.exist(spec.name):
                state.remove(spec.name)
                raise LocalClusterError(
                    f"The engine has a kind cluster {spec.name!r} that Slipway has not made.",
                    hint=f"Choose another name, or `kind delete cluster --name {spec.name}`.",
                )
            made.save()
            _create(made, progress)
        return KindCluster(spec.name, progress)

    def running(self, spec: ClusterSpec) -> KindCluster | None:
        """Return the cluster if it runs already as asked; one that differs or is broken is an error."""
        found = state.load(spec.name)
        return None if found is None or found.phase != "running" else self._existing(found, spec)

    def _remove(self, name: str) -> None:
        if (found := state.readable(name)) is not None:
            machines.check_engine_of(found)
        machines.remove(name)
        state.remove(name)

    def get(self, name: str) -> KindCluster:
        """Return a cluster that exists."""
        return KindCluster(name)

    def alive(self, found: ClusterState) -> dict[str, bool]:
        """Return the cluster's containers, but for those of preempted nodes, and whether they run."""
        try:
            machines.check_engine_of(found)
            running = machines.running(found.spec.name)
        except LocalClusterError:
            running = set()
        of_nodes = configuration.containers(found.spec)
        wanted = [configuration.control_plane(found.spec)]
        wanted += [container for node, container in of_nodes.items() if node not in found.away]
        return {container: container in running for container in wanted}

    def _existing(self, found: ClusterState, spec: ClusterSpec) -> KindCluster:
        state.check_same(found, ClusterState(spec=spec, provider="kind", node_image=self._node_image))
        machines.check_engine_of(found)
        dead = [container for container, alive in self.alive(found).items() if not alive]
        if dead:
            hint = state.again(spec.name)
            raise LocalClusterError(f"The cluster {spec.name!r} is broken: {', '.join(dead)} ended.", hint=hint)
        return KindCluster(spec.name)


def _check(spec: ClusterSpec) -> None:
    if spec.nodes("simulated"):
        raise LocalClusterError(
            "The provider kind has real nodes only.", hint="Use --real, or --provider native for simulated nodes."
        )
    if spec.node_grace_seconds is not None:
        raise LocalClusterError("node_grace_seconds is for the provider native.")


def _create(made: ClusterState, progress: StepReporter) -> None:
    """Start everything. On a fault nothing keeps running, and `up` can simply be repeated."""
    name, plans = made.spec.name, made.spec.nodes("real")
    config = made.folder / CONFIGURATION
    config.write_text(yaml.safe_dump(configuration.of(made.spec), sort_keys=False))
    command = [str(made.binaries["kind"]), "create", "cluster", "--name", name, "--config", str(config)]
    command += ["--kubeconfig", str(made.kubeconfig), "--wait", "5m"]
    command += ["--image", made.node_image] if made.node_image else []
    try:
        with step(progress, f"Creating {len(plans) + 1} containers with kind"):
            run(command, CREATE_SECONDS, made.log("kind"))
        made.server = credentials.keep(made)
        made.save()
        with step(progress, "Giving the nodes their chips"):
            cluster, of_nodes = KindCluster(name, progress), configuration.containers(made.spec)
            for plan in plans:
                if plan.tpus:
                    machines.put_chips(made, plan, of_nodes[plan.name])
            for plan in plans:
                cluster.await_ready(plan)
        if made.spec.images:
            with step(progress, "Loading images"):
                machines.load(made, made.spec.images)
        made.phase = "running"
        made.save()
    except BaseException:
        # Whatever went wrong first is what people have to see.
        with suppress(LocalClusterError):
            machines.remove(name)
        raise
