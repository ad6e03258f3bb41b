from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.names import QUEUE_LABEL
from slipway.api.reading import read_spec
from slipway.api.status import Phase
from slipway.apiserver.watch import Deleted
from slipway.controller.seen import jobs as jobs_module
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.jobs import MOST_RIVALS, JobStore
from slipway.controller.seen.pods import UNCLAIMED_SECONDS
from slipway.core.model.job import Job, Settings
from slipway.core.model.status_patch import status_patch
from slipway.core.validation.acceptance import accept
from tests.controller.things import Time, job_json, job_store, pod

KEY = ("ns", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def jobs(time: Time) -> JobStore:
    return job_store(time)


def test_a_job_is_read_into_words(jobs: JobStore) -> None:
    assert jobs.upsert(job_json(status={"phase": "Running"})) == KEY
    job = jobs.get(KEY)
    assert job is not None
    assert job.spec is not None
    assert (job.spec.image, job.status.phase, job.deleting) == ("busybox", Phase.RUNNING, False)


def test_an_older_version_never_replaces_a_newer_one(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=10, status={"phase": "Running"}))
    assert jobs.upsert(job_json(version=9)) is None
    assert jobs.upsert(job_json(version=10)) is None


def test_a_job_is_found_by_its_uid_for_as_long_as_it_exists(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=1))
    jobs.upsert(job_json(version=2, uid="job-2", name="other"))
    assert [jobs.key_of(uid) for uid in ("job-1", "job-2", "job-3")] == [KEY, ("ns", "other"), None]
    # It was deleted and created anew between two lists.
    jobs.upsert(job_json(version=3, uid="job-3"))
    assert [jobs.key_of(uid) for uid in ("job-1", "job-3")] == [None, KEY]
    jobs.remove(KEY, "job-3")
    assert jobs.key_of("job-3") is None


def test_a_spec_is_read_and_resolved_once_for_each_generation(jobs: JobStore) -> None:
    specs = []
    for version, generation in ((1, 1), (2, 1), (3, 2)):
        jobs.upsert(job_json(version, generation))
        job = jobs.get(KEY)
        assert job is not None
        specs.append((job.spec, accept(job, Settings())))
    assert all(first is second for first, second in zip(specs[0], specs[1], strict=True))
    assert all(first is not second for first, second in zip(specs[1], specs[2], strict=True))


def test_a_late_answer_does_not_bring_a_deleted_job_back(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=1))
    assert jobs.remove(KEY, "job-1") is not None
    assert jobs.upsert(job_json(version=2)) is None
    assert jobs.upsert(job_json(version=3, uid="job-2")) == KEY


def test_the_deletion_of_an_earlier_job_leaves_its_namesake_alone(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=3, uid="job-2"))
    assert jobs.remove(KEY, "job-1") is None
    assert jobs.get(KEY) is not None


def nested(levels: int) -> Any:
    content: Any = "x"
    for _ in range(levels):
        content = {"a": content} if levels % 2 else [content]
    return content


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a number out of range": ({"image": "a", "slices": 0}, "spec.slices 0: input should be greater than or equal to 1"),
    "a wrong type": ({"image": "a", "slices": "two"}, "spec.slices 'two': input should be a valid integer"),
    "an unknown field": ({"image": "a", "slcies": 2}, "spec.slcies is not a known field of this version of Slipway"),
    "an unknown field below": ({"image": "a", "retries": {"x": 2}}, "spec.retries.x is not a known field"),
    "no quantity": ({"image": "a", "shmSize": "x"}, "spec.shmSize 'x': must be a quantity such as 16Gi, 500m or 2"),
    "a map nested too deep": (
        {"image": "a", "podTemplate": nested(901)},
        "spec.podTemplate is nested more than 64 levels",
    ),
    "lists nested too deep": ({"image": "a", "ray": nested(900)}, "spec.ray is nested more than 64 levels deep"),
    "several faults": ({"image": "a", "slices": 0, "x": 1}, "(and 1 more)"),
    "a fault in env keeps the value to itself": (
        {"image": "a", "env": [{"name": "A", "value": 5}]},
        "spec.env[A].value is a number:",
    ),
}


@pytest.mark.parametrize(("content", "line"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_of_a_spec_is_described_in_one_line(content: dict[str, Any], line: str) -> None:
    spec, problem = read_spec(content)
    assert spec is not None
    assert spec.image == "a"
    assert line in problem
    assert "\n" not in problem


def test_the_queue_is_read_with_each_version_since_labels_make_no_generation(jobs: JobStore) -> None:
    for version, labels, queue in (1, {QUEUE_LABEL: "research"}, "research"), (2, {"a": "b"}, None), (3, None, None):
        body = job_json(version)
        body["metadata"]["labels"] = labels
        jobs.upsert(body)
        job = jobs.get(KEY)
        assert job is not None
        assert job.queue == queue


def test_a_bad_spec_leaves_a_job_with_a_problem(jobs: JobStore) -> None:
    jobs.upsert(job_json(spec={"image": "a", "slices": 0}))
    job = jobs.get(KEY)
    assert job is not None
    assert job.spec is not None
    assert job.problem.startswith("spec.slices 0")
    jobs.upsert(job_json(version=2, spec={"image": "a", "slices": 0}))
    again = jobs.get(KEY)
    assert again is not None
    assert again.problem == job.problem


LISTED: dict[str, tuple[dict[tuple[str, str], tuple[str, str]], str, list[tuple[str, str]], list[Any]]] = {
    "nothing has changed": ({KEY: ("job-1", "10")}, "20", [], []),
    "a change that no event told of": ({KEY: ("job-1", "11")}, "20", [KEY], []),
    "a job that no event told of": ({KEY: ("job-1", "10"), ("ns", "b"): ("x", "1")}, "20", [("ns", "b")], []),
    "a job that is gone": ({}, "20", [], [(KEY, "job-1")]),
    "a job made anew under its name": ({KEY: ("job-2", "12")}, "20", [KEY], [(KEY, "job-1")]),
    "a list older than what is known": ({}, "9", [], []),
}


@pytest.mark.parametrize(("found", "version", "newer", "missing"), LISTED.values(), ids=LISTED.keys())
def test_a_list_of_versions_tells_what_to_read_and_what_is_gone(
    jobs: JobStore, found: Any, version: str, newer: list[Any], missing: list[Any]
) -> None:
    jobs.upsert(job_json(version=10))
    assert (jobs.newer(found), jobs.missing(found, version)) == (newer, missing)
    assert jobs.missing({}, "20", namespace="elsewhere") == []


def test_a_job_that_is_known_to_be_gone_is_not_read_again(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=10))
    jobs.remove(KEY, "job-1")
    assert jobs.newer({KEY: ("job-1", "11")}) == []


NEEDS: dict[str, tuple[dict[str, Any], str, bool | None]] = {
    "of the current attempt": ({"attempt": 1}, "train-1-0-0", True),
    "of an earlier attempt": ({"attempt": 1}, "train-0-0-0", False),
    "of a job that has ended": ({"attempt": 1, "phase": "Failed"}, "train-1-0-0", False),
    "of a job without attempts": ({}, "train-0-0-0", True),
}


@pytest.mark.parametrize(("status", "name", "needed"), NEEDS.values(), ids=NEEDS.keys())
def test_which_pods_that_are_gone_a_decision_may_rest_on(
    jobs: JobStore, status: dict[str, Any], name: str, needed: bool
) -> None:
    jobs.upsert(job_json(status=status))
    assert jobs.needs(pod(name)) is needed


def test_pods_of_a_job_that_is_gone_are_needed_no_more_and_of_one_not_seen_yet_nobody_knows(jobs: JobStore) -> None:
    assert jobs.needs(pod()) is None
    jobs.upsert(job_json())
    jobs.remove(KEY, "job-1")
    assert jobs.needs(pod()) is False
    assert jobs.needs(pod(node="n1", phase="Failed")) is False
    assert jobs.needs(pod(node="n1", runs=True)) is None, "a later job of the name may have to wait for its containers"


def test_a_process_that_only_watches_keeps_nothing_of_jobs_that_are_gone_or_done(time: Time) -> None:
    cache = Cache(Settings(), lambda: NOW, time)
    for number in range(100):
        name, uid = f"j{number}", f"job-{number}"
        cache.jobs.upsert(job_json(uid=uid, name=name))
        hosts = [f"{name}-0-0-{host}" for host in range(10)]
        for host in hosts:
            cache.pods.applied(pod(host, version=1, job=name, job_uid=uid, node="n1"))
        for host in hosts[:5]:
            cache.pods.observe(Deleted(pod(host, version=2, job=name, job_uid=uid, node="n1", phase="Failed")))
        if number % 2:
            cache.jobs.upsert(job_json(version=2, uid=uid, name=name, status={"phase": "Succeeded"}))
        else:
            cache.jobs.remove(("ns", name), uid)
        for host in hosts[5:]:
            cache.pods.observe(Deleted(pod(host, version=2, job=name, job_uid=uid, node="n1", phase="Failed")))
    assert (len(cache.pods), len(cache.jobs)) == (0, 50)
    assert [cache.pods.vanished_of(("ns", f"j{number}"), f"job-{number}") for number in range(100)] == [()] * 100
    assert not cache.pods.jobs_on("n1")


def test_pods_that_were_forced_of_a_job_that_had_ended_are_kept_for_the_next_of_the_name(time: Time) -> None:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json(status={"attempt": 0, "phase": "Cancelled"}))
    cache.pods.applied(pod(node="n1", runs=True))
    cache.pods.removed(pod(version=2, node="n1", runs=True))
    assert [one.pod.metadata.name for one in cache.pods.vanished_foreign(KEY, "job-2")] == ["train-0-0-0"]


def test_nothing_is_kept_of_pods_of_a_job_whose_successor_is_seen_before_its_end(time: Time) -> None:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json(status={"attempt": 0}))
    cache.pods.applied(pod(node="n1"))
    cache.pods.applied(pod("train-0-0-1", node="n1"))
    cache.pods.removed(pod(version=2, node="n1", phase="Failed"))
    cache.jobs.upsert(job_json(version=9, uid="job-2"))
    cache.pods.removed(pod("train-0-0-1", version=10, node="n1", phase="Failed"))
    assert cache.pods.vanished_of(KEY, "job-1") == ()
    assert not cache.pods.jobs_on("n1")


@pytest.mark.parametrize("phase", ["Running", "Cancelled", "Failed"])
def test_pods_that_were_forced_are_kept_for_the_next_job_of_the_name_for_minutes(time: Time, phase: str) -> None:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json(status={"attempt": 0}))
    cache.pods.applied(pod(node="n1", runs=True))
    cache.pods.applied(pod("train-0-0-1", node="n1", runs=True))
    cache.pods.applied(pod("train-0-0-2"))
    cache.pods.removed(pod(version=2, node="n1", runs=True))
    cache.jobs.upsert(job_json(version=8, status={"attempt": 0, "phase": phase}))
    cache.jobs.upsert(job_json(version=9, uid="job-2"))
    cache.pods.removed(pod("train-0-0-1", version=10, node="n1", runs=True))
    cache.pods.removed(pod("train-0-0-2", version=11))
    snapshot = cache.snapshot(KEY)
    assert snapshot is not None
    assert snapshot.vanished == ()
    assert [one.pod.metadata.name for one in snapshot.vanished_foreign] == ["train-0-0-0", "train-0-0-1"]
    time.now += UNCLAIMED_SECONDS
    assert cache.pods.vanished_foreign(KEY, "job-2") == ()
    assert not cache.pods.jobs_on("n1")


def waiting(reason: str, phase: str = "WaitingForCapacity") -> dict[str, Any]:
    """The status of a job that waits for that reason."""
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    condition = {"type": "CapacityAvailable", "status": "False", "reason": reason} | since
    return {"phase": phase, "conditions": [condition]}


@pytest.mark.parametrize(
    ("phase", "reason", "counts"),
    [
        ("WaitingForCapacity", "Unschedulable", True),
        ("WaitingForCapacity", "CapacityReleased", True),
        ("WaitingForCapacity", "QuotaExceeded", True),
        ("Pending", "PodRejected", False),
    ],
)
def test_only_an_older_job_that_waits_for_nodes_or_quota_comes_first(
    jobs: JobStore, phase: str, reason: str, counts: bool
) -> None:
    jobs.upsert(job_json(uid="older", name="a", status=waiting(reason, phase)))
    jobs.upsert(job_json(uid="younger", name="b", status=waiting("Unschedulable")))
    younger = jobs.get(("ns", "b"))
    assert younger is not None
    assert [job.name for job in jobs.rivals(younger)] == (["a"] if counts else [])


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from(["Unschedulable", "QuotaExceeded", "", "gone"]))
    )
)
def test_the_rivals_of_a_job_are_the_oldest_of_all_that_wait(changes: list[tuple[str, str]]) -> None:
    jobs = job_store(Time())
    for version, (name, reason) in enumerate(changes, 1):
        known = jobs.get(("ns", name))
        uid = known.uid if known is not None else f"{name}-{version}"
        if reason == "gone":
            jobs.remove(("ns", name), uid)
        else:
            jobs.upsert(job_json(version, uid=uid, name=name, status=waiting(reason) if reason else {}))
    waits = sorted(job.name for job in jobs.all() if job.status.conditions)
    for job in jobs.all():
        older = [name for name in waits if name < job.name] if job.name in waits else []
        assert [one.name for one in jobs.rivals(job)] == older[:MOST_RIVALS]


def test_looking_for_rivals_does_not_walk_over_all_that_wait(jobs: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1000):
        jobs.upsert(job_json(uid=f"{number}", name=f"j{number:03}", status=waiting("Unschedulable")))
    compared: list[Job] = []
    age = jobs_module._age

    def noted(job: Job) -> Any:
        compared.append(job)
        return age(job)

    monkeypatch.setattr(jobs_module, "_age", noted)
    youngest = jobs.get(("ns", "j999"))
    assert youngest is not None
    assert [job.name for job in jobs.rivals(youngest)] == [f"j00{number}" for number in range(MOST_RIVALS)]
    assert len(compared) < 50


def ended_attempt(number: int, **more: Any) -> dict[str, Any]:
    return {"number": number, "startTime": "2026-01-01T00:00:00Z", "cause": "failure", "reason": "ExitCode"} | more


def test_of_a_job_that_is_over_the_attempts_that_were_told_are_left_out(jobs: JobStore) -> None:
    before = {"phase": "Running", "attempt": 2, "attempts": [ended_attempt(number) for number in (2, 1, 0)]}
    jobs.upsert(job_json(1, status=before))
    changed = [ended_attempt(2), ended_attempt(1, message="said late"), ended_attempt(0)]
    after = {"phase": "Failed", "attempt": 2, "attempts": changed, "foo": "of another version"}
    kept = []
    for version in (2, 3):
        jobs.upsert(job_json(version, status=after))
        job = jobs.get(KEY)
        assert job is not None
        kept.append([one.number for one in job.status.attempts])
        assert job.stored_status == after
    assert kept == [[2, 1], [2]]


def test_of_a_job_that_was_over_when_it_was_first_read_the_last_attempt_is_kept(jobs: JobStore) -> None:
    jobs.upsert(job_json(status={"phase": "Failed", "attempts": [ended_attempt(number) for number in (1, 0)]}))
    job = jobs.get(KEY)
    assert job is not None
    assert [one.number for one in job.status.attempts] == [1]


def test_a_change_of_a_job_that_is_over_leaves_its_attempts_as_they_are_stored(jobs: JobStore) -> None:
    stored = {"phase": "Failed", "attempts": [ended_attempt(number) for number in (1, 0)]}
    jobs.upsert(job_json(status=stored))
    job = jobs.get(KEY)
    assert job is not None
    (last,) = job.status.attempts
    changed = job.status.model_copy(update={"attempts": (last.model_copy(update={"message": "said late"}),)})
    assert status_patch(job, changed)["attempts"] == [ended_attempt(1, message="said late"), ended_attempt(0)]
