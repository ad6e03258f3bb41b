"""Machines and their kubelets: containers start, run and end; what the API shows of it comes later, or never."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from slipway.api.names import DRIVER_CONTAINER, WORKER_CONTAINER
from slipway.api.places import Place
from slipway.core.model.container_states import ContainerState, ContainerStatus, Running, Terminated, Waiting
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.pods import ENDED_PHASES
from tests.simulation import pods
from tests.simulation.program import AttemptKey, Ending, Program
from tests.simulation.store import PodRecord
from tests.simulation.timeline import Timer, second
from tests.simulation.truth import Blow, Kind

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

NEVER: Final = float("inf")
RENEWAL: Final = 10.0
"""How often a kubelet renews its Lease, in seconds."""
NOT_LOCATED: Final = Ending(
    137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"
)
LOST_TASK: Final = Ending(255, "Unknown")
"""What containerd says of a container that ran when the machine went down, once it is up again."""
FIRST_PULL_PAUSE: Final = 10.0
LONGEST_PULL_PAUSE: Final = 60.0
"""How long a kubelet waits between two tries to pull an image, in seconds."""


@dataclass(slots=True)
class Container:
    """A worker container on a machine."""

    uid: str
    name: str
    key: AttemptKey
    place: Place
    grace: int
    program: "Program[Container] | None" = None
    running: bool = False
    stopping: bool = False
    started_at: float = 0.0
    ended_at: float | None = None
    ending: Ending | None = None
    pod_reason: tuple[str, str] | None = None
    """Reason and message the kubelet gives the pod when it ends it."""
    disrupted: bool = False
    """Whether the kubelet calls that a disruption, which it does when it has ended."""
    blow: Blow | None = None
    """What its end tells, once it is shown."""
    shown: bool = False
    """Whether the API shows its end."""
    kill: Timer | None = None
    killed_at: float = NEVER
    """When SIGKILL is due."""
    ready: bool = False
    """Whether it is a Ray head that all workers have joined."""
    counts: bool = True
    """Whether no other attempt may run beside it."""


@dataclass(slots=True)
class Machine:
    """A VM with a kubelet."""

    cluster: "Cluster"
    name: str
    pool: str
    rng: random.Random
    tpu: bool
    ahead: float = 0.0
    """By how many seconds the clock of its kubelet is ahead of the API server's."""
    alive: bool = True
    linked: bool = True
    sick_until: float = 0.0
    """Until then its chips are not healthy and pods are refused."""
    taken_until: float = 0.0
    """Until then somebody else uses it."""
    silent_since: float = NEVER
    """Since when its kubelet does not reach the API."""
    hung_until: float = 0.0
    """Until then its kubelet renews its Lease, and takes nothing up and reports nothing of its pods."""
    taken: Callable[[], None] | None = None
    """Takes the VM away, once the cloud has said that it will."""
    down_for_good: bool = False
    """Whether the cloud has taken it away; another may come in its place."""
    containers: dict[str, Container] = field(default_factory=dict)

    @property
    def speaks(self) -> bool:
        """Whether its kubelet runs and reaches the API."""
        return self.alive and self.linked

    @property
    def acts(self) -> bool:
        """Whether its kubelet acts on pods and reports them."""
        return self.speaks and self.cluster.timeline.now >= self.hung_until

    @property
    def renewed_at(self) -> float:
        """When its kubelet last renewed its Lease; each does so at seconds of its own."""
        last = min(self.cluster.timeline.now, self.silent_since)
        return last - (last + sum(map(ord, self.name))) % RENEWAL

    def notice(self, uid: str) -> None:
        """A pod of this machine has changed in the API; the kubelet finds out in a moment."""
        self.cluster.timeline.after(self.rng.uniform(0.03, 0.6), lambda: self.sync(uid, told=True))

    def resync(self) -> None:
        """Look at every pod: after a start, or when the API can be reached again."""
        bound = [one.uid for one in self.cluster.store.pods.values() if one.pod.spec.node_name == self.name]
        for uid in dict.fromkeys((*bound, *self.containers)):
            self.cluster.timeline.after(self.rng.uniform(0.5, 3.0), lambda uid=uid: self.sync(uid))  # type: ignore[misc]

    def sync(self, uid: str, *, told: bool = False) -> None:
        """Bring one pod to where the API wants it, and the API to where the pod is.

        Was the kubelet `told` of a removal without grace, it gives the containers 2 s; real ones were measured.
        """
        if not self.acts:
            return
        record, container = self.cluster.by_uid.get(uid), self.containers.get(uid)
        if record is None:
            self._orphaned(container, told)
        elif record.pod.terminating:
            self._terminate(record, container)
        elif record.pod.status.phase in ENDED_PHASES:
            return
        elif container is None:
            self._admit(record)
        elif container.ending is not None or container.running:
            self.show(container)

    def _orphaned(self, container: Container | None, told: bool) -> None:
        if container is None:
            return
        if container.running:
            self.stop(container, 2.0 if told else container.grace)
        else:
            self.containers.pop(container.uid, None)

    def _terminate(self, record: PodRecord, container: Container | None) -> None:
        if container is not None and container.running:
            self.stop(container, record.pod.metadata.deletion_grace_period_seconds or 0)
            return
        if container is None or container.ending is None:
            container = self.containers[record.uid] = self._new(record)
            self.cluster.found(record.uid)
            container.ending, container.ended_at = NOT_LOCATED, self.cluster.timeline.now
        self.show(container)

    def _admit(self, record: PodRecord) -> None:
        now = self.cluster.timeline.now
        if now < self.sick_until:
            self.cluster.refused(record)
            return
        container = self.containers[record.uid] = self._new(record)
        self._pull(container, FIRST_PULL_PAUSE)

    def _pull(self, container: Container, pause: float) -> None:
        """Start a container once its image is there; ask for that ever less often."""
        record = self.cluster.by_uid.get(container.uid)
        known = self.containers.get(container.uid) is container and self.alive
        if record is None or not known or container.ending is not None:
            return
        if not self.cluster.image_missing(record):
            self.cluster.timeline.after(self.rng.uniform(0.3, 3.0), lambda: self._start(container))
            return
        if self.linked:
            waiting = ContainerState(waiting=Waiting("ImagePullBackOff", "Back-off pulling image"))
            pods.set_status(self.cluster.store, record, container_statuses=(_status(record, waiting),))
        self.cluster.timeline.after(pause, lambda: self._pull(container, min(2 * pause, LONGEST_PULL_PAUSE)))

    def _new(self, record: PodRecord) -> Container:
        labels = record.pod.metadata.labels
        key = (labels.job_uid, record.pod.attempt)
        return Container(record.uid, record.pod.metadata.name, key, record.pod.place, record.grace)

    def _start(self, container: Container) -> None:
        record = self.cluster.by_uid.get(container.uid)
        known = self.containers.get(container.uid) is container and self.alive
        if not known or container.ending is not None or (self.linked and (record is None or record.pod.terminating)):
            return
        now = self.cluster.timeline.now
        self.cluster.found(container.uid)
        container.running, container.started_at = True, now
        container.program = self.cluster.program(container.key)
        self.cluster.say("%s: container of %s runs", self.name, container.name)
        self.cluster.truth.starts(container.key)
        container.program.started(container)
        self.show_soon(container)

    def stop(self, container: Container, grace: float) -> None:
        """SIGTERM, and SIGKILL when its grace is over; a shorter grace brings that forward."""
        timeline = self.cluster.timeline
        if container.kill is not None:
            if container.killed_at <= timeline.now + grace:
                return
            container.kill.cancel()
        container.killed_at = timeline.now + grace
        container.kill = timeline.after(grace, lambda: self.end(container, Ending(137, "Error"), "killed"))
        if container.stopping:
            return
        container.stopping = True
        manner = self.rng.choice(("143", "143", "0", "1", "ignore"))
        if manner != "ignore":
            ending = Ending(int(manner), "Completed" if manner == "0" else "Error")
            timeline.after(self.rng.uniform(0.05, 2.0), lambda: self.end(container, ending, "killed"))

    def end(self, container: Container, ending: Ending, why: str) -> None:
        """A container ends: of its own will, after a peer, or killed."""
        if not container.running or not self.alive:
            return
        if container.kill is not None:
            container.kill.cancel()
        container.running, container.ending, container.ended_at = False, ending, self.cluster.timeline.now
        self.cluster.ended(self, container, ending, why)
        self.show_soon(container)

    def show_soon(self, container: Container) -> None:
        self.cluster.timeline.after(self.rng.uniform(0.05, 1.0), lambda: self.show(container))

    def show(self, container: Container) -> None:
        """Report a container to the API; a pod that is going and has ended is removed there."""
        record = self.cluster.by_uid.get(container.uid)
        if record is None or not self.acts or self.containers.get(container.uid) is not container:
            return
        if container.running:
            running = ContainerState(running=Running(self._dated(container.started_at)))
            pods.set_status(self.cluster.store, record, phase="Running", container_statuses=(_status(record, running),))
            if container.ready:
                pods.add_condition(self.cluster.store, record, pods.condition(self.cluster.store, "Ready"))
            return
        if container.ending is None:
            return
        if not record.pod.ended:
            self._show_end(container, record, container.ending)
        elif record.pod.ending:
            self._show_phase(record, container)
        container.shown = True
        if not (container.disrupted and record.pod.ending):
            self._shown_by(container, record)
        if record.pod.terminating:
            self.cluster.timeline.after(self.rng.uniform(0.02, 1.0), lambda: self._remove(container))

    def _show_end(self, container: Container, record: PodRecord, ending: Ending) -> None:
        # A container that was lost has no time of its end.
        finished = None if ending is NOT_LOCATED or container.ended_at is None else self._dated(container.ended_at)
        started = self._dated(container.started_at) if container.started_at else None
        end = ContainerState(terminated=Terminated(ending.code, ending.reason, ending.message, finished, started))
        if self.rng.random() < 0.3 and record.pod.status.phase == "Running":
            # Kubelets often report the container first and the pod's phase a moment later.
            pods.set_status(self.cluster.store, record, container_statuses=(_status(record, end),))
            self.cluster.timeline.after(self.rng.uniform(0.05, 1.0), lambda: self._show_phase(record, container))
            if self.taken is not None and sum(map(ord, container.name)) % 2:
                # Before the phase is set.
                self.cluster.timeline.after(0.03, self.taken)
        else:
            self._show_phase(record, container, container_statuses=(_status(record, end),))

    def _dated(self, time: float) -> datetime:
        return second(time + self.ahead)

    def _show_phase(self, record: PodRecord, container: Container, **more: object) -> None:
        if self.acts and container.ending is not None and self.cluster.by_uid.get(record.uid) is record:
            reason, message = container.pod_reason or ("", "")
            phase = "Succeeded" if container.ending.code == 0 and not reason else "Failed"
            changes = {"phase": phase, "reason": reason, "message": message, **more}
            if container.disrupted:
                since = self._dated(self.cluster.timeline.now)
                added = PodCondition("DisruptionTarget", "True", "TerminationByKubelet", message, since)
                pods.add_condition(self.cluster.store, record, added, **changes)
                self._shown_by(container, record)
            else:
                pods.set_status(self.cluster.store, record, **changes)

    def _shown_by(self, container: Container, record: PodRecord) -> None:
        """The present version of a pod tells of what ended its container."""
        if container.blow is not None and container.blow.version is None:
            container.blow.version = record.version

    def _remove(self, container: Container) -> None:
        record = self.cluster.by_uid.get(container.uid)
        if record is not None and self.acts and record.pod.terminating and not container.running:
            self.containers.pop(container.uid, None)
            pods.delete(self.cluster.store, record, 0)

    def die(self) -> None:
        """The VM is gone at once: nothing runs, nothing is reported."""
        if not self.alive:
            return
        self.alive = False
        self.silent_since = min(self.silent_since, self.cluster.timeline.now)
        for record in list(self.cluster.store.pods.values()):
            if record.pod.spec.node_name == self.name and record.pod.status.phase not in ENDED_PHASES:
                self.cluster.lost(record)
        for container in list(self.containers.values()):
            if container.running:
                container.running = False
                self.cluster.ended(self, container, LOST_TASK, "lost")

    def hang(self, seconds: float) -> None:
        """Its kubelet is stuck for so long; its containers go on, and its Node stays ready."""
        self.hung_until = self.cluster.timeline.now + seconds
        for record in self.cluster.store.pods.values() if seconds else ():
            if record.pod.spec.node_name == self.name and not record.pod.started:
                self.cluster.not_taken_up(record)
        self.cluster.timeline.after(seconds + 0.01, self.resync)

    def boot(self, *, same_disk: bool) -> None:
        """The VM is up again, with its old containers' remains or with an empty disk."""
        self.alive = self.linked = True
        self.silent_since = NEVER
        now = self.cluster.timeline.now
        if not same_disk:
            self.containers.clear()
        for container in list(self.containers.values()):
            if container.ending is None and container.started_at:
                container.ending, container.ended_at, container.stopping = LOST_TASK, now, False
                container.blow = self.cluster.loss_of(container)
            elif container.ending is None:
                del self.containers[container.uid]
        self.resync()


def _status(record: PodRecord, state: ContainerState) -> ContainerStatus:
    return ContainerStatus(DRIVER_CONTAINER if record.pod.is_head else WORKER_CONTAINER, state)


__all__ = ["Blow", "Container", "Kind", "Machine"]
