from typing import Any

import pytest

from slipway.api.status import Phase
from slipway.cluster.jobs import JobStore, read_spec, read_status
from tests.cluster.things import Time, job_json

KEY = ("ns", "train")


@pytest.fixture
def jobs(time: Time) -> JobStore:
    return JobStore(time)


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


def test_a_spec_is_parsed_once_for_each_generation(jobs: JobStore) -> None:
    specs = []
    for version, generation in ((1, 1), (2, 1), (3, 2)):
        jobs.upsert(job_json(version, generation))
        job = jobs.get(KEY)
        assert job is not None
        specs.append(job.spec)
    assert specs[0] is specs[1]
    assert specs[2] is not specs[1]


def test_a_late_answer_does_not_bring_a_deleted_job_back(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=1))
    assert jobs.remove(KEY, "job-1") is not None
    assert jobs.upsert(job_json(version=2)) is None
    assert jobs.upsert(job_json(version=3, uid="job-2")) == KEY


def test_the_deletion_of_an_earlier_job_leaves_its_namesake_alone(jobs: JobStore) -> None:
    jobs.upsert(job_json(version=3, uid="job-2"))
    assert jobs.remove(KEY, "job-1") is None
    assert jobs.get(KEY) is not None


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a number out of range": ({"image": "a", "slices": 0}, "spec.slices 0: input should be greater than or equal to 1"),
    "a wrong type": ({"image": "a", "slices": "two"}, "spec.slices 'two': input should be a valid integer"),
    "an unknown field": ({"image": "a", "slcies": 2}, "spec.slcies is not a known field"),
    "several faults": ({"image": "a", "slices": 0, "x": 1}, "(and 1 more)"),
    "a fault in env keeps the value to itself": (
        {"image": "a", "env": [{"name": "A", "value": 5}]},
        "spec.env[0].value:",
    ),
}


@pytest.mark.parametrize(("content", "line"), BAD.values(), ids=BAD.keys())
def test_a_spec_that_cannot_be_read_is_described_in_one_line(content: dict[str, Any], line: str) -> None:
    spec, problem = read_spec(content)
    assert spec is None
    assert line in problem
    assert "\n" not in problem


def test_a_bad_spec_leaves_a_job_with_a_problem(jobs: JobStore) -> None:
    jobs.upsert(job_json(spec={"image": "a", "slices": 0}))
    job = jobs.get(KEY)
    assert job is not None
    assert job.spec is None
    assert job.problem.startswith("spec.slices 0")


def test_status_fields_of_a_newer_slipway_are_left_alone() -> None:
    status, problem = read_status(
        {"failures": 3, "new": 1, "attempts": [{"number": 0, "startTime": "2026-01-01T00:00:00Z", "newer": {"x": 1}}]}
    )
    assert (problem, status.failures, len(status.attempts)) == ("", 3, 1)


def test_a_status_that_makes_no_sense_is_a_problem_and_not_a_fresh_start(jobs: JobStore) -> None:
    jobs.upsert(job_json(status={"failures": "many"}))
    job = jobs.get(KEY)
    assert job is not None
    assert job.spec is None
    assert job.problem.startswith("status.failures 'many'")


@pytest.mark.parametrize(
    ("reason", "counts"), [("Unschedulable", True), ("CapacityReleased", True), ("QuotaExceeded", False)]
)
def test_only_an_older_job_that_waits_for_nodes_comes_first(jobs: JobStore, reason: str, counts: bool) -> None:
    def waiting(reason: str) -> dict[str, Any]:
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        condition = {"type": "CapacityAvailable", "status": "False", "reason": reason} | since
        return {"phase": "WaitingForCapacity", "conditions": [condition]}

    jobs.upsert(job_json(uid="older", name="a", status=waiting(reason)))
    jobs.upsert(job_json(uid="younger", name="b", status=waiting("Unschedulable")))
    younger = jobs.get(("ns", "b"))
    assert younger is not None
    assert jobs.older_waits(younger) is counts
