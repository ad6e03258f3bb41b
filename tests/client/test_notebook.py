"""What a notebook shows of jobs. IPython itself is stood in for by the two calls of it that are used."""

import sys
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from slipway.client.blocking import Client
from slipway.client.errors import JobCancelled, WaitTimeout
from slipway.client.pictures import console
from tests.running import Jobs
from tests.waiting import ANSWER_SECONDS


class Cell:
    """The output below a cell: what was shown, newest last, as IPython would have asked for it."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, thing: Any, *, display_id: bool) -> "Cell":
        assert display_id
        self.update(thing)
        return self

    def update(self, thing: Any) -> None:
        self.shown.append(thing._repr_mimebundle_([], []))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    found, ipython, display = Cell(), ModuleType("IPython"), ModuleType("IPython.display")
    display.display = found.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    class Notebook(Console):
        def __init__(self, **options: Any) -> None:
            super().__init__(force_jupyter=True, **options)

    monkeypatch.setattr(console, "Console", Notebook)
    return found


def test_a_job_is_shown_below_its_cell_while_it_is_waited_for(jobs: Jobs, cell: Cell) -> None:
    job = Client(jobs.kubectl.namespace, jobs.kubectl.kubeconfig).job(jobs.apply(hosts=2))
    jobs.until("Running")
    with pytest.raises(WaitTimeout):
        job.wait(timeout=8, progress=True)
    assert "Running" in cell.shown[-1]["text/html"]
    assert "slice 0 ■■" in cell.shown[-1]["text/plain"]
    # It keeps time between two changes.
    assert len({one["text/plain"] for one in cell.shown}) > 5
    job.cancel(now=True)
    with pytest.raises(JobCancelled):
        job.wait(timeout=ANSWER_SECONDS, progress=True)
    assert "Cancelled" in cell.shown[-1]["text/plain"]


def test_a_job_at_the_end_of_a_cell_is_its_picture(jobs: Jobs) -> None:
    job = Client(jobs.kubectl.namespace, jobs.kubectl.kubeconfig).job(jobs.apply(hosts=1))
    jobs.until("Running")
    for thing in (job, job.state):
        shown = thing._repr_mimebundle_([], [])
        assert f"SliceJob {jobs.kubectl.namespace}/train" in shown["text/plain"]
        assert "<pre" in shown["text/html"]
    job.delete()
    jobs.kubectl.wait("sj/train", until="delete")
    gone = {"text/plain": f"SliceJob train: there is no SliceJob train in namespace {jobs.kubectl.namespace}"}
    assert job._repr_mimebundle_([], []) == gone


def test_lines_are_printed_where_there_is_no_picture(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
    job = Client(jobs.kubectl.namespace, jobs.kubectl.kubeconfig).job(jobs.apply(hosts=1))
    jobs.until("Running")
    with pytest.raises(WaitTimeout):
        job.wait(timeout=2, progress=True)
    assert "train attempt 0 Running: " in capfd.readouterr().err
