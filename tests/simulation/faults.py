"""What can go wrong with machines and pods."""

import math
from collections.abc import Callable
from itertools import chain
from typing import Final

from slipway.api import names
from slipway.api.status import Cause
from slipway.core.model.nodes import Node, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.pods import ENDED_PHASES
from slipway.core.planner.contract.snapshot import SKEW
from tests.simulation import pods
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import Controllers
from tests.simulation.machines import NEVER, Container, Machine
from tests.simulation.program import Ending
from tests.simulation.store import PodRecord, replace
from tests.simulation.truth import Kind

NOTICE_SECONDS: Final = 25.0
"""What a spot notice leaves the pods; then the machine goes."""
SOON_SECONDS: Final = SKEW.total_seconds() + 1.0
NODE_SHUTDOWN: Final = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
LOW_ON_MEMORY: Final = ("Evicted", "The node was low on resource: memory.")
OVER_OWN_LIMIT: Final = ("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.")

SLOW: Final = ((1.0, 30.0), (30.0, 300.0))
QUICK: Final = ((0.1, 0.5), (0.1, 0.5), (1.0, 300.0))
"""Seconds without a VM after a Node has gone: as a rule, and where another comes sooner than lists are answered."""


class Faults:
    """Does harm, and tells the truth about it."""

    def __init__(self, cluster: Cluster, controllers: Controllers) -> None:
        self._cluster = cluster
        self._controllers = controllers
        self._store = cluster.store
        self._timeline = cluster.timeline
        self._rng = cluster.rng
        self._named = 0
        self.vacancies: tuple[tuple[float, float], ...] = SLOW
        self.calm = False
        """Whether the end of the history has come: machines come back at once, and healthy."""

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Every harm with its weight."""
        return {
            "spot": (4.0, lambda: self._to_machine(self.spot)),
            "notice": (2.0, lambda: self._to_machine(self.notice)),
            "reboot": (1.0, lambda: self._to_machine(self.reboot)),
            "silence": (1.5, lambda: self._to_machine(self.silence)),
            "out of service": (0.5, lambda: self._to_machine(self.out_of_service)),
            "unregister": (0.5, lambda: self._to_machine(self.unregister)),
            "evict": (1.5, lambda: self._to_pod(self.evict)),
            "priority": (1.0, lambda: self._to_pod(self.preempt)),
            "delete": (1.5, lambda: self._to_pod(self.delete)),
            "force": (0.5, lambda: self._to_pod(self.force)),
            "impatience": (0.5, self.impatience),
            "pressure": (0.7, lambda: self._to_pod(self.pressure)),
            "over limit": (0.7, lambda: self._to_pod(self.over_limit)),
            "oom": (1.0, lambda: self._to_pod(self.oom)),
            "exit": (1.5, lambda: self._to_pod(self.exit)),
            "images": (0.5, self.images),
            "shortage": (1.0, self.shortage),
        }

    def _to_machine(self, harm: Callable[[Machine], None]) -> None:
        busy = {record.pod.spec.node_name for record in self._store.pods.values() if not record.pod.ended}
        speaking = [machine for machine in self._cluster.machines.values() if machine.speaks]
        chosen = [machine for machine in speaking if machine.name in busy] or speaking
        if chosen:
            machine = self._rng.choice(chosen)
            self._cluster.say("fault: %s hits %s", harm.__name__, machine.name)
            harm(machine)

    def _to_pod(self, harm: Callable[[PodRecord, Machine], None], *, terminating: bool = False) -> None:
        """Do harm to a running pod that nobody has deleted; with `terminating`, to one that somebody has deleted."""
        found = []
        for record in self._store.pods.values():
            machine = self._cluster.machines.get(record.pod.spec.node_name)
            if machine is None or not machine.speaks or record.pod.ended:
                continue
            container = machine.containers.get(record.uid)
            asked = record.pod.terminating or (container is not None and container.stopping)
            if container is not None and container.running and asked is terminating:
                found.append((record, machine))
        if found:
            record, machine = self._rng.choice(found)
            self._cluster.say("fault: %s hits pod %s", harm.__name__, record.pod.metadata.name)
            harm(record, machine)

    def spot(self, machine: Machine) -> None:
        """The VM is taken at once; later its Node goes, and perhaps another VM takes the place."""
        self._take_down(machine)
        wait = self._rng.choice((self._rng.uniform(2.0, 20.0), self._rng.uniform(20.0, 120.0)))
        self._timeline.after(wait, lambda: self._replace(machine))

    def _take_down(self, machine: Machine) -> None:
        # Nothing dates the death of a machine whose Node goes: it may have been what their statuses do not tell.
        for record in self._ended_unseen(machine):
            self._cluster.silent(record)
        machine.die()
        self._controllers.silent(machine)

    def _replace(self, machine: Machine) -> None:
        if machine.alive or self._cluster.machines.get(machine.name) is not machine:
            return
        machine.down_for_good = True
        self._controllers.forget_node(machine.name)
        self._timeline.after(self._vacancy(), lambda: self._come_anew(machine))

    def _vacancy(self) -> float:
        """Seconds without a VM after a Node has gone."""
        wait = self._rng.choice([self._rng.uniform(*span) for span in self.vacancies])
        return min(wait, 20.0) if self.calm else wait

    def _come_anew(self, old: Machine) -> None:
        """Another VM, under the old name or a new one."""
        if self._cluster.machines.get(old.name) is not old:
            return
        name = old.name
        if self._rng.random() < 0.5:
            self._named += 1
            name = f"{old.pool}-x{self._named}"
            del self._cluster.machines[old.name]
        self._cluster.say("machine %s comes in place of %s", name, old.name)
        machine = Machine(self._cluster, name, old.pool, self._rng, old.tpu, old.ahead)
        if machine.tpu and not self.calm and self._rng.random() < 0.25:
            machine.sick_until = self._timeline.now + self._rng.uniform(5.0, 400.0)
        self._controllers.register(machine)
        self._settle_in(machine)

    def _settle_in(self, machine: Machine) -> None:
        """The kubelet of a new machine starts pods only when network and devices are there."""
        self._timeline.after(self._rng.uniform(2.0, 20.0), machine.resync)

    def notice(self, machine: Machine) -> None:
        """A spot notice: pods get some seconds, the kubelet says why, then the VM goes."""
        node = self._store.nodes.get(machine.name)
        if node is None:
            return
        if self._rng.random() < 0.7:
            taint = Taint(names.TAINT_IMPENDING_TERMINATION, "NoSchedule", self._store.second())
            node = replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))
        self._store.put_node(
            _not_ready(
                node, PodCondition("Ready", "False", "KubeletNotReady", "node is shutting down", self._store.second())
            )
        )
        for record in filter(self._just_asked, self._ended_unseen(machine)):
            self._cluster.silent(record)
        for record in [one for one in self._store.pods.values() if one.pod.spec.node_name == machine.name]:
            container = machine.containers.get(record.uid)
            if record.pod.ended:
                continue
            if container is None or not container.running:
                if container is None or container.ending is None:
                    self._cluster.silent(record)
                continue
            if not container.stopping:
                self._evict(record, container, NODE_SHUTDOWN)
            elif self._just_asked(record):
                self._cluster.silent(record)
            machine.stop(container, self._rng.choice((15.0, NOTICE_SECONDS)))
        wait = self._rng.choice((NOTICE_SECONDS + 2.0, self._rng.uniform(1.0, NOTICE_SECONDS)))
        machine.taken = lambda: self.spot(machine) if machine.alive else None
        self._timeline.after(wait, machine.taken)

    def _ended_unseen(self, machine: Machine) -> list[PodRecord]:
        """Pods of a machine that have ended, and whose status says ContainerStatusUnknown."""
        known = chain(self._store.pods.values(), self._store.final.values())
        here = (one for one in known if one.pod.spec.node_name == machine.name)
        return [one for one in here if one.pod.ended and one.pod.termination_unobserved]

    def _just_asked(self, record: PodRecord) -> bool:
        """Whether what happens now may, by the clocks of two API servers, have come before the attempt ended."""
        return self._timeline.now - self._store.asked_at.get(record.uid, -math.inf) < SOON_SECONDS

    def reboot(self, machine: Machine) -> None:
        """A host error: the VM restarts by itself under the same Node."""
        self._take_down(machine)
        same_disk = self._rng.random() < 0.7
        shortest = 20.0 if same_disk else 60.0

        def up() -> None:
            down = not machine.alive and not machine.down_for_good
            if down and self._cluster.machines.get(machine.name) is machine:
                self._cluster.say("machine %s is up again", machine.name)
                machine.boot(same_disk=same_disk)
                self._controllers.back(machine)
                self._timeline.after(self._rng.uniform(0.5, 3.0), lambda: self._controllers.ready(machine))

        seconds = self._rng.uniform(shortest, 200.0)
        # Some are repaired first.
        self._timeline.after(seconds if seconds < 150.0 else 2 * seconds, up)

    def silence(self, machine: Machine) -> None:
        """The machine is cut off; its containers go on. Then it is back, or it dies after all.

        Not while its Node is deleted: who deletes the Node of a machine that nobody hears says that it is dead.
        """
        if machine.name not in self._store.nodes:
            return
        machine.linked = False
        machine.silent_since = self._timeline.now
        self._controllers.silent(machine)
        for container in machine.containers.values():
            self._cluster.unheard(container)
        for record in self._store.pods.values():
            own = machine.containers.get(record.uid)
            # A pod whose containers have terminated looks lost until its kubelet has set the phase.
            if record.pod.spec.node_name == machine.name and record.pod.status.phase not in ENDED_PHASES:
                self._cluster.silent(record)
                if own is not None and own.program is not None and self._rng.random() < 0.6:
                    own.program.deserted(own)
        wait = self._rng.choice((self._rng.uniform(5.0, 60.0), self._rng.uniform(60.0, 400.0)))
        act = self.heal if self._rng.random() < 0.7 else self.spot
        self._timeline.after(wait, lambda: act(machine) if machine.alive and not machine.linked else None)

    def hang(self) -> None:
        """The kubelet of a machine with pods is stuck for minutes; then it goes on, or the machine is lost."""

        def stuck(machine: Machine) -> None:
            if machine.name not in self._store.nodes:
                return
            seconds = self._rng.choice((self._rng.uniform(30.0, 250.0), self._rng.uniform(250.0, 600.0)))
            machine.hang(seconds)
            for container in machine.containers.values():
                self._cluster.unheard(container)
            if self._rng.random() < 0.7:
                self._timeline.after(self._rng.uniform(0.2, 1.0) * seconds, lambda: self._lose(machine))

        self._to_machine(stuck)

    def _lose(self, machine: Machine) -> None:
        """A machine goes as machines do, or a person says that it is off."""
        if machine.alive and not self.calm and self._cluster.machines.get(machine.name) is machine:
            self._rng.choice((self.spot, self.out_of_service, self.reboot))(machine)

    def heal(self, machine: Machine) -> None:
        """A silent machine is heard of again."""
        self._cluster.say("machine %s is heard of again", machine.name)
        machine.linked = True
        machine.silent_since = NEVER
        machine.resync()
        self._controllers.ready(machine)

    def out_of_service(self, machine: Machine) -> None:
        """A machine is off, and somebody says so."""
        self._take_down(machine)

        def taint() -> None:
            node = self._store.nodes.get(machine.name)
            if node is None or machine.alive or self._cluster.machines.get(machine.name) is not machine:
                return
            added = Taint(names.TAINT_OUT_OF_SERVICE, "NoExecute", self._store.second())
            self._store.put_node(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, added))))
            self._timeline.after(self._rng.uniform(30.0, 300.0), lambda: self._replace(machine))

        self._timeline.after(self._rng.uniform(55.0, 120.0), taint)

    def unregister(self, machine: Machine) -> None:
        """Somebody deletes the Node object of a machine that lives; its kubelet registers again when it restarts.

        Until then the kubelet goes on reporting, so that what ends there may look like any other end. Who deletes the
        Node of a machine whose kubelet is stuck says that it is dead, so that does not happen here.
        """
        if not machine.acts:
            return
        for record in self._store.pods.values():
            if record.pod.spec.node_name == machine.name and record.pod.status.phase not in ENDED_PHASES:
                self._cluster.silent(record)
        self._controllers.forget_node(machine.name)

        def restart() -> None:
            here = self._cluster.machines.get(machine.name) is machine and machine.speaks
            if here and machine.name not in self._store.nodes:
                self._controllers.register(machine)
                machine.resync()

        self._timeline.after(self._rng.uniform(0.5, 120.0), restart)

    def evict(self, record: PodRecord, machine: Machine) -> None:
        """The eviction API, as kubectl drain uses it."""
        pods.disrupt(self._store, record, "EvictionByEvictionAPI", "Eviction API: evicting")
        self._cluster.hit(record, Kind.DISRUPTED, Cause.PREEMPTION)
        pods.delete(self._store, record, self._rng.choice((None, 1)))

    def preempt(self, record: PodRecord, machine: Machine) -> None:
        """A pod of higher priority takes the host for a while."""
        pods.disrupt(self._store, record, "PreemptionByScheduler", "preempting to accommodate a higher priority pod")
        self._cluster.hit(record, Kind.DISRUPTED, Cause.PREEMPTION)
        pods.delete(self._store, record)
        self._occupy(machine)

    def _occupy(self, machine: Machine) -> None:
        seconds = self._rng.uniform(5.0, 200.0)
        machine.taken_until = self._timeline.now + seconds
        self._timeline.after(seconds + 0.01, self._controllers.schedule_soon)

    def delete(self, record: PodRecord, machine: Machine) -> None:
        """Kubectl delete pod."""
        pods.delete(self._store, record, self._rng.choice((None, None, 1)))
        self._cluster.hit(record, Kind.DELETED, Cause.PREEMPTION)

    def force(self, record: PodRecord, machine: Machine) -> None:
        """Kubectl delete pod --force: it leaves the API at once, and its kubelet has yet to terminate it."""
        self._remove(record, machine)
        self._cluster.hit(record, Kind.DELETED, Cause.PREEMPTION)

    def _remove(self, record: PodRecord, machine: Machine) -> None:
        pods.delete(self._store, record, 0)
        container = machine.containers.get(record.uid)
        if container is not None and not machine.acts:
            self._cluster.unheard(container)

    def impatience(self) -> None:
        """For ten minutes somebody forces every pod that is terminating: no end of theirs is reported."""

        for seconds in range(600):
            self._timeline.after(seconds + self._rng.random(), lambda: self._to_pod(self._remove, terminating=True))

    def delete_unbound(self, record: PodRecord) -> None:
        """A controller deletes a new pod that has no node yet.

        It is created again. Who sees its peers crash first cannot know whether it had run.
        """
        if not record.pod.spec.node_name and self._store.pods.get(record.pod.metadata.name) is record:
            pods.delete(self._store, record)
            self._cluster.silent(record)

    def pressure(self, record: PodRecord, machine: Machine) -> None:
        """The node is low on memory, and the kubelet chooses this pod."""
        container = machine.containers[record.uid]
        self._evict(record, container, LOW_ON_MEMORY)
        machine.stop(container, self._rng.uniform(0.0, 2.0))

    def _evict(self, record: PodRecord, container: Container, why: tuple[str, str]) -> None:
        """A kubelet is about to end a pod; it says so together with the final phase."""
        container.pod_reason, container.disrupted = why, True
        container.blow = self._cluster.hit(record, Kind.DISRUPTED, Cause.PREEMPTION)
        container.blow.version = None

    def over_limit(self, record: PodRecord, machine: Machine) -> None:
        """The pod has used more disk than it may."""
        container = machine.containers[record.uid]
        container.pod_reason = OVER_OWN_LIMIT
        machine.stop(container, self._rng.uniform(0.0, 2.0))
        container.blow = self._cluster.hit(record, Kind.OVER_LIMIT, Cause.FAILURE)
        container.blow.version = None

    def oom(self, record: PodRecord, machine: Machine) -> None:
        """The kernel kills the program."""
        machine.end(machine.containers[record.uid], Ending(137, "OOMKilled"), "will")

    def exit(self, record: PodRecord, machine: Machine) -> None:
        """The program fails by itself."""
        code = self._rng.choice((1, 1, 2, 137, 143, *self._cluster.shape_of(record.owner).codes))
        machine.end(machine.containers[record.uid], Ending(code, "Error", "RuntimeError: preempted"), "will")

    def images(self) -> None:
        """The registry is down for a while."""
        self._cluster.images_missing_until = self._timeline.now + self._rng.uniform(10.0, 300.0)

    def shortage(self) -> None:
        """Somebody else takes hosts that are free."""
        used = {record.pod.spec.node_name for record in self._store.pods.values() if not record.pod.ended}
        for machine in self._cluster.machines.values():
            if machine.name not in used and self._rng.random() < 0.7:
                self._occupy(machine)

    def end_all(self) -> None:
        """Machines come back, and nobody else wants them."""
        self.calm = True
        for machine in list(self._cluster.machines.values()):
            machine.sick_until = machine.taken_until = 0.0
            if machine.hung_until > self._timeline.now:
                machine.hang(0.0)
            if machine.speaks and machine.name not in self._store.nodes:
                self._controllers.register(machine)
            if not machine.alive:
                self._timeline.after(self._rng.uniform(5.0, 60.0), lambda gone=machine: self._replace(gone))  # type: ignore[misc]
            elif not machine.linked:
                self.heal(machine)
        self._controllers.schedule_soon()


def _not_ready(node: Node, condition: PodCondition) -> Node:
    return replace(node, status=replace(node.status, conditions=(condition,)))
