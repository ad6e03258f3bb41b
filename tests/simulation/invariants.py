"""What must hold after every write of a status, and at the end."""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from slipway.api.places import Place
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Cause, ConditionType, Phase, SliceJobStatus
from slipway.core.model.nodes import Node
from slipway.core.model.pods import NEVER, Pod
from slipway.core.planner.contract.snapshot import SKEW
from slipway.core.vocabulary.endings import (
    FEWER_SLICES,
    IMAGE_UNAVAILABLE,
    PREEMPTED_BY_QUEUE,
    REFUSED_BY_NODE,
    START_TIMEOUT,
    STOPPED_BY_QUEUE,
    UNWITNESSED,
    ending_of,
)
from tests.simulation import versions
from tests.simulation.accounts import BLUR, check_chips, check_time
from tests.simulation.cluster import Cluster
from tests.simulation.ends import check_end, check_pause, check_root, check_start
from tests.simulation.oracle import allowed
from tests.simulation.store import SECRET, PodRecord
from tests.simulation.timeline import moment, second_of
from tests.simulation.truth import OUTRANKED, Blow, Kind, require
from tests.simulation.words import check_counts, check_words
from tests.stories.printing import written

MAX_STATUS_BYTES: Final = 32_768
MAX_WRITES_A_MINUTE: Final = 60
ON_REQUEST: Final = {"Suspended": "suspend", "Cancelled": "cancel", "DeadlineExceeded": "active_deadline_seconds"}
PLACED_SECONDS: Final = 60.0
"""For so long a pod has a node before who counts them has to know."""
_EVENTS: Final = {
    Cause.FAILURE: "AttemptFailed",
    Cause.PREEMPTION: "AttemptPreempted",
    Cause.INFRASTRUCTURE: "AttemptLostToInfrastructure",
    Cause.UNCHARGED: "AttemptEnded",
}
LATE_SECONDS: Final = 240.0
"""A machine that is lost so long after the end of an attempt has not caused it."""
EVENT_SECONDS: Final = 60.0
LAST_SECONDS: Final = 100.0
"""Simulated seconds after the end of all jobs within which all is told and done that they are owed."""


@dataclass(slots=True)
class Ledger:
    """What has been written of one job so far."""

    status: SliceJobStatus = field(default_factory=SliceJobStatus)
    charges: dict[int, Cause] = field(default_factory=dict)
    writes: list[float] = field(default_factory=list)
    waited: set[int] = field(default_factory=set)
    """Attempts that only waited for nodes, which need not stay in the history."""
    tried: set[int] = field(default_factory=set)
    """Attempts that did not only wait: they stay in the history for ever."""
    no_image_since: datetime | None = None
    """When the first attempt ended of those in a row that could not pull the image."""
    charged: dict[int, Attempt] = field(default_factory=dict)
    """Attempts as they were in the status last."""
    writer: str = ""
    """The process that wrote last."""
    emptied: bool = False
    """Whether somebody has emptied the status since then."""
    misled: set[int] = field(default_factory=set)
    """Attempts that ended while a pod looked lost because its news had not come."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an Event has to tell of: a phase, or why an attempt ended."""

    uid: str
    reason: str
    who: str
    at: float
    about: str = ""
    """How its message begins."""


@dataclass(slots=True)
class Invariants:
    """Watches over the statuses of a history."""

    cluster: Cluster
    noticed: Callable[[str, Blow], bool]
    """Called with a process's name and a blow: whether it must know of it."""
    unseen: Callable[..., list[PodRecord]]
    """Called with a process, a job's UID, an attempt and, where it is not the present, the second of its decision: pods
    whose newest version the process has not been shown."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    news: list[Told] = field(default_factory=list)
    final: dict[str, Phase] = field(default_factory=dict)
    evictions: dict[str, list[str]] = field(default_factory=dict)
    """Reasons for which Kueue has evicted each job so far, by UID."""
    watched_nodes: Callable[[str, float], bool] = lambda who, time: True
    """Called with a process's name and a second: whether it had watched the nodes for some time by then."""
    offered: Callable[[str], int | None] = lambda uid: None
    """For how many pods a job in a queue is admitted, by its UID; None where it is not."""
    secret: str = SECRET
    """What may stand in no status."""
    meddled: bool = False
    """Whether somebody wrote into a status: the record of attempts has to stay, but whether charges are right cannot be
    asked any more, for the operator knows them from the status only."""

    def status_written(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        """A process has written a status."""
        uid = after["metadata"]["uid"]
        ledger = self.ledgers.setdefault(uid, Ledger())
        new = read(after["status"])
        if ledger.emptied and who != ledger.writer and new.attempt != ledger.status.attempt:
            # It never saw what was there, and begins anew.
            ledger.status = SliceJobStatus()
        ledger.emptied, ledger.writer = False, who
        old = ledger.status
        kept = versions.FIELD not in before.get("status", {}) or versions.FIELD in after["status"]
        require(kept, "a field that a newer version wrote is gone")
        spec = SliceJobSpec.model_validate(after["spec"])
        self._say(who, old, new)
        written = msgspec.json.encode(after["status"])
        require(len(written) <= MAX_STATUS_BYTES, "the status is too big")
        require(not self.secret or self.secret.encode() not in written, "a secret of the profile is in the status")
        self._not_too_often(ledger)
        _finality(old, new)
        ledger.waited |= {one.number for one in new.attempts if one.end_time is not None and not ending_of(one).a_try}
        _numbering(old, new, ledger)
        self._slices(uid, new)
        if not self.meddled:
            self._accounts(who, uid, spec, new)
            _conditions(old, new)
            self._words(uid, after["metadata"]["generation"], old, new)
            self._suspended(who, uid, new)
            self._times(who, after["metadata"], old, new)
            self._as_many_as_offered(uid, old, new)
        self._success(uid, new)
        if new.phase is not old.phase and new.phase is not None:
            self.news.append(Told(uid, new.phase.value, who, self.cluster.timeline.now))
            if new.phase.final:
                self.final[uid] = new.phase
        ledger.status = new

    def _words(self, uid: str, generation: int, old: SliceJobStatus, new: SliceJobStatus) -> None:
        earlier, now = self.ledgers[uid].writes[-2:-1], moment(self.cluster.timeline.now)
        written = moment(earlier[0]) if earlier else None, now
        check_words(old, new, generation, written, self._skewed)
        key = (uid, new.attempt if new.attempt is not None else -1)
        shape, program = self.cluster.shape_in(key), self.cluster.programs.get(key)
        check_counts(new, program.members.keys() if program is not None else (), shape.hosts, shape.pods)

    def _suspended(self, who: str, uid: str, new: SliceJobStatus) -> None:
        """Where condition Suspended is True no pod may run that the process has been shown as it is."""
        one = new.condition(ConditionType.SUSPENDED)
        if one is None or one.status != "True":
            return
        mine = [one for one in self.cluster.store.pods.values() if one.owner == uid and one.pod.may_run]
        unseen = {one.uid for number in {one.pod.attempt for one in mine} for one in self.unseen(who, uid, number)}
        left = [one.pod.metadata.name for one in mine if one.uid not in unseen]
        require(not left, f"it is suspended and holds nothing, is said, and {left} may run")

    def _slices(self, uid: str, new: SliceJobStatus) -> None:
        """A job has one of the numbers of slices that it can have."""
        shape, counts = self.cluster.shape_of(uid), new.slices
        if counts is not None:
            right = counts.granted in (shape.choices or (shape.slices,)) and counts.requested == shape.slices
            require(right, f"slices are {counts}, and may be {shape.choices or shape.slices}")

    def _as_many_as_offered(self, uid: str, old: SliceJobStatus, new: SliceJobStatus) -> None:
        """An attempt has as many slices as there is quota for, or as many as the last one where nodes lack."""
        shape = self.cluster.shape_of(uid)
        if not shape.choices or new.attempt == old.attempt or new.slices is None:
            return
        pods, granted = self.offered(uid), new.slices.granted
        most = shape.slices if pods is None else (pods - shape.ray) // shape.hosts
        if len(new.attempts) == 1 or not ending_of(new.attempts[1]).keeps_slices:
            require(granted == most, f"attempt {new.attempt} has {granted} slices of {most}")
        elif new.attempts[1].reason == FEWER_SLICES.reason:
            most_placed = max((one for one in shape.choices if one <= self._placed(uid, new.attempts[1])), default=0)
            right = most_placed <= granted <= most
            require(right, f"attempt {new.attempt} has {granted} slices of {most}, and {most_placed} had nodes")
        elif old.phase is not Phase.SUSPENDED and old.slices is not None:
            kept = min(old.slices.granted, most)
            require(granted == kept, f"attempt {new.attempt} has {granted} slices, and had {kept}")

    def _placed(self, uid: str, attempt: Attempt) -> int:
        """How many slices of an attempt had had nodes for some time when it ended."""
        shape, long_ago = self.cluster.shape_of(uid), moment(self.cluster.timeline.now - PLACED_SECONDS)
        if attempt.end_time is not None:
            # Pods that stay while nobody leads may get the nodes of their peers.
            long_ago = min(long_ago, attempt.end_time - timedelta(seconds=BLUR))
        bound: Counter[int] = Counter()
        for one in self.cluster.store.pods.values():
            mine = one.owner == uid and one.pod.attempt == attempt.number and not one.pod.is_head
            if mine and one.pod.bound_at is not None and one.pod.bound_at < long_ago:
                bound[one.pod.place.slice] += 1
        if shape.tpu is not None and shape.hosts > 1:
            return sum(count == shape.hosts for count in bound.values())
        return (sum(bound.values()) - shape.ray) // shape.hosts

    def meddled_with(self, job: dict[str, Any]) -> None:
        """Somebody has written into the status: whose accounts are wrong from now on nobody can say.

        A status that was emptied is written again as it was, by the process that wrote it.
        """
        self.meddled = True
        ledger = self.ledgers.setdefault(job["metadata"]["uid"], Ledger())
        ledger.emptied = not job["status"]
        if not ledger.emptied:
            ledger.status = read(job["status"])

    def _accounts(self, who: str, uid: str, spec: SliceJobSpec, new: SliceJobStatus) -> None:
        """Every ended attempt is charged once, to a right cause, and nothing that was written changes."""
        ledger = self.ledgers[uid]
        old = ledger.status
        if new.attempts and new.attempts[0].end_time is not None:
            self._misled(uid, who, new.attempts[0].number)
        for attempt in new.attempts:
            self._history_stays(attempt, old)
            if attempt.cause is not None and ending_of(attempt).a_try:
                ledger.tried.add(attempt.number)
                ledger.charged[attempt.number] = attempt
            if attempt.cause is not None and attempt.number not in ledger.charges:
                ledger.charges[attempt.number] = attempt.cause
                self._charge(uid, who, attempt, spec)
                check_root(attempt, self.cluster.name_of(uid))
                about = f"attempt {attempt.number} ("
                self.news.append(Told(uid, _EVENTS[attempt.cause], who, self.cluster.timeline.now, about))
        self._history_complete(uid, new)
        _counters(new, ledger.charges)
        if not old.final:
            # The spec of a job that is over may change all the same.
            check_end(new, spec, moment(self.cluster.timeline.now), self._skewed)
        check_start(old, new)
        if old.attempt is not None and new.attempt != old.attempt:
            check_pause(new, spec)

    def _times(self, who: str, metadata: dict[str, Any], old: SliceJobStatus, new: SliceJobStatus) -> None:
        """The ledger accounts for the time of the job and of its chips."""
        created, uid = datetime.fromisoformat(metadata["creationTimestamp"]), metadata["uid"]
        check_time(created, old, new, moment(self.cluster.timeline.now), self._slack)
        self._chips(who, uid, created, old, new)

    def _chips(self, who: str, uid: str, created: datetime, old: SliceJobStatus, new: SliceJobStatus) -> None:
        numbers = {one.attempt for one in self.cluster.truth.held.get(uid, {}).values()}
        # A write that is refused is sent again as it was decided, whatever the watch showed meanwhile.
        assert new.ledger is not None
        decided = second_of(new.ledger.until) - self._slack
        unseen = {record.uid for number in numbers for record in self.unseen(who, uid, number, decided)}
        check_chips(created, old, new, self.cluster.truth.held.get(uid, {}).values(), unseen | self._undated(uid))

    @property
    def _slack(self) -> float:
        """How far a date that an operator writes may be from the true time: it sets its clock by whole seconds."""
        return self.cluster.slack + 1.0

    @property
    def _skewed(self) -> float:
        """The same where answers take seconds, from which no operator can tell that its clock is ahead by less."""
        return self._slack + SKEW.total_seconds()

    def _undated(self, uid: str) -> set[str]:
        """Pods of the job that have ended, and the end of whose container the API does not date.

        Their kubelet does not know the container any more, or the garbage collector of pods ended them.
        """
        store = self.cluster.store
        ours = (one for one in (*store.pods.values(), *store.final.values()) if one.pod.metadata.labels.job_uid == uid)
        return {one.uid for one in ours if one.pod.ended and not _dated(one.pod)}

    def _say(self, who: str, old: SliceJobStatus, new: SliceJobStatus) -> None:
        for line in written(old, new):
            self.cluster.say("%s %s", who, line)

    def _not_too_often(self, ledger: Ledger) -> None:
        now = self.cluster.timeline.now
        ledger.writes = [*(one for one in ledger.writes if one > now - 60.0), now]
        require(len(ledger.writes) <= MAX_WRITES_A_MINUTE, f"{len(ledger.writes)} status writes in a minute")

    def _history_stays(self, attempt: Attempt, old: SliceJobStatus) -> None:
        was = next((one for one in old.attempts if one.number == attempt.number), None)
        if was is None:
            return
        for name in ("cause", "end_time", "running_time", "start_time"):
            earlier = getattr(was, name)
            require(
                earlier is None or earlier == getattr(attempt, name),
                f"attempt {attempt.number}: {name} changed from {earlier} to {getattr(attempt, name)}",
            )

    def histories_complete(self) -> None:
        """Whatever was ever charged is still to be found, of every job there was."""
        for uid, ledger in self.ledgers.items():
            self._history_complete(uid, ledger.status)

    def _history_complete(self, uid: str, new: SliceJobStatus) -> None:
        lacking = self.ledgers[uid].tried - {attempt.number for attempt in new.attempts}
        lacking -= self._kept(uid) if lacking else set()
        require(not lacking, f"attempts {sorted(lacking)} are neither in the status nor in a page of the history")

    def _kept(self, uid: str) -> set[int]:
        """Attempts in the pages of a job, as they were in its status."""
        pages = [content for (owner, _), (_, content) in self.cluster.store.pages.items() if owner == uid]
        packed = (base64.b64decode(one) for page in pages for one in page.values())
        kept = [one for page in packed for one in json.loads(gzip.decompress(page))]
        found = {one.number: one for one in read({"attempts": kept}).attempts}
        known = self.ledgers[uid].charged
        changed = [number for number, one in found.items() if known.get(number, one) != one]
        require(self.meddled or not changed, f"attempts {changed} are in the history as they were in no status")
        return set(found)

    def _charge(self, uid: str, who: str, attempt: Attempt, spec: SliceJobSpec) -> None:
        self._image(uid, attempt, spec)
        asked = ON_REQUEST.get(attempt.reason or "")
        if asked is not None:
            require(bool(getattr(spec, asked)), f"attempt {attempt.number} ended {attempt.reason} without request")
            require(attempt.cause is Cause.UNCHARGED, f"attempt {attempt.number} was charged for {attempt.reason}")
            return
        if attempt.reason == UNWITNESSED.reason:
            require(attempt.running_time is None, f"attempt {attempt.number} ran, and is said to be unwitnessed")
            require(attempt.cause is Cause.UNCHARGED, f"attempt {attempt.number} was charged without a witness")
            return
        if attempt.reason in (PREEMPTED_BY_QUEUE.reason, STOPPED_BY_QUEUE.reason):
            self._charge_by_queue(uid, attempt)
            return
        if not ending_of(attempt).a_try:
            require(attempt.running_time is None, f"attempt {attempt.number} ran, and let go of its capacity")
            require(attempt.cause is Cause.UNCHARGED, f"attempt {attempt.number} was charged for letting go")
            return
        blows = [
            blow for blow in self.cluster.truth.of((uid, attempt.number)) if blow.time <= self.cluster.timeline.now
        ]
        right = self._right(uid, who, attempt, blows)
        # Stopped on request, it was judged before the fence had closed: late evidence of a death may not be there yet,
        # so that whatever the death would have explained away may be named.
        stopped = spec.cancel or spec.active_deadline_seconds is not None
        if stopped and any(blow.kind is Kind.LOST for blow in blows):
            right |= {Cause.FAILURE, *(blow.cause for blow in blows if blow.kind in OUTRANKED)}
        require(
            attempt.cause in right,
            f"attempt {attempt.number} is charged as {attempt.cause} ({attempt.reason}: {attempt.message}); right is "
            f"{sorted(right) or 'nothing, for nothing hit it'}; hit by {'; '.join(map(_told, blows))}",
        )

    def _right(self, uid: str, who: str, attempt: Attempt, blows: list[Blow]) -> set[Cause]:
        """Causes that are right, by what hit the attempt and by what can be known of it."""
        blows = [blow for blow in blows if not self._too_late(who, attempt, blow)]
        right = allowed(
            blows,
            lambda blow: self.noticed(who, blow),
            self.cluster.slack,
            kubelets_differ=self.cluster.kubelets_differ,
        )
        if self._misled(uid, who, attempt.number):
            right.add(Cause.PREEMPTION)
        if attempt.reason == "NodeLost" and any(blow.code in (137, 143) for blow in blows):
            right.add(Cause.PREEMPTION)
        # It was removed before its kubelet reported an end, and its node is gone: nobody knows which was first.
        if attempt.reason == "NodeLost" and self._removed_unreported(uid, attempt):
            right.add(Cause.PREEMPTION)
        # Of a machine whose Node may not be read and that died before its pod ran, nothing but the time limit tells.
        gone = (blow for blow in blows if blow.kind in (Kind.LOST, Kind.SILENT))
        if attempt.reason == START_TIMEOUT.reason and not all(self.noticed(who, blow) for blow in gone):
            right.add(Cause.FAILURE)
        # Nothing but the creation of its Node dates a refusal, and that Node is gone: it may have been the first.
        if attempt.reason == REFUSED_BY_NODE.reason and self._node_of(attempt) is None:
            right.add(Cause.INFRASTRUCTURE)
        return right

    def _too_late(self, who: str, attempt: Attempt, blow: Blow) -> bool:
        """Whether a machine was lost long after the attempt had ended, under the eyes of the judging process."""
        if blow.kind not in (Kind.LOST, Kind.SILENT) or attempt.end_time is None:
            return False
        after = blow.time - second_of(attempt.end_time)
        return after > LATE_SECONDS + self._skewed and self.watched_nodes(who, blow.time)

    def _image(self, uid: str, attempt: Attempt, spec: SliceJobSpec) -> None:
        """An image that no attempt could pull for startSeconds is a failure, wherever the pods were."""
        ledger = self.ledgers[uid]
        if ending_of(attempt).a_try or self._has_run_since(uid, ledger.no_image_since):
            ledger.no_image_since = None
        if attempt.reason != IMAGE_UNAVAILABLE.reason or attempt.end_time is None:
            return
        ledger.no_image_since = ledger.no_image_since or attempt.end_time
        lasted, allowed = (attempt.end_time - ledger.no_image_since).total_seconds(), spec.timeouts.start_seconds
        require(lasted < (allowed or 0), f"attempt {attempt.number} is not charged for an image missing {lasted:.0f} s")

    def _has_run_since(self, uid: str, since: datetime | None) -> bool:
        """Whether a pod of the job has got its image since then."""
        store = self.cluster.store
        ours = (
            one.pod for one in (*store.pods.values(), *store.final.values()) if one.pod.metadata.labels.job_uid == uid
        )
        began = (pod.run_since for pod in ours)
        return since is not None and any(one is not None and since <= one < NEVER for one in began)

    def _charge_by_queue(self, uid: str, attempt: Attempt) -> None:
        """Only preemptions and lost nodes are charged, and only to those whom Kueue has evicted for that."""
        preempted = attempt.reason == PREEMPTED_BY_QUEUE.reason
        right = Cause.PREEMPTION if preempted else Cause.UNCHARGED
        require(attempt.cause is right, f"attempt {attempt.number} is charged as {attempt.cause}: {attempt.message}")
        by_others = {"Preempted", "NodeFailures"} & set(self.evictions.get(uid, ()))
        require(bool(by_others) or not preempted, f"attempt {attempt.number}: nobody has preempted its Workload")
        said = [
            one for one in ("Preempted", "NodeFailures") if f"evicted by its queue: {one}:" in (attempt.message or "")
        ]
        require(preempted or not said, f"attempt {attempt.number} is not charged: {attempt.message}")
        require(bool(self.evictions.get(uid)), f"attempt {attempt.number}: nobody has touched its Workload")

    def _node_of(self, attempt: Attempt) -> Node | None:
        """The Node of the pod that an attempt ended by."""
        return self.cluster.store.nodes.get(attempt.root.node or "") if attempt.root is not None else None

    def _removed_unreported(self, uid: str, attempt: Attempt) -> bool:
        name = attempt.root.pod if attempt.root is not None else None
        records = (one for one in self.cluster.store.final.values() if one.pod.metadata.labels.job_uid == uid)
        return any(one.pod.metadata.name == name and not one.pod.ended and self._in_trouble(one) for one in records)

    def _misled(self, uid: str, who: str, number: int) -> bool:
        """Whether a pod whose newest version the process has not been shown looks lost; remembered once it has."""
        misled = self.ledgers[uid].misled
        if any(self._in_trouble(record) for record in self.unseen(who, uid, number)):
            misled.add(number)
        return number in misled

    def _in_trouble(self, record: PodRecord) -> bool:
        node = self.cluster.store.nodes.get(record.pod.spec.node_name)
        if node is None or node.spec.taints or node.ready is None or node.ready.status != "True":
            return True
        # A Node that was made anew since the pod was bound, or that is heard of again.
        bound, changes = record.pod.bound_at, (node.metadata.creation_timestamp, node.ready.last_transition_time)
        return bound is not None and any(change is not None and change > bound for change in changes)

    def _success(self, uid: str, new: SliceJobStatus) -> None:
        if new.phase is not Phase.SUCCEEDED or new.attempt is None:
            return
        done = self._done(uid, new.attempt)
        shape = self.cluster.shape_in((uid, new.attempt))
        wanted = 1 if shape.ray else shape.pods
        require(len(done) == wanted, f"succeeded, but only {sorted(done)} exited 0 by themselves")

    def _done(self, uid: str, attempt: int) -> set[Place]:
        """Places whose programs have ended well."""
        return self.cluster.truth.done.get((uid, attempt), set())


def read(status: dict[str, Any]) -> SliceJobStatus:
    """A status, whichever version wrote it."""
    return SliceJobStatus.model_validate(versions.as_known(status))


def _told(blow: Blow) -> str:
    return f"{blow.time:.2f} {blow.kind.value} at {blow.place} ({blow.uid}, version {blow.version})"


def _dated(pod: Pod) -> bool:
    end = pod.worker.terminated if pod.worker is not None else None
    return end is not None and end.finished_at is not None


def _finality(old: SliceJobStatus, new: SliceJobStatus) -> None:
    if old.phase is None or not old.phase.final:
        return
    for name in ("phase", "result", "completion_time", "attempt", "failures", "preemptions", "uncharged"):
        was, now = getattr(old, name), getattr(new, name)
        require(was == now, f"after the final phase {old.phase} {name} changed from {was} to {now}")


def _numbering(old: SliceJobStatus, new: SliceJobStatus, ledger: Ledger) -> None:
    before, now = old.attempt, new.attempt
    require(now is not None or before is None, "the attempt's number vanished")
    if now is None:
        return
    require(now == (before if before is not None else 0) or now == (before or 0) + 1, f"attempt went {before} -> {now}")
    require(before is not None or now == 0, f"the first attempt is {now}")
    numbers = [attempt.number for attempt in new.attempts]
    lacking = set(range(numbers[-1], now + 1)) - set(numbers) if numbers else {now}
    right = numbers == sorted(set(numbers), reverse=True) and numbers[:1] == [now] and lacking <= ledger.waited
    require(right, f"attempts are {numbers}, the newest is {now}; {sorted(ledger.waited)} only waited")
    # Only the oldest may leave the status.
    lost = {one.number for one in old.attempts} - set(numbers) - ledger.waited
    require(all(one < numbers[-1] for one in lost), f"the record of attempts {sorted(lost)} is lost")


def _counters(new: SliceJobStatus, charges: dict[int, Cause]) -> None:
    counted = {cause: sum(one is cause for one in charges.values()) for cause in Cause}
    lost = counted[Cause.PREEMPTION] + counted[Cause.INFRASTRUCTURE]
    require(new.failures == counted[Cause.FAILURE], f"failures {new.failures}, charged {charges}")
    require(new.preemptions == lost, f"preemptions {new.preemptions}, charged {charges}")
    require(new.infrastructure_failures == counted[Cause.INFRASTRUCTURE], f"infrastructure, charged {charges}")
    require(new.uncharged == counted[Cause.UNCHARGED], f"uncharged {new.uncharged}, charged {charges}")
    over = new.phase is not None and new.phase.final and new.phase is not Phase.SUCCEEDED and new.attempt is not None
    missing = set(range((new.attempt or 0) + over)) - charges.keys()
    require(not missing, f"attempts {missing} were never charged")


def _conditions(old: SliceJobStatus, new: SliceJobStatus) -> None:
    earlier = {one.type: one for one in old.conditions}
    require(len({one.type for one in new.conditions}) == len(new.conditions), "a condition stands there twice")
    for one in new.conditions:
        was = earlier.get(one.type)
        if was is not None and was.status == one.status:
            same = was.last_transition_time == one.last_transition_time
            require(same, f"condition {one.type} is {one.status} as before, but since another time")
