"""One history: a job, a cluster, people and faults, all from one seed, and what must be true of them."""

import random
from collections.abc import Callable
from typing import Any

from slipway.api.slicejob import SliceJobSpec
from slipway.planner import placement
from slipway.planner.acceptance import resolve
from slipway.planner.snapshot import Settings
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Weather
from tests.simulation.controllers import Controllers
from tests.simulation.faults import Faults
from tests.simulation.invariants import EVENT_SECONDS, Invariants
from tests.simulation.machines import Machine
from tests.simulation.plot import plot
from tests.simulation.process import Process
from tests.simulation.program import AttemptKey, Script, Will
from tests.simulation.requests import Server
from tests.simulation.store import PodRecord, Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import OUTRANKED, Blow, Truth, Violation
from tests.simulation.user import User

WRONG_CLOCKS = (0.0, 0.0, 0.0, 2.0, -90.0, 600.0)
"""Seconds by which a process's wall clock is wrong."""
PATIENCE = 3600.0
"""Simulated seconds within which a job must end once nothing stands in its way."""
CLEAN_UP = 900.0
"""Simulated seconds after which nothing may be left of a deleted job."""


class History:
    """Runs one seed."""

    def __init__(self, seed: int, *, tracing: bool = False) -> None:
        self.seed = seed
        self.lines: list[str] = []
        self._tracing = tracing
        self.rng = rng = random.Random(seed)
        random.seed(seed)
        self.plot = plot(rng)
        self.timeline = Timeline()
        self.truth = Truth()
        self.store = Store(self.timeline)
        self.cluster = Cluster(self.timeline, rng, self.store, self.truth, self.plot.shape, self._script, self._say)
        self.store.on_pod = self.cluster.observe_pod
        self.store.on_dependent = self.cluster.served
        self.controllers = Controllers(self.cluster, self._node_labels())
        self.faults = Faults(self.cluster, self.controllers)
        self.invariants = Invariants(self.cluster, self._noticed, self._unseen)
        self.server = Server(self.store, self._status_written)
        self.server.partial = lambda count: rng.randint(0, count) if self._flaky() else count
        self.user = User(self.cluster, self.plot.spec, rng)
        self.processes: list[Process] = []
        self.calm = False
        self.broken: Violation | None = None
        """What was found broken inside a process, which would only log it and go on."""
        self._writes = 0
        self._ambushes: dict[int, str] = {}

    def _node_labels(self) -> dict[str, str]:
        """What the job's pods ask for."""
        spec = SliceJobSpec.model_validate(self.plot.spec)
        return placement.node_selector(spec, resolve(spec, Settings()))

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
            for process in self.processes:
                process.loop.kill()
                process.loop.bury()
        for process in self.processes:
            if process.loop.mistakes:
                raise Violation(f"{process.name}: {process.loop.mistakes[0]}")

    def _run(self) -> None:
        self._say("seed %d: %s, %s", self.seed, self.plot.shape, self.plot.weather)
        self._set_up()
        self._pass(self.plot.horizon)
        self._calm_down()
        self._pass(PATIENCE)
        if not self._over():
            raise Violation(f"the job has not ended {PATIENCE:.0f} s after everything was well again: {self._phase()}")
        self._pass(EVENT_SECONDS + 1.0, lambda: False)
        self._told()
        self.user.delete()
        self._pass(CLEAN_UP, self._clean)
        if not self._clean():
            raise Violation(f"left behind: {sorted(self.store.pods)} {sorted(self.store.dependents)}")

    def _pass(self, seconds: float, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until something is reached or broken."""
        reached = stop or self._over
        self.timeline.run(self.timeline.now + seconds, lambda: self.broken is not None or reached())
        if self.broken is not None:
            raise self.broken

    def _set_up(self) -> None:
        rng, shape = self.rng, self.plot.shape
        spare = rng.choice((0, 0, 1))
        for pool in range(shape.slices + spare):
            for host in range(shape.hosts):
                self.controllers.register(Machine(self.cluster, f"pool{pool}-{host}", f"pool{pool}", rng))
        self._start_process()
        self.timeline.after(rng.uniform(0.0, 2.0), self.user.apply)
        for when, what in self.plot.requests:
            self.timeline.at(when, lambda what=what: self._ask(what))  # type: ignore[misc]
        kinds = self.faults.kinds()
        chosen = rng.choices(list(kinds), [weight for weight, _ in kinds.values()], k=self.plot.harms)
        for name in chosen:
            if rng.random() < 0.5:
                self.timeline.at(rng.uniform(0.0, self.plot.horizon), lambda name=name: self._harm(name))  # type: ignore[misc]
            else:
                self._ambushes[rng.randint(1, 25)] = name
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            trouble = rng.choice((self._crash, self._crash, self._freeze, self._roll))
            self.timeline.at(rng.uniform(0.0, self.plot.horizon), trouble)
        if rng.random() < 0.1:
            self.timeline.at(rng.uniform(0.0, self.plot.horizon), self._fill_quota)

    def _harm(self, name: str) -> None:
        if not self.calm:
            self.faults.kinds()[name][1]()

    def _ask(self, what: str) -> None:
        if self.calm:
            return
        asks = {
            "suspend": lambda: self.user.edit(suspend=True),
            "resume": lambda: self.user.edit(suspend=False),
            "cancel": lambda: self.user.edit(cancel=True),
            "delete": self.user.delete,
            "delete foreground": lambda: self.user.delete(foreground=True),
            "apply": self.user.apply,
        }
        asks[what]()

    def _fill_quota(self) -> None:
        self._say("the quota is used up")
        self.server.quota_full = True

        def empty() -> None:
            self.server.quota_full = False

        self.timeline.after(self.rng.uniform(5.0, 120.0), empty)

    def _script(self, key: AttemptKey) -> Script:
        rng, shape = self.rng, self.plot.shape
        work, spread = rng.choice((rng.uniform(2.0, 30.0), rng.uniform(30.0, 300.0))), rng.choice((0.5, 5.0, 30.0))
        if self.calm or rng.random() < self.plot.clean_programs:
            return Script(after=5.0 if self.calm else work, spread=spread)
        will = rng.choice((Will.EXIT, Will.EXIT, Will.OOM, Will.HANG, Will.NO_TPU if shape.tpu else Will.EXIT))
        slot = (rng.randrange(shape.slices), rng.randrange(shape.hosts))
        code = rng.choice((1, 1, 2, 137, *shape.codes))
        early = rng.random() < 0.4
        return Script(will, slot, code, rng.uniform(0.0, 3.0) if early else work, early, spread, "boom")

    def _start_process(self) -> None:
        """A new operator process leads."""
        if any(one.alive and one.lease.held for one in self.processes):
            return
        weather = Weather() if self.calm else self.plot.weather
        name = f"operator-{len(self.processes)}"
        self._say("%s starts", name)
        self.processes.append(
            Process(
                name,
                self.timeline,
                self.store,
                self.server,
                weather,
                self.rng,
                wrong_by=self.rng.choice(WRONG_CLOCKS),
                on_death=self._died,
                say=self._say,
            )
        )

    def _died(self, process: Process) -> None:
        self._say("%s is gone", process.name)
        if process.lease.lost_at is None:
            down = self.rng.choice((self.rng.uniform(13.0, 20.0), self.rng.uniform(20.0, 200.0)))
            self.timeline.after(min(down, 20.0) if self.calm else down, self._start_process)

    def _leader(self) -> Process | None:
        return next((one for one in self.processes if one.alive and one.lease.held), None)

    def _crash(self) -> None:
        leader = self._leader()
        if leader is not None and not self.calm:
            leader.die()

    def _freeze(self) -> None:
        """The leader stands still for longer than its Lease lasts, and then goes on as if nothing had happened."""
        leader = self._leader()
        if leader is None or self.calm:
            return
        self._say("%s stands still", leader.name)
        leader.loop.freeze()
        leader.lease.lost_at = self.timeline.now + 8.0
        self.timeline.after(self.rng.uniform(13.0, 17.0), self._start_process)
        self.timeline.after(self.rng.uniform(14.0, 60.0), leader.loop.thaw)
        self.timeline.after(90.0, leader.die)

    def _roll(self) -> None:
        """A rolling update: the old process ends in good order, and the new one starts at once."""
        leader = self._leader()
        if leader is not None and not self.calm:
            leader.lease.lost_at = self.timeline.now
            leader.stop()
            self.timeline.after(self.rng.uniform(0.5, 3.0), self._start_process)

    def _calm_down(self) -> None:
        """From here on nothing stands in the job's way."""
        if self.calm:
            return
        self._say("--- all is well from here on ---")
        self.calm = True
        for process in self.processes:
            process.line.weather.refuse = process.line.weather.lose = process.line.weather.late = 0.0
            process.line.weather.crash = process.line.weather.cut = 0.0
        self.server.quota_full = False
        self.faults.end_all()
        self._resume()
        self.cluster.finish()

    def _resume(self) -> None:
        """The job is there, or is again, and nobody holds it back."""
        job = self.user.job
        if job is not None and job["metadata"].get("deletionTimestamp"):
            self.timeline.after(1.0, self._resume)
        elif job is not None:
            self.user.edit(suspend=False)
        elif self.user.uid not in self.invariants.final:
            self.user.apply()

    def _status_written(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        try:
            self.invariants.status_written(who, before, after)
        except Violation as violation:
            self.broken = violation
        self._writes += 1
        if not self.calm and (name := self._ambushes.get(self._writes)):
            self.timeline.after(self.rng.choice((0.0, self.rng.uniform(0.0, 3.0))), lambda: self._harm(name))

    def _process(self, name: str) -> Process:
        return next(one for one in self.processes if one.name == name)

    def _unseen(self, who: str, uid: str, attempt: int) -> list[PodRecord]:
        told = self._process(who).line.told
        known = [*self.store.pods.values(), *self.store.final.values()]
        return [
            record
            for record in known
            if (record.pod.metadata.labels.job_uid, record.pod.attempt) == (uid, attempt)
            and told.get(record.uid, 0) < record.version
        ]

    def _noticed(self, who: str, blow: Blow) -> bool:
        asked = self.store.asked_at.get(blow.uid)
        if asked is not None and blow.time <= asked < int(blow.time) + 1 and blow.kind in OUTRANKED:
            return False
        told = self._process(who).line.told.get(blow.uid, 0)
        return told >= blow.version if blow.version is not None else told > 0 and blow.kind.name in ("LOST", "SILENT")

    def _over(self) -> bool:
        return self.user.uid in self.invariants.final

    def _clean(self) -> bool:
        return not self.store.pods and not self.store.dependents

    def _phase(self) -> str:
        ledger = self.invariants.ledgers.get(self.user.uid)
        return str(ledger.status.phase) if ledger else "never written"

    def _told(self) -> None:
        """Every phase has an Event, unless the process or the job went just then."""
        for told in self.invariants.phases:
            process = self._process(told.who)
            ends = (process.died, self.user.asked_to_go.get(told.uid))
            if any(end is not None and end < told.at + EVENT_SECONDS for end in ends):
                continue
            if not any(
                body["reason"] == told.phase.value and body["regarding"]["uid"] == told.uid
                for body in self.store.events.values()
            ):
                raise Violation(f"no Event tells of the phase {told.phase} written by {told.who}")
