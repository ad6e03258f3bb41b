"""What is known of Kueue: for one job its quota, and whom it preempts; and by which version."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

import msgspec
import pytest

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NoSuchPath
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller.act.workloads import WorkloadWriter
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.kueue import KueueStore, can_be_listed, served_version
from slipway.core.model.cluster_queue import ClusterQueue, LocalQueue
from slipway.core.model.job import Settings
from slipway.core.model.workload import Workload, WorkloadLabels, WorkloadMeta
from tests.apiserver.replay import Handler, Replay, answer, open_access, raw, refusal, replaying
from tests.controller.kueue_crds import GROUP, KINDS, NEWER, OLDER
from tests.controller.things import Time, job_json

KEY = ("ml", "train")
TPU = "google.com/tpu"


def local(name: str, active: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Active", "status": active}]}
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": {"clusterQueue": name}, "status": status}


def store(queue: str, active: str, attempt: str) -> KueueStore:
    """A job with quota of a queue; another queue has less unused quota."""
    known = KueueStore(lambda: 0.0)
    for name, quota, is_active in (("own", 48, active), ("other", 16, "True")):
        resources = [{"name": TPU, "nominalQuota": quota}]
        groups = [{"flavors": [{"name": "v5e", "resources": resources}], "coveredResources": [TPU]}]
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"resourceGroups": groups}}
        known.cluster_queues.observe(Applied(msgspec.convert(body, ClusterQueue)))
        known.local_queues.observe(Applied(msgspec.convert(local(name, is_active), LocalQueue)))
    labels = {"slipway.dev/job-name": "train", "slipway.dev/job-uid": "1", "slipway.dev/attempt": attempt}
    about = {"name": "slicejob-train", "namespace": "ml", "labels": {key: one for key, one in labels.items() if one}}
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    workload = {"metadata": about, "spec": {"queueName": queue}, "status": admitted}
    known.workloads.observe(Applied(msgspec.convert(workload, Workload)))
    return known


@pytest.mark.parametrize(
    ("queue", "active", "attempt", "unused"),
    [
        pytest.param("own", "True", "0", 48, id="its own queue"),
        pytest.param("own", "False", "0", None, id="its LocalQueue is stopped"),
        pytest.param("other", "True", "0", None, id="its quota is of another queue than its label names"),
        pytest.param("own", "True", "", None, id="it has no choice of numbers"),
    ],
)
def test_quota_that_a_job_may_have_beside_its_own(queue: str, active: str, attempt: str, unused: int | None) -> None:
    found = store(queue, active, attempt).of(KEY, "own").unused
    assert found == ({"v5e": {TPU: Decimal(unused)}} if unused is not None else {})


@pytest.mark.parametrize("name", ["slicejob-train-copy", "copy"])
def test_a_copy_of_a_workload_with_its_labels_is_not_that_of_the_job(name: str) -> None:
    known = store("own", "True", "0")
    own = known.workloads.get(KEY)
    assert own is not None
    about = msgspec.structs.replace(own.metadata, name=name, uid="copy", resource_version="9")
    copy = msgspec.structs.replace(own, metadata=about)
    assert KEY not in known.workloads.observe(Applied(copy))
    assert known.workloads.get(KEY) is own
    assert known.workloads.job_of(own.metadata.labels.job_uid) == "/".join(KEY)
    assert KEY not in known.workloads.observe(Deleted(copy))
    assert known.of(KEY, "own").workload is own
    assert known.workloads.job_of(own.metadata.labels.job_uid) == "/".join(KEY)


async def test_a_copy_of_the_workload_of_a_job_that_exists_is_not_deleted(
    replay: Replay, api: ApiConnection, time: Time
) -> None:
    cache = Cache(Settings(), lambda: datetime(2026, 1, 1, tzinfo=UTC), time)
    cache.jobs.upsert(job_json())
    cache.kueue.version = NEWER
    labels = WorkloadLabels(job_name="train", job_uid="job-1")
    about = WorkloadMeta("slicejob-train-copy", "ns", "copy", "9", labels=labels)
    cache.kueue.workloads.applied(Workload(about))
    assert not await WorkloadWriter(api, cache).release(("ns", "train-copy"))
    assert replay.requests == []


@pytest.mark.parametrize(
    ("uid", "goes"),
    [pytest.param("job-2", True, id="its job is gone"), pytest.param("job-1", False, id="it is a copy of another's")],
)
async def test_the_workload_of_a_name_that_no_job_has_is_let_go_without_a_walk_over_all_others(
    replay: Replay, api: ApiConnection, time: Time, monkeypatch: pytest.MonkeyPatch, uid: str, goes: bool
) -> None:
    cache = Cache(Settings(), lambda: datetime(2026, 1, 1, tzinfo=UTC), time)
    cache.jobs.upsert(job_json(name="other", uid="job-1"))
    cache.kueue.version = NEWER
    labels = WorkloadLabels(job_name="train", job_uid=uid)
    cache.kueue.workloads.applied(Workload(WorkloadMeta("slicejob-train", "ns", "1", "9", labels=labels)))
    for store in (cache.jobs, cache.kueue.workloads):
        monkeypatch.setattr(store, "all", not_all)
    replay.then(refusal(404, "NotFound"), refusal(404, "NotFound"))
    assert await WorkloadWriter(api, cache).release(("ns", "train")) == goes
    assert (cache.kueue.workloads.get(("ns", "train")) is None) == goes


def not_all() -> NoReturn:
    raise AssertionError("the cost of one event grows with the cluster")


def of_job(name: str, evicted: str, reserved: str, preemptor: str, version: int = 1) -> Workload:
    """A Workload that is, or was, evicted for a job of that UID."""
    message = f"Preempted to accommodate a workload (UID: w-{preemptor}, JobUID: {preemptor}) due to prioritization"
    conditions = [
        {"type": "Evicted", "status": evicted, "message": message},
        {"type": "QuotaReserved", "status": reserved},
    ]
    labels = {"slipway.dev/job-name": name, "slipway.dev/job-uid": name}
    about = {
        "name": f"slicejob-{name}",
        "namespace": "ml",
        "labels": labels,
        "uid": name,
        "resourceVersion": str(version),
    }
    return msgspec.convert({"metadata": about, "status": {"conditions": conditions}}, Workload)


def test_a_job_is_told_whom_it_preempts_until_they_have_given_their_quota_back() -> None:
    known = KueueStore(lambda: 0.0)
    urgent = of_job("urgent", "False", "False", "")
    for one in (urgent, of_job("b", "True", "True", "urgent"), of_job("a", "True", "True", "urgent")):
        known.workloads.observe(Applied(one))
    known.workloads.observe(Applied(of_job("other", "True", "True", "somebody")))
    assert known.of(("ml", "urgent"), "tpu").preempted == ("ml/a", "ml/b")
    known.workloads.observe(Applied(of_job("a", "True", "False", "urgent", version=2)))
    assert known.of(("ml", "urgent"), "tpu").preempted == ("ml/b",)
    known.workloads.observe(Deleted(of_job("b", "True", "True", "urgent", version=3)))
    assert known.of(("ml", "urgent"), "tpu").preempted == ()


LIST, DENIED = answer({"items": []}), refusal(403, "Forbidden")


@pytest.mark.parametrize(
    ("answers", "can"),
    [
        pytest.param((LIST, LIST), True, id="all"),
        pytest.param((DENIED, LIST), True, id="one may not be read"),
        pytest.param((DENIED, DENIED), False, id="none may be read, which says nothing of what there is"),
        pytest.param((LIST, refusal(404, "NotFound")), False, id="one is not there yet"),
    ],
)
async def test_a_version_is_followed_once_its_kinds_can_be_listed(answers: tuple[Handler, ...], *, can: bool) -> None:
    async with replaying() as server, ApiConnection(open_access(server.url)) as api:
        server.then(*answers)
        assert await can_be_listed(api, ["/apis/k/v1beta2/workloads", "/apis/k/v1beta2/localqueues"]) is can
        assert [one.path_qs for one in server.requests][:1] == ["/apis/k/v1beta2/workloads?limit=1"]


def groups(*versions: str) -> Handler:
    """The list of all API groups."""
    there = [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}]
    found = {"name": GROUP, "versions": [{"groupVersion": one} for one in versions]}
    return answer({"kind": "APIGroupList", "groups": [*there, found] if versions else there})


def kinds(*plurals: str) -> Handler:
    """What is served of an API version, and its subresources."""
    named = [{"name": one} for plural in plurals for one in (plural, f"{plural}/status")]
    return answer({"kind": "APIResourceList", "resources": named})


NOT_ALL = KINDS.keys() - {"clusterqueues"}
THERE: dict[str, tuple[tuple[Handler, ...], str]] = {
    "no Kueue": ((groups(),), ""),
    "Kueue": ((groups(OLDER, NEWER), kinds(*KINDS)), NEWER),
    "an older Kueue": ((groups(OLDER), kinds(*KINDS)), OLDER),
    "a Kueue of a version that is not spoken": ((groups(f"{GROUP}/v2"),), ""),
    "a Kueue whose upgrade is on its way": ((groups(OLDER, NEWER), kinds(*NOT_ALL), kinds(*KINDS)), OLDER),
    "a Kueue that lacks a kind": ((groups(NEWER), kinds(*NOT_ALL)), ""),
}


@pytest.mark.parametrize(("answers", "version"), THERE.values(), ids=THERE.keys())
async def test_the_version_that_is_followed_where_there_is(
    replay: Replay, api: ApiConnection, answers: tuple[Handler, ...], version: str
) -> None:
    replay.then(*answers)
    assert await served_version(api) == version
    assert len(replay.requests) == len(answers)


AWAY = raw(b"404 page not found", 404)
UNKNOWN: dict[str, tuple[Handler, ...]] = {
    "it is asked for all groups": (AWAY,),
    "it is asked for the kinds": (groups(NEWER), AWAY),
}


@pytest.mark.parametrize("answers", UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_whether_there_is_kueue_is_not_known_when_a_load_balancer_answers_as(
    replay: Replay, api: ApiConnection, answers: tuple[Handler, ...]
) -> None:
    replay.then(*answers)
    with pytest.raises(NoSuchPath):
        await served_version(api)
