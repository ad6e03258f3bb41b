"""What clusters have in common, whatever their nodes are made of, and what makes them."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from slipway.devcluster import state
from slipway.devcluster.errors import ClusterNotFound, LocalClusterError
from slipway.devcluster.kubeapi import KubeApi, client
from slipway.devcluster.node_objects import announce
from slipway.devcluster.progress import Silent, StepReporter, step
from slipway.devcluster.spec import ClusterSpec, NodePlan
from slipway.devcluster.state import ClusterState


class Cluster(ABC):
    """One cluster on this machine. Its methods may be called from several threads and processes."""

    def __init__(self, name: str, progress: StepReporter | None = None) -> None:
        self.name = name
        self.progress: StepReporter = progress or Silent()
        self._api: KubeApi | None = None
        if state.load(name) is None:
            raise state.not_found(name)

    @property
    def state(self) -> ClusterState:
        """What is recorded about the cluster now."""
        found = state.load(self.name)
        if found is None:
            raise LocalClusterError(f"The cluster {self.name!r} is gone.")
        return found

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster was asked to be."""
        return self.state.spec

    @property
    def kubeconfig(self) -> Path:
        """Administrator access."""
        return state.cluster_dir(self.name) / "kubeconfig"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self.state.server

    def api(self) -> KubeApi:
        """Return a client with all rights, the same one each time."""
        if self._api is None:
            self._api = client(self.state)
        return self._api

    def kubectl(self, *arguments: str, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run the cluster's own kubectl; a non-zero exit is an error unless `check` is off."""
        program = self.state.binaries["kubectl"]
        command = [str(program), f"--kubeconfig={self.kubeconfig}", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if check and result.returncode != 0:
            raise LocalClusterError(f"kubectl {' '.join(arguments)} failed: {result.stderr.strip()}")
        return result

    @contextmanager
    def editing(self) -> Iterator[ClusterState]:
        """Hold the cluster for oneself while changing what runs in it."""
        with state.locked(self.name):
            found = self.state
            try:
                yield found
            finally:
                found.save()

    def plan(self, node: str) -> NodePlan:
        """Return what a node is meant to be."""
        for plan in self.spec.nodes():
            if plan.name == node:
                return plan
        known = ", ".join(plan.name for plan in self.spec.nodes()[:8])
        raise LocalClusterError(f"The cluster {self.name!r} has no node {node!r}.", hint=f"Nodes: {known}.")

    def slice_nodes(self, pool: str) -> list[str]:
        """Return the names of all nodes of one node pool."""
        return [plan.name for plan in self.spec.nodes() if plan.pool == pool]

    def announce(self, names: Sequence[str], notice: float) -> None:
        """Taint nodes as GKE does so many seconds before their machines are taken, and wait that long."""
        if notice > 0:
            with step(self.progress, f"Announcing the end of {', '.join(names)}"):
                for name in names:
                    announce(self.api(), name)
                time.sleep(notice)

    @abstractmethod
    def preempt(self, *names: str, notice: float = 0.0) -> None:
        """Take nodes away the way a cloud takes spot machines: dead at once, then NotReady, then without a Node object.

        With `notice` the nodes carry GKE's taint of an impending termination for so many seconds before.
        """

    @abstractmethod
    def restore(self, *names: str) -> None:
        """Bring nodes back as fresh machines: a new Node with a new UID, Ready, with its TPUs.

        Of a node that is there the unhealthy chips become healthy.
        """

    @abstractmethod
    def damage(self, *names: str, numbers: Sequence[int] = ()) -> None:
        """Make chips of real nodes unhealthy, those of the given numbers or all; their pods go on running."""

    @abstractmethod
    def load_images(self, archives: Sequence[Path]) -> None:
        """Load image archives into every real node."""


class Provider(ABC):
    """Somewhere that clusters can be made."""

    @abstractmethod
    def up(self, spec: ClusterSpec, progress: StepReporter | None = None) -> Cluster:
        """Make the cluster, or return the one that runs already."""

    @abstractmethod
    def running(self, spec: ClusterSpec) -> Cluster | None:
        """Return the cluster if it runs already as asked; one that differs or is broken is an error."""

    def down(self, name: str, progress: StepReporter | None = None) -> bool:
        """Remove the cluster and all that belongs to it; False when there was none."""
        if not state.cluster_dir(name).exists():
            return False
        # Who waits for another `down` finds nothing left to do.
        with step(progress or Silent(), f"Removing cluster {name}"), suppress(ClusterNotFound), state.locked(name):
            self._remove(name)
        return True

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove all that belongs to a cluster, and its folder, which is locked."""

    @abstractmethod
    def get(self, name: str) -> Cluster:
        """Return a cluster that exists."""

    @abstractmethod
    def alive(self, found: ClusterState) -> dict[str, bool]:
        """Return what the cluster is made of, and whether it runs."""
