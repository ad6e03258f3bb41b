"""What the demo shows of a job and its program, word for word."""

from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from slipway.client.model import JobState, Metadata, Stored
from slipway.demo.view import View, story

LINE = "pip install jax[k8s] [bold]x[/bold] [/] " + "long " * 40
START = "2026-11-01T12:00:00Z"


def job(*attempts: dict[str, Any]) -> JobState:
    running = {"type": "Running", "status": "False", "reason": "Said", "lastTransitionTime": START, "message": LINE}
    status = {"phase": "Restarting", "attempt": 1, "observedGeneration": 1, "conditions": [running]}
    stored = [{"number": 0, "startTime": START} | attempt for attempt in attempts]
    return JobState(Stored(Metadata("train", "uid-1", generation=1), {"slices": 2}, status | {"attempts": stored}))


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_program_writes_is_shown_as_it_is(terminal: bool) -> None:
    shown = StringIO()
    console = Console(file=shown, width=400, force_terminal=terminal, color_system=None)
    told = job({"message": LINE})
    view, seen = View(console), SimpleNamespace(job=told, output=[LINE], hosts={})
    with view.open():
        view.say(LINE)
        view.show(seen)  # type: ignore[arg-type]
    console.print(story(told, console.width))
    assert shown.getvalue().count(LINE.strip()) >= 4


def test_a_long_line_stays_one_line() -> None:
    shown = StringIO()
    View(Console(file=shown, width=80)).show(SimpleNamespace(job=None, output=[LINE], hosts={}))  # type: ignore[arg-type]
    assert shown.getvalue() == f"    {LINE}\n"


def test_the_story_of_a_job_fits_on_a_terminal() -> None:
    why = "host 1 of slice 1 (pod train-0-1-1 on node v5p-16-1-1) was lost: its node is gone"
    times = dict.fromkeys(("startTime", "runningTime", "endTime"), START)
    attempt = {"cause": "infrastructure", "reason": "FailureLimitExceeded", "message": why} | times
    shown = StringIO()
    Console(file=shown, width=80).print(story(job(attempt), 80))
    lines = shown.getvalue().splitlines()
    assert sum("infrastructure  FailureLimitExceeded" in line for line in lines) == 1
    assert " ".join(line.strip() for line in lines[-2:]) == f"attempt 0: {why}"
