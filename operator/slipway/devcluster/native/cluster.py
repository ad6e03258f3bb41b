"""A running cluster: its processes, and the faults that tests and people want to cause in it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from slipway.devcluster import processes
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.interface import Cluster
from slipway.devcluster.kubeapi import client
from slipway.devcluster.native import chips, controlplane, images, nodes, simulated
from slipway.devcluster.native.addresses import Addresses
from slipway.devcluster.node_objects import delete
from slipway.devcluster.progress import StepReporter, step
from slipway.devcluster.spec import NodePlan
from slipway.devcluster.state import ClusterState


class NativeCluster(Cluster):
    """One cluster of processes and namespaces."""

    def __init__(self, name: str, progress: StepReporter | None = None) -> None:
        super().__init__(name, progress)
        self._recording = threading.Lock()

    def launcher(self, state: ClusterState) -> Callable[[str, list[str]], None]:
        """Return what starts a process under a name and writes it down at once."""

        def launch(name: str, command: list[str]) -> None:
            own_flags = state.flags.get(name, ())
            record = processes.start([*command, *own_flags], state.log(name.replace("/", "-")), state.folder)
            with self._recording:
                state.processes[name] = record
                state.save()

        return launch

    def preempt(self, *names: str, notice: float = 0.0) -> None:
        """End the processes of the nodes, then delete their Node objects."""
        plans = [self.plan(name) for name in names]
        self.announce(names, notice)
        with self.editing() as state, step(self.progress, f"Preempting {', '.join(names)}"):
            api = client(state)
            real = [plan for plan in plans if plan.kind == "real"]
            nodes.kill(state, real)
            for plan in plans:
                delete(api, plan.name)
            state.away = sorted({*state.away, *names})
            nodes.clean(state, real)

    def damage(self, *names: str, numbers: Sequence[int] = ()) -> None:
        """Let the device plugins of the nodes report chips as unhealthy."""
        plans = [self.plan(name) for name in names]
        with self.editing() as state, step(self.progress, f"Breaking chips of {', '.join(names)}"):
            for plan in plans:
                _check_chips(state, plan, numbers)
            for plan in plans:
                chips.damage(state, plan.name, numbers or range(plan.tpus))
            for plan in plans:
                nodes.await_chips(state, plan, self.api())

    def restore(self, *names: str) -> None:
        """Start nodes that are away on new disks, and mend the chips of others."""
        plans = [self.plan(name) for name in names]
        with self.editing() as state, step(self.progress, f"Restoring {', '.join(names)}"):
            api = client(state)
            there = [plan for plan in plans if plan.name not in state.away and api.find(f"/api/v1/nodes/{plan.name}")]
            for plan in there:
                if not chips.broken(state, plan.name):
                    raise LocalClusterError(f"The node {plan.name} is there already, and all its chips are healthy.")
            for plan in there:
                chips.mend(state, plan.name)
                nodes.await_chips(state, plan, api)
            plans = [plan for plan in plans if plan not in there]
            simulated.create(api, [plan for plan in plans if plan.kind == "simulated"])
            real = [plan for plan in plans if plan.kind == "real"]
            nodes.start(state, real, api, self.launcher(state), self.progress)
            state.away = sorted(set(state.away) - set(names))

    def stop_kubelet(self, node: str) -> None:
        """Silence a node: it turns NotReady while its containers keep running."""
        plan = self.plan(node)
        with self.editing() as state:
            if plan.kind == "simulated":
                simulated.silence(client(state), node)
            else:
                self._stop(state, f"kubelet/{node}", grace=0)

    def start_kubelet(self, node: str) -> None:
        """Undo `stop_kubelet`, and wait until the node is Ready with its TPUs."""
        plan = self.plan(node)
        with self.editing() as state:
            api = client(state)
            if plan.kind == "simulated":
                simulated.speak(api, node)
            else:
                nodes.restart_kubelet(state, plan, api, self.launcher(state))

    def stop_api_server(self) -> None:
        """Take the API server away; everything else keeps running."""
        with self.editing() as state:
            self._stop(state, "kube-apiserver", grace=0)

    def start_api_server(self) -> None:
        """Bring the API server back on the same address, and wait until it is ready."""
        with self.editing() as state:
            command = controlplane.api_server_command(state, Addresses(state.number))
            self.launcher(state)("kube-apiserver", command)
            controlplane.await_ready(state, client(state))

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
        with self.editing() as state:
            kept = [images.keep(archive, state.folder) for archive in archives]
            with step(self.progress, f"Loading {', '.join(archive.name for archive in archives)}"):
                nodes.load_images(state, kept)
            # Of two archives with one name of an image the later one counts, also on nodes that come back.
            state.images = [*(path for path in state.images if path not in kept), *dict.fromkeys(kept)]

    def _stop(self, state: ClusterState, name: str, grace: float) -> None:
        record = state.processes.get(name)
        if record is None:
            raise LocalClusterError(f"{name} is not running in the cluster {self.name!r}.")
        processes.end([record], grace)
        del state.processes[name]


def _check_chips(state: ClusterState, plan: NodePlan, numbers: Sequence[int]) -> None:
    """Refuse what cannot be broken."""
    chips.check(plan, numbers)
    if f"kubelet/{plan.name}" not in state.processes:
        raise LocalClusterError(f"The kubelet of {plan.name} does not run.", hint="Restore the node first.")
