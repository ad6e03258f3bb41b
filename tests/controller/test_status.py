"""A status is read tolerantly and written sparingly: versions of Slipway follow each other, forwards and back."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.status import Cause, Phase, SliceJobStatus
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job, Settings
from slipway.core.model.merge_patch import apply_merge_patch
from slipway.core.model.reading import read_job, read_status
from slipway.core.model.status_patch import status_patch
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.planner.plan import plan
from slipway.core.planner.status.events import EventCursor, news
from tests.controller.things import Time, job_json, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = "2026-01-01T00:00:00Z"

STORED: dict[str, Any] = {
    "observedGeneration": 1,
    "phase": "Running",
    "failures": 3,
    "preemptions": 4,
    "attempt": 7,
    "slices": {"requested": 1, "granted": 1, "ready": 1},
    "readySlices": "1/1",
    "succeededHosts": ["0:0-1"],
    "hosts": [{"pod": "train-7-0-0", "reason": "Unschedulable", "slice": 0}],
    "resolved": {
        "hosts": 2,
        "coordinatorPort": 8476,
        "scheduleSeconds": 1,
        "startSeconds": 1,
        "gracePeriodSeconds": 30,
        "templateHash": "h",
    },
    "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": THEN},
        {"type": "Running", "status": "True", "reason": "Running", "message": "all run", "lastTransitionTime": THEN},
    ],
    "attempts": [
        {"number": 7, "startTime": THEN, "runningTime": THEN},
        {"number": 6, "startTime": THEN, "endTime": THEN, "cause": "preemption", "reason": "NodeLost", "message": "m",
         "root": {"slice": 0, "host": 1, "exitCode": 1}},
    ],
}  # fmt: skip


def of(stored: dict[str, Any]) -> Job:
    return read_job(job_json(status=stored))


def written(job: Job, **changes: Any) -> dict[str, Any]:
    """The stored status after these changes were written."""
    patch = status_patch(job, job.status.model_copy(update=changes))
    merged: dict[str, Any] = apply_merge_patch(job.stored_status, patch)
    return merged


def changed(path: str, value: Any) -> dict[str, Any]:
    """The stored status with another value at a place, or with a field more."""
    stored = copy.deepcopy(STORED)
    *parents, last = path.split(".")
    here: Any = stored
    for part in parents:
        here = here[int(part)] if part.isdigit() else here[part]
    here[int(last) if last.isdigit() else last] = value
    return stored


def at(stored: Any, path: str) -> Any:
    for part in path.split("."):
        stored = stored[int(part)] if part.isdigit() else stored[part]
    return stored


NEWER: dict[str, tuple[str, Any]] = {
    "a phase": ("phase", "Resizing"),
    "a cause": ("attempts.1.cause", "resize"),
    "a reason": ("attempts.1.reason", "Moved"),
    "a condition's reason": ("conditions.1.reason", "Moved"),
    "a condition's status": ("conditions.1.status", "Perhaps"),
    "a field": ("units", [{"attempt": 3}]),
    "a field of slices": ("slices.spare", 1),
    "a field of an attempt": ("attempts.1.scope", "slice"),
    "a field of a root": ("attempts.1.root.device", {"chip": 3}),
    "a field of the newest attempt": ("attempts.0.scope", "slice"),
    "a field of a condition": ("conditions.1.severity", "high"),
    "a field of a host": ("hosts.0.chip", 3),
    "a field of the effective values": ("resolved.vendor", "nvidia"),
    "an object in place of nothing": ("result", {"reason": "R", "message": "m", "score": 0.5}),
}


@pytest.mark.parametrize(("path", "value"), NEWER.values(), ids=NEWER.keys())
def test_what_only_a_newer_version_knows_is_no_fault_and_is_kept(path: str, value: Any) -> None:
    job = of(changed(path, value))
    assert job.status_problem == ""
    assert (job.status.failures, len(job.status.attempts)) == (3, 2)
    after = written(job, failures=9, attempts=(job.status.attempts[0].model_copy(update={"message": "so"}),
                                               *job.status.attempts[1:]))  # fmt: skip
    assert at(after, path) == value
    assert (after["failures"], after["attempts"][0]["message"]) == (9, "so")
    assert after["attempts"][1] == job.stored_status["attempts"][1]


def test_a_condition_of_a_type_that_only_a_newer_version_knows_is_kept() -> None:
    stored = copy.deepcopy(STORED)
    stored["conditions"].insert(0, {"type": "Progressing", "status": "True", "reason": "Steps", "step": 5})
    job = of(stored)
    assert [one.type for one in job.status.conditions] == ["Accepted", "Running"]
    less = tuple(one.model_copy(update={"status": "False"}) for one in job.status.conditions[:1])
    after = written(job, conditions=less)["conditions"]
    assert {one["type"]: one["status"] for one in after} == {"Accepted": "False", "Progressing": "True"}
    assert stored["conditions"][0] in after


def test_longer_lists_than_this_version_writes_are_read() -> None:
    job = of(changed("attempts", [{"number": number, "startTime": THEN} for number in range(50)]))
    assert (job.status_problem, len(job.status.attempts)) == ("", 50)


def test_a_write_names_nothing_but_what_has_changed() -> None:
    job = of(STORED)
    assert status_patch(job, job.status) == {}
    assert status_patch(job, job.status.model_copy(update={"failures": 4})) == {"failures": 4}


@pytest.mark.parametrize("stored", [{}, {"observedGeneration": -1}], ids=["nothing", "the default"])
def test_a_status_that_was_never_written_is_written_in_full(stored: dict[str, Any]) -> None:
    job = of(stored)
    assert job.status == SliceJobStatus()
    after = written(job, phase=Phase.PENDING, observed_generation=1)
    assert (after["phase"], after["failures"], after["attempts"], after["observedGeneration"]) == ("Pending", 0, [], 1)


PHASES: dict[str, tuple[dict[str, Any], bool]] = {
    "none": ({}, False),
    "running": ({"phase": "Running"}, False),
    "failed": ({"phase": "Failed"}, True),
    "of another version": ({"phase": "Migrating"}, False),
    "of another version, with a result": ({"phase": "Moved", "result": {"reason": "R", "message": "m"}}, True),
    "of another version, with an end": ({"phase": "Moved", "completionTime": THEN}, True),
}


@pytest.mark.parametrize(("stored", "final"), PHASES.values(), ids=PHASES.keys())
def test_whether_a_phase_is_final(stored: dict[str, Any], final: bool) -> None:
    assert of(stored).status.final is final


@pytest.mark.parametrize("emptied", [None, {}, {"observedGeneration": -1}, {"phase": "Running"}])
def test_a_status_that_somebody_has_emptied_is_written_again(emptied: dict[str, Any] | None) -> None:
    job = read_job(job_json(status=emptied), of(STORED))
    assert (job.status, job.status_lost) == (of(STORED).status, True)
    again = apply_merge_patch(emptied or {}, status_patch(job, job.status))
    assert (of(again).status, read_job(job_json(status=again), job).status_lost) == (job.status, False)


def test_the_status_of_a_job_in_another_cluster_is_emptied_by_multikueue() -> None:
    body = job_json(status={"phase": "Pending"})
    body["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert not read_job(body, of(STORED)).status_lost


def test_a_word_of_another_version_is_none_of_the_known_ones() -> None:
    word = Cause("resize")
    assert (word.value, word.known, word in tuple(Cause)) == ("resize", False, False)
    assert word is Cause("resize")
    assert Cause("failure") is Cause.FAILURE


UNREADABLE: dict[str, tuple[str, Any, str]] = {
    "a number": ("failures", "many", "status.failures 'many'"),
    "a list": ("attempts", "none", "status.attempts 'none'"),
    "an entry": ("attempts.1", 5, "status.attempts[1] 5"),
    "a field of an entry": ("attempts.1.number", "one", "status.attempts[1].number 'one'"),
    "a time": ("attempts.0.startTime", "noon", "status.attempts[0].startTime 'noon'"),
    "an object": ("resolved", [1], "status.resolved a list:"),
    "a phase that is no word": ("phase", 5, "status.phase 5"),
    "a cause that is no word": ("attempts.1.cause", 5, "status.attempts[1].cause 5"),
}


@pytest.mark.parametrize(("path", "value", "words"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_said_and_nothing_else_is_touched(path: str, value: Any, words: str) -> None:
    stored = changed(path, value)
    job = of(stored)
    assert job.status_problem.startswith(words)
    assert job.spec is not None
    decision = plan(Snapshot(job, pods=(pod("train-6-0-0"), pod("train-7-0-0"))), NOW)
    assert decision.actions == ()
    patch = status_patch(job, decision.status)
    assert patch.keys() == {"conditions"}
    after = apply_merge_patch(stored, patch)
    [accepted] = [one for one in after["conditions"] if one["type"] == "Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "StatusUnreadable")
    assert accepted["message"].startswith(words)
    assert {k: v for k, v in after.items() if k != "conditions"} == {
        k: v for k, v in stored.items() if k != "conditions"
    }
    again = of(after)
    assert status_patch(again, plan(Snapshot(again), NOW).status) == {}


@pytest.mark.parametrize("value", ["none", [5], [{"type": "Accepted"}], [{"status": "True"}]])
def test_conditions_that_cannot_be_read_stay_as_they_are(value: Any) -> None:
    job = of(changed("conditions", value))
    assert job.status_problem
    assert status_patch(job, plan(Snapshot(job), NOW).status) == {}


def test_whatever_a_plan_wants_only_conditions_of_an_unreadable_status_are_written() -> None:
    job = of(changed("attempts", "none"))
    assert status_patch(job, SliceJobStatus(phase=Phase.PENDING, failures=0)).keys() == {"conditions"}


def test_a_job_goes_on_once_its_status_can_be_read_and_nothing_is_announced_twice(time: Time) -> None:
    cache = Cache(Settings(), lambda: NOW, time)
    for version, status in ((1, changed("attempts", "none")), (2, STORED)):
        cache.jobs.upsert(job_json(version, status=status))
        job = cache.jobs.get(("ns", "train"))
        assert job is not None
        assert [one.reason for one in cache.news(job)] == []
    assert plan(Snapshot(job), NOW).status.phase is not Phase.INVALID


def test_a_job_that_has_ended_in_a_phase_of_another_version_is_left_to_it() -> None:
    end = {"phase": "Moved", "result": {"reason": "R", "message": "m"}, "completionTime": THEN}
    job = of({**STORED, **end})
    decision = plan(Snapshot(job), NOW)
    assert (decision.status, decision.actions) == (job.status, ())


def test_an_attempt_that_ended_for_a_cause_of_another_version_is_charged_to_nothing_more() -> None:
    stored = copy.deepcopy(STORED)
    stored["attempts"][0] |= {"endTime": THEN, "cause": "resize", "reason": "Resized", "message": "to 4 slices"}
    job = of(stored)
    status = plan(Snapshot(job, checked=True), NOW).status
    charged = [status.failures, status.preemptions, status.infrastructure_failures, status.uncharged]
    assert charged == [3, 4, 0, 0]
    [told, _] = news(EventCursor(judged=6), job.status, job.spec)
    assert (told.reason, told.message) == ("AttemptEnded", "attempt 7 (not charged): to 4 slices")


FOREIGN = st.dictionaries(st.sampled_from(["scope", "units", "x"]), st.integers() | st.text(max_size=3), max_size=2)
CHANGES: dict[str, Callable[[SliceJobStatus], dict[str, Any]]] = {
    "a count": lambda status: {"failures": status.failures + 1},
    "a phase": lambda status: {"phase": Phase.RESTARTING},
    "an attempt more": lambda status: {
        "attempts": (status.attempts[0].model_copy(update={"number": 8}), *status.attempts)
    },
    "an attempt's end": lambda status: {
        "attempts": (status.attempts[0].model_copy(update={"end_time": NOW}), *status.attempts[1:])
    },
    "a condition": lambda status: {
        "conditions": (status.conditions[0].model_copy(update={"message": "x"}), *status.conditions[1:])
    },
    "slices": lambda status: {"slices": status.slices and status.slices.model_copy(update={"ready": 0})},
    "other effective values": lambda status: {
        "resolved": status.resolved and status.resolved.model_copy(update={"hosts": 3})
    },
    "no hosts": lambda status: {"hosts": ()},
}


def _known(stored: dict[str, Any]) -> dict[str, Any]:
    """What this version knows of a status."""
    return read_status(stored)[0].model_dump(mode="json", by_alias=True, exclude_none=True)


@given(extra=st.lists(FOREIGN, min_size=6, max_size=6), order=st.permutations(sorted(CHANGES)), cause=st.text())
def test_versions_that_follow_each_other_lose_nothing_of_what_only_one_knows(
    extra: list[dict[str, Any]], order: list[str], cause: str
) -> None:
    """A newer and an older version write in turns: the newer one finds its own fields and words as they were."""
    stored = copy.deepcopy(STORED)
    stored["attempts"][1]["cause"] = cause
    places = ("", "attempts.0", "attempts.1", "attempts.1.root", "conditions.1", "slices")
    for path, fields in zip(places, extra, strict=True):
        (at(stored, path) if path else stored).update(fields)
    now = stored
    for step, name in enumerate(order):
        now["step"] = now["attempts"][0]["step"] = step
        job = of(now)
        wanted = CHANGES[name](job.status)
        after = written(job, **wanted)
        assert _known(after) == _known(now) | _dumped(job.status.model_copy(update=wanted), wanted)
        assert after["step"] == {one["number"]: one for one in after["attempts"]}[newest_of(now)]["step"] == step
        now = after
    newest = {one["number"]: one for one in now["attempts"]}
    found: dict[str, Any] = {"": now, "attempts.0": newest[7], "attempts.1": newest[6]}
    for path, fields in zip(places, extra, strict=True):
        here = found.get(path) or (newest[6]["root"] if path == "attempts.1.root" else at(now, path))
        assert fields.items() <= here.items()
    assert newest[6]["cause"] == cause


def newest_of(stored: dict[str, Any]) -> int:
    number: int = stored["attempts"][0]["number"]
    return number


def _dumped(status: SliceJobStatus, names: dict[str, Any]) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(names))
