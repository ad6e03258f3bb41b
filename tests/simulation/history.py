"""One history: a job, a cluster, people and faults, all from one seed, and what must be true of them."""

import math
import random
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from slipway.api.places import HEAD, worker
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Phase
from slipway.apiserver.connection import READ_SECONDS
from slipway.controller.act.events import BURST, REFILL_SECONDS
from slipway.core.explain.kubelet import START_REASONS
from slipway.core.manifests.accepted import hardware_of
from slipway.core.model.job import Settings
from slipway.core.validation.acceptance import resolve
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import Controllers
from tests.simulation.faults import QUICK, SLOW, Faults
from tests.simulation.fleet import Fleet
from tests.simulation.grounds import (
    CHOICES,
    CLOCKS,
    CROWD,
    HANGS,
    KUBELETS,
    POLICIES,
    PROFILES,
    QUEUES,
    QUOTA,
    SIZES,
    SLOW_LISTS,
    STOPS,
    STRANGERS,
    grounds,
)
from tests.simulation.invariants import EVENT_SECONDS, LAST_SECONDS, Invariants
from tests.simulation.machines import Machine
from tests.simulation.plot import neighbours, plot, stopped, with_choice
from tests.simulation.program import AttemptKey, Script, Will
from tests.simulation.promises import BEHIND_CUTS, IN_BAD_WEATHER, IN_TIME, Promises
from tests.simulation.queues import Queues, labels
from tests.simulation.requests import Server
from tests.simulation.store import JOB_NAME, MARK, SECRET, PodRecord, Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import OUTRANKED, Blow, Kind, Truth, Violation
from tests.simulation.user import User

CLOCKS_DIFFER = 2.0
"""Seconds by which the clock of an API server may be wrong."""
KUBELETS_DIFFER = 2.0
"""The same of the clock of a kubelet."""
KUBELETS_MAY_DIFFER = 5.0
"""By how much Slipway takes into account that they do, on every ground."""
MOST_REFUSED = 0.02
"""Share of requests that may be refused where something has to be done soon."""
PATIENCE = 3600.0
"""Simulated seconds within which a job must end once nothing stands in its way."""
CLEAN_UP = 900.0
"""Simulated seconds after which nothing may be left of a deleted job."""
FIRST_LISTS = 60.0
"""Simulated seconds within which a new process has listed the nodes."""
UNANSWERED_SECONDS = READ_SECONDS + 5.0
"""Simulated seconds for which a process may wait for an answer that was lost, and for the turn after it."""
UNREAD_SECONDS = 120.0
"""Simulated seconds for which answers and processes may be lost, so that nobody has read a status that was written."""


class History:
    """Runs one seed."""

    def __init__(
        self, seed: int, *, tracing: bool = False, record: Path | None = None, only: Collection[str] = ()
    ) -> None:
        """`record` is a directory for what each decision is made from; `only` are grounds to stand on."""
        self.seed = seed
        self.lines: list[str] = []
        self._tracing = tracing
        self.rng = rng = random.Random(seed)
        random.seed(seed)
        self._few_nodes = False
        """Whether there may be too few nodes for the most slices of a job."""
        self.grounds = grounds(seed, only)
        self.plot = plot(rng, self.grounds)
        crowd = self.grounds & {CROWD, QUOTA, QUEUES}
        self.plots = {JOB_NAME: self.plot} | (neighbours(rng, self.plot) if crowd else {})
        if self.grounds & {CHOICES, QUEUES}:
            self._offer(random.Random(f"choices of {seed}"))
        if STOPS in self.grounds:
            chosen = random.Random(f"stops of {seed}")
            self.plots = {name: stopped(chosen, one) for name, one in self.plots.items()}
            self.plot = self.plots[JOB_NAME]
        self.timeline = Timeline()
        self.store = Store(self.timeline)
        self.truth = Truth(self.store.job_names)
        shapes = {name: one.shape for name, one in self.plots.items()}
        self.cluster = Cluster(self.timeline, rng, self.store, self.truth, shapes, self._script, self._say)
        self.store.on_pod = self.cluster.observe_pod
        self.store.on_dependent = self.cluster.served
        self.controllers = Controllers(self.cluster, self._node_labels())
        self.faults = Faults(self.cluster, self.controllers)
        self.invariants = Invariants(self.cluster, self._noticed, self._unseen)
        self.invariants.watched_nodes = self._watched_nodes
        self.server = Server(self.store, self._status_written)
        self.server.renewed_at = self.cluster.renewed_at
        if self.grounds & {CHOICES, QUEUES}:
            self.server.on_create = self.cluster.created
        self.server.partial = lambda count: rng.randint(0, count) if self._flaky() else count
        if CLOCKS in self.grounds:
            self.cluster.slack = 2 * CLOCKS_DIFFER
            self.server.clocks = (rng.uniform(0.0, CLOCKS_DIFFER), -rng.uniform(0.0, CLOCKS_DIFFER))
        self.faults.vacancies = QUICK if SLOW_LISTS in self.grounds else SLOW
        self.promises = Promises(self.timeline, self.store)
        self.promises.who_knows = self._who_knows
        self.promises.in_time = self._in_time
        self.server.on_delete = self.promises.deleted
        self.server.on_delete_job = self.promises.job_deleted
        self.promises.on_broken = self._broken
        queued = QUEUES in self.grounds
        self.queues = Queues(self.timeline, self.store, self.server, shapes, rng, self._say) if queued else None
        self.users = [
            User(self.cluster, name, one.spec, labels(rng) if queued else {}) for name, one in self.plots.items()
        ]
        self.fleet = Fleet(
            self.timeline, self.store, self.server, self.plot.weather, rng, self.grounds, record=record, say=self._say
        )
        weather = self.plot.weather
        self._read_seconds = UNREAD_SECONDS if weather.lose else EVENT_SECONDS
        """Simulated seconds within which a process has read the status that it wrote, and told of it."""
        self._slow = bool(weather.lose or weather.late or weather.refuse > MOST_REFUSED)
        self.calm, self._calm_since = False, 0.0
        self.broken: Violation | None = None
        """What was found broken inside a process, which would only log it and go on."""
        self._writes = 0
        self._ambushes: dict[int, str] = {}

    def _offer(self, rng: random.Random) -> None:
        """Some jobs can run on several numbers of slices."""
        for name, one in self.plots.items():
            first = name == JOB_NAME and CHOICES in self.grounds
            if SIZES not in self.grounds and (first or rng.random() < 0.5):
                self.plots[name] = with_choice(rng, one)
        self._few_nodes = rng.random() < 0.5

    def _node_labels(self) -> dict[str, str]:
        """What pods with TPUs ask for."""
        labels: dict[str, str] = {}
        for one in self.plots.values():
            spec = SliceJobSpec.model_validate(one.spec)
            labels |= hardware_of(spec, resolve(spec, Settings())).node_selector()
        return labels

    def _flaky(self) -> bool:
        return not self.calm and self.plot.weather.refuse > 0 and self.rng.random() < self.plot.weather.refuse

    def _say(self, words: str, *details: object) -> None:
        if self._tracing:
            self.lines.append(f"{moment(self.timeline.now):%H:%M:%S.%f} {words % details}")

    def run(self) -> None:
        """Let it happen.

        Raises:
            Violation: when an invariant does not hold.
        """
        try:
            self._run()
        finally:
            self.fleet.bury()
        for process in self.fleet.processes:
            if process.loop.mistakes:
                raise Violation(f"{process.name}: {process.loop.mistakes[0]}")

    def _run(self) -> None:
        self._say("seed %d: %s, %s", self.seed, self.plot.shape, self.plot.weather)
        self._set_up()
        self._pass(self.plot.horizon)
        self._calm_down()
        self._pass(PATIENCE)
        if not self._over():
            raise Violation(f"the job has not ended {PATIENCE:.0f} s after everything was well again: {self._phases()}")
        self._pass(LAST_SECONDS, lambda: False)
        self._told()
        self.invariants.histories_complete()
        for user in self.users:
            user.delete()
        self._pass(CLEAN_UP, self._clean)
        if not self._clean():
            left = [sorted(self.store.pods), sorted(self.store.dependents), self._workloads()]
            raise Violation(f"left behind: {left}")

    def _pass(self, seconds: float, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until something is reached or broken."""
        reached = stop or self._over
        self.timeline.run(self.timeline.now + seconds, lambda: self.broken is not None or reached())
        if self.broken is not None:
            raise self.broken

    def _set_up(self) -> None:
        rng = self.rng
        self._build()
        self.fleet.start()
        self.promises.watch()
        for user, one in zip(self.users, self.plots.values(), strict=True):
            latest = 2.0 if user is self.users[0] else self.plot.horizon / 3
            self.timeline.after(rng.uniform(0.0, latest), partial(self._ask, user, "apply"))
            for _ in range(rng.randint(1, 3) if STRANGERS in self.grounds else 0):
                self.timeline.at(rng.uniform(0.0, self.plot.horizon), partial(self._meddle, user))
            for when, what in one.requests:
                self.timeline.at(when, partial(self._ask, user, what))
        if self.queues is not None:
            self.queues.plan(self.plots.values(), self.users, self.plot.horizon)
            self.controllers.on_collect = self.queues.collect
            self.invariants.evictions = self.queues.kueue.evicted
            self.invariants.offered = self.queues.offered
            self.queues.choices.known_since = self._known_since
            self.promises.holds_quota = self.queues.holds_quota
            self.promises.is_awaited = self.queues.is_awaited
            self.promises.may_be_deleted = self.queues.knows_or_answers
        self._plan_others()
        kinds = self.faults.kinds()
        chosen = rng.choices(list(kinds), [weight for weight, _ in kinds.values()], k=self.plot.harms)
        for name in chosen:
            if rng.random() < 0.5:
                self.timeline.at(rng.uniform(0.0, self.plot.horizon), lambda name=name: self._harm(name))  # type: ignore[misc]
            else:
                self._ambushes[rng.randint(1, 25)] = name
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            trouble = rng.choice((self.fleet.crash, self.fleet.crash, self.fleet.freeze, self.fleet.roll))
            self.timeline.at(rng.uniform(0.0, self.plot.horizon), trouble)
        if rng.random() < 0.1:
            self.timeline.at(rng.uniform(0.0, self.plot.horizon), self._fill_quota)

    def _build(self) -> None:
        """Machines for the largest job of each kind, perhaps for the fewest of its slices only, or some more."""
        rng = self.rng
        for tpu in (False, True):
            shapes = [one.shape for one in self.plots.values() if (one.shape.tpu is not None) is tpu]
            if not shapes:
                continue
            if self._few_nodes:
                shapes = [one.fewest for one in shapes]
            largest = max(shapes, key=lambda one: one.slices * one.hosts)
            kind = "pool" if tpu or not any(one.shape.tpu for one in self.plots.values()) else "cpu"
            for pool in range(largest.slices + rng.choice((0, 0, 1))):
                for host in range(largest.hosts):
                    self.controllers.register(Machine(self.cluster, f"{kind}{pool}-{host}", f"{kind}{pool}", rng, tpu))
        for head in range(sum(one.shape.ray for one in self.plots.values())):
            self.controllers.register(Machine(self.cluster, f"head{head}-0", f"head{head}", rng, tpu=False))
        if KUBELETS in self.grounds:
            clocks = random.Random(f"clocks of kubelets of {self.seed}")
            for machine in self.cluster.machines.values():
                machine.ahead = clocks.uniform(-KUBELETS_DIFFER, KUBELETS_DIFFER)
            self.cluster.slack += 2 * KUBELETS_DIFFER
            self.cluster.kubelets_differ = True
        if QUOTA in self.grounds:
            self.server.quota = max(one.shape.pods for one in self.plots.values()) + rng.randint(0, 2)

    def _harm(self, name: str) -> None:
        if not self.calm:
            self.faults.kinds()[name][1]()

    def _ask(self, user: User, what: str) -> None:
        if not self.calm:
            user.asks()[what]()

    def _plan_others(self) -> None:
        if PROFILES in self.grounds:
            self._plan_profiles(random.Random(f"profiles of {self.seed}"))
        if HANGS in self.grounds:
            hangs = random.Random(f"hung kubelets of {self.seed}")
            for _ in range(hangs.randint(1, 6)):
                self.timeline.at(hangs.uniform(0.0, self.plot.horizon / 2), self._hang)
        if POLICIES in self.grounds:
            self._enforce(random.Random(f"policies of {self.seed}"))

    def _hang(self) -> None:
        if not self.calm:
            self.faults.hang()

    def _enforce(self, rng: random.Random) -> None:
        """For a while a share of the new pods is denied, or deleted a moment after they were created."""
        share, begins = rng.choice((0.1, 0.5, 1.0)), rng.choice((0.0, rng.uniform(0.0, self.plot.horizon)))
        ends = begins + rng.choice((5.0, 60.0, self.plot.horizon))
        observe = self.store.on_pod

        def meant() -> bool:
            return not self.calm and begins <= self.timeline.now < ends and rng.random() < share

        def deleted_soon(kind: str, record: PodRecord) -> None:
            observe(kind, record)
            if kind == "ADDED" and meant():
                self.timeline.after(rng.uniform(0.0, 0.02), partial(self.faults.delete_unbound, record))

        if rng.random() < 0.5:
            self.store.on_pod = deleted_soon
        else:
            self.server.denied = meant

    def _plan_profiles(self, rng: random.Random) -> None:
        for count in range(rng.randint(1, 6)):
            when = rng.choice((0.0, rng.uniform(0.0, 5.0), rng.uniform(0.0, self.plot.horizon)))
            self.timeline.at(when, partial(self._change_profile, str(count) if rng.random() < 0.8 else ""))

    def _change_profile(self, mark: str) -> None:
        if self.calm or not (mark or self.store.profiles):
            return
        self._say(f"the profile is {mark}" if mark else "the profile is deleted")
        if mark:
            variables = [{"name": MARK, "value": mark}, {"name": "DB_PASSWORD", "value": SECRET}]
            self.store.put_profile("default", {"defaults": {"env": variables}})
        else:
            # Who takes over now has never seen the secret.
            self.invariants.secret = ""
            self.store.drop_profile("default")

    def _meddle(self, user: User) -> None:
        if not self.calm and user.meddle(self.rng):
            assert user.job is not None
            self.invariants.meddled_with(user.job)

    def _fill_quota(self) -> None:
        self._say("the quota is used up")
        self.server.quota_full = True

        def empty() -> None:
            self.server.quota_full = False

        self.timeline.after(self.rng.uniform(5.0, 120.0), empty)

    def _script(self, key: AttemptKey) -> Script:
        rng, shape = self.rng, self.cluster.shape_in(key)
        work, spread = rng.choice((rng.uniform(2.0, 30.0), rng.uniform(30.0, 300.0))), rng.choice((0.5, 5.0, 30.0))
        if self.calm or rng.random() < self.plot.clean_programs:
            return Script(after=5.0 if self.calm else work, spread=spread)
        will = rng.choice((Will.EXIT, Will.EXIT, Will.OOM, Will.HANG, Will.NO_TPU if shape.tpu else Will.EXIT))
        place = worker(rng.randrange(shape.slices), rng.randrange(shape.hosts))
        if shape.ray and will is not Will.NO_TPU and rng.random() < 0.7:
            place = HEAD
        code = rng.choice((1, 1, 2, 137, *shape.codes))
        early = rng.random() < 0.4
        printed = f"boom {SECRET}" if self.server.mark_of(key) else "boom"
        return Script(will, place, code, rng.uniform(0.0, 3.0) if early else work, early, spread, printed)

    def _calm_down(self) -> None:
        """From here on nothing stands in the job's way."""
        if self.calm:
            return
        self._say("--- all is well from here on ---")
        self.calm, self._calm_since = True, self.timeline.now
        self.fleet.calm_down()
        self.server.quota_full = False
        self.faults.end_all()
        if self.queues is not None:
            self.queues.calm_down()
        for user in self.users:
            self._resume(user)
        self.cluster.finish()

    def _resume(self, user: User) -> None:
        """The job is there, or is again, and nobody holds it back."""
        job = user.job
        if job is not None and job["metadata"].get("deletionTimestamp"):
            self.timeline.after(1.0, lambda: self._resume(user))
        elif job is not None:
            user.edit(suspend=False)
        elif user.uid not in self.invariants.final:
            user.apply()

    def _status_written(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        try:
            self.invariants.status_written(who, before, after)
        except Violation as violation:
            self.broken = violation
        self._writes += 1
        if not self.calm and (name := self._ambushes.get(self._writes)):
            self.timeline.after(self.rng.choice((0.0, self.rng.uniform(0.0, 3.0))), lambda: self._harm(name))

    def _unseen(self, who: str, uid: str, attempt: int, decided: float = math.inf) -> list[PodRecord]:
        line = self.fleet.named(who).line
        known = [*self.store.pods.values(), *self.store.final.values()]
        return [
            record
            for record in known
            if (record.pod.metadata.labels.job_uid, record.pod.attempt) == (uid, attempt)
            and (line.told.get(record.uid, 0) < record.version or line.told_at[record.uid] > decided)
        ]

    def _noticed(self, who: str, blow: Blow) -> bool:
        asked = self.store.asked_at.get(blow.uid)
        until = int(blow.time) + 1 + self.cluster.slack + (KUBELETS_MAY_DIFFER if blow.code in (137, 143) else 0.0)
        alone = blow.kind in OUTRANKED or self._eviction_untold(blow)
        if asked is not None and blow.time <= asked < until and alone:
            return False
        process = self.fleet.named(who)
        line, gone = process.line, self.store.removed_at.get(blow.uid, math.inf)
        # Who takes over decides by what the API shows then: a pod that has left it names no machine any more.
        if blow.kind in (Kind.LOST, Kind.SILENT) and (line.blind_until or gone < process.lease.led_from):
            return False
        told = line.told.get(blow.uid, 0)
        if blow.version is not None:
            return told >= blow.version
        # Its machine is known to who was shown that it was bound.
        return blow.kind in (Kind.LOST, Kind.SILENT) and told >= self.store.bound_in.get(blow.uid, math.inf)

    def _watched_nodes(self, who: str, time: float) -> bool:
        process = self.fleet.named(who)
        return not process.line.blind_until and process.started < time - FIRST_LISTS

    def _eviction_untold(self, blow: Blow) -> bool:
        """Whether a kubelet evicted the pod, and all that it told until the pod was gone was an exit code."""
        last = self.store.final.get(blow.uid)
        return blow.kind is Kind.OVER_LIMIT and last is not None and not last.pod.status.reason

    def _known_since(self, uid: str, version: int) -> float | None:
        """Since when the leader has been shown a version of an object; None where it has not, or may not hear of it."""
        leader = self.fleet.leader()
        if leader is None or (self._slow and not self.calm) or leader.line.told.get(uid, 0) < version:
            return None
        # What was sent before the calm may get no answer for so long.
        answered = self._calm_since + UNANSWERED_SECONDS if self._slow else 0.0
        return max(leader.line.told_at[uid], leader.lease.led_from, answered)

    def _who_knows(self, uid: str, version: int) -> str:
        """The leader that has been shown a version of a job; empty where it has not."""
        leader = self.fleet.leader()
        return leader.name if leader is not None and leader.line.told.get(uid, 0) >= version else ""

    def _in_time(self) -> float:
        """Seconds within which a leader sees and does what is due; what was cut or sent before the calm lasts."""
        if self.calm and self.timeline.now >= self._calm_since + BEHIND_CUTS:
            return IN_TIME
        if self._slow:
            return IN_BAD_WEATHER
        return BEHIND_CUTS if self.plot.weather.cut or self.calm else IN_TIME

    def _broken(self, violation: Violation) -> None:
        self.broken = self.broken or violation

    def _over(self) -> bool:
        return all(user.uid in self.invariants.final for user in self.users)

    def _clean(self) -> bool:
        return not (self.store.pods or self.store.dependents or self._workloads())

    def _workloads(self) -> list[str]:
        return self.queues.left() if self.queues is not None else []

    def _phases(self) -> str:
        ledgers = [self.invariants.ledgers.get(user.uid) for user in self.users]
        return ", ".join(str(ledger.status.phase) if ledger else "never written" for ledger in ledgers)

    def _told(self) -> None:
        """Every phase, and each end of an attempt, has an Event.

        Not where the process or the job went just then, a stranger put another phase there, or so much was told of the
        job just before that no more is, but its end.
        """
        for told in self.invariants.news:
            process = self.fleet.named(told.who)
            if any(uid == told.uid and 0 <= at - told.at < UNREAD_SECONDS for uid, at in self.cluster.overwritten):
                continue
            # The answers to the write, and to the reads after it, may be lost for half a minute each. Who dies by then
            # has not read what it wrote, and the next process finds only the phase that came after.
            if process.died is not None and process.died < told.at + self._read_seconds:
                continue
            gone = self.cluster.asked_to_go.get(told.uid)
            if gone is not None and gone < told.at + UNREAD_SECONDS:
                continue
            # Where a word says what a job waits for, that is the Event's.
            reasons = {told.reason} | (START_REASONS if told.reason == Phase.PENDING else set())
            mine = [one for one in self.store.events.values() if one["involvedObject"]["uid"] == told.uid]
            if any(one["reason"] in reasons and one["message"].startswith(told.about) for one in mine):
                continue
            spent = sum(0 <= _seconds_before(one, told.at) <= BURST * REFILL_SECONDS for one in mine)
            if spent < BURST - 2 or told.reason in {one.value for one in Phase if one.final}:
                raise Violation(f"no Event tells of {told.reason} {told.about}, written by {told.who}")


def _seconds_before(event: dict[str, Any], at: float) -> float:
    """How long before a moment an Event was recorded."""
    return (moment(at) - datetime.fromisoformat(event["eventTime"])).total_seconds()
