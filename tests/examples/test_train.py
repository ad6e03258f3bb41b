"""The demo's training program in real processes on this machine, with the environment that Slipway gives them."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from slipway.api.accelerators import resolve
from slipway.api.names import RESERVED_ENV
from slipway.api.slicejob import SliceJob
from tests.waiting import START_SECONDS, pause, until

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = EXAMPLES / "train" / "train.py"
REQUIREMENTS = EXAMPLES / "train" / "requirements.txt"

STEPS = 12
CHECKPOINT_EVERY = 4
INTERRUPTED_AFTER = 6


@pytest.fixture(scope="session")
def libraries() -> Path:
    """A folder with the program's requirements, made once for each version of them."""
    cache = Path(os.environ.get("SLIPWAY_CACHE") or Path.home() / ".cache" / "slipway")
    wanted = REQUIREMENTS.read_bytes() + sys.version.encode()
    folder = cache / f"train-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".train-") as fresh:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", f"{fresh}/new", "-r", REQUIREMENTS]
            subprocess.run(pip, check=True)
            # Another session may have been faster.
            if not folder.exists():
                Path(fresh, "new").rename(folder)
    return folder


class Host:
    """One process of the job, and what it has written."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM], env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, word: str) -> None:

        def found() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.text}"
            return word in self.text

        until(word, found, seconds=START_SECONDS)

    def end(self, limit: float = START_SECONDS) -> int:
        return self.process.wait(limit)


class Job:
    """Starts the hosts of attempts that share one folder of checkpoints."""

    def __init__(self, libraries: Path, folder: Path) -> None:
        self.libraries = libraries
        self.folder = folder
        self.checkpoints = folder / "checkpoints"

    def env(self, **changes: str) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.libraries),
            "STEPS": str(STEPS),
            "STEP_SECONDS": "0",
            "CHECKPOINT_EVERY": str(CHECKPOINT_EVERY),
            "CHECKPOINT_DIR": str(self.checkpoints),
        } | changes

    @contextmanager
    def attempt(self, number: int, *, slices: int = 2, hosts: int = 2, **changes: str) -> Iterator[list[Host]]:
        port = free_port()
        started = []
        try:
            for rank in range(slices * hosts):
                place = {
                    "SLIPWAY_RANK": str(rank),
                    "SLIPWAY_WORLD_SIZE": str(slices * hosts),
                    "SLIPWAY_ATTEMPT": str(number),
                    "SLIPWAY_SLICE": str(rank // hosts),
                    "SLIPWAY_HOST": str(rank % hosts),
                    "TPU_WORKER_HOSTNAMES": ",".join(["127.0.0.1"] * hosts),
                    "JAX_COORDINATOR_PORT": str(port),
                }
                if slices > 1:
                    place["MEGASCALE_COORDINATOR_ADDRESS"] = "127.0.0.1:8081"
                log = self.folder / f"attempt-{number}-rank-{rank}.log"
                started.append(Host(self.env(**place, **changes), log))
            yield started
        finally:
            for host in started:
                host.process.kill()
                host.process.wait()

    def run(self, number: int = 0, **more: object) -> str:
        """Runs one attempt to its end; what rank 0 wrote."""
        with self.attempt(number, **more) as hosts:
            codes = [host.end() for host in hosts]
            assert set(codes) == {0}, "\n".join(host.text for host in hosts)
            return hosts[0].text


@pytest.fixture
def job(libraries: Path, tmp_path: Path) -> Job:
    return Job(libraries, tmp_path)


@pytest.fixture(scope="module")
def undisturbed_job(libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Four processes that nobody disturbed."""
    job = Job(libraries, tmp_path_factory.mktemp("undisturbed"))
    job.run()
    return job


@pytest.fixture(scope="module")
def undisturbed(undisturbed_job: Job) -> list[float]:
    return losses((undisturbed_job.folder / "attempt-0-rank-0.log").read_text())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def losses(text: str) -> list[float]:
    lines = re.findall(r"^step=(\d+) loss=(\d+\.\d{4}) attempt=\d+ processes=\d+$", text, re.MULTILINE)
    steps = [int(step) for step, _ in lines]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    return [float(loss) for _, loss in lines]


@pytest.mark.thorough
def test_four_processes_train_together(undisturbed: list[float]) -> None:
    assert len(undisturbed) == STEPS
    assert undisturbed[-1] < undisturbed[0] / 2


@pytest.mark.thorough
def test_a_run_that_lost_a_host_ends_where_an_undisturbed_one_does(job: Job, undisturbed: list[float]) -> None:
    # Slow enough for a busy machine to stop a process before the last step.
    with job.attempt(0, STEP_SECONDS="2") as hosts:
        hosts[0].wait_for(f"step={INTERRUPTED_AFTER} ")
        # A node that is taken away falls silent: its peers hang in the next sum and see no error.
        hosts[3].process.send_signal(signal.SIGSTOP)
        pause(1)
        assert [host.process.poll() for host in hosts[:3]] == [None] * 3
        for host in hosts[:3]:
            host.process.terminate()
        assert [host.end() for host in hosts[:3]] == [143] * 3, "before JAX misses the heartbeat of the silent peer"
        before = losses(hosts[0].text)
    again = job.run(1)
    resumed_at = len(before) // CHECKPOINT_EVERY * CHECKPOINT_EVERY
    assert f"resume step={resumed_at} loss={before[resumed_at - 1]:.4f} attempt=1 processes=4" in again
    assert before[:resumed_at] + losses(again) == pytest.approx(undisturbed, abs=2e-4)
    assert re.search(rf"^done step={STEPS} .* resumed_at={resumed_at} .* attempts=0,1$", again, re.MULTILINE)
    record = json.loads((job.checkpoints / f"step-{STEPS:08d}.json").read_text())
    assert record["attempts"] == [0] * resumed_at + [1] * (STEPS - resumed_at)


@pytest.mark.thorough
def test_a_broken_checkpoint_is_passed_over_and_fewer_hosts_go_on(
    job: Job, undisturbed_job: Job, undisturbed: list[float]
) -> None:
    shutil.copytree(undisturbed_job.checkpoints, job.checkpoints)
    assert sorted(path.name for path in job.checkpoints.glob("*.npz")) == [
        f"step-{step:08d}.npz" for step in (4, 8, 12)
    ]
    newest = job.checkpoints / f"step-{STEPS:08d}.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    (job.checkpoints / ".step-00000016.npz.tmp").write_bytes(b"half")
    alone = job.run(1, slices=1, hosts=1)
    assert f"skipped unreadable checkpoint {newest.stem}.json" in alone
    assert "resume step=8 " in alone
    assert losses(alone) == pytest.approx(undisturbed[8:], abs=2e-4)
    assert not list(job.checkpoints.glob(".*"))


@pytest.mark.thorough
def test_a_finished_job_that_is_started_again_ends_at_once(job: Job, undisturbed_job: Job) -> None:
    shutil.copytree(undisturbed_job.checkpoints, job.checkpoints)
    again = job.run(1, slices=1, hosts=1)
    assert not re.search(r"^step=", again, re.MULTILINE)
    assert re.search(rf"^done step={STEPS} .* attempts=0$", again, re.MULTILINE)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "SLIPWAY_WORLD_SIZE is not set: run it as a SliceJob"),
        ({"SLIPWAY_WORLD_SIZE": "4"}, "SLIPWAY_RANK is not set: run it as a SliceJob"),
        ({"SLIPWAY_WORLD_SIZE": "four"}, "SLIPWAY_WORLD_SIZE is 'four', but a whole number from 1 on is needed"),
        (
            {"SLIPWAY_WORLD_SIZE": "4", "SLIPWAY_RANK": "4"},
            "SLIPWAY_RANK is 4, but SLIPWAY_WORLD_SIZE is 4: ranks begin at 0",
        ),
        (
            {"SLIPWAY_WORLD_SIZE": "4", "SLIPWAY_RANK": "0", "SLIPWAY_ATTEMPT": "0"},
            "neither MEGASCALE_COORDINATOR_ADDRESS nor TPU_WORKER_HOSTNAMES says where the processes meet: "
            "run it as a SliceJob",
        ),
        (
            {
                "SLIPWAY_WORLD_SIZE": "1",
                "SLIPWAY_RANK": "0",
                "SLIPWAY_ATTEMPT": "0",
                "SLIPWAY_SLICE": "0",
                "SLIPWAY_HOST": "0",
                "STEP_SECONDS": "soon",
            },
            "STEP_SECONDS is 'soon', but a number of seconds from 0 on is needed",
        ),
    ],
)
def test_a_bad_environment_is_named_in_one_sentence(job: Job, changes: dict[str, str], sentence: str) -> None:
    host = Host(job.env(**changes), job.folder / "log")
    assert host.end() == 2
    assert host.text == f"train.py: {sentence}\n"


def python(job: Job, code: str) -> str:
    """What a few lines print that use the program as a module."""
    env = job.env() | {"PYTHONPATH": f"{job.libraries}{os.pathsep}{PROGRAM.parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_name_of_the_coordinator_may_appear_late(job: Job) -> None:
    code = """
import socket, train
answers = iter([socket.gaierror(-2, "Name or service not known")] * 3 + [None])
def look_up(host, port):
    answer = next(answers)
    print("asked", host)
    if answer:
        raise answer
socket.getaddrinfo = look_up
train.wait_for_name("0-0-0.pretrain.default.svc", 5, pause=0.01)
"""
    assert python(job, code) == "asked 0-0-0.pretrain.default.svc\n" * 4


def test_a_coordinator_without_a_name_is_named(job: Job) -> None:
    code = """
import socket, train
def look_up(host, port):
    raise socket.gaierror(-2, "Name or service not known")
socket.getaddrinfo = look_up
try:
    train.wait_for_name("0-0-0.pretrain.default.svc", 0.05, pause=0.01)
except TimeoutError as error:
    print(error)
"""
    assert python(job, code) == (
        "the coordinator 0-0-0.pretrain.default.svc has no address after 0.05 s: [Errno -2] Name or service not known\n"
    )


@pytest.mark.parametrize(
    ("losses", "attempts", "steps", "verdict"),
    [
        ([2, 1, 1, 0.5, 0.1], [0, 0, 1, 1, 3], 5, "None"),
        ([2], [0], 1, "None"),
        ([2, 1], [0, 0], 3, "2 steps are on record, but the job has 3"),
        ([2, 1], [1, 0], 2, "an older attempt has written steps after a newer one"),
        ([1, 2], [0, 0], 2, "the loss has not gone down: 1.0000 in the first 1 steps, 2.0000 in the last"),
        ([1, float("nan")], [0, 0], 2, "the loss has not gone down: 1.0000 in the first 1 steps, nan in the last"),
    ],
)
def test_verdict(job: Job, losses: list[float], attempts: list[int], steps: int, verdict: str) -> None:
    code = "import train; nan = float('nan'); "
    code += f"print(train.judge(train.History({losses}, {attempts}), {steps}))"
    assert python(job, code) == f"{verdict}\n"


def test_the_manifest_is_a_valid_job_for_this_program() -> None:
    job = SliceJob.model_validate(yaml.safe_load((EXAMPLES / "pretrain.yaml").read_text()))
    assert job.spec.accelerator is not None
    assert job.spec.slices * resolve(job.spec.accelerator.type).hosts == 4
    given = {one.name: one.value for one in job.spec.env}
    assert not given.keys() & set(RESERVED_ENV)
    assert all(f'"{name}"' in PROGRAM.read_text() for name in given)
    assert [mount.mount_path for mount in job.spec.volume_mounts] == [given["CHECKPOINT_DIR"]]
