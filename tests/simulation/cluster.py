"""The cluster as a whole: its parts, and what they tell each other and the truth."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from slipway.api.places import HEAD, Place
from slipway.api.status import Cause
from tests.simulation import pods
from tests.simulation.machines import Container, Machine
from tests.simulation.program import AttemptKey, Ending, Program, Script
from tests.simulation.ray import RayProgram
from tests.simulation.store import PodRecord, Store
from tests.simulation.timeline import Timeline, second_of
from tests.simulation.truth import Blow, Held, Kind, Truth, Violation

LONGEST_START: Final = 5.0
"""Seconds within which a pod whose image is there is seen to run."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the job of a history asks for."""

    slices: int
    hosts: int
    tpu: str | None
    """Accelerator type; None for CPU hosts."""
    start_seconds: float
    codes: dict[int, Cause]
    """Exit codes with a meaning of their own."""
    ray: bool = False
    """Whether there is a Ray head beside the workers."""
    choices: tuple[int, ...] = field(default=(), repr=False)
    """On how many slices it can run; empty where that is one number only."""

    @property
    def pods(self) -> int:
        """How many pods an attempt has."""
        return self.slices * self.hosts + self.ray

    @property
    def fewest(self) -> "Shape":
        """The same with as few slices as it can run on."""
        return replace(self, slices=min(self.choices, default=self.slices))


@dataclass(slots=True)
class Cluster:
    """Machines, what runs on them, and the API's store."""

    timeline: Timeline
    rng: random.Random
    store: Store
    truth: Truth
    shapes: dict[str, Shape]
    """By name of the job."""
    script: Callable[[AttemptKey], Script]
    """The fate of an attempt, asked for once."""
    say: Callable[..., None]
    """Takes a line of the history: a format and its arguments."""
    machines: dict[str, Machine] = field(default_factory=dict)
    by_uid: dict[str, PodRecord] = field(default_factory=dict)
    programs: dict[AttemptKey, Program[Container]] = field(default_factory=dict)
    slices: dict[AttemptKey, int] = field(default_factory=dict)
    """How many slices each attempt has, of jobs that can run on several numbers of them."""
    images_missing_until: float = 0.0
    _stuck: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By job: the first attempt of those in a row that cannot pull the image, and since when."""
    slack: float = 0.0
    """By how many seconds two dates that API servers and kubelets wrote may be wrong against each other."""
    kubelets_differ: bool = False
    """Whether that is so because the clocks of kubelets differ."""
    wake_scheduler: Callable[[], None] = lambda: None
    on_orphan: Callable[[], None] = lambda: None
    asked_to_go: dict[str, float] = field(default_factory=dict)
    overwritten: list[tuple[str, float]] = field(default_factory=list)
    """UIDs of jobs into whose status a stranger wrote, and when."""
    """When each SliceJob was first deleted, by UID."""

    def name_of(self, uid: str) -> str:
        """The name of the job of that UID."""
        return self.store.job_names[uid]

    def shape_of(self, uid: str) -> Shape:
        """What the job of that UID asks for."""
        return self.shapes[self.name_of(uid)]

    def shape_in(self, key: AttemptKey) -> Shape:
        """What the job of an attempt has in it."""
        shape = self.shape_of(key[0])
        return replace(shape, slices=self.slices[key]) if key in self.slices else shape

    def created(self, record: PodRecord, body: Mapping[str, Any]) -> None:
        """A pod is created, whose variables say how many slices its attempt has.

        Raises:
            Violation: when another pod of the attempt says otherwise, or the job cannot run on so many slices.
        """
        shape, key = self.shape_of(record.owner), (record.owner, record.pod.attempt)
        if not shape.choices:
            return
        slices = pods.workers_told(body) // shape.hosts
        if slices not in shape.choices:
            raise Violation(f"{record.pod.metadata.name} is one of {slices} slices, of which the job can have none")
        if self.slices.setdefault(key, slices) != slices:
            raise Violation(f"{record.pod.metadata.name} is one of {slices} slices, others of {self.slices[key]}")
        if key in self.programs:
            self.programs[key].expected = self.shape_in(key).pods

    def observe_pod(self, kind: str, record: PodRecord) -> None:
        """The store has a new version of a pod; kubelet, scheduler and garbage collector find out."""
        pod = record.pod
        if kind == "DELETED":
            self.by_uid.pop(record.uid, None)
        else:
            self.by_uid[record.uid] = record
        self._say_pod(kind, record)
        self._hold(kind, record)
        machine = self.machines.get(pod.spec.node_name)
        if machine is not None and (kind == "DELETED" or pod.terminating or not pod.status.container_statuses):
            machine.notice(record.uid)
        if kind in ("ADDED", "DELETED") or pod.ended:
            self.wake_scheduler()
        if kind == "ADDED" and record.owner not in self.store.owners():
            self.on_orphan()

    def _hold(self, kind: str, record: PodRecord) -> None:
        pod, now = record.pod, self.timeline.now
        if not pod.spec.node_name or pod.is_head:
            return
        of_job = self.truth.held.setdefault(pod.metadata.labels.job_uid, {})
        held = of_job.setdefault(record.uid, Held(record.uid, pod.attempt, now))
        if kind != "DELETED" and not pod.ended:
            # A machine of the same name may have started its container again.
            held.until = None
        elif held.until is None:
            held.until = now

    def _say_pod(self, kind: str, record: PodRecord) -> None:
        pod = record.pod
        conditions = ",".join(f"{one.type}={one.reason or one.status}" for one in pod.status.conditions)
        worker = pod.worker
        code = worker.terminated.exit_code if worker and worker.terminated else ""
        self.say(
            "  api: pod %s (%s) %s: %s %s%s %s %s",
            pod.metadata.name,
            record.uid,
            kind.lower(),
            pod.status.phase,
            pod.status.reason,
            f"exit {code}" if code != "" else "",
            f"going by {pod.metadata.deletion_timestamp:%H:%M:%S}" if pod.metadata.deletion_timestamp else "",
            conditions,
        )

    def program(self, key: AttemptKey) -> Program[Container]:
        """The program of an attempt, begun with its first container."""
        if key not in self.programs:
            script, shape = self.script(key), self.shape_in(key)
            self.say("attempt %d is going to %s (%s)", key[1], script.will.value, script)
            self.programs[key] = (RayProgram if shape.ray else Program)(
                key,
                shape.pods,
                script,
                self.timeline,
                self.rng,
                self._will,
                lambda: self._named(key[0]),
                self._joined,
            )
        return self.programs[key]

    def _named(self, owner: str) -> bool:
        """Whether a job has its Service."""
        return any(kind == "services" and uid == owner for (kind, _), uid in self.store.dependents.items())

    def _joined(self, head: Container) -> None:
        """The driver of a Ray head is ready: all workers have joined."""
        machine = self.machines.get(self.node_of(head.uid))
        if machine is not None and machine.containers.get(head.uid) is head:
            head.ready = True
            machine.show_soon(head)

    def served(self, owner: str) -> None:
        """A job has its Service: hosts that waited for each other's names go on."""
        for key, program in self.programs.items():
            if key[0] == owner:
                program.meet()

    def _will(self, program: Program[Container], container: Container, ending: Ending, why: str) -> None:
        machine = self.machines.get(self.node_of(container.uid))
        if machine is not None and machine.containers.get(container.uid) is container:
            machine.end(container, ending, why)

    def renewed_at(self, node: str) -> float | None:
        """When the kubelet of a node last renewed its Lease; it is collected soon after its Node is gone."""
        machine, gone = self.machines.get(node), self.store.nodes_gone_at.get(node)
        if machine is None or (node not in self.store.nodes and gone is not None and gone + 3.0 < self.timeline.now):
            return None
        return machine.renewed_at

    def node_of(self, uid: str) -> str:
        record = self.by_uid.get(uid) or self.store.final.get(uid)
        return record.pod.spec.node_name if record else ""

    def ended(self, machine: Machine, container: Container, ending: Ending, why: str) -> None:
        """A container does not run any more, whether or not anybody can know."""
        self.say(
            "%s: container of %s ends: %s (exit %d %s)", machine.name, container.name, why, ending.code, ending.reason
        )
        if container.counts:
            self.truth.stops(container.key)
        self.truth.stopped(container.key[0], container.uid, self.timeline.now)
        clean = why == "will" and ending.code == 0
        if clean:
            self.truth.done.setdefault(container.key, set()).add(container.place)
        elif why in ("will", "peer"):
            kind, cause = self._meaning(container.key, container.place, ending, why)
            container.blow = self.truth.hit(
                container.key, Blow(self.timeline.now, kind, cause, container.place, container.uid, code=ending.code)
            )
        elif container.blow is not None:
            container.blow.time, container.blow.code = self.timeline.now, ending.code
        elif why == "killed" and ending.code not in (0, 137, 143) and machine.ahead < 0:
            blow = Blow(self.timeline.now, Kind.EXIT, Cause.FAILURE, container.place, container.uid, code=ending.code)
            container.blow = self.truth.hit(container.key, blow)
        if container.program is not None:
            container.program.ended(container, clean)

    def _meaning(self, key: AttemptKey, place: Place, ending: Ending, why: str) -> tuple[Kind, Cause]:
        if ending.reason == "OOMKilled":
            return Kind.OOM, Cause.FAILURE
        shape = self.shape_of(key[0])
        kind = Kind.PEER if why == "peer" else Kind.EXIT
        if "vfio" in ending.message and shape.tpu is not None:
            return Kind.NO_TPU, Cause.INFRASTRUCTURE
        # A Ray worker runs nothing of the user's: what its code means is not asked.
        codes = {} if shape.ray and place != HEAD else shape.codes
        return kind, codes.get(ending.code, Cause.FAILURE)

    def hit(self, record: PodRecord, kind: Kind, cause: Cause) -> Blow:
        """Something happens to a pod, and the API shows it by now."""
        key = (record.pod.metadata.labels.job_uid, record.pod.attempt)
        blow = Blow(self.timeline.now, kind, cause, record.pod.place, record.uid, record.version)
        return self.truth.hit(key, blow)

    def found(self, uid: str) -> None:
        """A kubelet takes up a pod; its machine may have been down and be up again under its old Node.

        Nothing in the API tells of it any more, so it only may, and need not, be named as what hit the attempt.
        """
        record = self.by_uid[uid]
        for blow in self._blows(uid, (record.pod.metadata.labels.job_uid, record.pod.attempt)):
            if blow.kind is Kind.LOST and not self._replaced(uid):
                blow.kind = Kind.SILENT

    def loss_of(self, container: Container) -> Blow | None:
        """The death of its machine that ended a container; its end tells of it once the machine is up again."""
        return next((one for one in self._blows(container.uid, container.key) if one.kind is Kind.LOST), None)

    def forgotten(self, node: str) -> None:
        """A Node is deleted: nothing in the API tells of its machine any more.

        Neither that it died, nor that it was the one which refused a pod.
        """
        for record in self.store.pods.values():
            if record.pod.spec.node_name != node or not record.pod.ended:
                continue
            key = (record.pod.metadata.labels.job_uid, record.pod.attempt)
            for blow in self._blows(record.uid, key):
                if blow.kind is Kind.REFUSED:
                    self.truth.hit(key, replace(blow, kind=Kind.LOST, cause=Cause.PREEMPTION, version=None))
                elif blow.kind is Kind.LOST:
                    blow.kind = Kind.SILENT

    def _blows(self, uid: str, key: AttemptKey) -> list[Blow]:
        return [one for one in self.truth.of(key) if one.uid == uid]

    def _replaced(self, uid: str) -> bool:
        record = self.by_uid.get(uid)
        node = self.store.nodes.get(record.pod.spec.node_name) if record else None
        bound = record.pod.condition("PodScheduled") if record else None
        created = node.metadata.creation_timestamp if node else None
        return bool(bound and bound.last_transition_time and created and created > bound.last_transition_time)

    def bound(self, record: PodRecord, machine: Machine) -> None:
        """The scheduler cannot know that a machine is dead or silent while its Node still looks well."""
        if not machine.alive:
            self.lost(record)
        elif not machine.linked:
            self.silent(record)
        elif not machine.acts:
            self.not_taken_up(record)

    def not_taken_up(self, record: PodRecord) -> None:
        """A kubelet that is stuck does not report that a pod runs, and the pod may be late for that."""
        blow, bound_at = self.hit(record, Kind.STUCK, Cause.FAILURE), record.pod.bound_at
        since = min(blow.time, second_of(bound_at) if bound_at is not None else blow.time)
        blow.time = max(blow.time, since + self.shape_of(record.owner).start_seconds - 2.0 - self.slack)

    def unheard(self, container: Container) -> None:
        """A machine is cut off, or its kubelet stuck, when a person has forced a pod of it, and its container goes on.

        Whether its kubelet was told in time, nobody inside the cluster can know for the next 40 s. The person has said
        that it need not be waited for.
        """
        told = container.killed_at <= self.timeline.now + 2.0
        if container.running and container.counts and not told and container.uid not in self.by_uid:
            container.counts = False
            self.truth.stops(container.key)

    def silent(self, record: PodRecord) -> None:
        """The machine of a pod cannot be reached."""
        self.hit(record, Kind.SILENT, Cause.PREEMPTION).version = None

    def lost(self, record: PodRecord) -> None:
        """The machine of a pod died before the API could show the pod's end."""
        self.hit(record, Kind.LOST, Cause.PREEMPTION).version = None

    def refused(self, record: PodRecord) -> None:
        """A kubelet does not take a pod: its chips are not back."""
        message = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices google.com/tpu"
        bound = record.pod.condition("PodScheduled") if record.pod.status.phase == "Pending" else None
        pods.set_status(self.store, record, phase="Failed", reason="UnexpectedAdmissionError", message=message)
        blow = self.hit(record, Kind.REFUSED, Cause.INFRASTRUCTURE)
        key = (record.pod.metadata.labels.job_uid, record.pod.attempt)
        if any(one.kind is Kind.LOST for one in self._blows(record.uid, key)):
            # By the machine that came in place of the one it was bound to.
            return
        if bound is not None and bound.last_transition_time is not None:
            blow.time -= (self.store.second() - bound.last_transition_time).total_seconds()

    def image_missing(self, record: PodRecord) -> bool:
        """Whether the image of a pod cannot be pulled now."""
        key = (record.pod.metadata.labels.job_uid, record.pod.attempt)
        stuck = [one for one in self._blows(record.uid, key) if one.kind is Kind.STUCK]
        if self.timeline.now >= self.images_missing_until:
            # Its container runs a moment later, and what has not hit the attempt by then never will.
            for blow in stuck:
                if blow.time > self.timeline.now + LONGEST_START:
                    self.truth.of(key).remove(blow)
            return False
        if not stuck:
            # Both when it was bound and what time it is are known to the second only.
            blow, since = self.hit(record, Kind.STUCK, Cause.FAILURE), self._stuck_since(key, record.pod.bound_at)
            due = since + self.shape_of(key[0]).start_seconds - 2.0 - self.slack
            blow.time = max(blow.time, due)
        return True

    def _stuck_since(self, key: AttemptKey, bound_at: datetime | None) -> float:
        """Since when no attempt of the job could pull the image; nodes are released in between, and the time counts."""
        uid, attempt = key
        # The time counts from when the last pod of an attempt was bound; kubelets begin a moment later.
        late = (self.store.second() - bound_at).total_seconds() if bound_at is not None else 0.0
        bound = self.timeline.now - max(late, 0.0)
        first, since = self._stuck.setdefault(uid, (attempt, bound))
        # Attempts that only waited for nodes do not tell whether it could.
        if any(self._met((uid, number)) for number in range(first, attempt)):
            first, since = self._stuck[uid] = attempt, bound
        return since if first < attempt else bound

    def _met(self, key: AttemptKey) -> bool:
        """Whether all hosts of an attempt have run."""
        return key in self.programs and self.programs[key].met

    def finish(self) -> None:
        """Programs end, images are there: the end of a history."""
        self.images_missing_until = 0.0
        for program in self.programs.values():
            program.finish()
