"""The metrics of an operator are those of the table, and count what has happened: no more, and nothing twice."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from urllib.request import urlopen

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from slipway.api.status import Cause, Phase, Resolved, SliceCounts
from slipway.apiserver.request_counts import Calls
from slipway.controller.clock import Clock
from slipway.controller.gauges import Gauges, of_jobs
from slipway.controller.observability.metric_table import METRICS, OTHER, Kind
from slipway.controller.observability.metric_table import Metric as Row
from slipway.controller.observability.metrics import Metrics, bounded
from slipway.core.accounting.measures import SUCCESS, Begun, Ended, TimedStep, Took
from slipway.core.model.job import Job
from tests.core.accounting.test_measures import attempt, status
from tests.core.build import START, spec
from tests.running import Jobs
from tests.waiting import ANSWER_SECONDS

Samples = dict[tuple[str, ...], float]
"""Values by the name of the sample and the values of its labels, in the order of their names."""


def scraped(text: str) -> tuple[dict[str, Metric], Samples]:
    """What a scrape shows: the families by name, and every sample."""
    families = {one.name: one for one in text_string_to_metric_families(text)}
    found = (sample for one in families.values() for sample in one.samples)
    return families, {(one.name, *(one.labels[name] for name in sorted(one.labels))): one.value for one in found}


async def shown(metrics: Metrics) -> tuple[dict[str, Metric], Samples]:
    answer = await metrics.answer(make_mocked_request("GET", "/metrics"))
    assert isinstance(answer.body, bytes)
    return scraped(answer.body.decode())


def family_name(name: str) -> str:
    """Prometheus' parser names counters without their suffix."""
    return name.removesuffix("_total") if METRICS[name].kind is Kind.COUNTER else name


# What is counted.


async def test_every_measure_raises_its_metric() -> None:
    metrics = Metrics()
    metrics.count(
        (
            Begun(None),
            Took(TimedStep.CREATE, 3.0),
            Ended(Cause.PREEMPTION, "NodeLost"),
            Took(TimedStep.DETECT, 2.0, Cause.PREEMPTION),
            Begun(Cause.PREEMPTION),
            Ended(SUCCESS, "Succeeded"),
        )
    )
    _, samples = await shown(metrics)
    raised = {key: value for key, value in samples.items() if value and not key[0].endswith("_bucket")}
    assert raised == {
        ("slipway_attempts_started_total",): 2,
        ("slipway_attempts_ended_total", "preemption", "NodeLost"): 1,
        ("slipway_attempts_ended_total", "success", "Succeeded"): 1,
        ("slipway_restarts_total", "preemption"): 1,
        ("slipway_create_seconds_count",): 1,
        ("slipway_create_seconds_sum",): 3,
        ("slipway_detect_seconds_count", "preemption"): 1,
        ("slipway_detect_seconds_sum", "preemption"): 2,
    }


async def test_counters_of_attempts_are_there_before_the_first_one() -> None:
    _, samples = await shown(Metrics())
    assert samples["slipway_restarts_total", "infrastructure"] == 0
    assert samples["slipway_attempts_ended_total", "failure", "OOMKilled"] == 0


@pytest.mark.parametrize(
    "row", [row for row in METRICS.values() if row.kind is Kind.HISTOGRAM], ids=lambda row: row.name
)
async def test_histograms_are_there_before_the_first_event(row: Row) -> None:
    _, samples = await shown(Metrics())
    series = {key[1:] for key, value in samples.items() if key[0] == f"{row.name}_count" and value == 0}
    assert series == set(product(*(label.values for label in row.labels)))


def test_a_word_that_is_not_in_the_table_reads_as_other() -> None:
    labels = {"cause": "failure", "reason": "SomethingFromTheFuture"}
    assert bounded("slipway_attempts_ended_total", labels) == {"cause": "failure", "reason": OTHER}


def test_no_label_of_the_table_is_without_bounds() -> None:
    sizes = {row.name: [len(label.values) for label in row.labels] for row in METRICS.values()}
    assert all(0 < size < 100 for counts in sizes.values() for size in counts)


# What is looked at when a scrape asks.


def job(name: str, **fields: Any) -> Job:
    known = fields.pop("status")
    return Job("ns", name, name, 1, "1", START, spec(slices=4), known, **fields)


TPU = Resolved(
    hosts=2, chips_per_host=4, coordinator_port=1, schedule_seconds=1, start_seconds=1, grace_period_seconds=1,
    template_hash="",
)  # fmt: skip


def test_jobs_are_counted_by_phase_reason_slices_and_loss() -> None:
    lost = attempt(0, 0, 0, 70, cause=Cause.FAILURE, reason="ExitCode")
    runs = status(attempt(1, 75, 80), lost, resolved=TPU, slices=SliceCounts(requested=4, granted=4, ready=3))
    ended = status(attempt(0, 0, 0, 40, reason="ExitCode"), phase=Phase.RESTARTING, resolved=TPU)
    done = status(attempt(0, 0, 0, 40, reason="Succeeded"), phase=Phase.SUCCEEDED, resolved=TPU)
    rests = status(attempt(0, 0, 0, 40, cause=Cause.UNCHARGED), phase=Phase.SUSPENDED, resolved=TPU)
    jobs = [job(str(number), status=one) for number, one in enumerate((runs, ended, done, rests))]
    found = of_jobs(jobs, START + timedelta(seconds=100))
    assert {key: value for key, value in found["slipway_jobs"].items() if value} == {
        ("Running",): 1, ("Restarting",): 1, ("Succeeded",): 1, ("Suspended",): 1,
    }  # fmt: skip
    assert found["slipway_jobs_waiting"] == {("WaitingForOldPods",): 1}
    assert found["slipway_slices_wanted"] == {("tpu",): 8, ("gpu",): 0, ("cpu",): 0}
    assert found["slipway_slices_ready"] == {("tpu",): 3, ("gpu",): 0, ("cpu",): 0}
    # The one lost 10 of 100 seconds, the other 60.
    assert found["slipway_jobs_losing_time"] == {("0.05",): 2, ("0.1",): 1, ("0.2",): 1, ("0.5",): 1}
    assert (found["slipway_jobs_fenced"], found["slipway_fence_held_seconds"]) == ({(): 1}, {(): 60})


async def test_who_has_no_engine_yet_says_that_nobody_leads() -> None:
    calls = Calls()
    calls.counts.update({("get", "404"): 2, ("get", "none"): 1, ("get", "999"): 1})
    families, samples = await shown(Metrics(Gauges(calls, Clock())))
    assert samples["slipway_leader",] == 0
    assert {key[1:]: value for key, value in samples.items() if key[0] == "slipway_api_calls_total"} == {
        ("404", "get"): 2, ("none", "get"): 1, (OTHER, "get"): 1,
    }  # fmt: skip
    assert not families.keys() & {"slipway_jobs", "slipway_queue_depth", "slipway_lease_age_seconds"}


# A real operator on a real API server.


def scrape(jobs: Jobs) -> tuple[dict[str, Metric], Samples]:
    with urlopen(f"http://127.0.0.1:{jobs.operator.metrics_port}/metrics", timeout=ANSWER_SECONDS) as answer:
        return scraped(answer.read().decode())


def end_pod(jobs: Jobs, attempt: int, **parts: Any) -> None:
    """Have one pod of an attempt end, as its kubelet or the control plane would say it."""
    pod = jobs.pods(attempt=attempt)[-1]
    if "conditions" in parts:
        # This kind of patch replaces a list.
        parts["conditions"] = [*pod["status"]["conditions"], *parts["conditions"]]
    body = json.dumps({"status": {"phase": "Failed", **parts}})
    jobs.kubectl.patch("pod", pod["metadata"]["name"], body, status=True)


def exited(code: int) -> list[dict[str, Any]]:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    state = {"terminated": {"exitCode": code, "reason": "Error", "startedAt": now, "finishedAt": now}}
    worker = {"name": "worker", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return [{**worker, "state": state}]


def figures_of_a_failure_and_a_preemption(jobs: Jobs) -> tuple[dict[str, Metric], Samples]:
    """What is shown of both in the end."""
    jobs.apply(
        accelerator={"type": "v5p-16", "spot": True}, slices=2,
        retries={"gracePeriodSeconds": 1, "backoff": {"initialSeconds": 0}},
    )  # fmt: skip
    jobs.until("Running")
    end_pod(jobs, 0, containerStatuses=exited(1))
    jobs.until_attempt(1)
    end_pod(jobs, 1, conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}])
    jobs.until_attempt(2)

    found: list[tuple[dict[str, Metric], Samples]] = []

    def shown() -> bool:
        # They are counted after the status is written.
        with suppress(OSError):
            found[:] = [scrape(jobs)]
            samples = found[0][1]
            return samples["slipway_start_seconds_count",] == 3 and ("slipway_lease_age_seconds",) in samples
        return False

    jobs.until_true("the figures of attempt 2", shown)
    return found[0]


def test_a_job_with_a_failure_and_a_preemption_counts_exactly_that(
    own_jobs: Callable[..., Jobs], unused_tcp_port: int
) -> None:
    families, samples = figures_of_a_failure_and_a_preemption(own_jobs(metrics_port=unused_tcp_port))
    own = {name for name in families if name.startswith("slipway_")}
    assert own == {family_name(name) for name in METRICS}
    assert {(name, families[family_name(name)].type) for name in METRICS} == {
        (row.name, row.kind.value) for row in METRICS.values()
    }

    counted = {key: value for key, value in samples.items() if "attempts" in key[0] or "restarts" in key[0]}
    assert {key: value for key, value in counted.items() if value} == {
        ("slipway_attempts_started_total",): 3,
        ("slipway_attempts_ended_total", "failure", "ExitCode"): 1,
        ("slipway_attempts_ended_total", "preemption", "Disrupted"): 1,
        ("slipway_restarts_total", "failure"): 1,
        ("slipway_restarts_total", "preemption"): 1,
    }
    steps = {(key[0], *key[1:]): value for key, value in samples.items() if key[0].endswith("_seconds_count")}
    steps = {key: value for key, value in steps.items() if value and key[0] != "slipway_reconcile_seconds_count"}
    assert steps == {
        ("slipway_detect_seconds_count", "failure"): 1,
        ("slipway_detect_seconds_count", "preemption"): 1,
        ("slipway_fence_seconds_count", "failure"): 1,
        ("slipway_fence_seconds_count", "preemption"): 1,
        ("slipway_recovery_seconds_count", "failure"): 1,
        ("slipway_recovery_seconds_count", "preemption"): 1,
        ("slipway_create_seconds_count",): 3,
        ("slipway_schedule_seconds_count",): 3,
        ("slipway_start_seconds_count",): 3,
    }
    assert {key[1]: value for key, value in samples.items() if key[0] == "slipway_jobs" and value} == {"Running": 1}
    assert samples["slipway_slices_wanted", "tpu"] == samples["slipway_slices_ready", "tpu"] == 2
    assert (samples["slipway_leader",], samples["slipway_nodes_watched",]) == (1, 1)
    assert samples["slipway_reconcile_seconds_count", "done"] > 0
    assert samples["slipway_reconcile_seconds_count", "mistake"] == 0
    assert samples["slipway_api_calls_total", "201", "create"] >= 3 * 4
    assert {key[1] for key in samples if key[0] == "slipway_watch_age_seconds"} == {
        "slicejobs", "slicejobprofiles", "pods", "nodes",
    }  # fmt: skip
    assert samples["slipway_lease_age_seconds",] < samples["slipway_lease_deadline_seconds",]
