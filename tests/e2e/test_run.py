"""`slipway run` on real nodes: it exits as the job did, and Ctrl-C leaves the job alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import Jobs
from tests.waiting import START_SECONDS

RUN = ("--image", "slipway.local/busybox:1", "--hosts", "1", "--name", "train")


def started(jobs: Jobs, *arguments: str) -> "subprocess.Popen[str]":
    where = ("--kubeconfig", str(jobs.kubectl.kubeconfig), "--namespace", jobs.kubectl.namespace)
    program = Path(sys.executable).parent / "slipway"
    return subprocess.Popen(
        [str(program), "run", *where, *RUN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip


ENDS = {
    "success": (("--", "true"), 0, "slicejob train Succeeded: "),
    "failure": (
        ("--max-failures", "0", "--", "sh", "-c", "echo boom; exit 3"),
        1,
        "slicejob train Failed (exit code 3): ",
    ),
    "refused": (("-e", "MEGASCALE_SLICE_ID=1", "--", "true"), 2, "is reserved: Slipway sets it"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), ENDS.values(), ids=ENDS)
def test_run_exits_as_the_job_did(arguments: tuple[str, ...], code: int, words: str, real_jobs: Jobs) -> None:  # N-24
    output, _ = (run := started(real_jobs, *arguments)).communicate(timeout=START_SECONDS)
    assert (run.returncode, words in output) == (code, True), output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("flags", "phase", "words"),
    [((), "Running", "goes on by itself"), (("--cancel-on-interrupt",), "Cancelled", "was cancelled")],
    ids=["leaves it running", "cancels it"],
)
@pytest.mark.row("B-68")
def test_an_interrupted_run_says_what_becomes_of_the_job(
    flags: tuple[str, ...], phase: str, words: str, real_jobs: Jobs
) -> None:  # N-25
    run = started(real_jobs, *flags, "--", "sleep", "1h")
    real_jobs.until_true("the job", lambda: real_jobs.kubectl.get("sj")["items"])
    real_jobs.until("Running")
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=START_SECONDS)
    assert (run.returncode, words in output) == (130, True), output
    real_jobs.until(phase)
