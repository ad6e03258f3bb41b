"""The model of Kueue says what the real one was seen to say: the rows that tests/kueue has of the real one."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from slipway.api import names
from tests.simulation.kueue import DEACTIVATED, STOPPED, TIMEOUT, Kueue
from tests.simulation.requests import Server
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline
from tests.simulation.workloads import Workloads, condition


class World:
    """A queue with quota for four pods."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.store = Store(self.timeline)
        self.workloads = Workloads(self.store, Server(self.store, lambda *_: None))
        self.workloads.quota = 4
        self.kueue = Kueue(self.timeline, self.store, self.workloads, random.Random(1), lambda *_: None)

    def submit(self, name: str, priority: int = 0, count: int = 4) -> None:
        metadata: dict[str, Any] = {"name": name, "uid": name, "creationTimestamp": self.store.stamp()}
        metadata |= {"labels": {names.LABEL_JOB_UID: name}, "ownerReferences": [{"uid": name}]}
        pod_sets = [{"name": "slice", "count": count}]
        spec = {"queueName": "tpu", "priority": priority, "active": True, "podSets": pod_sets}
        self.workloads.put({"metadata": metadata, "spec": spec, "status": {}})
        self.wait()

    def wait(self, seconds: float = 1.0) -> None:
        self.timeline.run(self.timeline.now + seconds)

    def said(self, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason of the conditions of a Workload."""
        conditions = self.store.workloads[name]["status"]["conditions"]
        return {one["type"]: (one["status"], one["reason"]) for one in conditions}

    def release(self, name: str, again: str, *, admission: bool = False) -> None:
        """Give the quota back, as it has to be done or with the admission left in place."""
        known = self.store.workloads[name]
        reason = condition(known, "Evicted")["reason"]
        changed = {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation")}
        changed["Requeued"] = (again, reason)
        kept = [one for one in known["status"]["conditions"] if one["type"] not in changed]
        kept += [
            {"type": kind, "status": status, "reason": why, "message": "", "lastTransitionTime": self.store.stamp()}
            for kind, (status, why) in changed.items()
        ]
        status: dict[str, Any] = {"conditions": kept} | ({} if admission else {"admission": None})
        metadata = {"resourceVersion": known["metadata"]["resourceVersion"]}
        self.workloads.patch_status(name, who="a test", query={}, body={"metadata": metadata, "status": status})


@pytest.fixture
def world() -> World:
    made = World()
    made.submit("train")
    return made


def test_a_workload_with_room_is_admitted_and_another_waits(world: World) -> None:
    world.submit("second")
    assert world.said("train") == {
        "QuotaReserved": ("True", "QuotaReserved"),
        "Admitted": ("True", "Admitted"),
    }
    assert world.said("second") == {"QuotaReserved": ("False", "Pending")}
    message = condition(world.store.workloads["second"], "QuotaReserved")["message"]
    assert "insufficient unused quota for pods in flavor any, 4 more needed" in message


def test_the_preempting_one_waits_until_the_quota_is_given_back(world: World) -> None:
    world.submit("urgent", priority=1000)
    assert world.said("train")["Evicted"] == ("True", "Preempted")
    assert world.said("train")["QuotaReserved"][0] == world.said("train")["Admitted"][0] == "True"
    assert "Admitted" not in world.said("urgent")
    world.release("train", "True")
    world.wait()
    assert world.said("urgent")["Admitted"][0] == "True"
    world.workloads.delete(world.store.workloads["urgent"])
    world.wait()
    assert world.said("train")["Evicted"] == ("False", "QuotaReserved")
    assert condition(world.store.workloads["train"], "Evicted")["message"].startswith("Previously: ")


def test_an_admission_that_is_left_in_place_is_given_out_twice(world: World) -> None:
    world.submit("urgent", priority=1000)
    world.release("train", "True", admission=True)
    world.wait()
    assert world.said("urgent")["Admitted"][0] == world.said("train")["Admitted"][0] == "True"


def deactivate(world: World) -> None:
    known = world.store.workloads["train"]
    world.workloads.put(known | {"spec": known["spec"] | {"active": False}})


def activate(world: World) -> None:
    known = world.store.workloads["train"]
    world.workloads.put(known | {"spec": known["spec"] | {"active": True}})


def stop(world: World) -> None:
    world.kueue.stopped = True
    world.kueue.look_soon()


def start(world: World) -> None:
    world.kueue.stopped = False
    world.kueue.look_soon()


def lose_patience(world: World) -> None:
    world.kueue.patience = 3.0
    world.kueue.look_soon()


@pytest.mark.parametrize(
    ("harm", "reason", "cure", "requeued"),
    [
        (deactivate, DEACTIVATED, activate, "Reactivated"),
        (stop, STOPPED, start, "LocalQueueRestarted"),
        (lose_patience, TIMEOUT, lambda world: None, "BackoffFinished"),
    ],
)
def test_who_is_evicted_for_another_reason_is_queued_again_by_kueue(
    world: World, harm: Callable[[World], None], reason: str, cure: Callable[[World], None], requeued: str
) -> None:
    harm(world)
    world.wait(5.0)
    assert world.said("train")["Evicted"] == ("True", reason)
    world.kueue.patience = None
    world.release("train", "False")
    world.wait(0.5)
    assert world.said("train")["Requeued"] == ("False", reason)
    cure(world)
    world.wait(100.0)
    assert world.said("train")["Requeued"] == ("True", requeued)
    assert world.said("train")["Admitted"][0] == "True"
