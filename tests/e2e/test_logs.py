"""`slipway logs` against real kubelets."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.api.places import worker
from slipway.client.blocking import Client
from slipway.client.logs import Selection
from tests.running import Jobs
from tests.waiting import START_SECONDS

BINARY = r"printf 'a\000\377\r10%%\r20%%\t \n\n  two  \n'; head -c 50000 /dev/zero | tr '\000' x; printf '\nlast'"
WRITTEN = b"a\x00\xff\r10%\r20%\t \n\n  two  \n" + b"x" * 50000 + b"\nlast"
"""What it writes: more in one line than containerd stores in one piece, and no newline at the end.

No carriage return stands before a newline: containerd drops those.
"""


def command(jobs: Jobs, *arguments: str) -> list[str]:
    where = ["--kubeconfig", str(jobs.kubectl.kubeconfig), "-n", jobs.kubectl.namespace]
    return [sys.executable, "-m", "slipway.cli.main", "logs", *arguments, *where]


def logs(jobs: Jobs, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(jobs, *arguments), capture_output=True, timeout=START_SECONDS, check=False)


def client(jobs: Jobs) -> Client:
    return Client(jobs.kubectl.namespace, jobs.kubectl.kubeconfig)


@pytest.mark.row("B-63")
@pytest.mark.thorough
def test_the_bytes_of_one_host_are_exact(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=1, command=["sh", "-c", BINARY])
    followed = logs(real_jobs, "train", "--follow")
    assert (followed.returncode, followed.stdout) == (0, WRITTEN)
    real_jobs.until("Succeeded")
    done = logs(real_jobs, "train")
    assert (done.returncode, done.stdout, done.stderr) == (0, WRITTEN, b"")
    assert b"".join(line.raw for line in client(real_jobs).logs("train")) == WRITTEN
    assert logs(real_jobs, "train", "--tail", "1").stdout == b"last"
    assert logs(real_jobs, "train", "--regex", "^ +two").stdout == b"  two  \n"
    assert logs(real_jobs, "train", "--regex", "x|last|two", "--invert").stdout == b"a\x00\xff\r10%\r20%\t \n\n"
    assert logs(real_jobs, "train", "--no-history").stdout == b""
    assert logs(real_jobs, "train", "--since", "2099-01-01T00:00:00Z").stdout == b""
    assert logs(real_jobs, "train", "--since", "1h", "--until", "2099-01-01T00:00:00Z").stdout == WRITTEN


TWO_ATTEMPTS = """
echo "attempt $SLIPWAY_ATTEMPT host $SLIPWAY_HOST"
[ "$SLIPWAY_ATTEMPT" = 0 ] || exit 0
[ "$SLIPWAY_HOST" = 1 ] && sleep 600
until test -e /tmp/break; do sleep 0.1; done
echo broken
exit 1
"""


def test_a_restart_is_followed(real_jobs: Jobs, tmp_path: Path) -> None:
    spec: dict[str, Any] = {"hosts": 2, "retries": {"maxFailures": 2}}
    real_jobs.apply(**spec, command=["sh", "-c", TWO_ATTEMPTS])
    followed = tmp_path / "followed"
    with followed.open("wb") as output:
        follower = subprocess.Popen(command(real_jobs, "train", "--follow"), stdout=output, stderr=subprocess.PIPE)
    try:
        real_jobs.until_true("a line of each host", lambda: followed.read_bytes().count(b"\n") == 2)
        real_jobs.kubectl("exec", "train-0-0-0", "--", "touch", "/tmp/break")
        _, told = follower.communicate(timeout=START_SECONDS)
    finally:
        follower.kill()
    assert follower.returncode == 0
    lines = followed.read_text().splitlines()
    assert sorted(lines[:3]) == ["[0/0] attempt 0 host 0", "[0/0] broken", "[0/1] attempt 0 host 1"]
    assert sorted(lines[3:]) == ["[0/0] attempt 1 host 0", "[0/1] attempt 1 host 1"]
    assert b"-- attempt 0 ended: failure: " in told
    real_jobs.until("Succeeded")

    assert logs(real_jobs, "train").stdout.decode().splitlines() == sorted(lines[3:])
    everything = logs(real_jobs, "train", "--attempt", "all", "--host", "0")
    assert everything.stdout == b"attempt 0 host 0\nbroken\nattempt 1 host 0\n"
    assert logs(real_jobs, "train", "--failed").stdout == b"attempt 0 host 0\nbroken\n"
    found = list(client(real_jobs).logs("train", Selection(attempt=0, by_time=True)))
    assert [(line.place, line.text) for line in found][-1] == (worker(0, 0), "broken\n")
    assert [line.time for line in found] == sorted(line.time for line in found)

    # Slipway may have deleted it already, for a later attempt has ended.
    real_jobs.kubectl("delete", "pod", "train-0-0-0", "--ignore-not-found", "--grace-period=1")
    kept = logs(real_jobs, "train", "--failed")
    assert kept.stdout.endswith(b"broken\n")
    assert b"the job's status keeps" in kept.stderr


@pytest.mark.row("B-40")
@pytest.mark.row("B-41")
def test_mistakes_are_told_by_the_exit_code(real_jobs: Jobs) -> None:
    missing = logs(real_jobs, "train")
    assert missing.returncode == 4
    assert b"there is no SliceJob train" in missing.stderr
    real_jobs.apply(hosts=1, suspend=True, command=["true"])
    real_jobs.until("Suspended")
    waiting = logs(real_jobs, "train")
    assert waiting.returncode == 3
    assert b"Suspended" in waiting.stderr
    beyond = logs(real_jobs, "train", "--host", "1")
    assert beyond.returncode == 2
    assert b"host 1: SliceJob train has host 0 only" in beyond.stderr
    assert logs(real_jobs, "train", "--regex", "(").returncode == 2


LEAVES = """
import asyncio, sys
from pathlib import Path
from slipway import AsyncClient
from slipway.client.logs import Line, Selection

async def first() -> None:
    # Beside the pods that spin, a step of this program may take long, and `-X dev` would tell.
    asyncio.get_running_loop().slow_callback_duration = 60
    async with AsyncClient(sys.argv[1], Path(sys.argv[2])) as client:
        lines = client.logs("train", Selection(follow=True))
        while not isinstance(item := await anext(lines), Line):
            pass
        print(item.text.strip())
        await lines.aclose()

asyncio.run(first())
"""


def test_who_reads_no_further_leaves_no_connection_behind(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=2, command=["sh", "-c", "while true; do echo tick; sleep 0.01; done"])
    real_jobs.until("Running")
    where = (real_jobs.kubectl.namespace, str(real_jobs.kubectl.kubeconfig))
    program = [sys.executable, "-X", "dev", "-c", LEAVES, *where]
    done = subprocess.run(program, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tick\n", "")
