"""Who has the nodes: what is known by watches, and what is read."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from slipway.api import names
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.visitors import Visitor, visitors
from slipway.core.model.job import Settings
from tests.controller.things import Time, job_json, pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TPU = {"limits": {names.TPU_RESOURCE: "4"}}


def a_pod(*, labels: dict[str, str] | None = None, phase: str = "Running", **resources: Any) -> Visitor:
    body = {
        "metadata": {"name": "notebook", "namespace": "team-b", "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "resources": resources}], "priority": 7},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    }
    return msgspec.convert(body, Visitor)


COUNTS = {
    "it has TPUs": (a_pod(**TPU), True),
    "it has none": (a_pod(limits={"cpu": "1"}), False),
    "it has ended": (a_pod(phase="Succeeded", **TPU), False),
    "it is of a SliceJob, which the watch shows": (a_pod(labels={names.LABEL_JOB_UID: "uid-1"}, **TPU), False),
}


@pytest.mark.parametrize(("seen", "counts"), COUNTS.values(), ids=COUNTS)
def test_a_pod_of_others_has_the_node_if(seen: Visitor, counts: bool) -> None:
    found = visitors([seen], NOW).pods
    assert bool(found) is counts
    if counts:
        assert found[0].words == "pod team-b/notebook (priority 7, since 2026-01-01T00:00:00Z)"


def test_what_all_pods_on_a_node_request_is_known_whoever_they_are_of() -> None:
    labels = {names.LABEL_JOB_UID: "uid-1", names.LABEL_JOB_NAME: "train"}
    of_job, other = a_pod(labels=labels, limits={"cpu": "2"}), a_pod(requests={"cpu": "500m"}, limits={"cpu": "3"})
    ended = a_pod(phase="Failed", limits={"cpu": "8"})
    uses = visitors([of_job, other, ended], NOW).uses
    assert [(one.tenant.title, dict(one.sizes)) for one in uses] == [
        ("team-b/train", {"cpu": 2, "pods": 1}),
        ("pod team-b/notebook", {"cpu": Decimal("0.5"), "pods": 1}),
    ]
    assert (uses[0].tenant.uid, uses[0].tenant.priority) == ("uid-1", 7)


def test_tenants_are_those_of_the_moment(time: Time) -> None:
    cache = Cache(Settings(whole_cluster=True), lambda: NOW, time)
    cache.jobs.upsert(job_json())
    job = cache.jobs.get(("ns", "train"))
    assert job is not None
    tenants = cache.node_pools(job).tenants
    assert [*tenants.on("node-0", NOW)] == []
    seen = pod("train-0-0-0", node="node-0")
    cache.pods.applied(msgspec.structs.replace(seen, spec=msgspec.structs.replace(seen.spec, priority=5)))
    assert [one.words for one in tenants.on("node-0", NOW)] == ["ns/train (priority 5)"]
    cache.visitors_read("node-0", visitors([a_pod(**TPU)], NOW))
    assert [one.kind for one in tenants.on("node-0", NOW)] == ["SliceJob", "Pod"]
    assert [one.kind for one in tenants.on("node-0", NOW + timedelta(seconds=1))] == ["SliceJob"]


def test_who_has_a_node_pool_is_told_once(time: Time) -> None:
    cache = Cache(Settings(whole_cluster=True), lambda: NOW, time)
    for name in ("a", "b", "c"):
        cache.jobs.upsert(job_json(name=name, uid=name))
    job = cache.jobs.get(("ns", "a"))
    assert job is not None
    for number in range(2):
        cache.pods.applied(pod(f"a-0-0-{number}", job="a", job_uid="a", pool="p", node=f"node-{number}"))
    cache.pods.applied(pod("b-0-0-0", job="b", job_uid="b", pool="p"))
    cache.pods.applied(pod("c-0-0-0", job="c", job_uid="c", node="node-1"))
    cache.pods.applied(pod("d-0-0-0", job="d", job_uid="d", node="elsewhere"))
    cache.visitors_read("node-1", visitors([a_pod(**TPU)], NOW))
    tenants, nodes = cache.node_pools(job).tenants, ("node-0", "node-1")
    assert [one.title for one in tenants.in_pool("p", nodes, NOW)] == ["ns/a", "ns/b", "ns/c", "pod team-b/notebook"]
    later = NOW + timedelta(seconds=1)
    assert [one.title for one in tenants.in_pool("p", nodes, later)] == ["ns/a", "ns/b", "ns/c"]
