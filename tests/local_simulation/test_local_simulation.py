"""Random histories of jobs on one machine, and rules that are broken on purpose."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import Plan
from slipway.local.containers import container_state, host
from slipway.local.jobs.job_files import JobFolder
from slipway.local.supervisor import supervisor
from slipway.local.supervisor.apply import Applier
from slipway.local.supervisor.cache import JobCache
from slipway.local.supervisor.creation import Creator
from slipway.local.supervisor.removal import Remover
from tests.local_simulation.__main__ import main
from tests.local_simulation.connection import Connection, Weather
from tests.local_simulation.history import History
from tests.local_simulation.plot import JOB, Plot, Setting
from tests.local_simulation.run import prepared, run_seed, run_some, told
from tests.simulation.cluster import Shape

Breakage = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 300


@pytest.mark.parametrize(
    "fifty", [0, pytest.param(1, marks=pytest.mark.thorough), pytest.param(2, marks=pytest.mark.thorough)]
)
def test_no_history_breaks_an_invariant(fifty: int) -> None:
    first = 100_000 + 50 * fifty
    assert [f"seed {one.seed}: {one.message}" for one in run_some(range(first, first + 50))] == []


def test_a_seed_tells_the_same_history_again() -> None:
    for seed in range(1, 6):
        broken, lines = told(seed)
        assert not broken
        assert (broken, lines) == told(seed)
        assert len(lines) > 5


def test_what_somebody_else_failed_to_remove_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"image": "busybox:1", "retries": {}, "terminationGracePeriodSeconds": 2, "ttlSecondsAfterFinished": 0}
    plot = Plot(spec, Shape(1, 1, None, 30.0, {}), clean_programs=1.0)
    setting = Setting({JOB: plot}, 0, Weather(), 600.0, 0, 0, 2, jammed=1.0, slow_removals=1.0, kills_first=False)
    monkeypatch.setattr("tests.local_simulation.history.setting", lambda rng: setting)
    stop, removed = Connection.stop, set[str]()
    with prepared():
        history = History(1, tmp_path)

        def too_late(self: Connection, container: str, timeout: float) -> None:
            if container not in removed:
                removed.add(container)
                history.faults.remove(history.engine.get(container))
                history.timeline.after(5.0, lambda: setattr(history.engine, "jammed", 0.0))
            stop(self, container, timeout)

        monkeypatch.setattr(Connection, "stop", too_late)
        history.run()
    assert len(removed) == 1


def test_a_host_that_somebody_removes_while_the_engine_is_lost_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is created anew, and the other host gets the blame for failing without it."""
    spec = {"image": "busybox:1", "hosts": 2, "retries": {}, "terminationGracePeriodSeconds": 2}
    plot = Plot(spec, Shape(1, 2, None, 30.0, {}), clean_programs=1.0)
    setting = Setting({JOB: plot}, 0, Weather(), 600.0, 0, 0, 2, jammed=0.0, slow_removals=0.0, kills_first=False)
    monkeypatch.setattr("tests.local_simulation.history.setting", lambda rng: setting)
    look, lost = Connection.containers, list[str]()
    with prepared():
        history = History(1, tmp_path, tracing=True)

        def interrupted(self: Connection, **rest: Any) -> list[dict[str, Any]]:
            running = [one for one in history.engine.containers.values() if one.running]
            if not lost and len(running) == 2:
                lost.append(self.name)
                raise self._lost("no answer")
            if len(lost) == 1:
                lost.append(self.name)
                history.timeline.after(0.0, lambda: history.faults.remove(running[-1]))
                self._process.sleep(0.1)
            return look(self, **rest)

        monkeypatch.setattr(Connection, "containers", interrupted)
        history.run()
    assert lost[0] != lost[1]
    assert any("attempt 0: preemption, PodDeleted" in line for line in history.lines)


def test_the_command_says_how_fast_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "4", "--seed", "1", "--jobs", "1"]) == 0
    assert re.match(r"4 histories in [0-9.]+ s, \d+ a second; 0 broke an invariant", capsys.readouterr().out)


def actions_come_first(patch: pytest.MonkeyPatch) -> None:
    """What the plan says is done, and then written."""

    def broken(self: Applier, plan: Plan, job: Job) -> bool:
        for action in plan.actions:
            self._act(action, job)
        return self._write(plan, job) is not job

    patch.setattr(Applier, "apply", broken)


def nobody_waits_for_the_stop(patch: pytest.MonkeyPatch) -> None:
    """A container that is asked to stop counts as gone."""

    patch.setattr(Remover, "_stop_and_remove", lambda *_: None)
    snapshot = JobCache.snapshot

    def broken(self: JobCache, job: Job) -> Any:
        for one in self.deletions:
            self.pods.pop(one, None)
        return snapshot(self, job)

    patch.setattr(JobCache, "snapshot", broken)


def whatever_was_created_is_started(patch: pytest.MonkeyPatch) -> None:
    """Containers of attempts that have ended are started, too."""

    def broken(self: Applier, job: Job) -> bool:
        for one in self._cache.pods:
            for found in self._cache.host(one).due():
                self._cache.containers.start(found["Id"], self._folder.ray_token())
        return False

    patch.setattr(Applier, "start", broken)


def outages_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What ended with the engine ended by itself."""
    patch.setattr(JobFolder, "outages", lambda self: [])


def an_exit_0_is_always_a_success(patch: pytest.MonkeyPatch) -> None:
    """Programs that exit 0 when the engine stops them are done."""
    stopped = container_state.stopped_with_engine
    patch.setattr(
        container_state, "stopped_with_engine", lambda state, about: bool(state["ExitCode"]) and stopped(state, about)
    )


def devices_in_use_are_free(patch: pytest.MonkeyPatch) -> None:
    """A job takes the first devices, whoever has them."""
    patch.setattr(Creator, "_used", lambda self: {})


def the_dead_hold_devices(patch: pytest.MonkeyPatch) -> None:
    """A container that could not be started keeps its devices."""
    states = ("created", "running", "paused", "restarting")
    patch.setattr(Creator, "_holds_devices", lambda self, container, state: state in states)


def what_has_ended_is_settled(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks after what a killed supervisor has left behind of a job that has ended."""
    needs = supervisor.needs_supervisor

    def broken(job: JobFolder, *rest: Any) -> bool:
        body: Mapping[str, Any] = job.read()
        if body["status"].get("phase") in ("Succeeded", "Failed", "Cancelled", "Preempted"):
            return body["metadata"].get("deletionTimestamp") is not None
        return needs(job, *rest)

    patch.setattr("tests.local_simulation.history.needs_supervisor", broken)
    patch.setattr(supervisor, "needs_supervisor", broken)


def failed_removals_stay(patch: pytest.MonkeyPatch) -> None:
    """What could not be removed is not tried again."""
    patch.setattr(Remover, "finished", lambda self: [])


def somebody_elses_rm_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    """What somebody has removed has failed."""
    pod_json = host.pod_json

    def broken(container: Any, about: Any, version: int) -> Any:
        found = pod_json(container, about, version)
        if container["State"]["Status"] in ("dead", "removing") and about.deletion is None:
            del found["metadata"]["deletionTimestamp"]
        return found

    patch.setattr(host, "pod_json", broken)


BREAKAGES: tuple[tuple[Breakage, int], ...] = (
    (actions_come_first, 1),
    (nobody_waits_for_the_stop, 3),
    (whatever_was_created_is_started, 22),
    (outages_are_forgotten, 16),
    (an_exit_0_is_always_a_success, 235),
    (devices_in_use_are_free, 18),
    (the_dead_hold_devices, 72),
    (what_has_ended_is_settled, 4),
    (failed_removals_stay, 24),
    (somebody_elses_rm_is_a_failure, 225),
)
"""Each with a seed near one that catches it."""


@pytest.mark.parametrize(("breakage", "first"), BREAKAGES, ids=[one[0].__name__ for one in BREAKAGES])
def test_a_broken_rule_is_caught(breakage: Breakage, first: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        breakage(patch)
        caught = next(seed for seed in range(first, first + MOST_SEEDS) if run_seed(seed) is not None)
    assert run_seed(caught) is None
