"""`slipway exec` and `slipway port-forward` into chosen hosts on real nodes."""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.running import Jobs
from tests.waiting import START_SECONDS

SERVES = """
mkdir /tmp/pages
echo "host $SLIPWAY_HOST of slice $SLIPWAY_SLICE" > /tmp/pages/index.html
httpd -p 8000 -h /tmp/pages
echo listens
sleep 600
"""


def started(jobs: Jobs, *arguments: str) -> "subprocess.Popen[str]":
    where = ("--kubeconfig", str(jobs.kubectl.kubeconfig), "--namespace", jobs.kubectl.namespace)
    path = f"{Path(jobs.kubectl.program).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [sys.executable, "-m", "slipway.cli.main", arguments[0], *where, *arguments[1:]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PATH": path},
    )  # fmt: skip


EXECUTED = {
    "the first host": ((), "echo host $SLIPWAY_HOST of slice $SLIPWAY_SLICE", 0, "host 0 of slice 0"),
    "another": (("--slice", "1", "--host", "1"), "echo host $SLIPWAY_HOST of slice $SLIPWAY_SLICE", 0,
                "host 1 of slice 1"),
    "a command that fails": (("--host", "1"), "echo sorry; exit 7", 7, "sorry"),
    "no such host": (("--host", "2"), "true", 2, "has slices 0 to 1 and hosts 0 to 1"),
}  # fmt: skip


def test_a_command_runs_in_a_chosen_host_and_exits_as_it_did(real_jobs: Jobs) -> None:
    real_jobs.apply(slices=2, accelerator={"type": "v5p-16", "spot": True}, command=["sleep", "600"])
    real_jobs.until("Running")
    seen = {}
    for name, (where, script, _, words) in EXECUTED.items():
        run = started(real_jobs, "exec", "train", *where, "--", "sh", "-c", script)
        output, _ = run.communicate(timeout=START_SECONDS)
        seen[name] = (run.returncode, words if words in output else output)
    assert seen == {name: (code, words) for name, (_, _, code, words) in EXECUTED.items()}


def test_a_job_that_does_not_run_has_no_hosts_to_enter(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=1, command=["true"])
    real_jobs.until("Succeeded")
    output, _ = (run := started(real_jobs, "exec", "train", "--", "true")).communicate(timeout=START_SECONDS)
    assert (run.returncode, output) == (3, "Error: SliceJob train is Succeeded: it has no pods that run\n")


def test_kubectl_that_is_missing_is_said(real_jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    real_jobs.apply(hosts=1, command=["sleep", "600"])
    real_jobs.until("Running")
    monkeypatch.setenv("PATH", "/nowhere")
    where = ("--kubeconfig", str(real_jobs.kubectl.kubeconfig), "--namespace", real_jobs.kubectl.namespace)
    program = [sys.executable, "-m", "slipway.cli.main", "exec", *where, "train", "--", "true"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (3, "Error: kubectl is not on the PATH, and this command runs it\n")


def test_a_port_of_a_chosen_host_is_reached(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=1, slices=1, command=["sh", "-c", SERVES])
    real_jobs.until("Running")
    where = ("pod/train-0-0-0", "--ignore-errors")
    real_jobs.until_true("a server", lambda: "listens" in real_jobs.kubectl("logs", *where, check=False).stdout)
    # kubectl chooses a port that is free here.
    run = started(real_jobs, "port-forward", "train", ":8000")
    try:
        assert run.stdout is not None
        line = run.stdout.readline()
        found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8000", line)
        assert found is not None, line
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=START_SECONDS) as answer:
            assert answer.read() == b"host 0 of slice 0\n"
    finally:
        run.terminate()
        run.communicate(timeout=START_SECONDS)
