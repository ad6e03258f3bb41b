"""The rules for jobs with a choice catch what breaks them, where histories meet that rarely."""

import json
from typing import Any

import pytest

from slipway.api import names
from slipway.apiserver import paths
from tests.simulation.choices import AT_ONCE, PAUSE, Choices
from tests.simulation.cluster import Shape
from tests.simulation.requests import Server
from tests.simulation.store import NAMESPACE, Store
from tests.simulation.timeline import Timeline
from tests.simulation.truth import Violation
from tests.simulation.workloads import Json, Workloads

NAME = "train"


class Place:
    """A job that can have one or two slices of two hosts, and has or had one."""

    def __init__(self, **spec: Any) -> None:
        self.timeline = Timeline()
        self.store = Store(self.timeline)
        self.uid = self.store.new_uid("job")
        self.store.job_names[self.uid] = NAME
        shape = Shape(2, 2, None, 60.0, {}, choices=(1, 2))
        self.choices = Choices(self.timeline, self.store, {NAME: shape})
        self.choices.known_since = lambda uid, version: 0.0
        status = {"slices": {"granted": 1}, "queuedTime": self.store.stamp()}
        given = {"retries": {"capacityRetrySeconds": 60}} | spec
        self.store.put_job("ADDED", {"metadata": {"name": NAME, "uid": self.uid}, "spec": given, "status": status})
        self.choices.shown(2)

    def gives_back(self) -> None:
        assert self.choices.may_give_back("operator", self.uid, workload(2, admitted=2))
        self.choices.gone(self.uid)

    def refuses(self, *, never: bool = False) -> Json:
        """Kueue lacks quota for one of two slices."""
        asked = workload(4)
        self.store.workloads["workload"] = asked
        self.choices.refused(self.uid, asked, 2, never=never)
        return asked

    def waits(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now + seconds)


def workload(pods: int, admitted: int | None = None, said: str = "insufficient unused quota for pods") -> Json:
    metadata = {"name": "workload", "uid": "workload", "resourceVersion": "7", "generation": 1}
    told = {"type": "QuotaReserved", "status": "False", "message": said, "observedGeneration": 1}
    given = {"podSetAssignments": [{"name": "slice", "count": admitted}]} if admitted is not None else None
    status = {"conditions": [told], "admission": given}
    return {"metadata": metadata, "spec": {"podSets": [{"name": "slice", "count": pods}]}, "status": status}


def test_quota_is_given_back_for_more_once_an_hour() -> None:
    place = Place()
    place.gives_back()
    place.waits(PAUSE)
    place.choices.shown(2)
    place.gives_back()
    place.waits(PAUSE / 2)
    with pytest.raises(Violation, match="1800 s after it did so before"):
        place.gives_back()


def test_quota_is_given_back_only_where_kueue_has_shown_more() -> None:
    place = Place()
    place.choices.shown(0)
    place.gives_back()
    other = Place()
    other.waits(60)
    other.choices.shown(1)
    other.waits(600)
    with pytest.raises(Violation, match="for 2 pods more; Kueue has shown 1"):
        other.gives_back()


def test_a_job_with_all_its_slices_keeps_its_quota_unless_that_is_for_fewer() -> None:
    place = Place()
    assert not place.choices.may_give_back("operator", place.uid, workload(4, admitted=4))
    assert place.choices.may_give_back("operator", place.uid, workload(4, admitted=2))


def test_who_gave_quota_back_for_more_takes_as_much_as_before_at_once() -> None:
    place = Place()
    place.gives_back()
    asked = place.refuses()
    place.choices.changed("operator", place.uid, asked, workload(2))
    with pytest.raises(Violation, match="has not asked for fewer slices"):
        place.waits(AT_ONCE + 1)


def test_who_never_fits_asks_for_fewer_at_once() -> None:
    place = Place()
    place.refuses(never=True)
    with pytest.raises(Violation, match="has not asked for fewer slices"):
        place.waits(AT_ONCE + 1)


def test_nobody_has_to_ask_for_fewer_who_never_had_them_or_is_suspended() -> None:
    place = Place()
    place.refuses()
    place.waits(AT_ONCE + 1)
    other = Place(suspend=True)
    other.refuses(never=True)
    other.waits(AT_ONCE + 1)


def test_fewer_slices_are_asked_for_after_some_time_and_when_quota_lacks() -> None:
    place = Place()
    with pytest.raises(Violation, match="52 s too early"):
        place.choices.changed("operator", place.uid, workload(4), workload(2))
    place.waits(60)
    place.choices.changed("operator", place.uid, workload(4), workload(2))
    with pytest.raises(Violation, match="Kueue has said 'LocalQueue tpu is inactive'"):
        place.choices.changed("operator", place.uid, workload(4, said="LocalQueue tpu is inactive"), workload(2))


@pytest.mark.parametrize("pods", [1, 3, 6])
def test_only_acceptable_numbers_of_slices_are_asked_for(pods: int) -> None:
    place = Place()
    with pytest.raises(Violation, match=r"which can have \(1, 2\) slices"):
        place.choices.changed("operator", place.uid, workload(4), workload(pods))


def test_a_workload_is_created_for_the_most_slices() -> None:
    place = Place()
    place.choices.created(place.uid, 4)
    with pytest.raises(Violation, match="created for 2 pods of 4"):
        place.choices.created(place.uid, 2)


def test_pods_are_created_for_no_more_slices_than_are_admitted() -> None:
    place = Place()
    server = Server(place.store, lambda *_: None)
    workloads = Workloads(place.store, server)
    workloads.quota = 4
    made = workload(4, admitted=2)
    made["metadata"] |= {"name": f"slicejob-{NAME}", "labels": {names.LABEL_JOB_UID: place.uid}}
    made["status"]["conditions"].append({"type": "Admitted", "status": "True"})
    place.store.workloads[f"slicejob-{NAME}"] = made
    create(server, place.uid, 0)
    create(server, place.uid, 1)
    with pytest.raises(Violation, match="3 pods of train may run, which is admitted for 2"):
        create(server, place.uid, 2)


def create(server: Server, job: str, host: int) -> None:
    labels = {
        names.LABEL_JOB_NAME: NAME,
        names.LABEL_JOB_UID: job,
        names.LABEL_ATTEMPT: "0",
        names.LABEL_ROLE: "worker",
    }
    metadata = {"name": f"{NAME}-0-0-{host}", "labels": labels, "ownerReferences": [{"name": NAME, "uid": job}]}
    body = json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode()
    server.handle("operator", "POST", paths.pods(NAMESPACE), {}, body)
