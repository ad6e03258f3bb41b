"""One history: jobs, their supervisors, people and faults, all from one seed, and what must be true of them."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from slipway.api import names
from slipway.api.places import Place, worker
from slipway.api.status import Phase, SliceJobStatus
from slipway.core.model.reading import NEVER_WRITTEN
from slipway.local.jobs.job_files import NAMESPACE, NoSuchJob
from slipway.local.jobs.options import Options
from slipway.local.supervisor.supervisor import needs_supervisor, supervise
from tests.local_simulation.connection import Connection
from tests.local_simulation.engine import Engine, Reactions
from tests.local_simulation.faults import Faults
from tests.local_simulation.fibers import Fiber, Process
from tests.local_simulation.invariants import LocalInvariants
from tests.local_simulation.machine import Disk, Folder, ModelMachine, Site
from tests.local_simulation.plot import setting
from tests.local_simulation.programs import START_ERROR, Programs
from tests.simulation.program import AttemptKey, Script, Will
from tests.simulation.store import PodRecord
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Blow, Kind, Truth, Violation

MOST_LATE: Final = 5.0
"""Seconds after which a supervisor has noticed that the engine has hung up: an event's delay and a slow call's."""
PATIENCE: Final = 3600.0
"""Simulated seconds within which a job must end once nothing stands in its way."""
CLEAN_UP: Final = 300.0
"""Simulated seconds after which nothing may be left of a job that has ended, or is deleted."""
IMAGE: Final = "busybox:1"


class LocalTruth(Truth):
    """What hit the attempts, as far as a certain supervisor can know it."""

    judge: str = ""
    doubtful: Callable[[str, Blow], bool]
    clean: dict[AttemptKey, list[Blow]]
    """Programs that ended well, which hits an attempt only where it is taken for an end with the engine."""

    def of(self, key: AttemptKey) -> list[Blow]:
        doubtful = partial(self.doubtful, self.judge)
        blows = super().of(key)
        return blows + [replace(one, kind=Kind.SILENT) for one in (*blows, *self.clean.get(key, ())) if doubtful(one)]


class History:
    """Runs one seed."""

    def __init__(self, seed: int, folder: Path, *, tracing: bool = False) -> None:
        """`folder` is one for the logs of its jobs."""
        self.seed = seed
        self.lines: list[str] = []
        self._tracing = tracing
        self.rng = rng = random.Random(f"local {seed}")
        random.seed(seed)
        self.setting = setting(rng)
        self.timeline = Timeline()
        self.engine = Engine(self.timeline, rng, Reactions(asked=self._asked))
        self.engine.say = self._say
        self.engine.jammed, self.engine.slow_removals = self.setting.jammed, self.setting.slow_removals
        self.disk = Disk(self.timeline, folder, written=self._written)
        self.site = Site(
            self.timeline, self.engine, self.disk, rng, self.setting.weather, self.setting.gpus, self.setting.threads
        )
        self.names: dict[str, str] = {}
        self.truth = LocalTruth(self.names)
        self.truth.doubtful = self._doubtful
        shapes = {name: one.shape for name, one in self.setting.plots.items()}
        self.programs = Programs(
            self.timeline, rng, self.engine, self.truth, shapes, self.names, self._script, self._say
        )
        self.truth.clean = self.programs.clean
        self.invariants = LocalInvariants(self.programs, self._noticed, self._unseen)  # type: ignore[arg-type]
        self.invariants.removed_unseen = self._removed_unseen
        self.invariants.taken_for_done = self._taken_for_done
        self.invariants.runs = self._runs
        self.faults = Faults(self.site, rng, self._say, self._kill_all, self.programs.forgotten)
        self.faults.kills_first = self.setting.kills_first
        self.processes: dict[str, Process] = {}
        """The newest supervisor of each job, by the job's name."""
        self.calm = False
        self.broken: Violation | None = None
        self._numbers = count()
        self._all: list[Process] = []

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
            for one in self._all:
                one.bury()

    def _run(self) -> None:
        self._say("seed %d: %s", self.seed, self.setting)
        self._set_up()
        self._pass(self.setting.horizon)
        self._calm_down()
        self._pass(PATIENCE, self._over)
        if not self._over():
            raise Violation(f"no end {PATIENCE:.0f} s after everything was well again: {self._phases()}")
        self._pass(CLEAN_UP, self._clean)
        if not self._clean():
            raise Violation(f"left behind after the end: {self._left()}")
        for name in self.setting.plots:
            self._delete(name)
        self._pass(CLEAN_UP, lambda: not self.disk.files)
        if self.disk.files or not self._clean():
            raise Violation(f"left behind after the deletion: {[*self.disk.files]} {self._left()}")

    def _pass(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> None:
        self.timeline.run(self.timeline.now + seconds, lambda: self.broken is not None or stop())
        if self.broken is not None:
            raise self.broken

    def _set_up(self) -> None:
        rng, horizon = self.rng, self.setting.horizon
        for at, (name, one) in enumerate(self.setting.plots.items()):
            self.timeline.after(rng.uniform(0.0, 2.0 + at * horizon / 4), partial(self._apply, name))
            for when, what in one.requests:
                self.timeline.at(when, partial(self._ask, name, what))
        kinds = self.faults.kinds()
        for what in rng.choices(list(kinds), [weight for weight, _ in kinds.values()], k=self.setting.harms):
            self.timeline.at(rng.choice((rng.uniform(0.0, 15.0), rng.uniform(0.0, horizon))), partial(self._harm, what))
        for _ in range(self.setting.kills):
            when = rng.choice((0.0, rng.uniform(0.0, 15.0), rng.uniform(0.0, horizon)))
            self.timeline.at(when, self._kill_soon)
        self.timeline.after(20.0, self._commands)

    # Processes.

    def _ensure(self, name: str) -> None:
        """What `ensure_supervisor` does."""
        owner = self.disk.supervised.get(name)
        folder = self._folder(name)
        process = Process(self.timeline, f"supervisor {next(self._numbers)}", name)
        machine = ModelMachine(self.site, process)
        if (owner is not None and not owner.dead) or not needs_supervisor(folder, machine):
            return
        self._say("%s begins with %s", process.name, name)
        self.processes[name] = process
        self._all.append(process)
        if not self.calm and self.rng.random() < self.setting.kills * 0.1:
            process.steps_left = self.rng.randint(1, 60)
        process.on_death.append(partial(self._died, process, name))
        process.spawn(lambda: self._supervised(folder, machine, process))

    def _supervised(self, folder: Folder, machine: ModelMachine, process: Process) -> None:
        with suppress(NoSuchJob):
            supervise(folder, machine)
        self._say("%s is done", process.name)
        process.kill()

    def _died(self, process: Process, name: str) -> None:
        self._say("%s is gone", process.name)
        self.timeline.after(self.rng.choice((0.1, self.rng.uniform(0.1, 90.0))), partial(self._ensure, name))

    def _kill_soon(self) -> None:
        alive = [one for one in self.processes.values() if not one.dead]
        if alive and not self.calm:
            self.rng.choice(alive).steps_left = self.rng.choice((1, self.rng.randint(1, 60)))

    def _kill_all(self) -> None:
        for one in self.processes.values():
            one.kill()

    def _commands(self) -> None:
        """Now and then somebody runs a command, which has every job looked after."""
        for name in self.setting.plots:
            if self.engine.up or self.rng.random() < 0.5:
                self._ensure(name)
        self.timeline.after(60.0, self._commands)

    # People.

    def _folder(self, name: str) -> Folder:
        return Folder(self.disk.logs / name, self.disk)

    def _apply(self, name: str) -> None:
        if name in self.disk.files:
            return
        uid = f"{name}-{next(self._numbers)}-uid"
        self.names[uid] = name
        about = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": moment(int(self.timeline.now)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        options = Options(images={IMAGE: "sha256:1"}).to_json()
        body = {
            "apiVersion": f"{names.GROUP}/v1alpha1",
            "kind": "SliceJob",
            "metadata": about,
            "spec": dict(self.setting.plots[name].spec),
            "status": dict(NEVER_WRITTEN),
            "local": {"format": 1, "events": [], "history": [], "options": options},
        }
        self._say("user: submits %s (%s): %s", name, uid, body["spec"])
        self._folder(name).store(body)
        self._ensure(name)

    def _ask(self, name: str, what: str) -> None:
        if self.calm:
            return
        if what == "apply":
            self._apply(name)
        elif what == "delete":
            self._delete(name)
        elif what == "more retries":
            most = self.rng.choice((11, 20))
            self._edit(name, lambda spec: spec["retries"].update(maxFailures=most, maxPreemptions=1_000_000))
        else:
            change = {"suspend": {"suspend": True}, "resume": {"suspend": False}, "cancel": {"cancel": True}}[what]
            self._edit(name, lambda spec: spec.update(change))

    def _edit(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        if name not in self.disk.files:
            return
        with self._folder(name).changing() as body:
            change(body["spec"])
            self._say("user: changes %s: %s", name, body["spec"])
        self._ensure(name)

    def _delete(self, name: str) -> None:
        if name not in self.disk.files:
            return
        self._say("user: deletes %s", name)
        with self._folder(name).changing() as body:
            body["metadata"].setdefault("deletionTimestamp", moment(self.timeline.now).isoformat())
        self._ensure(name)

    # What happens to it all.

    def _harm(self, what: str) -> None:
        if not self.calm:
            self.faults.kinds()[what][1]()

    def _script(self, key: AttemptKey) -> Script:
        rng, plot = self.rng, self.setting.plots[self.names[key[0]]]
        work, spread = rng.choice((rng.uniform(2.0, 30.0), rng.uniform(30.0, 300.0))), rng.choice((0.5, 5.0, 30.0))
        if self.calm or rng.random() < plot.clean_programs:
            return Script(after=5.0 if self.calm else work, spread=spread)
        will = rng.choice((Will.EXIT, Will.EXIT, Will.OOM, Will.HANG))
        place = worker(rng.randrange(plot.shape.slices), rng.randrange(plot.shape.hosts))
        early = rng.random() < 0.4
        words = START_ERROR if rng.random() < 0.1 else "boom"
        code = rng.choice((1, 1, 2, 137, *plot.shape.codes))
        return Script(will, place, code, rng.uniform(0.0, 3.0) if early else work, early, spread, words)

    def _calm_down(self) -> None:
        """From here on nothing stands in the way of the jobs."""
        self._say("--- all is well from here on ---")
        self.calm = self.faults.calm = True
        weather = self.setting.weather
        weather.slow = weather.unasked = weather.unanswered = weather.refused = 0.0
        self.engine.jammed = 0.0
        for one in self._all:
            one.steps_left = None
        for program in self.programs.programs.values():
            program.finish()
        for name in self.setting.plots:
            self._edit(name, lambda spec: spec.update(suspend=False))
            self._apply_once_gone(name)

    def _apply_once_gone(self, name: str) -> None:
        if name not in self.disk.files:
            if not any(uid in self.invariants.final for uid, known in self.names.items() if known == name):
                self._apply(name)
        elif self._folder(name).read()["metadata"].get("deletionTimestamp"):
            self.timeline.after(5.0, partial(self._apply_once_gone, name))

    # What must be true.

    def _written(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.invariants.job_written(after)
        if before["status"] == after["status"]:
            return
        try:
            self.invariants.status_written(who, before, after)
        except Violation as violation:
            self.broken = self.broken or violation

    def _unseen(self, who: str, uid: str, attempt: int) -> list[PodRecord]:
        return []

    def _runs(self, who: str, uid: str) -> list[str]:
        """Containers of a job that run, and that the process who writes has been shown as they are."""
        mine = self._connection_of(who)
        running = (one for one in self.engine.containers.values() if one.uid == uid and one.running)
        return [one.name for one in running if mine is not None and one.shown.get(mine.name, 0) >= one.version]

    def _noticed(self, who: str, blow: Blow) -> bool:
        """Whether the process that writes must know of a blow, and of what kind it was."""
        if self._doubtful(who, blow):
            return False
        mine, container = self._connection_of(who), self.programs.gone[blow.uid]
        if blow.kind is Kind.DELETED:
            return mine is not None and mine.name in container.shown
        if blow.kind in (Kind.EXIT, Kind.OOM, Kind.PEER) and mine is not None:
            return container.id in self.engine.containers or container.shown.get(mine.name, 0) >= container.version
        return True

    def _connection_of(self, who: str) -> Connection | None:
        """The newest connection of a process."""
        return next((one for one in reversed(self.site.connections) if one.name.startswith(f"{who}.")), None)

    def _removed_unseen(self, uid: str, who: str, attempt: int) -> bool:
        """Whether somebody removed a container of whose end who writes was not told."""
        mine = self._connection_of(who)
        blows = (blow for blow in self.truth.blows.get((uid, attempt), ()) if blow.kind is Kind.DELETED)
        gone = [self.programs.gone[blow.uid] for blow in blows]
        return mine is not None and any(one.shown.get(mine.name, 0) < one.version for one in gone)

    def _doubtful(self, who: str, blow: Blow) -> bool:
        """Whether who writes cannot tell an end with the engine from one by the program itself."""
        if blow.kind not in (Kind.DISRUPTED, Kind.EXIT, Kind.OOM, Kind.PEER):
            return False
        uid = self.programs.gone[blow.uid].uid
        if blow.kind is Kind.DISRUPTED:
            return self._taken_for_its_own(uid, blow.time)
        return self._noted(uid, blow.time, self.programs.slack)

    def _taken_for_done(self, uid: str, attempt: int) -> set[Place]:
        """Hosts that an engine stopped, and whose exit 0 nobody can tell from a success."""
        exits = self.programs.stopped_with_0.get((uid, attempt), {})
        return {place for place, time in exits.items() if self._taken_for_its_own(uid, time)}

    def _taken_for_its_own(self, uid: str, time: float) -> bool:
        """Whether a program that its engine ended seems to have ended by itself.

        Nobody may have watched, or the supervisor noticed only after that: the end of the events may come as late as an
        event, and a call may take its time to fail.
        """
        if self._noted(uid, time, self.programs.slack):
            return False
        return self._nobody_watched(uid, time) or self._noted(uid, time, MOST_LATE)

    def _nobody_watched(self, uid: str, time: float) -> bool:
        """Whether no connection of the job was open when the engine hung up that was away at that time."""
        down = next((since for since, until in self.faults.outages if since <= time <= until), None)
        mine = (one for one in self.site.connections if one.job == self.names[uid])
        return down is None or not any(one.opened <= down and one.in_use_at(down) for one in mine)

    def _noted(self, uid: str, time: float, late: float) -> bool:
        """Whether the job's supervisors noted that the engine was away then, or within so many seconds after it."""
        end, noted = moment(time), self.invariants.outages.get(uid, ())
        return any(since - timedelta(seconds=late) <= end <= until for since, until in noted)

    def _asked(self, what: str, labels: Mapping[str, str]) -> None:
        """Check what a supervisor asks of the engine against what it has written."""
        if Fiber.current is not None and names.LABEL_JOB_UID in labels:
            self._decided(labels[names.LABEL_JOB_UID], int(labels[names.LABEL_ATTEMPT]), what)

    def _decided(self, uid: str, attempt: int, what: str) -> None:
        """The status says what is done: an attempt that has begun is made, one that has ended is stopped."""
        try:
            body = self._folder(self.names[uid]).read()
        except NoSuchJob:
            raise Violation(f"{what} of a container of a job that is gone") from None
        status = SliceJobStatus.model_validate(body["status"])
        if body["metadata"].get("deletionTimestamp"):
            return
        active = body["metadata"]["uid"] == uid and status.attempt == attempt and not status.attempt_ended
        if active is not (what in ("create", "start")):
            raise Violation(f"{what} of attempt {attempt} while the status is at {status.attempt} ({status.phase})")

    def _over(self) -> bool:
        return all(self._has_ended(name) for name in self.setting.plots)

    def _has_ended(self, name: str) -> bool:
        if name not in self.disk.files:
            return any(uid in self.invariants.final for uid, known in self.names.items() if known == name)
        phase = self._folder(name).read()["status"].get("phase")
        return phase is not None and Phase(phase).final

    def _clean(self) -> bool:
        running = any(not one.dead for one in self.processes.values() if one.timeline.now >= 0)
        return not self._left() and not running

    def _left(self) -> list[str]:
        return [
            *(f"{one.name} ({one.state})" for one in self.engine.containers.values() if one.of_slipway),
            *(name for name, _ in self.engine.networks.values()),
        ]

    def _phases(self) -> str:
        found = {name: self._folder(name).read()["status"] for name in self.disk.files}
        return ", ".join(f"{name} {one.get('phase')} {one.get('conditions', [])}" for name, one in found.items())
