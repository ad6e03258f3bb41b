"""Writes to Workloads on a real API server: what has changed meanwhile is read again, and decided on anew."""

from collections.abc import Iterator
from typing import Any

import pytest

from slipway.apiserver import paths
from slipway.apiserver.wire import JsonObject
from slipway.core.model.job import Job
from slipway.core.model.workload import Workload
from slipway.core.planner.contract.actions import Action, CreateWorkload, DeleteWorkload, PatchWorkload
from slipway.core.vocabulary.reasons import NAME_TAKEN
from slipway.devcluster import NativeCluster
from tests.clusters import kubectl_for
from tests.controller.bench import Bench
from tests.controller.kueue_crds import NEWER, kueue_crds

NAME = "slicejob-train"
EVICTED = {"conditions": [{"type": "Evicted", "status": "True", "reason": "Preempted"}]}


@pytest.fixture(scope="module", autouse=True)
def crds(control_plane: NativeCluster) -> Iterator[None]:
    with kueue_crds(kubectl_for(control_plane, "default")):
        yield


def body(job: Job, uid: str = "") -> dict[str, Any]:
    labels = {"slipway.dev/job-name": job.name, "slipway.dev/job-uid": uid or job.uid}
    return {"apiVersion": NEWER, "kind": "Workload", "metadata": {"name": NAME, "labels": labels}, "spec": {}}


async def queued(bench: Bench) -> tuple[Job, Workload]:
    """A job with a Workload that Kueue writes to while nobody looks."""
    job = await bench.job()
    assert await bench.act(job, CreateWorkload(NEWER, body(job))) == 0
    seen = known(bench)
    assert seen is not None
    await bench.api.patch_status(path(bench), {"status": EVICTED}, JsonObject)
    return job, seen


def known(bench: Bench) -> Workload | None:
    return bench.cache.kueue.workloads.get((bench.namespace, "train"))


def path(bench: Bench) -> str:
    return f"{paths.workloads(NEWER, bench.namespace)}/{NAME}"


WRITES: dict[str, dict[str, Any]] = {
    "its priority": {"patch": {"spec": {"priority": 1000}}},
    "its status": {"patch": {"status": {"admission": None, "conditions": []}}, "status": True},
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_patch_of_what_kueue_has_changed_changes_nothing_and_is_decided_on_anew(
    bench: Bench, write: dict[str, Any]
) -> None:
    job, seen = await queued(bench)
    assert await bench.act(job, PatchWorkload(NEWER, NAME, seen.metadata.resource_version, **write)) == 0
    found = known(bench)
    assert found is not None
    assert found.holds("Evicted")
    stored = await bench.api.get(path(bench), JsonObject)
    assert (stored["spec"], stored["status"]) == ({}, EVICTED)
    # From what is known then it succeeds.
    assert await bench.act(job, PatchWorkload(NEWER, NAME, found.metadata.resource_version, **write)) == 0
    stored = await bench.api.get(path(bench), JsonObject)
    assert (stored["spec"], stored["status"]) != ({}, EVICTED)


@pytest.mark.parametrize("what", ["patch", "delete"])
async def test_a_workload_that_is_gone_is_forgotten(bench: Bench, what: str) -> None:
    job, seen = await queued(bench)
    await bench.api.delete(path(bench), uid=seen.metadata.uid)
    actions: dict[str, Action] = {
        "patch": PatchWorkload(NEWER, NAME, seen.metadata.resource_version, {"spec": {"priority": 1}}),
        "delete": DeleteWorkload(NEWER, NAME, seen.metadata.uid),
    }
    assert await bench.act(job, actions[what]) == 0
    assert known(bench) is None


async def test_another_workload_of_the_name_is_not_deleted(bench: Bench) -> None:
    job, seen = await queued(bench)
    await bench.api.delete(path(bench), uid=seen.metadata.uid)
    other = await bench.api.create(paths.workloads(NEWER, bench.namespace), body(job), Workload)
    assert await bench.act(job, DeleteWorkload(NEWER, NAME, seen.metadata.uid)) == 0
    found = known(bench)
    assert found is not None
    assert found.metadata.uid == other.metadata.uid


async def test_a_workload_is_created_once_and_that_of_an_earlier_job_is_seen(bench: Bench) -> None:
    job, seen = await queued(bench)
    assert await bench.act(job, CreateWorkload(NEWER, body(job, uid="earlier"))) == 0
    found = known(bench)
    assert found is not None
    assert (found.metadata.uid, found.holds("Evicted")) == (seen.metadata.uid, True)
    assert bench.now().rejection is None


async def test_a_workload_of_somebody_else_takes_the_name(bench: Bench) -> None:
    job = await bench.job()
    foreign = body(job)
    del foreign["metadata"]["labels"]
    await bench.api.create(paths.workloads(NEWER, bench.namespace), foreign, JsonObject)
    assert await bench.act(job, CreateWorkload(NEWER, body(job))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert (rejection.reason, f"Workload {NAME}" in rejection.message) == (NAME_TAKEN, True)
    assert known(bench) is None
