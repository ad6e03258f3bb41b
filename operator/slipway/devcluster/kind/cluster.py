"""A running cluster of containers: its nodes, and the faults that people want to cause in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slipway.devcluster import processes
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.interface import Cluster
from slipway.devcluster.kind import configuration, machines
from slipway.devcluster.native import chips
from slipway.devcluster.node_objects import delete, healthy_tpus, is_ready
from slipway.devcluster.progress import step
from slipway.devcluster.spec import NodePlan
from slipway.devcluster.state import ClusterState

READY_SECONDS = 120.0


class KindCluster(Cluster):
    """One cluster in a Docker engine."""

    @contextmanager
    def editing(self) -> Iterator[ClusterState]:
        """Hold the cluster for oneself, unless it is in another engine."""
        with super().editing() as state:
            machines.check_engine_of(state)
            yield state

    def preempt(self, *names: str, notice: float = 0.0) -> None:
        """Kill the containers of the nodes, then delete their Node objects."""
        containers = [self._container(name) for name in names]
        self.announce(names, notice)
        with self.editing() as state, step(self.progress, f"Preempting {', '.join(names)}"):
            for name, container in zip(names, containers, strict=True):
                if name not in state.away:
                    machines.kill(container)
                    state.away = sorted({*state.away, name})
            for name in names:
                delete(self.api(), name)

    def restore(self, *names: str) -> None:
        """Start the containers of nodes that are away, which register anew, and mend the chips of others."""
        plans = [self.plan(name) for name in names]
        with self.editing() as state, step(self.progress, f"Restoring {', '.join(names)}"):
            for plan in plans:
                if plan.name not in state.away and not self._broken(plan):
                    raise LocalClusterError(f"The node {plan.name} is there already, and all its chips are healthy.")
            for plan in plans:
                change = machines.start if plan.name in state.away else machines.mend
                change(self._container(plan.name))
            for plan in plans:
                self.await_ready(plan)
            state.away = sorted(set(state.away) - set(names))

    def damage(self, *names: str, numbers: Sequence[int] = ()) -> None:
        """Let the device plugins of the nodes report chips as unhealthy."""
        plans = [self.plan(name) for name in names]
        with self.editing() as state, step(self.progress, f"Breaking chips of {', '.join(names)}"):
            for plan in plans:
                chips.check(plan, numbers)
                if plan.name in state.away:
                    raise LocalClusterError(f"The node {plan.name} is away.", hint="Restore the node first.")
            for plan in plans:
                machines.damage(self._container(plan.name), numbers or range(plan.tpus))
            for plan in plans:
                healthy = plan.tpus - len(set(numbers or range(plan.tpus)))
                self._await(lambda plan=plan, healthy=healthy: self._offered(plan) <= healthy, plan, "count its chips")  # type: ignore[misc]

    def load_images(self, archives: Sequence[Path]) -> None:
        """Load image archives into every node that runs."""
        with self.editing() as state, step(self.progress, f"Loading {', '.join(archive.name for archive in archives)}"):
            machines.load(state, archives)

    def await_ready(self, plan: NodePlan) -> None:
        """Wait until a node is Ready with its chips."""
        path = f"/api/v1/nodes/{plan.name}"
        self._await(lambda: is_ready(self.api().find(path)), plan, "become Ready")
        self._await(lambda: self._offered(plan) == plan.tpus, plan, "count its chips")

    def _container(self, node: str) -> str:
        self.plan(node)
        return configuration.containers(self.spec)[node]

    def _offered(self, plan: NodePlan) -> int:
        return healthy_tpus(self.api().find(f"/api/v1/nodes/{plan.name}"))

    def _broken(self, plan: NodePlan) -> bool:
        return self._offered(plan) < plan.tpus

    def _await(self, holds: Callable[[], bool], plan: NodePlan, what: str) -> None:
        if not processes.wait_until(holds, READY_SECONDS, 0.5):
            container = self._container(plan.name)
            raise LocalClusterError(
                f"The node {plan.name} did not {what} within {READY_SECONDS:.0f} s.",
                hint=f"See `docker logs {container}` and `docker exec {container} journalctl --unit kubelet`.",
            )
