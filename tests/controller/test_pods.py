from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.controller.seen.node_pools import OpenPools
from slipway.controller.seen.pods import ASKED_SECONDS, UNCLAIMED_SECONDS, PodStore
from slipway.core.model.pods import Pod
from tests.controller.things import Time, pod, pod_json

KEY = ("ns", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Jobs:
    """What a decision may rest on: nothing of a finished job, or of attempts before the current one."""

    def __init__(self) -> None:
        self.known = True
        self.finished = False
        self.attempt = 0

    def needs(self, gone: Pod) -> bool | None:
        return (not self.finished and gone.attempt >= self.attempt) if self.known else None


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def pods(time: Time, jobs: Jobs) -> PodStore:
    return PodStore(lambda: NOW, time, jobs.needs, OpenPools())


def listed(store: PodStore, version: int, *things: Pod, scope: str = "") -> set[tuple[str, str]]:
    woken = set(store.observe(Init(), scope))
    for one in things:
        woken |= set(store.observe(Applied(one), scope))
    return woken | set(store.observe(InitDone(str(version)), scope))


def known(store: PodStore, key: tuple[str, str] = KEY) -> list[str]:
    return sorted(one.metadata.name for one in store.of(key))


def lost(store: PodStore, uid: str = "job-1") -> list[str]:
    return sorted(one.pod.metadata.name for one in store.vanished_of(KEY, uid))


def test_pods_that_have_not_started_are_counted(pods: PodStore) -> None:
    for host in range(3):
        pods.applied(pod(f"train-0-0-{host}"))
    assert pods.starting(KEY) == 3
    pods.applied(pod("train-0-0-0", version=2, runs=True))
    pods.observe(Deleted(pod("train-0-0-1", version=3)))
    assert pods.starting(KEY) == 1
    pods.applied(pod("train-0-0-2", version=4, phase="Succeeded"))
    assert pods.starting(KEY) == 0
    listed(pods, 5)
    assert pods.starting(KEY) == 0
    pods.applied(pod("train-1-0-0", version=6))
    assert pods.starting(KEY) == 1


def test_a_pod_is_found_by_the_job_whose_name_it_carries(pods: PodStore) -> None:
    assert list(pods.applied(pod("train-0-0-0"))) == [KEY]
    pods.applied(pod("other-0-0-0", job="other"))
    assert known(pods) == ["train-0-0-0"]


def test_a_relist_drops_what_vanished_and_leaves_a_tombstone(pods: PodStore) -> None:
    listed(pods, 10, pod("train-0-0-0", 5), pod("train-0-0-1", 6))
    assert listed(pods, 20, pod("train-0-0-0", 5)) == {KEY}
    assert (known(pods), lost(pods)) == (["train-0-0-0"], ["train-0-0-1"])


def test_a_relist_that_shows_nothing_new_wakes_nobody(pods: PodStore) -> None:
    listed(pods, 10, pod("train-0-0-0", 5))
    assert listed(pods, 20, pod("train-0-0-0", 5)) == set()


def test_decisions_during_a_relist_are_made_on_what_was_known_before(pods: PodStore) -> None:
    pods.applied(pod("train-0-0-0"))
    pods.observe(Init())
    assert known(pods) == ["train-0-0-0"]


def test_a_relist_of_one_namespace_leaves_the_others_alone(pods: PodStore) -> None:
    listed(pods, 10, pod("train-0-0-0", 5), scope="ns")
    listed(pods, 10, pod("train-0-0-0", 6, uid="x", namespace="b"), scope="b")
    listed(pods, 20, scope="b")
    assert known(pods) == ["train-0-0-0"]


def test_an_older_version_is_ignored(pods: PodStore) -> None:
    pods.applied(pod(version=9, phase="Running"))
    assert not pods.applied(pod(version=10**0, phase="Pending"))
    assert next(iter(pods.of(KEY))).status.phase == "Running"


def test_versions_are_compared_as_numbers(pods: PodStore) -> None:
    pods.applied(pod(version=9, phase="Pending"))
    pods.applied(pod(version=10, phase="Running"))
    assert next(iter(pods.of(KEY))).status.phase == "Running"


def test_a_repeated_event_wakes_nobody(pods: PodStore) -> None:
    pods.applied(pod())
    assert not pods.applied(pod())


def test_a_change_that_no_decision_reads_wakes_nobody(pods: PodStore) -> None:
    pods.applied(pod(version=1))
    assert not pods.applied(pod(version=2))
    assert pods.applied(pod(version=3, phase="Running"))


def test_our_own_create_survives_a_list_that_lags_behind(pods: PodStore) -> None:
    listed(pods, 10)
    pods.applied(pod(version=15))
    listed(pods, 12)
    assert (known(pods), lost(pods)) == (["train-0-0-0"], [])


def test_our_own_create_is_gone_when_a_newer_list_lacks_it(pods: PodStore) -> None:
    pods.applied(pod(version=15))
    listed(pods, 16)
    assert (known(pods), lost(pods)) == ([], ["train-0-0-0"])


def test_of_pods_that_had_no_node_the_last_one_of_each_place_is_remembered(pods: PodStore) -> None:
    for version in range(1, 100, 2):
        uid = f"uid-{version}"
        pods.applied(pod(version=version, uid=uid))
        pods.observe(Deleted(pod(version=version + 1, uid=uid)))
    assert [one.pod.metadata.uid for one in pods.vanished_of(KEY, "job-1")] == ["uid-99"]
    pods.forget_unneeded(KEY)
    pods.applied(pod(version=200, uid="bound", node="n1"))
    pods.observe(Deleted(pod(version=201, uid="bound", node="n1")))
    assert [one.pod.metadata.uid for one in pods.vanished_of(KEY, "job-1")] == ["uid-99", "bound"]


def test_a_deleted_pod_leaves_the_final_object_behind(pods: PodStore) -> None:
    pods.applied(pod(version=1, node="n1"))
    assert list(pods.observe(Deleted(pod(version=5, node="n1", phase="Failed")))) == [KEY]
    gone = pods.vanished_of(KEY, "job-1")
    assert [(one.pod.status.phase, one.at) for one in gone] == [("Failed", NOW)]


def test_a_watch_behind_a_list_still_tells_how_a_pod_ended_that_the_list_lacked(pods: PodStore, jobs: Jobs) -> None:
    listed(pods, 10, pod(version=5))
    pods.relisted(KEY, "job-1", [], "30")
    assert list(pods.observe(Applied(pod(version=20, node="n1", phase="Running")))) == [KEY]
    assert list(pods.observe(Deleted(pod(version=29, node="n1", phase="Failed")))) == [KEY]
    assert not pods.observe(Applied(pod(version=21, node="n1", phase="Running")))
    gone = pods.vanished_of(KEY, "job-1")
    assert [(one.pod.status.phase, one.at) for one in gone] == [("Failed", NOW)]
    assert list(pods.jobs_on("n1")) == [KEY]
    jobs.finished = True
    pods.forget_unneeded(KEY)
    assert not pods.jobs_on("n1")
    assert known(pods) == []


def test_the_deletion_keeps_its_first_date_when_the_kubelet_deletes_once_more(pods: PodStore) -> None:
    known = pod(version=2, going=True)
    pods.applied(pod(version=1))
    pods.applied(known)
    late = {"deletionTimestamp": "2026-01-01T00:00:07Z", "deletionGracePeriodSeconds": 0}
    body = pod_json(version=3, phase="Failed")
    body["metadata"] |= late
    pods.observe(Deleted(msgspec.convert(body, Pod)))
    [gone] = pods.vanished_of(("ns", "train"), "job-1")
    assert gone.pod.status.phase == "Failed"
    assert gone.pod.deletion_requested_at == known.deletion_requested_at


def test_an_answer_that_comes_after_the_deletion_does_not_bring_a_pod_back(pods: PodStore) -> None:
    pods.applied(pod(version=1))
    pods.observe(Deleted(pod(version=2)))
    assert not pods.applied(pod(version=1))
    assert known(pods) == []


def test_pods_of_earlier_attempts_are_forgotten(pods: PodStore, jobs: Jobs) -> None:
    for name in ("train-0-0-0", "train-1-0-0"):
        pods.applied(pod(name))
        pods.observe(Deleted(pod(name, 2)))
    jobs.attempt = 1
    pods.forget_unneeded(KEY)
    assert lost(pods) == ["train-1-0-0"]
    jobs.finished = True
    pods.forget_unneeded(KEY)
    assert lost(pods) == []


def test_what_vanishes_from_a_finished_job_is_not_kept(pods: PodStore, jobs: Jobs) -> None:
    jobs.finished = True
    pods.applied(pod(version=1))
    pods.observe(Deleted(pod(version=2)))
    assert lost(pods) == []


def test_what_vanishes_before_its_job_is_known_is_kept_for_some_minutes(pods: PodStore, jobs: Jobs, time: Time) -> None:
    jobs.known = False
    pods.applied(pod(version=1))
    pods.observe(Deleted(pod(version=2)))
    time.now += UNCLAIMED_SECONDS - 1
    pods.applied(pod("other-0-0-0", version=3, job="other"))
    assert lost(pods) == ["train-0-0-0"]
    time.now += 1
    pods.applied(pod("other-0-0-1", version=4, job="other"))
    assert lost(pods) == []


def test_a_job_that_becomes_known_in_time_has_what_vanished_before(pods: PodStore, jobs: Jobs, time: Time) -> None:
    jobs.known = False
    pods.applied(pod(version=1))
    pods.observe(Deleted(pod(version=2)))
    jobs.known = True
    time.now += UNCLAIMED_SECONDS
    pods.applied(pod("other-0-0-0", version=3, job="other"))
    assert lost(pods) == ["train-0-0-0"]


def test_nothing_is_left_of_pods_whose_job_nobody_has_shown(pods: PodStore, jobs: Jobs, time: Time) -> None:
    jobs.known = False
    pods._open_pools.appeared("p")
    for number in range(200):
        name, job = f"j{number}-0-0-0", f"j{number}"
        one = pod(name, version=number * 3 + 1, job=job, job_uid=job, node="n1", pool="p", runs=bool(number % 2))
        pods.applied(one)
        pods.expect_deletion([one.metadata.uid])
        pods.observe(Deleted(pod(name, version=number * 3 + 3, job=job, job_uid=job, node="n1")))
        never_bound = {"job": job, "job_uid": job, "uid": f"other-{number}"}
        pods.applied(pod(name, version=number * 3 + 4, **never_bound))
        pods.observe(Deleted(pod(name, version=number * 3 + 5, **never_bound)))
        time.now += UNCLAIMED_SECONDS / 10
    time.now += UNCLAIMED_SECONDS
    pods.applied(pod(version=1000, node="n2"))
    held = {name: len(value) for name, value in vars(pods).items() if hasattr(value, "__len__")}
    assert held == {
        "_objects": 1,
        "_by_job": 1,
        "_owners": 1,
        "_starting": 1,
        "_over": 0,
        "_open_pools": 1,
        "busy": 1,
        "pinned": 0,
        "_vanished": 0,
        "_unbound": 0,
        "_unclaimed": 0,
        "_deletions": 0,
        "_tombstones": 0,
        "_listing": 0,
    }


@pytest.mark.parametrize(
    ("grace", "removed_at"), [(0, datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)), (30, None)], ids=["at once", "with grace"]
)
@pytest.mark.parametrize("listed_before", [False, True])
def test_a_pod_deleted_without_grace_left_the_api_when_that_was_requested(
    pods: PodStore, listed_before: bool, grace: int, removed_at: datetime | None
) -> None:
    pods.applied(pod(version=1, going=True))
    if listed_before:
        listed(pods, 5)
        assert [one.removed_at for one in pods.vanished_of(KEY, "job-1")] == [None]
    body = pod_json(version=3)
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:07Z", "deletionGracePeriodSeconds": grace}
    pods.observe(Deleted(msgspec.convert(body, Pod)))
    assert [one.removed_at for one in pods.vanished_of(KEY, "job-1")] == [removed_at]


FIRST, AGAIN = ({"running": {"startedAt": f"2026-01-01T00:00:0{second}Z"}} for second in (1, 9))
CREATING: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
DONE: dict[str, Any] = {"terminated": {"exitCode": 0}}
LIVES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "starts": ([CREATING, FIRST], False),
    "is known before its state": ([{}, CREATING, {}, FIRST], False),
    "runs on": ([FIRST, FIRST], False),
    "ends": ([FIRST, DONE], False),
    "runs since another time": ([FIRST, AGAIN], True),
    "waits after it ran": ([FIRST, CREATING], True),
    "waits after it ended": ([DONE, CREATING], True),
    "runs after it ended": ([FIRST, DONE, AGAIN], True),
    "stays so": ([FIRST, CREATING, AGAIN, AGAIN, DONE], True),
}


@pytest.mark.parametrize(("states", "restarted"), LIVES.values(), ids=LIVES.keys())
def test_a_worker_that_starts_anew_is_seen_to(pods: PodStore, states: list[dict[str, Any]], restarted: bool) -> None:
    for version, state in enumerate(states, 1):
        body = pod_json(version=version)
        body["status"]["containerStatuses"] = [{"name": "worker", "state": state}]
        pods.applied(msgspec.convert(body, Pod))
    assert [one.restarted for one in pods.of(KEY)] == [restarted]
    pods.observe(Deleted(pod(version=len(states) + 1)))
    assert [one.pod.restarted for one in pods.vanished_of(KEY, "job-1")] == [restarted]


GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:07Z", "deletionGracePeriodSeconds": 5}
ANNOUNCED: dict[str, Any] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("first", "metadata", "status", "ended_first"),
    [
        pytest.param(DONE, {}, {}, True, id="it had ended"),
        pytest.param(FIRST, {}, {}, False, id="it ran"),
        pytest.param(DONE, GOING, {}, False, id="it was terminating"),
        pytest.param(DONE, {}, ANNOUNCED, False, id="its end was announced"),
    ],
)
def test_that_a_worker_ended_before_anybody_wanted_its_pod_gone_is_remembered(
    pods: PodStore, first: dict[str, Any], metadata: dict[str, Any], status: dict[str, Any], ended_first: bool
) -> None:
    for version, state, more, of_status in ((1, first, metadata, status), (2, DONE, GOING, ANNOUNCED)):
        body = pod_json(version=version)
        body["metadata"] |= more
        body["status"] |= {"containerStatuses": [{"name": "worker", "state": state}]} | of_status
        pods.applied(msgspec.convert(body, Pod))
    assert [one.ended_first for one in pods.of(KEY)] == [ended_first]
    pods.observe(Deleted(pod(version=3)))
    assert [one.pod.ended_first for one in pods.vanished_of(KEY, "job-1")] == [ended_first]


def test_the_owners_of_all_pods_are_known(pods: PodStore) -> None:
    for name, job, uid in (("a-0-0-0", "a", "1"), ("a-0-0-1", "a", "1"), ("a-1-0-0", "a", "2"), ("b-0-0-0", "b", "3")):
        pods.applied(pod(name, job=job, job_uid=uid))
    assert pods.owners() == {(("ns", "a"), "1"), (("ns", "a"), "2"), (("ns", "b"), "3")}
    for name in ("a-0-0-0", "a-0-0-1"):
        pods.observe(Deleted(pod(name, 2)))
    assert pods.owners() == {(("ns", "a"), "2"), (("ns", "b"), "3")}


BEFORE = {"name": "train-0-0-0", "node": "n1", "runs": True}
OTHERWISE = {
    "name": "train-0-0-1",
    "job": "other",
    "job_uid": "job-2",
    "pool": "p",
    "phase": "Succeeded",
    "runs": False,
    "going": True,
    "node": "n2",
}
CHANGES = st.sets(st.sampled_from(sorted(OTHERWISE)), max_size=2)


@given(st.lists(CHANGES, max_size=12))
def test_the_indexes_are_those_of_a_store_that_has_seen_the_last_versions_only(changes: list[set[str]]) -> None:
    lived, last = PodStore(lambda: NOW, Time(), Jobs().needs, OpenPools()), dict[str, Pod]()
    for version, change in enumerate(changes, 1):
        one = pod(version=version, **(BEFORE | {name: OTHERWISE[name] for name in change}))
        last.pop(one.metadata.name, None)
        last[one.metadata.name] = one
        lived.applied(one)
    fresh = PodStore(lambda: NOW, Time(), Jobs().needs, OpenPools())
    for one in last.values():
        fresh.applied(one)
    indexes = ("_by_job", "_owners", "_starting", "_over", "busy", "pinned")
    assert [getattr(lived, name) for name in indexes] == [getattr(fresh, name) for name in indexes]
    # A job's pods stand in the order of their last changes.
    jobs = (KEY, ("ns", "other"))
    assert [list(lived.of(key)) for key in jobs] == [list(fresh.of(key)) for key in jobs]


def test_pods_of_another_job_of_the_same_name_are_not_ours(pods: PodStore) -> None:
    pods.applied(pod(job_uid="old"))
    pods.observe(Deleted(pod(version=2, job_uid="old")))
    assert (lost(pods), lost(pods, "old")) == ([], ["train-0-0-0"])


def test_a_pod_asked_to_go_is_remembered_until_the_watch_shows_it(pods: PodStore) -> None:
    one = pod()
    pods.applied(one)
    pods.expect_deletion([one.metadata.uid, "unknown"])
    assert pods.pending_deletions(KEY) == {one.metadata.uid}
    pods.applied(pod(version=2, going=True))
    assert pods.pending_deletions(KEY) == set()


def test_a_pod_asked_to_go_is_asked_again_when_nothing_shows(pods: PodStore, time: Time) -> None:
    one = pod()
    pods.applied(one)
    pods.expect_deletion([one.metadata.uid])
    time.now += ASKED_SECONDS
    assert pods.pending_deletions(KEY) == set()


def test_a_node_knows_the_jobs_of_its_pods_and_of_those_that_were_lost_there(pods: PodStore, jobs: Jobs) -> None:
    pods.applied(pod(version=1))
    assert not pods.jobs_on("n1")
    pods.applied(pod(version=2, node="n1"))
    assert list(pods.jobs_on("n1")) == [KEY]
    pods.observe(Deleted(pod(version=3, node="n1")))
    assert list(pods.jobs_on("n1")) == [KEY]
    jobs.finished = True
    pods.forget_unneeded(KEY)
    assert not pods.jobs_on("n1")
