"""A job that MultiKueue runs in another cluster: what is left to do here, and what the copy does there."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from slipway.api.profile import ProfileSpec
from slipway.api.status import SliceJobStatus
from slipway.core.model.site import NO_CHART, Choice, Profile
from slipway.core.planner.contract.actions import DeleteJob
from slipway.core.planner.plan import plan
from slipway.core.validation.site import site_of
from tests.core.planner.test_admission import FINALIZER, TPU, Queue

ORIGIN = "multikueue"


class Manager(Queue):
    """The cluster in whose queue the job waits."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**TPU, managedBy="kueue.x-k8s.io/multikueue", **fields)

    def copies(self, status: SliceJobStatus) -> None:
        """MultiKueue writes the status of the copy in place of the job's."""
        self.status = status

    def dispatched(self) -> "Manager":
        """The queue has admitted the job, and its copy runs."""
        self.settle()
        self.admits()
        self.copies(elsewhere().status)
        return self


class Worker(Queue):
    """The cluster that runs the copy: MultiKueue has made its Workload before it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**TPU, **fields)

    @property
    def job(self) -> Any:
        return replace(super().job, origin=ORIGIN)

    def begun(self) -> "Worker":
        manager = Manager()
        manager.settle()
        assert manager.stored is not None
        self.stored = manager.stored
        labels = self.stored["metadata"]["labels"] | {"kueue.x-k8s.io/multikueue-origin": ORIGIN}
        labels["slipway.dev/job-uid"] = "of the job in the other cluster"
        self.stored["metadata"] |= {"labels": labels, "finalizers": [], "ownerReferences": []}
        self.admits()
        self.settle()
        return self


def elsewhere() -> Worker:
    """A copy that runs."""
    world = Worker().begun()
    world.run()
    return world


def profile_of(generation: int, memory: str) -> Choice:
    """A profile `default` whose pods request so much memory."""
    spec = {"defaults": {"resources": {"requests": {"memory": memory}}}}
    return Choice(Profile("default", generation, ProfileSpec.model_validate(spec)))


def succeeds(world: Worker) -> Worker:
    """Every program of a job exits 0."""
    for slice_, host in product(range(2), range(4)):
        world.pod(slice_, host).exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"
    return world


def test_the_job_waits_in_its_queue_and_has_no_pods() -> None:
    world = Manager()
    world.settle()
    world.says("QuotaReserved", True, "QuotaReserved")
    assert world.stored is not None
    world.stored["status"]["admissionChecks"] = [{"name": "clusters", "state": "Pending", "message": "which one"}]
    world.step(10)
    assert world.requests == ["create"]
    assert world.story()[:2] == ("Queued", "UnsatisfiedAdmissionChecks")
    assert "clusters: Pending, which one" in world.story()[2]
    assert not world.pods


def test_the_status_of_the_copy_stays_as_multikueue_writes_it() -> None:
    world = Manager().dispatched()
    copied = world.status
    assert copied.phase == "Running"
    world.settle()
    world.step(1000)
    assert (world.status, world.pods) == (copied, {})
    # What is told to Kueue is what any job tells.
    assert world.conditions()["PodsReady"] == "True"


def test_the_end_of_the_copy_is_the_end_of_the_job() -> None:
    world = Manager(ttlSecondsAfterFinished=60).dispatched()
    # The watches of Workloads and of jobs are two: the end may be seen before the last status.
    world.says("Finished", True, "Succeeded")
    before = world.status
    world.settle()
    assert (world.status, world.requests.count("delete")) == (before, 0)
    world.copies(succeeds(elsewhere()).status)
    last = world.status
    world.settle()
    assert world.status == last
    assert world.stored is not None
    assert FINALIZER not in world.stored["metadata"].get("finalizers", ())
    assert last.completion_time is not None
    world.now = last.completion_time
    assert DeleteJob() not in world.plan().actions
    world.now += timedelta(seconds=60)
    assert DeleteJob() in world.plan().actions


def test_a_job_that_its_queue_takes_back_begins_anew() -> None:
    world = Manager().dispatched()
    world.evicts("AdmissionCheck", "Admitting remote no longer exists")
    world.settle()
    assert world.stored is not None
    assert world.stored["status"].get("admission") is None
    assert world.story()[:2] == ("Queued", "AdmissionCheck")
    assert (world.status.attempts, world.status.attempt) == ((), None)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(profile_of(2, memory="2Gi"), id="other defaults"),
        pytest.param(Choice(problem=("ProfileInvalid", "nobody can read it")), id="none that can be read"),
    ],
)
def test_a_copy_goes_on_between_two_attempts_whatever_becomes_of_the_profile_here(later: Choice) -> None:
    choice, world = profile_of(1, memory="1Gi"), Manager()
    world.sited = lambda given, _: site_of(given, NO_CHART, choice)
    world.settle()
    world.admits()
    copy = elsewhere()
    world.copies(copy.status)
    world.settle()
    choice, before = later, list(world.requests)
    copy.pod(0, 0).exits(1)
    copy.step()
    assert copy.status.attempt_ended
    world.copies(copy.status)
    world.settle()
    assert (world.status, world.requests) == (copy.status, before)


def test_a_copy_that_may_run_is_left_alone_until_the_workloads_are_listed() -> None:
    world = Manager().dispatched()
    world.settle()
    before, kept = world.status, world.stored
    world.stored, world.unseen, world.problem = None, True, "the API server has not listed workloads yet"
    world.settle()
    assert world.status == before
    world.stored, world.unseen, world.problem = kept, False, ""
    world.settle()
    assert world.status == before


@pytest.mark.parametrize(
    ("request_", "phase", "left"),
    [
        pytest.param("suspend", "Suspended", False, id="suspended: it leaves its queue"),
        pytest.param("cancel", "Cancelled", True, id="cancelled: its Workload is finished"),
    ],
)
def test_a_request_to_stop_reaches_the_copy_by_the_workload(request_: str, phase: str, left: bool) -> None:
    world = Manager().dispatched()
    world.fields[request_] = True
    world.settle()
    assert world.status.phase == phase
    assert (world.stored is not None) is left
    # MultiKueue may copy once more before it has removed the copy.
    world.copies(elsewhere().status)
    world.settle()
    assert world.status.phase == phase


def test_a_suspended_job_enters_its_queue_again_when_it_is_resumed() -> None:
    world = Manager().dispatched()
    world.fields["suspend"] = True
    world.settle()
    del world.fields["suspend"]
    world.settle()
    assert world.requests.count("create") == 2
    assert world.story()[0] == "Queued"


def test_a_job_without_a_queue_is_dispatched_by_nobody() -> None:
    world = Manager()
    world.queue = None
    world.settle()
    assert world.story()[:2] == ("Invalid", "QueueMissing")
    assert "kueue.x-k8s.io/queue-name" in world.story()[2]
    assert world.stored is None


def test_a_job_that_has_lost_its_queue_can_be_cancelled() -> None:
    world = Manager().dispatched()
    world.queue = None
    world.settle()
    assert world.story()[:2] == ("Invalid", "QueueMissing")
    world.fields["cancel"] = True
    world.settle()
    assert (world.status.phase, world.stored) == ("Cancelled", None)


def test_a_copy_runs_with_the_workload_that_multikueue_has_made() -> None:
    world = elsewhere()
    assert (world.status.phase, len(world.pods)) == ("Running", 8)
    assert "create" not in world.requests
    world.pod(0, 1).exits(1)
    world.until_restarted()
    world.run()
    assert (world.status.attempt, world.status.failures) == (1, 1)
    assert world.conditions()["Admitted"] == "True"


def test_a_copy_does_not_follow_the_labels_of_its_own() -> None:
    """MultiKueue would write back what it has copied, or remove what is otherwise."""
    world = elsewhere()
    assert world.stored is not None
    asked = dict(world.stored["spec"])
    world.priority, world.queue = "high", "other"
    world.settle()
    assert world.stored["spec"] == asked


def test_a_copy_that_has_ended_is_left_to_multikueue() -> None:
    world = Worker(ttlSecondsAfterFinished=0).begun()
    world.run()
    succeeds(world).step(100)
    assert world.status.phase == "Succeeded"
    assert world.conditions()["Finished"] == "True"
    assert not world.deleting
    world.deleting = True
    world.settle()
    assert "delete" not in world.requests


def test_a_copy_without_its_workload_waits_to_be_removed() -> None:
    world = Worker()
    world.settle()
    assert not world.requests
    assert world.story()[:2] == ("Queued", "WorkloadDeleted")
    assert "MultiKueue has removed" in world.story()[2]


def test_a_workload_that_multikueue_has_made_for_a_copy_to_come_is_left_alone() -> None:
    world = Worker().begun()
    of_another = replace(world.snapshot, job=replace(world.job, origin="", uid="another"), pods=())
    assert not [one for one in plan(of_another, world.now).actions if "Workload" in type(one).__name__]
