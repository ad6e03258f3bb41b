"""A running cluster: its processes, and the faults that tests and people want to cause in it."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slipway.local_cluster import controlplane, images, nodes, processes, simulated, state
from slipway.local_cluster.addresses import Addresses
from slipway.local_cluster.errors import LocalClusterError
from slipway.local_cluster.kubeapi import KubeApi
from slipway.local_cluster.progress import Progress, Silent, step
from slipway.local_cluster.spec import ClusterSpec, NodePlan
from slipway.local_cluster.state import ClusterState


class NativeCluster:
    """One cluster on this machine. Its methods may be called from several threads and processes."""

    def __init__(self, name: str, progress: Progress | None = None) -> None:
        self.name = name
        self.progress: Progress = progress or Silent()
        self._recording = threading.Lock()
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
            self._api = controlplane.client(self.state)
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

    def launcher(self, found: ClusterState) -> Callable[[str, list[str]], None]:
        """Return what starts a process under a name and writes it down at once."""

        def launch(name: str, command: list[str]) -> None:
            own_flags = found.flags.get(name, ())
            record = processes.start([*command, *own_flags], found.log(name.replace("/", "-")), found.folder)
            with self._recording:
                found.processes[name] = record
                found.save()

        return launch

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

    def preempt(self, *names: str, notice: float = 0.0) -> None:
        """Take nodes away the way a cloud takes spot machines: dead at once, then NotReady, then without a Node object.

        With `notice` the nodes carry GKE's taint of an impending termination for so many seconds before.
        """
        plans = [self.plan(name) for name in names]
        if notice > 0:
            with step(self.progress, f"Announcing the end of {', '.join(names)}"):
                for name in names:
                    nodes.announce(self.api(), name)
                time.sleep(notice)
        with self.editing() as found, step(self.progress, f"Preempting {', '.join(names)}"):
            api = controlplane.client(found)
            real = [plan for plan in plans if plan.kind == "real"]
            nodes.kill(found, real)
            for plan in plans:
                nodes.delete(api, plan.name)
            found.away = sorted({*found.away, *names})
            nodes.clean(found, real)

    def restore(self, *names: str) -> None:
        """Bring nodes back as fresh machines: a new Node with a new UID, Ready, with its TPUs."""
        plans = [self.plan(name) for name in names]
        with self.editing() as found, step(self.progress, f"Restoring {', '.join(names)}"):
            api = controlplane.client(found)
            for plan in plans:
                if plan.name not in found.away and api.find(f"/api/v1/nodes/{plan.name}"):
                    raise LocalClusterError(f"The node {plan.name} is there already.", hint="Preempt it first.")
            simulated.create(api, [plan for plan in plans if plan.kind == "simulated"])
            real = [plan for plan in plans if plan.kind == "real"]
            nodes.start(found, real, api, self.launcher(found), self.progress)
            found.away = sorted(set(found.away) - set(names))

    def stop_kubelet(self, node: str) -> None:
        """Silence a node: it turns NotReady while its containers keep running."""
        plan = self.plan(node)
        with self.editing() as found:
            if plan.kind == "simulated":
                simulated.silence(controlplane.client(found), node)
            else:
                self._stop(found, f"kubelet/{node}", grace=0)

    def start_kubelet(self, node: str) -> None:
        """Undo `stop_kubelet`, and wait until the node is Ready with its TPUs."""
        plan = self.plan(node)
        with self.editing() as found:
            api = controlplane.client(found)
            if plan.kind == "simulated":
                simulated.speak(api, node)
            else:
                nodes.restart_kubelet(found, plan, api, self.launcher(found))

    def stop_api_server(self) -> None:
        """Take the API server away; everything else keeps running."""
        with self.editing() as found:
            self._stop(found, "kube-apiserver", grace=0)

    def start_api_server(self) -> None:
        """Bring the API server back on the same address, and wait until it is ready."""
        with self.editing() as found:
            command = controlplane.api_server_command(found, Addresses(found.number))
            self.launcher(found)("kube-apiserver", command)
            controlplane.await_ready(found, controlplane.client(found))

    def pause(self, process: str) -> None:
        """Stop a process where it stands (`kube-apiserver`, `kubelet/NODE` ...): it hangs, and answers nobody."""
        processes.pause(self._running(process))

    def resume(self, process: str) -> None:
        """Undo `pause`."""
        processes.signal_group(self._running(process), signal.SIGCONT)

    def _running(self, process: str) -> processes.ProcessRecord:
        record = self.state.processes.get(process)
        if record is None or not record.alive():
            known = ", ".join(self.state.processes)
            raise LocalClusterError(
                f"{process} is not running in the cluster {self.name!r}.", hint=f"Running: {known}."
            )
        return record

    def load_images(self, archives: Sequence[Path]) -> None:
        """Load image archives into every real node."""
        with self.editing() as found:
            kept = [images.keep(archive, found.folder) for archive in archives]
            with step(self.progress, f"Loading {', '.join(archive.name for archive in archives)}"):
                nodes.load_images(found, kept)
            found.images = [*found.images, *(path for path in kept if path not in found.images)]

    def _stop(self, found: ClusterState, name: str, grace: float) -> None:
        record = found.processes.get(name)
        if record is None:
            raise LocalClusterError(f"{name} is not running in the cluster {self.name!r}.")
        processes.end([record], grace)
        del found.processes[name]
