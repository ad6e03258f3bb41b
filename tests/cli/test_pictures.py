"""What people see of jobs, at 80 and at 120 columns, with colours and without."""

import io
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from slipway.api.places import HEAD, worker
from slipway.api.status import Attempt
from slipway.cli import environment
from slipway.cli.advice import ADVICE
from slipway.cli.describe import show
from slipway.cli.list import show_wide, table
from slipway.cli.render import explanation
from slipway.cli.top import Metrics, usage, usage_table
from slipway.cli.value_sources import values
from slipway.client.description import Description, Event
from slipway.client.manifests.reading import manifest
from slipway.client.model import JobState, Stored
from slipway.client.pictures.chip_hours import accounts, shares
from slipway.client.pictures.formats import span
from slipway.client.pictures.host_matrix import matrix
from slipway.client.pictures.live import overview, picture
from slipway.client.pictures.timeline import timeline
from slipway.core.vocabulary.endings import ENDINGS

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def attempt(number: int, start: float, running: float | None, end: float | None, **more: Any) -> dict[str, Any]:
    times = {"startTime": at(start), "runningTime": running, "endTime": end}
    dated = {name: at(value) if isinstance(value, int | float) else value for name, value in times.items()}
    return {"number": number} | dated | more


ROOT = {"slice": 0, "host": 1, "pod": "train-1-0-1", "exitCode": 1, "log": "step 100\nValueError: [not markup]\n"}
ATTEMPTS = [
    attempt(2, 60, 50, None),
    attempt(1, 600, 590, 70, cause="failure", reason="ExitCode", root=ROOT, checkpointTime=at(130),
            message="host 1 of slice 0 (pod train-1-0-1) exited with code 1: ValueError: [not markup]"),
    attempt(0, 3600, 3590, 605, cause="preemption", reason="NodeLost", message="its node is gone"),
]  # fmt: skip


def job(name: str = "train", phase: str = "Running", reason: str = "Running", **status: Any) -> JobState:
    about = {"type": "Running", "status": "True" if phase == "Running" else "False", "reason": reason}
    about |= {"message": "4 of 4 hosts run", "lastTransitionTime": at(60)}
    shape = {"coordinatorPort": 8081, "scheduleSeconds": 1, "startSeconds": 1, "gracePeriodSeconds": 30}
    shape |= {"type": "v5p-16", "hosts": 2, "chipsPerHost": 4, "templateHash": "-"}
    found = {"observedGeneration": 1, "phase": phase, "conditions": [about], "attempt": 2, "attempts": ATTEMPTS}
    found |= {"failures": 1, "preemptions": 1, "readySlices": "2/2", "resolved": shape}
    found |= {"slices": {"requested": 2, "granted": 2, "ready": 2}, "startTime": at(3600)} | status
    metadata = {"name": name, "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
    metadata |= {"creationTimestamp": at(3700)}
    spec = {"image": "us-docker.pkg.dev/acme/train:2026-11", "accelerator": {"type": "v5p-16"}, "slices": 2}
    return JobState(msgspec.convert({"metadata": metadata, "spec": spec, "status": found}, Stored, strict=False))


LONG = "a-job-with-a-rather-long-name"
WAITING = job(LONG, "WaitingForCapacity", "NodesHeld", readySlices="0/2", attempts=[])
ENDED = job("ended", "Failed", "ExitCode", completionTime=at(1800))
PRINTED = {"attempt": 2, "step": 1200, "total": 10_000, "time": at(12), "rate": 3.8125}
PRINTED |= {"checkpoint": 1000, "checkpointTime": at(62)}
HOSTS = {worker(0, 0): "Running", worker(0, 1): "Failed", worker(1, 0): "Starting", worker(1, 1): "Unscheduled"}
EVENT = Event(
    type="Warning", reason="Restarting", message="attempt 1 ended [why]", count=2,
    last_timestamp=NOW - timedelta(seconds=70), involved_object={"kind": "SliceJob", "name": "train"},
)  # fmt: skip


def with_environment(known: JobState) -> JobState:
    given = [{"name": "HF_TOKEN", "value": "s3cr3t"}, {"name": "MASTER_PORT", "value": "12355"}]
    given.append({"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}})
    spec = known.stored.spec | {"env": given, "ray": {"entrypoint": "python train.py"}}
    return JobState(msgspec.structs.replace(known.stored, spec=spec))


GIVEN = with_environment(job())


ALL_RUN = dict.fromkeys(HOSTS, "Running")
DESCRIBED = Description(
    job(progress=PRINTED), tuple(Attempt.model_validate(one) for one in reversed(ATTEMPTS)), ALL_RUN, (EVENT,)
)

MEASURED = msgspec.convert(
    [
        {"metadata": {"name": "train-2-0-1"}, "containers": [{"usage": {"cpu": "1938472n", "memory": "7104Ki"}}, {}]},
        {"metadata": {"name": "train-2-0-0"}, "containers": [{"usage": {"cpu": "2", "memory": "12Gi"}}]},
        {"metadata": {"name": "train-2-1-0"}},
    ],
    list[Metrics],
)
"""As metrics.k8s.io tells it."""
EXPLAINED = values(
    manifest("train", {
        "accelerator": {"type": "v5e-16", "spot": True},
        "image": "us-docker.pkg.dev/acme/train:2026-11",
        "command": ["python", "train.py", "--api-key", "k-17", "two words"],
        "env": [
            {"name": "HF_TOKEN", "value": "abc"},
            {"name": "WANDB_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}},
            {"name": "URL", "value": "postgres://ann:abc@db/train"},
        ],
        "volumes": [{"name": "data", "secret": {"secretName": "data-keys"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "retries": {"backoff": {"initialSeconds": 5}},
        "timeouts": {"startSeconds": 60},
    }),
    {(): "job.yaml", ("spec", "env"): "--env-file .env", ("spec", "env", "[URL]"): "--env"},
)  # fmt: skip


def printed(draw: Callable[[Console], None], width: int, *, colour: bool) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False,
        color_system="standard" if colour else None, emoji=False, legacy_windows=False,
    )  # fmt: skip
    draw(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def one(thing: RenderableType) -> Callable[[Console], None]:
    return lambda console: console.print(thing)


PICTURES: dict[str, Callable[[Console], None]] = {
    "list": lambda console: console.print(table(console, (job(), WAITING), NOW, namespaces=False, wide=False)),
    "list-wide": lambda console: show_wide(console, table(console, (job(), WAITING), NOW, namespaces=True, wide=True)),
    "timeline": lambda console: console.print(timeline(DESCRIBED.attempts, NOW, console.width)),
    "matrix": one(matrix(HOSTS | {HEAD: "Running"}, 2, 2, head=True)),
    "describe": lambda console: show(console, DESCRIBED, NOW),
    "environment": lambda console: environment.show(console, environment.environment(GIVEN)),
    "explain": one(explanation(EXPLAINED)),
    "overview": one(overview({"train": (job(), {}), "not-seen": None, "ended": (ENDED, {}), LONG: (WAITING, {})}, NOW)),
    "top": one(usage_table(usage(MEASURED))),
    "top-of-jobs": one(accounts(shares((job(), WAITING, ENDED), NOW), namespaces=True)),
    "live": lambda console: console.print(picture(job(), HOSTS, NOW, console.width)),
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of the day are local ones."""
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()


@pytest.mark.parametrize("colour", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_it_did(name: str, width: int, colour: bool) -> None:
    """Run with SLIPWAY_GOLDEN=1 to accept what it looks like now."""
    shown = printed(PICTURES[name], width, colour=colour)
    golden = GOLDEN / f"{name}-{width}{'-colour' if colour else ''}.txt"
    if os.environ.get("SLIPWAY_GOLDEN"):
        golden.write_text(shown)
    assert shown == golden.read_text()
    assert name == "list-wide" or all(len(Text.from_ansi(line)) <= width for line in shown.splitlines())


def test_the_place_in_a_queue_is_below_the_reason_where_it_is_known() -> None:
    queued = job("train", "Queued", "WaitingForQuota", attempts=[])
    place = "number 3 in LocalQueue tpu, number 5 in its ClusterQueue"

    def lines(position: str) -> list[str]:
        found = Description(queued, (), {}, (), position=position)
        return printed(lambda console: show(console, found, NOW), 100, colour=False).splitlines()

    shown = lines(place)
    assert shown[shown.index(queued.message) + 1] == f"place: {place}"
    assert not any(line.startswith("place:") for line in lines(""))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.9, "9.9s"),
        (10, "10s"),
        (65, "1m5s"),
        (3600, "1h"),
        (4000, "1h6m"),
        (90000, "1d1h"),
    ],
)
def test_a_span_has_two_units(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


def test_advice_is_given_for_endings_that_there_are() -> None:
    assert ADVICE.keys() - ENDINGS.keys() == set()
