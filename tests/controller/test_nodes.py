from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from slipway.apiserver.watch import Applied, Deleted, Event, Init, InitDone
from slipway.controller.seen.nodes import NodeStore
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.snapshot import LostNode
from tests.controller.things import Time, node, node_json, pod_json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def bound(at: datetime, uid: str = "") -> Pod:
    """A pod that was bound to n1 then."""
    body = pod_json(uid=uid, node="n1")
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return msgspec.convert(body | {"status": {"phase": "Pending", "conditions": [scheduled]}}, Pod)


def relisted(store: NodeStore, *things: Node, version: int = 1) -> list[str]:
    store.observe(Init())
    for one in things:
        store.observe(Applied(one))
    return sorted(store.observe(InitDone(str(version))))


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
    nodes.denied("n1", nodes.uid_of("n1"))
    assert nodes.lost == {"n1": LostNode(NOW)}
    nodes.observe(Applied(node(version=3, uid="another")))
    assert not nodes.lost
    nodes.denied("n1", nodes.uid_of("n1"))
    assert "n1" not in nodes.view
    assert "n1" in nodes.lost


BEFORE: dict[str, list[Event[Node]]] = {
    "the old one was known": [Applied(node(version=5, uid="old"))],
    "the old one was known to be gone": [Applied(node(version=5, uid="old")), Deleted(node(version=6, uid="old"))],
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_a_late_denial_leaves_a_node_alone_that_has_come_back_meanwhile(before: list[Event[Node]]) -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    for event in before:
        nodes.observe(event)
    asked = nodes.uid_of("n1")
    nodes.observe(Applied(node(version=7, uid="new")))
    assert not nodes.denied("n1", asked)
    assert (list(nodes.view), list(nodes.lost)) == (["n1"], [])
    assert nodes.observe(Applied(node(version=9, uid="new", ready="Unknown"))) == ("n1",)


def test_a_lost_node_that_had_replaced_another_shows_by_when_the_other_was_gone() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    body = node_json()
    body["metadata"]["creationTimestamp"] = "2025-12-31T23:59:00Z"
    nodes.observe(Applied(msgspec.convert(body, Node)))
    nodes.denied("n1", nodes.uid_of("n1"))
    lost, created = nodes.lost["n1"], NOW - timedelta(seconds=60)
    assert lost.gone_since(bound(created - timedelta(seconds=1))) == created
    assert lost.gone_since(bound(created + timedelta(seconds=1))) == NOW


def test_a_pod_that_was_seen_to_be_bound_before_the_request_is_on_no_later_node_by_any_clock() -> None:
    nodes, ahead = NodeStore(lambda: NOW, lambda: 0.0), NOW + timedelta(seconds=3)
    nodes.denied("n1", "", ["a"])
    nodes.denied("n1", "", ["b"])
    found = {uid: nodes.lost["n1"].gone_since(bound(ahead, uid)) for uid in ("a", "b", "not seen before")}
    assert found == {"a": NOW, "b": NOW, "not seen before": None}


def test_a_watch_that_lags_does_not_bring_back_what_the_api_server_denied() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=5)))
    nodes.denied("n1", nodes.uid_of("n1"))
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
    nodes.found(node(version=9, uid="new"))
    assert nodes.observe(Applied(node(version=9, uid="new"))) == ("n1",)
    nodes.denied("n1", nodes.uid_of("n1"))
    assert nodes.observe(Deleted(node(version=10, uid="new"))) == ("n1",)


SILENT = node(version=5, ready="Unknown")
LOOKS: dict[str, tuple[Callable[[NodeStore], object], list[Node]]] = {
    "that it has changed": (lambda nodes: nodes.found(SILENT), [SILENT]),
    "that it has changed, and it only reported itself since": (
        lambda nodes: nodes.found(SILENT),
        [node(version=6, ready="Unknown")],
    ),
    "that it is gone": (lambda nodes: nodes.denied("n1", "uid-n1"), []),
}


@pytest.mark.parametrize(("look", "listed"), LOOKS.values(), ids=LOOKS.keys())
def test_a_list_tells_the_others_once_what_a_look_for_one_job_has_shown(
    look: Callable[[NodeStore], object], listed: list[Node]
) -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    relisted(nodes, node())
    look(nodes)
    assert relisted(nodes, *listed, version=9) == ["n1"]
    assert relisted(nodes, *listed, version=10) == []


def test_what_the_watch_has_repeated_of_a_look_no_list_tells_again() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    relisted(nodes, node())
    nodes.found(SILENT)
    assert nodes.observe(Applied(SILENT)) == ("n1",)
    assert relisted(nodes, SILENT, version=9) == []


def test_a_watch_that_lags_does_not_bring_back_the_node_that_another_has_replaced() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=9, uid="old")))
    nodes.applied(node(version=12, uid="new"))
    assert not nodes.observe(Applied(node(version=10, uid="old", ready="Unknown")))
    assert nodes.view["n1"].metadata.uid == "new"


def test_a_node_read_during_a_list_that_does_not_have_it_yet_stays() -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Init())
    nodes.applied(node(version=7))
    nodes.observe(InitDone("5"))
    assert list(nodes.view) == ["n1"]
    assert nodes.observe(Applied(node(version=8, ready="Unknown"))) == ("n1",)


def test_a_node_that_a_list_lacked_is_known_again_once_a_late_answer_is_out_of_the_question(time: Time) -> None:
    nodes = NodeStore(lambda: NOW, time)
    nodes.observe(Applied(node(version=5)))
    nodes.observe(Init())
    nodes.observe(InitDone("6"))
    assert not nodes.applied(node(version=7))
    time.now += 60
    assert nodes.applied(node(version=7)) == ("n1",)


@pytest.mark.parametrize("ready", ["Unknown", "False", "True"])
def test_a_node_is_remembered_as_silent_only_if_its_kubelet_had_stopped_posting(ready: str) -> None:
    nodes = NodeStore(lambda: NOW, lambda: 0.0)
    nodes.observe(Applied(node(version=1, ready=ready)))
    nodes.observe(Deleted(node(version=2, ready=ready)))
    nodes.denied("n1", nodes.uid_of("n1"))
    assert nodes.lost["n1"].silent is (ready == "Unknown")


def _at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


def _not_ready(version: int, minute: int, ready: str = "Unknown", uid: str = "uid-n1") -> Node:
    body = node_json(version=version, ready=ready, uid=uid)
    body["status"]["conditions"][0]["lastTransitionTime"] = _at(minute)
    return msgspec.convert(body, Node)


TROUBLES: dict[str, tuple[list[tuple[int, Event[Node]]], int | None]] = {
    "it is well": ([(0, Applied(node(version=1)))], None),
    "it is not ready": ([(0, Applied(node(version=1))), (5, Applied(_not_ready(2, 4)))], 4),
    "it was not ready when it was first seen": ([(5, Applied(_not_ready(2, 4)))], 4),
    "it is ready again": ([(5, Applied(_not_ready(2, 4))), (9, Applied(node(version=3)))], 4),
    "it goes while it is ready": ([(0, Applied(node(version=1))), (7, Deleted(node(version=2)))], 7),
    "it goes long after it was not ready": ([(5, Applied(_not_ready(2, 4))), (90, Deleted(_not_ready(3, 4)))], 4),
    "its kubelet comes back, and is not ready at first": (
        [(5, Applied(_not_ready(2, 4))), (9, Applied(_not_ready(3, 9, "False"))), (10, Applied(node(version=4)))],
        4,
    ),
    "it comes back as another, which is not ready at first": (
        [(5, Applied(_not_ready(2, 4))), (9, Applied(_not_ready(3, 9, "False", "new")))],
        4,
    ),
    "it goes, and comes back as another, which is not ready at first": (
        [(0, Applied(node(version=1))), (7, Deleted(node(version=2))), (9, Applied(_not_ready(3, 9, "False", "new")))],
        7,
    ),
    "it is not ready for a second time": (
        [(5, Applied(_not_ready(2, 4))), (9, Applied(node(version=3))), (30, Applied(_not_ready(4, 29)))],
        29,
    ),
    "another has its name": ([(0, Applied(node(version=1))), (8, Applied(node(version=2, uid="new")))], 8),
    "another has come in its place": (
        [(0, Applied(node(version=1))), (7, Deleted(node(version=2))), (30, Applied(node(version=3, uid="new")))],
        7,
    ),
}


@pytest.mark.parametrize(("events", "since"), TROUBLES.values(), ids=TROUBLES)
def test_it_is_known_since_when_the_machine_of_a_node_was_last_in_trouble(
    events: list[tuple[int, Event[Node]]], since: int | None
) -> None:
    now = [NOW]
    nodes = NodeStore(lambda: now[0], lambda: 0.0)
    for minute, event in events:
        now[0] = _at(minute)
        nodes.observe(event)
    assert nodes.troubled == ({} if since is None else {"n1": _at(since)})
