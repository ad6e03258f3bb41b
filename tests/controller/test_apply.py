"""Plans carried out on a real API server."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.api.places import worker
from slipway.api.status import Attempt, Phase, SliceJobStatus
from slipway.apiserver import paths
from slipway.apiserver.connection import WRITE_SECONDS
from slipway.apiserver.errors import ApiError, Conflict, ConnectionLost, Forbidden, NotFound, ServerError
from slipway.apiserver.watch import Applied, Deleted
from slipway.apiserver.wire import JsonObject
from slipway.controller.act import delete_pods
from slipway.controller.act.apply import Applier
from slipway.core.manifests.metadata import metadata
from slipway.core.model.job import Job, Settings
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.actions import (
    Check,
    CreatePods,
    CreateServices,
    DeleteHostLists,
    DeleteJob,
    DeletePods,
    ForceDeletePod,
    Plan,
    Refresh,
)
from slipway.core.planner.contract.snapshot import OwnDeletions, Rejection
from slipway.core.validation.acceptance import pod_factory
from slipway.core.vocabulary.reasons import NAME_TAKEN, POD_REJECTED, QUOTA_EXCEEDED, WAITING_FOR_OLD
from tests.controller.bench import Bench, now
from tests.controller.things import job_json, node, pod
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS, holds

UNCHANGED = {"spec": {"schedulerName": "nobody"}}
"""The scheduler writes a new status of a waiting pod whenever a node comes or goes."""


def service(job: Job) -> Body:
    return pod_factory(job, Settings()).peers(0).services()[0]


async def test_the_status_is_written_and_known_at_once(bench: Bench) -> None:
    job = await bench.job()
    wanted = SliceJobStatus(phase=Phase.PENDING, failures=1)
    assert await bench.applier.apply(Plan(wanted), job) == 0
    assert bench.now().job.status == wanted
    assert bench.now().status_written is not None
    stored = await bench.api.get(paths.job(bench.namespace, "train"), JsonObject)
    assert stored["status"]["preemptions"] == 0
    assert bench.recorder._waiting.qsize() == 1


async def test_the_host_lists_of_an_ended_attempt_are_deleted_and_nobody_else_s(bench: Bench) -> None:
    job = await bench.job()
    collection, body = paths.config_maps(bench.namespace), {"apiVersion": "v1", "kind": "ConfigMap"}
    for made in (metadata(job, "train-0-0", {}), {"name": "train-0-1"}):
        await bench.api.create(collection, body | {"metadata": made}, JsonObject)
    await bench.act(job, DeleteHostLists(("train-0-0", "train-0-1", "train-0-2")))
    left = [one["metadata"]["name"] for one in (await bench.api.list(collection, JsonObject)).items]
    assert [name for name in left if name.startswith("train")] == ["train-0-1"]


async def test_a_status_that_stands_already_is_not_written_again(bench: Bench) -> None:
    job = await bench.job()
    assert await bench.applier.apply(Plan(job.status), job) is None
    assert bench.now().job.resource_version == job.resource_version


async def test_a_field_that_goes_is_removed(bench: Bench) -> None:
    job = await bench.job()
    await bench.applier.apply(Plan(SliceJobStatus(phase=Phase.PENDING, attempt=0)), job)
    await bench.applier.apply(Plan(SliceJobStatus(phase=Phase.PENDING)), bench.now().job)
    stored = await bench.api.get(paths.job(bench.namespace, "train"), JsonObject)
    assert "attempt" not in stored["status"]


async def test_when_the_job_has_changed_nothing_is_done_and_it_is_read_again(bench: Bench) -> None:
    job = await bench.job(hosts=1)
    await bench.api.patch_status(paths.job(bench.namespace, "train"), {"status": {"failures": 5}}, JsonObject)
    plan = Plan(SliceJobStatus(phase=Phase.PENDING), (CreatePods(0, (worker(0, 0),)),))
    assert await bench.applier.apply(plan, job) == 0
    assert bench.now().job.status.failures == 5
    assert await bench.pods() == {}


async def test_when_the_job_is_gone_nothing_is_done_and_it_is_forgotten(bench: Bench) -> None:
    job = await bench.job(hosts=1)
    await bench.api.delete(paths.job(bench.namespace, "train"), uid=job.uid)
    plan = Plan(SliceJobStatus(phase=Phase.PENDING), (CreatePods(0, (worker(0, 0),)),))
    assert await bench.applier.apply(plan, job) == 0
    assert bench.cache.snapshot((bench.namespace, "train")) is None


LATE_404S: dict[str, list[tuple[str, type[ApiError]]]] = {
    "the status is refused": [("patch_status", NotFound)],
    "the status is refused, and then the job not found": [("patch_status", Conflict), ("get", NotFound)],
}


@pytest.mark.parametrize("answers", LATE_404S.values(), ids=LATE_404S.keys())
async def test_a_job_made_anew_under_the_name_is_not_forgotten_for_one_that_is_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, answers: list[tuple[str, type[ApiError]]]
) -> None:
    job = await bench.job(hosts=1)
    anew = job_json(int(job.resource_version) + 1, uid="another")
    anew["metadata"]["namespace"] = bench.namespace
    for method, error in answers:

        async def refuse(*_: Any, error: type[ApiError] = error) -> None:
            bench.cache.jobs.upsert(anew)
            raise error(404, "", "")

        monkeypatch.setattr(bench.api, method, refuse)
    assert await bench.applier.apply(Plan(SliceJobStatus(phase=Phase.PENDING)), job) == 0
    assert bench.now().job.uid == "another"


async def test_pods_are_made_once_and_known_at_once(bench: Bench) -> None:
    job = await bench.job(hosts=3, slices=2)
    slots = tuple(worker(s, h) for s in range(2) for h in range(3))
    for _ in range(2):
        assert await bench.act(job, CreatePods(0, slots)) == 0
    assert sorted(await bench.pods()) == sorted(f"train-0-{s}-{h}" for _, s, h in slots)
    assert {pod.place for pod in bench.now().own_pods()} == set(slots)


async def test_a_create_without_an_answer_may_still_be_carried_out_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job(hosts=1)

    async def lose(*_: Any, **__: Any) -> None:
        raise ConnectionLost("no answer")

    asked = now()
    with monkeypatch.context() as patch:
        patch.setattr(bench.api, "create", lose)
        with pytest.raises(ConnectionLost):
            await bench.act(job, CreatePods(0, (worker(0, 0),)))
    assert bench.now().known.creates_end >= asked + timedelta(seconds=WRITE_SECONDS)


async def test_a_create_that_was_lost_may_still_be_carried_out_when_the_next_try_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, asked, send = await bench.job(hosts=1), now(), bench.api._once
    tries: list[str] = []

    async def lose_then_refuse(request: Any) -> bytes:
        if request.method != "POST":
            return await send(request)
        tries.append(request.url)
        if len(tries) == 1:
            raise ConnectionLost("no answer")
        raise Forbidden(403, "Forbidden", "exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9")

    monkeypatch.setattr(bench.api, "_once", lose_then_refuse)
    await bench.act(job, CreatePods(0, (worker(0, 0),)))
    assert len(tries) == 2
    assert bench.now().rejection is not None
    assert bench.now().known.creates_end >= asked + timedelta(seconds=WRITE_SECONDS)


async def test_a_pod_of_an_earlier_job_blocks_its_name(bench: Bench) -> None:
    job = await bench.job(hosts=1)
    earlier = Job(job.namespace, job.name, "earlier-uid", 1, "1", job.created, job.spec, job.status)
    body = pod_factory(earlier, Settings()).pod(0, worker(0, 0))
    del body["metadata"]["ownerReferences"]
    await bench.api.create(paths.pods(bench.namespace), body, JsonObject)
    assert await bench.act(job, CreatePods(0, (worker(0, 0),))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert rejection.message == "Pod train-0-0-0 of an earlier job of this name must go first"


async def test_creating_stops_when_the_job_changes(bench: Bench) -> None:
    job = await bench.job(hosts=4)
    body = {"spec": {"suspend": True}, "metadata": {}}
    path = paths.job(bench.namespace, "train")
    content = "application/merge-patch+json"
    await bench.api._send("PATCH", path, body=body, seconds=5, content_type=content)
    bench.cache.jobs.upsert(await bench.api.get(path, JsonObject))
    assert await bench.act(job, CreatePods(0, (worker(0, 0), worker(0, 1)))) == 0
    assert await bench.pods() == {}


async def test_where_a_create_got_no_answer_one_pod_is_tried_before_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, create = await bench.job(hosts=8), bench.api.create
    asked: list[str] = []
    answers = False

    async def lose(path: str, body: Body, *more: Any, **options: Any) -> Any:
        asked.append(body["metadata"]["name"])
        if answers:
            return await create(path, body, *more, **options)
        raise ConnectionLost("no answer")

    monkeypatch.setattr(bench.api, "create", lose)
    slots = tuple(worker(0, host) for host in range(8))
    for tried in ("train-0-0-0", "train-0-0-0"):
        asked.clear()
        with pytest.raises(ConnectionLost):
            await bench.act(job, CreatePods(0, slots))
        # The last is a dry run.
        assert set(asked) == {tried}
    answers = True
    assert await bench.act(job, CreatePods(0, slots)) == 0
    assert await bench.act(job, CreatePods(0, slots)) == 0
    assert len(await bench.pods()) == 8


async def test_a_slow_create_leaves_the_rest_for_another_turn(bench: Bench) -> None:
    job, later = await bench.job(hosts=4), iter((0, 0, 30, 30, 30))
    applier = Applier(bench.api, bench.cache, bench.recorder, now=lambda: now() + timedelta(seconds=next(later, 30)))
    plan = Plan(job.status, (CreatePods(0, tuple(worker(0, host) for host in range(4))),))
    assert await applier.apply(plan, job) == 0
    assert 1 <= len(await bench.pods()) < 4


async def test_an_exceeded_quota_is_a_rejection_that_waiting_may_help(bench: Bench, kubectl: Kubectl) -> None:
    kubectl("create", "quota", "q", "--hard=pods=1,secrets=0")
    job = await bench.job(hosts=2)
    # Before the API server knows of the quota it admits pods that it does not count.
    probe = ("create", "secret", "generic", "probe", "--dry-run=server")
    await holds(lambda: "exceeded quota" in kubectl(*probe, check=False).stderr, seconds=ANSWER_SECONDS)
    await bench.act(job, CreatePods(0, (worker(0, 0),)), CreatePods(0, (worker(0, 1),)))
    rejection = bench.now().rejection
    assert rejection is not None
    assert rejection.reason == QUOTA_EXCEEDED
    assert rejection.message == (
        "exceeded quota q: a pod requests pods=1, and pods=1 of pods=1 are used; let other pods of the namespace "
        "end, or "
        "have the ResourceQuota raised"
    )


async def test_a_service_that_is_there_needs_no_quota_in_the_next_attempt(bench: Bench, kubectl: Kubectl) -> None:
    job, other = await bench.job(hosts=1), await bench.job("other", hosts=1)
    await bench.act(job, CreateServices(0, (service(job),)))
    kubectl("create", "quota", "q", "--hard=services=1")
    probe = ("create", "service", "clusterip", "probe", "--tcp=80", "--dry-run=server")
    await holds(lambda: "exceeded quota" in kubectl(*probe, check=False).stderr, seconds=ANSWER_SECONDS)
    await bench.act(job, CreateServices(1, (service(job),)))
    assert (bench.now().served, bench.now().rejection) == (1, None)
    await bench.act(other, CreateServices(0, (service(other),)))
    rejection = bench.now("other").rejection
    assert rejection is not None
    assert (bench.now("other").served, rejection.reason) == (None, QUOTA_EXCEEDED)


def looking_for_secrets(bench: Bench) -> Applier:
    return Applier(bench.api, bench.cache, bench.recorder, now=now, read_secrets=True)


async def check(bench: Bench, applier: Applier, job: Job) -> Rejection | None:
    pod = pod_factory(job, Settings()).pod(0, worker(0, 0))
    await applier.apply(Plan(job.status, (Check((pod, service(job))),)), job)
    return bench.now().rejection


async def test_a_secret_that_nobody_has_created_is_missed_before_there_are_pods(
    bench: Bench, kubectl: Kubectl
) -> None:  # B-24
    applier, job = looking_for_secrets(bench), await bench.job(hosts=1, envFrom=[{"secretRef": {"name": "keys"}}])
    refused = await check(bench, applier, job)
    assert refused is not None
    assert (refused.reason, refused.message) == (
        "MissingObjects",
        "Secret keys is missing; create it in the namespace of the job",
    )
    assert not bench.now().checked
    kubectl("create", "secret", "generic", "keys", "--from-literal=token=s3cr3t")
    await check(bench, applier, job)
    assert bench.now().checked


async def test_no_data_of_a_secret_leaves_the_api_server(
    bench: Bench, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, answers = bench.api._once, []

    async def listen(request: Any) -> bytes:
        answers.append(await once(request))
        return answers[-1]

    monkeypatch.setattr(bench.api, "_once", listen)
    kubectl("create", "secret", "generic", "keys", "--from-literal=token=s3cr3t")
    job = await bench.job(hosts=1, envFrom=[{"secretRef": {"name": "keys"}}])
    await check(bench, looking_for_secrets(bench), job)
    [secret] = [one for one in answers if b'"name":"keys"' in one and b"PartialObjectMetadata" in one]
    assert b"czNjcjN0" not in b"".join(answers)
    assert b'"data"' not in secret


async def test_a_role_that_may_not_get_secrets_keeps_no_job_from_its_pods(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    get = bench.api.get

    async def forbidden(path: str, kind: Any, **more: Any) -> Any:
        if "/secrets/" in path:
            raise Forbidden(403, "Forbidden", "secrets is forbidden")
        return await get(path, kind, **more)

    monkeypatch.setattr(bench.api, "get", forbidden)
    job = await bench.job(hosts=1, envFrom=[{"secretRef": {"name": "keys"}}])
    assert await check(bench, looking_for_secrets(bench), job) is None
    assert bench.now().checked
    assert "Secrets are not looked for" in caplog.text


async def test_a_good_pod_passes_the_check_and_nothing_is_made(bench: Bench) -> None:
    job = await bench.job(hosts=1)
    assert await bench.act(job, Check((pod_factory(job, Settings()).pod(0, worker(0, 0)), service(job)))) == 0
    assert bench.now().checked
    assert await bench.pods() == {}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"priorityClassNmae": "x"}, 'unknown field "spec.priorityClassNmae"'),
        ({"activeDeadlineSeconds": -1}, "activeDeadlineSeconds"),
    ],
)
async def test_a_bad_pod_is_rejected_in_the_servers_words(bench: Bench, template: Any, words: str) -> None:
    job = await bench.job(hosts=1, podTemplate={"spec": template})
    assert await bench.act(job, Check((pod_factory(job, Settings()).pod(0, worker(0, 0)), service(job)))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert words in rejection.message
    assert (bench.now().checked, rejection.reason) == (False, POD_REJECTED)


async def test_the_service_is_made_once(bench: Bench) -> None:
    job = await bench.job()
    for _ in range(2):
        await bench.act(job, CreateServices(0, (service(job),)))
    assert bench.now().served == 0
    await bench.api.get(f"{paths.services(bench.namespace)}/train", JsonObject)


async def test_an_object_of_somebody_else_is_named_and_nothing_more_is_made(bench: Bench, kubectl: Kubectl) -> None:
    kubectl("create", "service", "clusterip", "train", "--clusterip=None")
    job = await bench.job(hosts=1)
    assert await bench.act(job, CreateServices(0, (service(job),)), CreatePods(0, (worker(0, 0),))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert rejection.reason == NAME_TAKEN
    assert rejection.message.startswith("Service train is needed and is somebody else's: delete it")
    assert await bench.pods() == {}


async def test_a_name_that_somebody_else_has_is_found_before_anything_is_made(bench: Bench, kubectl: Kubectl) -> None:
    kubectl("create", "service", "clusterip", "train", "--clusterip=None")
    job = await bench.job(hosts=1)
    assert await bench.act(job, Check((pod_factory(job, Settings()).pod(0, worker(0, 0)), service(job)))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert (rejection.reason, bench.now().checked) == (NAME_TAKEN, False)


async def test_an_object_of_an_earlier_job_of_this_name_has_to_go_first(bench: Bench, kubectl: Kubectl) -> None:
    job = await bench.job()
    left = service(replace(job, uid="an-earlier-one"))
    # Its owner is gone, so the garbage collector may ask it to go at any time; the finalizer decides when it goes.
    left["metadata"]["finalizers"] = ["slipway.test/held"]
    await bench.api.create(paths.services(bench.namespace), left, JsonObject)
    assert await bench.act(job, Check((pod_factory(job, Settings()).pod(0, worker(0, 0)), service(job)))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert rejection.reason == WAITING_FOR_OLD
    assert rejection.message == "Service train of an earlier job of this name must go first"
    kubectl("patch", "service", "train", "--type=merge", "--patch", '{"metadata":{"finalizers":null}}')
    kubectl("delete", "service", "train", "--ignore-not-found")
    await bench.act(job, CreateServices(0, (service(job),)))
    assert (bench.now().served, bench.now().rejection) == (0, None)


async def test_what_an_earlier_job_of_this_name_has_left_makes_way_at_once(bench: Bench) -> None:
    job = await bench.job()
    await bench.api.create(paths.services(bench.namespace), service(replace(job, uid="an-earlier-one")), JsonObject)
    await bench.act(job, CreateServices(0, (service(job),)))
    assert (bench.now().served, bench.now().rejection) == (0, None)
    made = await bench.api.get(f"{paths.services(bench.namespace)}/train", JsonObject)
    assert made["metadata"]["ownerReferences"][0]["uid"] == job.uid


async def test_what_the_garbage_collector_deletes_first_is_in_nobodys_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, path = await bench.job(), f"{paths.services(bench.namespace)}/train"
    left = service(replace(job, uid="an-earlier-one"))
    made = await bench.api.create(paths.services(bench.namespace), left, JsonObject)
    get, uid = bench.api.get, made["metadata"]["uid"]

    async def too_late(*asked: Any) -> Any:
        monkeypatch.undo()
        await bench.api.delete(path, uid=uid)
        return await get(*asked)

    monkeypatch.setattr(bench.api, "get", too_late)
    await bench.act(job, CreateServices(0, (service(job),)))
    assert (bench.now().served, bench.now().rejection) == (0, None)
    made = await get(path, JsonObject)
    assert made["metadata"]["ownerReferences"][0]["uid"] == job.uid


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"apiVersion": "example.com/v1", "kind": "SliceJob", "name": "train", "uid": "a"}],
        [
            {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "name": "train", "uid": "a"},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "b"},
        ],
    ],
    ids=["nobody's", "of another SliceJob kind", "shared with somebody"],
)
async def test_what_is_not_only_an_earlier_jobs_is_left_alone(bench: Bench, owners: list[JsonObject]) -> None:
    job = await bench.job()
    # The finalizer keeps the garbage collector from taking it first.
    left = service(job)
    left["metadata"] |= {"ownerReferences": owners, "finalizers": ["slipway.test/held"]}
    await bench.api.create(paths.services(bench.namespace), left, JsonObject)
    await bench.act(job, CreateServices(0, (service(job),)))
    rejection = bench.now().rejection
    assert rejection is not None
    assert rejection.reason == NAME_TAKEN


async def test_an_outdated_process_leaves_a_later_jobs_objects_alone(bench: Bench) -> None:
    job = await bench.job()
    await bench.act(job, CreateServices(0, (service(job),)))
    outdated = replace(job, uid="an-earlier-one")
    await bench.act(outdated, CreateServices(0, (service(outdated),)))
    kept = await bench.api.get(f"{paths.services(bench.namespace)}/train", JsonObject)
    assert kept["metadata"]["ownerReferences"][0]["uid"] == job.uid


async def test_a_live_list_shows_what_the_watch_has_not(bench: Bench, kubectl: Kubectl) -> None:
    job = await bench.job(hosts=2)
    await bench.act(job, CreatePods(0, (worker(0, 0), worker(0, 1))))
    await bench.end("train-0-0-0", "Failed")
    kubectl("delete", "pod", "train-0-0-1", "--force", "--grace-period=0")
    before = now()
    assert await bench.act(job, Refresh(pods=True)) == 0
    snapshot = bench.now()
    assert [(pod.metadata.name, pod.status.phase) for pod in snapshot.pods] == [("train-0-0-0", "Failed")]
    assert [gone.pod.metadata.name for gone in snapshot.vanished] == ["train-0-0-1"]
    assert snapshot.known.pods_as_of is not None
    assert snapshot.known.pods_as_of >= before


async def test_deletion_leaves_what_has_ended_unless_that_is_meant_too(bench: Bench) -> None:
    job = await bench.job(hosts=2, slices=2)
    await bench.act(job, CreatePods(0, tuple(worker(s, h) for s in range(2) for h in range(2))))
    await bench.end("train-0-0-0", "Failed")
    await bench.act(job, DeletePods(0, (0,), 5))
    assert bench.now().pending_deletions == {
        pod.metadata.uid for pod in bench.now().pods if pod.metadata.name == "train-0-0-1"
    }
    assert sorted(await bench.pods()) == ["train-0-0-0", "train-0-1-0", "train-0-1-1"]
    await bench.act(job, DeletePods(0, (0, 1), None, ended_too=True))
    assert await bench.pods() == {}


@pytest.mark.parametrize(("hosts", "told"), [(32, 32), (33, 1)], ids=["few pods: all", "many pods: the first"])
async def test_pods_are_deleted_by_name_before_others_are_looked_for(
    bench: Bench, hosts: int, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job(hosts=hosts, podTemplate=UNCHANGED)
    await bench.act(job, CreatePods(0, tuple(worker(0, host) for host in range(hosts))))
    there: list[set[str]] = []
    delete_collection = bench.api.delete_collection

    async def look_first(*given: Any, **named: Any) -> Any:
        there.append(set(await bench.pods()))
        return await delete_collection(*given, **named)

    monkeypatch.setattr(bench.api, "delete_collection", look_first)
    # The others do not wait for a server that takes its time, and this is about the order.
    monkeypatch.setattr(delete_pods, "FIRST_SECONDS", ANSWER_SECONDS)
    await bench.act(job, DeletePods(0, (0,), 5))
    expected = {f"train-0-0-{host}" for host in range(hosts)} - {f"train-0-0-{host}" for host in range(told)}
    assert there[0] == expected
    assert await bench.pods() == {}


@pytest.mark.parametrize("hosts", [2, 33], ids=["few pods", "many pods"])
async def test_a_collection_deletes_what_cannot_be_deleted_by_name(
    bench: Bench, hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job(hosts=hosts)
    await bench.act(job, CreatePods(0, tuple(worker(0, host) for host in range(hosts))))

    async def refuse(*_: Any, **__: Any) -> None:
        raise ServerError(500, "InternalError", "a webhook has no time")

    monkeypatch.setattr(bench.api, "delete", refuse)
    await bench.act(job, DeletePods(0, (0,), 5))
    assert await bench.pods() == {}


@pytest.mark.parametrize("hosts", [2, 33], ids=["few pods", "many pods"])
async def test_a_pod_stays_that_has_ended_unnoticed(bench: Bench, hosts: int) -> None:
    job = await bench.job(hosts=hosts)
    await bench.act(job, CreatePods(0, tuple(worker(0, host) for host in range(hosts))))
    await bench.end("train-0-0-0", "Succeeded")
    await bench.act(job, DeletePods(0, (0,), 5))
    assert list(await bench.pods()) == ["train-0-0-0"]


async def test_a_pod_that_was_deleted_by_name_is_in_no_collection(
    bench: Bench, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job(hosts=1, podTemplate=UNCHANGED)
    await bench.act(job, CreatePods(0, (worker(0, 0),)))
    kubectl("patch", "pod", "train-0-0-0", "--type=merge", '--patch={"metadata":{"finalizers":["slipway.test/held"]}}')
    collections: list[tuple[Pod, ...]] = []
    delete_collection = bench.api.delete_collection

    async def keep_answer(*given: Any, **named: Any) -> Any:
        collections.append(await delete_collection(*given, **named))
        return collections[-1]

    monkeypatch.setattr(bench.api, "delete_collection", keep_answer)
    await bench.act(job, Refresh(pods=True), DeletePods(0, (0,), 5))
    assert list(await bench.pods()) == ["train-0-0-0"]
    assert collections == [()]
    kubectl("patch", "pod", "train-0-0-0", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    assert await bench.pods() == {}


async def test_a_pod_that_the_cache_does_not_know_is_deleted(bench: Bench) -> None:
    job = await bench.job(hosts=2)
    await bench.act(job, CreatePods(0, (worker(0, 0), worker(0, 1))))
    [unknown] = [pod for pod in bench.now().pods if pod.metadata.name == "train-0-0-1"]
    bench.cache.pods.observe(Deleted(unknown))
    await bench.act(job, DeletePods(0, (0,), 5))
    assert await bench.pods() == {}


@pytest.mark.parametrize("hosts", [2, 33], ids=["few pods", "many pods"])
async def test_a_pod_whose_labels_were_edited_is_deleted_by_its_name(
    bench: Bench, hosts: int, kubectl: Kubectl
) -> None:
    job = await bench.job(hosts=hosts, podTemplate=UNCHANGED)
    await bench.act(job, CreatePods(0, tuple(worker(0, host) for host in range(hosts))))
    kubectl("label", "pod", "train-0-0-1", "--overwrite", "slipway.dev/attempt=7")
    await bench.act(job, Refresh(pods=True), DeletePods(0, (0,), 5))
    assert await bench.pods() == {}


async def test_pods_of_other_attempts_stay(bench: Bench) -> None:
    job = await bench.job(hosts=1)
    await bench.act(job, CreatePods(0, (worker(0, 0),)), CreatePods(1, (worker(0, 0),)), DeletePods(0, (0,), 5))
    assert list(await bench.pods()) == ["train-1-0-0"]


async def test_unknown_nodes_are_known_or_lost_after_a_look(bench: Bench) -> None:
    job = await bench.job()
    [node, *_] = (await bench.api.list(paths.NODES, JsonObject)).items
    name = node["metadata"]["name"]
    assert await bench.act(job, Refresh(nodes=(name, "no-such-node"))) == 0
    snapshot = bench.now()
    assert (set(snapshot.nodes), set(snapshot.lost_nodes)) == ({name}, {"no-such-node"})
    assert snapshot.known.nodes_as_of.keys() == {name, "no-such-node"}


async def test_the_pods_that_were_bound_to_a_node_before_a_look_are_lost_with_it(bench: Bench) -> None:
    job = await bench.job()
    of_job = {"namespace": job.namespace, "job": job.name, "job_uid": job.uid}
    for host, place in enumerate(("no-such-node", "no-such-node", "another")):
        bench.cache.pods.applied(pod(f"{job.name}-0-0-{host}", uid=f"pod-{host}", node=place, **of_job))
    bench.cache.pods.observe(Deleted(pod(f"{job.name}-0-0-1", 2, uid="pod-1", node="no-such-node", **of_job)))
    assert await bench.act(job, Refresh(nodes=("no-such-node",))) == 0
    assert bench.now().lost_nodes["no-such-node"].pods == {"pod-0", "pod-1"}


async def test_a_look_that_found_no_node_says_nothing_of_one_that_has_come_back_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job()

    async def late(*_: Any) -> None:
        bench.cache.nodes.observe(Applied(node("n1", uid="new")))
        raise NotFound(404, "NotFound", "")

    monkeypatch.setattr(bench.api, "get", late)
    assert await bench.act(job, Refresh(nodes=("n1",))) == 0
    snapshot = bench.now()
    assert ("n1" in snapshot.nodes, set(snapshot.lost_nodes), set(snapshot.known.nodes_as_of)) == (True, set(), set())


async def test_the_lease_of_a_kubelet_tells_when_it_was_renewed_and_since_when_it_is_as_it_is(bench: Bench) -> None:
    job = await bench.job()
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": f"node-{bench.namespace}"}}
    body["spec"] = {"renewTime": "2026-11-22T10:00:00.000000Z"}
    name = body["metadata"]["name"]
    await bench.api.create(paths.leases("kube-node-lease"), body, JsonObject)
    await bench.act(job, Refresh(kubelets=(name, "no-such-node")))
    first = bench.now().kubelets[name]
    await bench.act(job, Refresh(kubelets=(name,)))
    again = bench.now().kubelets[name]
    assert again.renewed_at == first.renewed_at == datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert again.read_at > first.read_at == again.same_since
    assert bench.now().kubelets["no-such-node"].renewed_at is None


async def test_it_is_known_which_pods_were_deleted_here(bench: Bench, kubectl: Kubectl) -> None:
    job = await bench.job(hosts=2)
    await bench.act(job, CreatePods(0, (worker(0, 0), worker(0, 1))))
    attempt = Attempt(number=0, start_time=now())
    begun = job.status.model_copy(update={"attempt": 0, "attempts": (attempt,)})
    await bench.applier.apply(Plan(begun), job)
    assert not bench.now().deleted_here.complete
    over = begun.model_copy(update={"attempts": (attempt.model_copy(update={"end_time": now()}),)})
    await bench.applier.apply(Plan(over), bench.now().job)
    assert bench.now().deleted_here == OwnDeletions(complete=True)
    [mine] = [pod.metadata.uid for pod in bench.now().pods if pod.metadata.name == "train-0-0-1"]
    kubectl("delete", "pod", "train-0-0-0", "--force", "--grace-period=0")
    await bench.act(bench.now().job, DeletePods(0, (0,), 5))
    assert bench.now().deleted_here == OwnDeletions(frozenset({mine}), complete=True)


async def test_a_pod_that_somebody_else_has_deleted_is_known_as_such_from_the_answer(
    bench: Bench, kubectl: Kubectl
) -> None:
    job = await bench.job(hosts=1)
    await bench.act(job, CreatePods(0, (worker(0, 0),)))
    kubectl.patch("pod", "train-0-0-0", '{"metadata":{"finalizers":["example.com/held"]}}')
    kubectl("delete", "pod", "train-0-0-0", "--wait=false")
    # Pod garbage collection lets a pod that was deleted before it had a node fail.
    await bench.act(job, DeletePods(0, (0,), 5, ended_too=True))
    assert [pod.terminating for pod in bench.now().pods] == [True]
    kubectl.patch("pod", "train-0-0-0", '{"metadata":{"finalizers":null}}')


async def test_how_a_container_terminated_is_known_from_the_answer_to_the_deletion(
    bench: Bench, kubectl: Kubectl
) -> None:
    """The watch may be cut before it shows that, and the kubelet removes the pod a moment later."""
    job = await bench.job(hosts=1)
    await bench.act(job, CreatePods(0, (worker(0, 0),)))
    ended = {"name": "worker", "image": "busybox:1", "imageID": "", "ready": False, "restartCount": 0}
    ended |= {"state": {"terminated": {"exitCode": 7, "reason": "Error"}}}
    status = {"status": {"containerStatuses": [ended]}}
    await bench.api.patch_status(f"{paths.pods(bench.namespace)}/train-0-0-0", status, JsonObject)
    await bench.act(job, DeletePods(0, (0,), 5))
    known = [*bench.now().pods, *(one.pod for one in bench.now().vanished)]
    assert [pod.worker.terminated.exit_code for pod in known if pod.worker and pod.worker.terminated] == [7]


async def test_a_deletion_that_was_sent_twice_may_have_been_carried_out_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request ends in Conflict, as if somebody else had changed the pod."""
    job = await bench.job(hosts=9, podTemplate=UNCHANGED)
    await bench.act(job, CreatePods(0, tuple(worker(0, host) for host in range(9))))
    attempt = Attempt(number=0, start_time=now(), end_time=now())
    begun = job.status.model_copy(update={"attempt": 0, "attempts": (attempt,)})
    await bench.applier.apply(Plan(begun), job)
    once = bench.api._once

    async def lose_the_first_answer(request: Any) -> bytes:
        answer = await once(request)
        if request.method == "DELETE" and "/pods/" in request.url:
            monkeypatch.setattr(bench.api, "_once", once)
            raise ConnectionLost("no answer")
        return answer

    monkeypatch.setattr(bench.api, "_once", lose_the_first_answer)
    await bench.act(bench.now().job, DeletePods(0, (0,), 5))
    assert not bench.now().deleted_here.complete


@pytest.fixture
def stuck(bench: Bench, kubectl: Kubectl) -> Callable[[str], Any]:
    """Makes a pod that is bound to a node and cannot be confirmed gone by anybody."""

    async def make(node: str) -> ForceDeletePod:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stuck"},
            "spec": {"nodeName": node, "containers": [{"name": "worker", "image": "busybox"}]},
        }
        made = await bench.api.create(paths.pods(bench.namespace), body, JsonObject)
        return ForceDeletePod("stuck", made["metadata"]["uid"], node)

    return make


async def test_a_pod_of_a_machine_that_is_gone_is_removed_by_force(bench: Bench, stuck: Callable[[str], Any]) -> None:
    job = await bench.job()
    await bench.act(job, await stuck("no-such-node"))
    assert "stuck" not in await bench.pods()


async def test_a_pod_of_a_machine_that_is_there_stays(bench: Bench, stuck: Callable[[str], Any]) -> None:
    job = await bench.job()
    nodes = await bench.api.list(paths.NODES, JsonObject)
    await bench.act(job, await stuck(nodes.items[0]["metadata"]["name"]))
    assert "stuck" in await bench.pods()


async def test_a_pod_on_a_machine_made_anew_is_left_to_its_kubelet(bench: Bench, stuck: Callable[[str], Any]) -> None:
    job = await bench.job()
    nodes = await bench.api.list(paths.NODES, JsonObject)
    action = await stuck(nodes.items[0]["metadata"]["name"])
    await bench.act(job, action)
    assert "stuck" in await bench.pods()


async def test_another_pod_of_the_same_name_is_not_removed(bench: Bench, stuck: Callable[[str], Any]) -> None:
    job = await bench.job()
    action = await stuck("no-such-node")
    await bench.act(job, ForceDeletePod(action.name, "another-uid", action.node))
    assert "stuck" in await bench.pods()


async def test_a_job_that_was_edited_is_not_deleted_for_what_it_said_before(bench: Bench) -> None:
    job = await bench.job(ttlSecondsAfterFinished=0)
    path = paths.job(bench.namespace, "train")
    await bench.api.patch(path, {"spec": {"ttlSecondsAfterFinished": 3600}}, JsonObject)
    assert await bench.act(job, DeleteJob()) == 0.0
    spec = bench.now().job.spec
    assert spec is not None
    assert spec.ttl_seconds_after_finished == 3600
    await bench.act(bench.now().job, DeleteJob())
    with pytest.raises(NotFound):
        await bench.api.get(path, JsonObject)


async def test_a_job_whose_time_is_over_is_deleted_but_not_its_namesake(bench: Bench) -> None:
    job = await bench.job()
    old = Job(job.namespace, job.name, "another-uid", 1, "1", job.created, job.spec, job.status)
    await bench.act(old, DeleteJob())
    await bench.api.get(paths.job(bench.namespace, "train"), JsonObject)
    await bench.act(job, DeleteJob())
    with pytest.raises(NotFound):
        await bench.api.get(paths.job(bench.namespace, "train"), JsonObject)
