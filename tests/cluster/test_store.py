from datetime import UTC, datetime

import msgspec
import pytest

from slipway.cluster.store import ASKED_SECONDS, NodeStore, PodStore
from slipway.cluster.watch import Applied, Deleted, Init, InitDone
from slipway.planner.snapshot import Node, Pod
from tests.cluster.things import Time, node, node_json, pod, pod_json

KEY = ("ns", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def pods(time: Time) -> PodStore:
    return PodStore(lambda: NOW, time)


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


def test_a_deleted_pod_leaves_the_final_object_behind(pods: PodStore) -> None:
    pods.applied(pod(version=1, node="n1"))
    assert list(pods.observe(Deleted(pod(version=5, node="n1", phase="Failed")))) == [KEY]
    gone = pods.vanished_of(KEY, "job-1")
    assert [(one.pod.status.phase, one.at) for one in gone] == [("Failed", NOW)]


def test_a_watch_behind_a_list_still_tells_how_a_pod_ended_that_the_list_lacked(pods: PodStore) -> None:
    listed(pods, 10, pod(version=5))
    pods.relisted(KEY, "job-1", [], "30")
    assert list(pods.observe(Applied(pod(version=20, node="n1", phase="Running")))) == [KEY]
    assert list(pods.observe(Deleted(pod(version=29, node="n1", phase="Failed")))) == [KEY]
    assert not pods.observe(Applied(pod(version=21, node="n1", phase="Running")))
    gone = pods.vanished_of(KEY, "job-1")
    assert [(one.pod.status.phase, one.at) for one in gone] == [("Failed", NOW)]
    assert list(pods.jobs_on("n1")) == [KEY]
    pods.forget(KEY)
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
    assert gone.pod.going_since == known.going_since


def test_an_answer_that_comes_after_the_deletion_does_not_bring_a_pod_back(pods: PodStore) -> None:
    pods.applied(pod(version=1))
    pods.observe(Deleted(pod(version=2)))
    assert not pods.applied(pod(version=1))
    assert known(pods) == []


def test_tombstones_of_earlier_attempts_are_forgotten(pods: PodStore) -> None:
    for name in ("train-0-0-0", "train-1-0-0"):
        pods.applied(pod(name))
        pods.observe(Deleted(pod(name, 2)))
    pods.forget(KEY, below_attempt=1)
    assert lost(pods) == ["train-1-0-0"]
    pods.forget(KEY)
    assert lost(pods) == []


def test_tombstones_of_another_job_of_the_same_name_are_not_ours(pods: PodStore) -> None:
    pods.applied(pod(job_uid="old"))
    pods.observe(Deleted(pod(version=2, job_uid="old")))
    assert (lost(pods), lost(pods, "old")) == ([], ["train-0-0-0"])


def test_a_pod_asked_to_go_is_remembered_until_the_watch_shows_it(pods: PodStore) -> None:
    one = pod()
    pods.applied(one)
    pods.ask(KEY, [one.metadata.uid, "unknown"])
    assert pods.asked_of(KEY) == {one.metadata.uid}
    pods.applied(pod(version=2, going=True))
    assert pods.asked_of(KEY) == set()


def test_a_pod_asked_to_go_is_asked_again_when_nothing_shows(pods: PodStore, time: Time) -> None:
    one = pod()
    pods.applied(one)
    pods.ask(KEY, [one.metadata.uid])
    time.now += ASKED_SECONDS
    assert pods.asked_of(KEY) == set()


def test_a_node_knows_the_jobs_of_its_pods_and_of_those_that_were_lost_there(pods: PodStore) -> None:
    pods.applied(pod(version=1))
    assert not pods.jobs_on("n1")
    pods.applied(pod(version=2, node="n1"))
    assert list(pods.jobs_on("n1")) == [KEY]
    pods.observe(Deleted(pod(version=3, node="n1")))
    assert list(pods.jobs_on("n1")) == [KEY]
    pods.forget(KEY)
    assert not pods.jobs_on("n1")


def relisted(store: NodeStore, *things: Node) -> list[str]:
    store.observe(Init())
    for one in things:
        store.observe(Applied(one))
    return sorted(store.observe(InitDone("1")))


def test_a_relist_of_nodes_names_what_is_new_and_what_is_gone() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    relisted(nodes, node("a"), node("b"))
    assert relisted(nodes, node("b"), node("c")) == ["a", "c"]
    assert sorted(nodes.view) == ["b", "c"]


def test_a_node_that_only_reports_itself_again_is_no_news() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    assert nodes.observe(Applied(node(version=1)))
    assert not nodes.observe(Applied(node(version=2)))
    assert nodes.observe(Applied(node(version=3, ready="Unknown")))


def test_conditions_that_nobody_asks_about_are_neither_kept_nor_news() -> None:
    def seen(version: int, pressure: str) -> Node:
        body = node_json(version=version)
        body["status"]["conditions"].append({"type": "MemoryPressure", "status": pressure})
        return msgspec.convert(body, Node)

    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(seen(1, "False")))
    assert [one.type for one in nodes.view["n1"].status.conditions] == ["Ready"]
    assert not nodes.observe(Applied(seen(2, "True")))


def test_a_node_made_anew_replaces_the_old_one_and_outlives_its_deletion() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=9, uid="old")))
    assert nodes.observe(Applied(node(version=12, uid="new")))
    nodes.observe(Deleted(node(version=11, uid="old")))
    assert nodes.view["n1"].metadata.uid == "new"


def test_only_the_api_servers_word_makes_a_node_lost_and_only_until_one_of_its_name_comes() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=1)))
    assert nodes.observe(Deleted(node(version=2))) == ("n1",)
    assert "n1" not in nodes.view
    assert not nodes.lost
    nodes.denied("n1")
    assert nodes.lost == {"n1": NOW}
    nodes.observe(Applied(node(version=3, uid="another")))
    assert not nodes.lost
    nodes.denied("n1")
    assert "n1" not in nodes.view
    assert "n1" in nodes.lost


def test_a_watch_that_lags_does_not_bring_back_what_the_api_server_denied() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=5)))
    nodes.denied("n1")
    assert not nodes.observe(Applied(node(version=6)))
    assert (list(nodes.view), list(nodes.lost)) == ([], ["n1"])


def test_a_late_answer_does_not_bring_back_what_the_watch_has_shown_going() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=5)))
    nodes.observe(Deleted(node(version=6)))
    nodes.applied(node(version=5))
    assert not nodes.view


def test_what_a_look_for_one_job_has_shown_the_watch_still_tells_the_others() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=5, uid="old")))
    nodes.applied(node(version=9, uid="new"))
    assert nodes.observe(Applied(node(version=9, uid="new"))) == ("n1",)
    nodes.denied("n1")
    assert nodes.observe(Deleted(node(version=10, uid="new"))) == ("n1",)


def test_a_watch_that_lags_does_not_bring_back_the_node_that_another_has_replaced() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=9, uid="old")))
    nodes.applied(node(version=12, uid="new"))
    assert not nodes.observe(Applied(node(version=10, uid="old", ready="Unknown")))
    assert nodes.view["n1"].metadata.uid == "new"
