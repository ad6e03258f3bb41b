"""Attempts that leave the status, in pages on a real API server."""

import base64
import gzip
import json
from dataclasses import replace
from time import monotonic, monotonic_ns
from typing import Any

import pytest

from slipway.api.status import Attempt, Cause, Root, SliceJobStatus
from slipway.apiserver import paths
from slipway.apiserver.errors import Conflict, NotFound
from slipway.apiserver.history_pages import MAX_BYTES, Page, read, read_page
from slipway.apiserver.wire import JsonObject
from slipway.controller.act import history
from slipway.core.manifests.metadata import metadata
from slipway.core.model.job import Job
from slipway.core.model.parts import packed
from slipway.core.planner.contract.actions import KeepHistory, Plan
from tests.controller.bench import Bench, now
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS


def ended(number: int) -> Attempt:
    root = Root(slice=0, host=1, pod=f"train-{number}-0-1", exit_code=1, log="Traceback\nValueError: the bug")
    words = {"cause": Cause.FAILURE, "reason": "ExitCode", "message": "host 1 of slice 0 exited 1"}
    return Attempt(number=number, start_time=now(), end_time=now(), root=root, **words)


def as_json(*attempts: Attempt) -> list[JsonObject]:
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in attempts]


async def page(bench: Bench, number: int) -> JsonObject:
    return await bench.api.get(f"{paths.config_maps(bench.namespace)}/train-history-{number}", JsonObject)


def content(found: JsonObject) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(found["binaryData"]["attempts.json.gz"])))


async def keep(bench: Bench, job: Job, *attempts: Attempt) -> float | None:
    return await bench.applier.apply(Plan(job.status, before=(KeepHistory(attempts),)), job)


def warnings(bench: Bench) -> list[str]:
    waiting = [bench.recorder._waiting.get_nowait() for _ in range(bench.recorder._waiting.qsize())]
    return [one["message"] for one in waiting if one["reason"] == "HistoryIncomplete"]


async def test_a_page_is_made_owned_by_the_job_with_attempts_as_in_the_status(bench: Bench) -> None:
    job, first = await bench.job(), ended(0)
    await keep(bench, job, first)
    made = await page(bench, 0)
    assert content(made) == as_json(first)
    assert content(made)[0]["root"]["log"] == "Traceback\nValueError: the bug"
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("SliceJob", "train", job.uid)


async def test_attempts_are_added_to_the_page_of_their_hundred_oldest_first(bench: Bench) -> None:
    job, attempts = await bench.job(), [ended(number) for number in (98, 99, 100)]
    for one in attempts:
        await keep(bench, job, one)
    assert content(await page(bench, 0)) == as_json(*attempts[:2])
    assert content(await page(bench, 1)) == as_json(*attempts[2:])


async def test_keeping_an_attempt_again_changes_nothing(bench: Bench) -> None:
    job, attempts = await bench.job(), (ended(0), ended(1))
    await keep(bench, job, *attempts)
    before = await page(bench, 0)
    for one in attempts:
        await keep(bench, job, one)
    assert await page(bench, 0) == before


async def test_the_same_attempts_make_the_same_bytes() -> None:
    one, two = as_json(ended(0), ended(1))
    assert history.pack({0: one, 1: two}) == history.pack({1: two, 0: one})


async def test_what_another_version_wrote_of_an_attempt_is_kept(bench: Bench) -> None:
    job, first = await bench.job(), ended(0)
    [stored] = as_json(first)
    stored["restartedSlices"] = [3]
    await keep(bench, replace(job, stored=packed({"attempts": [stored]})), first)
    assert content(await page(bench, 0)) == [stored]


async def test_the_page_is_written_before_the_status_drops_the_attempt(bench: Bench) -> None:
    job, first = await bench.job(), ended(0)
    path = paths.job(bench.namespace, "train")
    await bench.api.patch_status(path, {"status": {"failures": 5}}, JsonObject)
    await bench.applier.apply(Plan(SliceJobStatus(attempt=20), before=(KeepHistory((first,)),)), job)
    assert content(await page(bench, 0)) == as_json(first)
    assert bench.now().job.status.attempt is None


async def test_a_page_that_changes_between_is_a_conflict_for_the_next_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, attempts = await bench.job(), (ended(0), ended(1), ended(2))
    await keep(bench, job, attempts[0])
    read = read_page

    async def late(*asked: Any) -> Page | None:
        found = await read(*asked)
        monkeypatch.undo()
        await keep(bench, job, attempts[1])
        return found

    monkeypatch.setattr(history, "read_page", late)
    with pytest.raises(Conflict):
        await keep(bench, job, attempts[2])
    await keep(bench, job, attempts[2])
    assert content(await page(bench, 0)) == as_json(*attempts)


async def test_a_page_made_between_is_added_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job, attempts = await bench.job(), (ended(0), ended(1))

    async def too_early(*_: Any) -> None:
        monkeypatch.undo()
        await keep(bench, job, attempts[0])

    monkeypatch.setattr(history, "read_page", too_early)
    await keep(bench, job, attempts[1])
    assert content(await page(bench, 0)) == as_json(*attempts)


async def test_a_page_of_an_earlier_job_of_this_name_makes_way(bench: Bench) -> None:
    job, first = await bench.job(), ended(0)
    left = metadata(replace(job, uid="an-earlier-one"), "train-history-0", {})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": left, "binaryData": {}}
    await bench.api.create(paths.config_maps(bench.namespace), body, JsonObject)
    await keep(bench, job, first)
    made = await page(bench, 0)
    assert (content(made), made["metadata"]["ownerReferences"][0]["uid"]) == (as_json(first), job.uid)


async def full(bench: Bench, kubectl: Kubectl) -> str:
    kubectl("create", "quota", "q", "--hard=count/configmaps=0")
    # The API server enforces a quota some time after it was created.
    deadline = monotonic() + ANSWER_SECONDS
    while kubectl("create", "configmap", f"probe-{monotonic_ns()}", check=False).returncode == 0:
        assert monotonic() < deadline
    return "exceeded quota: q"


async def taken(bench: Bench, kubectl: Kubectl) -> str:
    kubectl("create", "configmap", "train-history-0", "--from-literal=mine=yes")
    return "somebody else's"


def edited(data: bytes) -> Any:
    async def hinder(bench: Bench, kubectl: Kubectl) -> str:
        await keep(bench, bench.now().job, ended(7))
        change = json.dumps({"binaryData": {"attempts.json.gz": base64.b64encode(data).decode()}})
        kubectl("patch", "configmap", "train-history-0", "--type=merge", "-p", change)
        return "binaryData[attempts.json.gz] is no gzipped list of attempts"

    return hinder


@pytest.mark.parametrize(
    "hinder",
    [
        pytest.param(full, id="a quota"),
        pytest.param(taken, id="a ConfigMap of somebody else"),
        pytest.param(edited(b"no gzip"), id="no gzip"),
        pytest.param(edited(gzip.compress(b"[{}]")), id="no number"),
        pytest.param(edited(gzip.compress(b"[" + b" " * MAX_BYTES + b"]")), id="too much to unpack"),
    ],
)
async def test_what_cannot_be_kept_is_told_of_and_the_job_goes_on(bench: Bench, kubectl: Kubectl, hinder: Any) -> None:
    job = await bench.job()
    words = await hinder(bench, kubectl)
    await bench.applier.apply(Plan(SliceJobStatus(attempt=20), before=(KeepHistory((ended(0),)),)), job)
    assert bench.now().job.status.attempt == 20
    [warning] = warnings(bench)
    assert warning.startswith("the history lacks attempt 0: status.attempts holds the newest 20 only")
    assert "ConfigMap train-history-0" in warning
    assert words in warning


async def test_the_whole_history_is_read_oldest_first(bench: Bench) -> None:
    job, attempts = await bench.job(), [ended(number) for number in (3, 99, 205, 206, 207)]
    # A crash after the page was written leaves an attempt in both.
    await keep(bench, job, *attempts[:4])
    status = SliceJobStatus(attempt=207, attempts=(attempts[4], attempts[3]))
    await bench.applier.apply(Plan(status), job)
    assert await read(bench.api, bench.namespace, "train") == as_json(*attempts)


async def test_a_job_that_has_not_begun_has_no_history(bench: Bench) -> None:
    await bench.job()
    assert await read(bench.api, bench.namespace, "train") == []


async def test_a_job_that_is_not_there_cannot_be_read(bench: Bench) -> None:
    with pytest.raises(NotFound):
        await read(bench.api, bench.namespace, "nobody")
