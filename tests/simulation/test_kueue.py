"""The model of Kueue does what the real one does: the cases of tests/kueue, without waiting."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slipway.api import names
from tests.kueue.cases import CASES, QUOTA, Place, given_back, is_so
from tests.simulation.kueue import Kueue
from tests.simulation.requests import Server
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline
from tests.simulation.workloads import Workloads, condition, holds

PATIENCE = 100
"""Seconds of the model's time for what is waited for."""


class Model:
    """A queue of the model."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.store = Store(self.timeline)
        self.workloads = Workloads(self.store, Server(self.store, lambda *_: None))
        self.workloads.quota = QUOTA
        self.kueue = Kueue(self.timeline, self.store, self.workloads, random.Random(1), lambda *_: None)

    def submit(self, name: str, priority: int = 0) -> None:
        metadata: dict[str, Any] = {"name": name, "uid": name, "creationTimestamp": self.store.stamp()}
        metadata |= {"labels": {names.LABEL_JOB_UID: name}, "ownerReferences": [{"uid": name}]}
        pod_sets = [{"name": "slice", "count": QUOTA}]
        spec = {"queueName": "tpu", "priority": priority, "active": True, "podSets": pod_sets}
        self.workloads.put({"metadata": metadata, "spec": spec, "status": {}})

    def until(self, name: str, kind: str, status: str, reason: str, words: str = "") -> None:
        for _ in range(10 * PATIENCE):
            if is_so(condition(self.store.workloads[name], kind), status, reason, words):
                return
            self.timeline.run(self.timeline.now + 0.1)
        wanted = f"{kind}={status} {reason} {words}"
        raise AssertionError(f"{name} is not {wanted}: {self.store.workloads[name]['status']}")

    def holds(self, name: str, kind: str) -> bool:
        return holds(self.store.workloads[name], kind)

    def message(self, name: str, kind: str) -> str:
        return str(condition(self.store.workloads[name], kind)["message"])

    def release(self, name: str, requeued: str, *, admission: bool = False) -> None:
        known = self.store.workloads[name]
        kept = given_back(known["status"]["conditions"], requeued, self.store.stamp())
        status: dict[str, Any] = {"conditions": kept} | ({} if admission else {"admission": None})
        metadata = {"resourceVersion": known["metadata"]["resourceVersion"]}
        self.workloads.patch_status(name, who="a test", query={}, body={"metadata": metadata, "status": status})

    def delete(self, name: str) -> None:
        self.workloads.delete(self.store.workloads[name])

    def set_active(self, name: str, active: bool) -> None:
        known = self.store.workloads[name]
        self.workloads.put(known | {"spec": known["spec"] | {"active": active}})

    def stop(self) -> None:
        self.kueue.stopped = True
        self.kueue.look_soon()

    def start(self) -> None:
        self.kueue.stopped = False
        self.kueue.look_soon()

    @contextmanager
    def impatient(self) -> Iterator[None]:
        self.kueue.patience = 3.0
        self.kueue.look_soon()
        yield
        self.kueue.patience = None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_model_holds(case: Callable[[Place], None]) -> None:
    case(Model())


def test_an_admission_that_is_left_in_place_is_given_out_twice() -> None:
    # The real one does so at times: the model takes the worse for certain.
    model = Model()
    model.submit("train")
    model.until("train", "Admitted", "True", "Admitted")
    model.submit("urgent", priority=1000)
    model.until("train", "Evicted", "True", "Preempted")
    model.release("train", "True", admission=True)
    model.until("urgent", "Admitted", "True", "Admitted")
    model.until("train", "Admitted", "True", "Admitted")
    assert model.holds("urgent", "Admitted")
