"""Looks after one job of this machine's engine: observe, plan, apply, until the job is settled.

One process for each job, which `slipway local` leaves behind. It may be killed at any moment: the file says what was
decided, the containers say what was done, and the next command starts another.
"""

import logging
import logging.handlers
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from threading import Event
from typing import Any, Final

from slipway.api.base import rfc3339
from slipway.core.model.job import Job
from slipway.core.planner.lifecycle.requests import expiry
from slipway.core.planner.plan import plan
from slipway.local.containers.containers import Containers, EngineLost, EngineRefuses
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.jobs.job_files import JobFolder, NoSuchJob, Unreadable, folder, folders
from slipway.local.jobs.options import Options
from slipway.local.supervisor.apply import Applier
from slipway.local.supervisor.cache import JobCache, read
from slipway.local.supervisor.this_machine import THIS, Machine, News

log = logging.getLogger(__name__)

FILE: Final = "job"
"""News that the file of the job has changed."""
UNTOLD: Final = "untold"
"""News that containers may have changed, of which the engine tells nobody."""
RECONNECTED: Final = "engine"
"""News that the engine can be reached again: containers may have changed unseen."""
TRIES: Final = (0.2, 0.5, 1.0)
"""Seconds between tries to reach an engine that is away: what ends before it is found counts as ended with it.

Also the seconds before a connection is used where the ones before it were lost soon.
"""
PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between turns that fail."""
LOOK_SECONDS: Final = 30.0
"""Seconds after which it looks again without any news: not all that happens is told."""
UNTOLD_SECONDS: Final = 5.0
"""The same where the engine refuses to tell of anything."""
SHORT_SECONDS: Final = 5.0
"""A connection that was lost sooner will be lost again: the next ones are not used at once."""
LOG_BYTES: Final = 1024 * 1024
_SETTLED: Final = -1.0
_EXPECTED: Final = (EngineRefuses, OSError)
"""What may go wrong in a turn: the engine does not want to, or the disk is full."""


class Supervisor:
    """The loop that looks after one job."""

    def __init__(self, job: JobFolder, options: Options, machine: Machine = THIS) -> None:
        self._folder = job
        self._options = options
        self._machine = machine
        self._news = machine.news()
        self._stop = Event()
        self._job: Job | None = None

    def run(self) -> None:
        """Look after the job until it is settled, over losses of the engine."""
        self._machine.thread("file", self._follow_file)
        try:
            uid = str(self._folder.read()["metadata"]["uid"])
            self._note_reboot()
            cache, short = None, 0
            while True:
                api = self._connected()
                if short:
                    # Now, when it is noted that the engine is there: what ends meanwhile did not end with it.
                    self._machine.sleep(TRIES[min(short, len(TRIES)) - 1])
                since = self._machine.now()
                before, cache = cache, JobCache(Containers(api, uid), self._machine, outages=self._folder.outages())
                if before is not None:
                    cache.remember(before)
                try:
                    self._look_after(cache)
                    return
                except EngineLost as error:
                    self._note(partial(self._folder.engine_lost, cache.hung_up or self._machine.now()))
                    log.warning("the engine was lost: %s", error)
                    short = short + 1 if (self._machine.now() - since).total_seconds() < SHORT_SECONDS else 0
                finally:
                    api.close()
        except NoSuchJob:
            log.info("the job is gone")
        finally:
            self._stop.set()

    def _note_reboot(self) -> None:
        """Note that the engine was away while the machine was restarted, which no supervisor may have seen."""
        if (seen := self._folder.engine_seen()) < self._machine.booted_at():
            self._note(partial(self._folder.engine_lost, seen))

    def _note(self, write: Callable[[], None]) -> None:
        """Write to the job's file, however long the disk is full: nobody else looks after the job."""
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                write()
            except OSError as error:
                log.warning("%s; next try in %s s", error, pause)
                self._machine.sleep(pause)
            else:
                return

    def _connected(self) -> Any:
        """A connection, however long it takes; since when there was none, the job's file says."""
        for pause in chain(TRIES, repeat(TRIES[-1])):
            try:
                api = self._machine.connect(self._options.engine)
            except EngineUnavailable as error:
                # Since when, this process cannot know at its start; later it has noted when it lost the engine.
                self._note(partial(self._folder.engine_lost, self._folder.engine_seen()))
                log.warning("%s; next try in %s s", error, pause)
                self._machine.sleep(pause)
            else:
                self._note(partial(self._folder.engine_found, self._machine.now()))
                return api
        raise AssertionError("the pauses have no end")

    def _look_after(self, cache: JobCache) -> None:
        """Turn after turn until the job is settled, or the engine is lost."""
        applier = Applier(self._folder, cache, self._options)
        # What follows an earlier connection may find out late that this is over; it tells nobody any more.
        news = self._news = self._machine.news()
        self._machine.thread("engine", partial(self._follow_engine, cache, self._machine.now(), news))
        failures, changed = 0, set[str]()
        try:
            while True:
                try:
                    seconds = self._turn(cache, applier, changed)
                    failures = 0
                except (EngineLost, NoSuchJob):
                    raise
                except Exception as error:
                    # Nobody else looks after the job: whatever it is, it may be another time.
                    seconds, expected = PAUSES[min(failures, len(PAUSES) - 1)], isinstance(error, _EXPECTED)
                    failures += 1
                    words = str(error) if expected else "a mistake in Slipway"
                    log.warning("%s; next try in %s s", words, seconds, exc_info=None if expected else error)
                if seconds == _SETTLED:
                    return
                changed = self._wait(seconds)
        finally:
            applier.close()

    def _turn(self, cache: JobCache, applier: Applier, changed: set[str]) -> float | None:
        """Decide and act once; returns after how many seconds to do it again, None for when there is news."""
        removed = applier.remover.finished()
        cache.observe(changed)
        applier.remover.forget_vain(removed)
        applier.take_back()
        if applier.remover.remove_broken():
            cache.observe(())
        applier.remover.keep_logs()
        applier.remover.end_sidecars()
        job = self._job = read(self._folder.read(), self._job)
        decision = plan(cache.snapshot(job), cache.clock())
        again = applier.apply(decision, job)
        job = self._job = read(self._folder.read(), job)
        if applier.start(job) or again:
            return 0.0
        if self._settled(job, cache, applier):
            return _SETTLED
        due = None if decision.wake_at is None else max(0.0, (decision.wake_at - cache.clock()).total_seconds())
        return min((one for one in (due, cache.joining.due()) if one is not None), default=None)

    def _settled(self, job: Job, cache: JobCache, applier: Applier) -> bool:
        """Whether nothing is left to do now; of a job that is deleted nothing is left at all."""
        over = job.status.final or job.deleting
        if not over or any(pod.may_run for pod in cache.pods.values()):
            return False
        if cache.pods:
            applier.remover.remove_everything()
            return False
        applier.remover.remove_everything()
        if job.deleting:
            self._folder.remove()
        else:
            self._folder.settle()
        return True

    def _wait(self, seconds: float | None) -> set[str]:
        """Wait for news, or so long; returns the containers that something has happened to."""
        found = self._news.wait(LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS))
        if RECONNECTED in found:
            raise EngineLost("its stream of events has ended")
        return found - {FILE, UNTOLD}

    def _follow_file(self) -> None:
        """Tell of changes of the job's file by others."""
        for _ in self._machine.changes(self._folder, self._stop):
            self._news.put(FILE)

    def _follow_engine(self, cache: JobCache, since: datetime, news: News) -> None:
        """Tell of what happens to the containers; have them looked at where the engine refuses to."""
        refused = False
        while self._news is news and not self._stop.is_set():
            try:
                self._tell(cache, since, news)
            except EngineRefuses as error:
                if not refused:
                    words = "the engine does not tell what happens to containers: they are looked at every %s s: %s"
                    log.warning(words, UNTOLD_SECONDS, error)
                refused, since = True, self._machine.now()
                self._machine.sleep(UNTOLD_SECONDS)
                news.put(UNTOLD)
                continue
            except EngineLost as error:
                log.info("%s", error)
            cache.hung_up = cache.clock()
            news.put(RECONNECTED)
            return

    @staticmethod
    def _tell(cache: JobCache, since: datetime, news: News) -> None:
        for event in cache.containers.events(since):
            container = str(event.get("id") or event.get("Actor", {}).get("ID", ""))
            if event.get("Action") == "destroy" and (at := event.get("timeNano")):
                cache.destroyed(container, datetime.fromtimestamp(at / 1e9, UTC))
            news.put(container)


def supervise(job: JobFolder, machine: Machine = THIS, lock: int | None = None) -> None:
    """Look after a job in this process, unless another does; `lock` is a descriptor that holds the lock already."""
    while True:
        with job.supervised(lock) as mine:
            if mine is None:
                return
            body = job.read()
            Supervisor(job, Options.from_json(body["local"]["options"]), machine).run()
        # A command that came while the lock was still held did not start another supervisor.
        if not needs_supervisor(job, machine):
            return
        lock = None


def needs_supervisor(job: JobFolder, machine: Machine = THIS) -> bool:
    """Whether something is to be done for a job: it is not settled, is to be deleted, or its time is over."""
    try:
        body = job.read()
        found = read(body)
    except (NoSuchJob, Unreadable):
        # A newer Slipway looks after its jobs itself.
        return False
    due = expiry(found, found.status)
    settled = found.status.final and body["local"].get("settled", False)
    return found.deleting or not settled or (due is not None and due <= machine.now())


@dataclass(frozen=True, slots=True)
class Started:
    """A supervisor that was left behind."""

    job: JobFolder
    process: subprocess.Popen[bytes]
    version: str
    """The resourceVersion of the job when it was started."""

    @property
    def trouble(self) -> str:
        """Why it ended without having done anything; empty for one that runs, did something, or was killed."""
        code = self.process.poll()
        if code is None or code <= 0 or self.job.read()["metadata"]["resourceVersion"] != self.version:
            return ""
        said = self.job.supervisor_log.read_text(errors="replace").strip().rpartition("\n")[2]
        return (
            f"the process that looks after job {self.job.name} ends at once with exit code {code}: {said}; "
            f"see {self.job.supervisor_log}"
        )


def ensure_supervisor(job: JobFolder) -> Started | None:
    """Leave a process behind that looks after the job, unless there is one, or nothing is to be done.

    It has the lock from its first moment on: on a machine that is busy it takes seconds to start, and each command that
    came meanwhile would start another.

    Returns:
        The process, if this call has started it.
    """
    # One that goes meanwhile needs none.
    with suppress(NoSuchJob):
        if needs_supervisor(job):
            return _leave_supervisor(job)
    return None


def _leave_supervisor(job: JobFolder) -> Started | None:
    with job.supervised() as lock:
        if lock is None:
            return None
        version = job.read()["metadata"]["resourceVersion"]
        with job.supervisor_log.open("ab") as log_file:
            process = subprocess.Popen(
                [sys.executable, "-m", "slipway.local.supervisor.supervisor", job.name, str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # What it says before it has a log of its own, as when it does not find its modules.
                stderr=log_file,
                pass_fds=(lock,),
                start_new_session=True,
                cwd="/",
                env=os.environ | {"XDG_STATE_HOME": str(job.path.parents[2]), "PYTHONPATH": _search_path()},
            )
    # A program that lives longer than the supervisor is its parent, and has to hear of its end.
    THIS.thread(f"supervisor of {job.name}", process.wait)
    return Started(job, process, version)


def _search_path() -> str:
    """Where this process finds its modules: a notebook or a script may have said so, and relative to its folder."""
    return os.pathsep.join(str(Path(one).absolute()) for one in sys.path if Path(one).exists())


def delete(job: JobFolder) -> None:
    """Have a job deleted with its containers and its logs."""
    with job.changing() as body:
        body["metadata"].setdefault("deletionTimestamp", rfc3339(THIS.now()))
    ensure_supervisor(job)


def adopt_all() -> None:
    """Have every job looked after that is not settled: after a reboot, or where a supervisor was killed."""
    for job in folders():
        ensure_supervisor(job)


@contextmanager
def _logging(job: JobFolder) -> Iterator[None]:
    handler = logging.handlers.RotatingFileHandler(job.supervisor_log, maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(message)s")
    # It logs every change of a file, and the log is one.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    try:
        yield
    except NoSuchJob:
        pass
    except Exception:
        log.exception("a mistake in Slipway")
        raise


def main(arguments: list[str] = sys.argv[1:]) -> None:
    """Look after the job of that name, whose lock the descriptor of that number holds."""
    job, lock = folder(arguments[0]), int(arguments[1])
    with _logging(job):
        supervise(job, lock=lock)


if __name__ == "__main__":
    main()
