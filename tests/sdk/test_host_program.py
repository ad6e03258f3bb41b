"""The program on the head, without Ray: what it says, to whom, and for how long."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from slipway import JobError, JobFailed, JobInfo, JobPreempted, ResultMissing, VersionMismatch
from slipway.sdk import host_program
from slipway.sdk.payload import Call, pack, unpack
from slipway.sdk.ray_call import _BEGIN as BEGIN
from slipway.sdk.ray_call import PROGRAM
from tests.waiting import ANSWER_SECONDS

INFO = JobInfo("train", "succeeded", "CPU")
RAY = """
import os

__version__ = "2.60.0"


def init(**options):
    print("noise on standard output")


def nodes():
    alive = [{"Alive": True, "Resources": {f"train-s{one}": 1.0, "TPU": 4.0}} for one in (1, 0)]
    return [{"Alive": False, "Resources": {}}, {"Alive": True, "Resources": {"CPU": 0}}, *alive]


def remote(**options):
    assert options == {"num_cpus": 0, "max_calls": 1, "max_retries": 0}
    return lambda function: Task(function, None)


class Task:
    def __init__(self, function, name):
        self.function, self.name = function, name

    def options(self, resources):
        [name] = set(resources) - {"TPU"}
        assert resources == {name: 1, "TPU": 4.0}
        return Task(self.function, name)

    def remote(self, *arguments):
        os.environ |= {"SLIPWAY_SLICE": self.name[-1], "SLIPWAY_HOST": "0", "SLIPWAY_RANK": self.name[-1]}
        return self.function(*arguments)


class ObjectRef:
    def __init__(self, value):
        self.value = value


def put(value):
    return ObjectRef(value)


def wait(tasks, num_returns):
    return tasks[:1], tasks[1:]


def get(task):
    if isinstance(task, list):
        return [get(one) for one in task]
    return task.value if isinstance(task, ObjectRef) else task


def cancel(task, force):
    pass
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "ray.py").write_text(RAY)
    return os.environ | {"PYTHONPATH": str(tmp_path), "SLIPWAY_JOB": "train", "SLIPWAY_WORLD_SIZE": "2"}


def program(folder: Path, **seconds: float) -> bytes:
    """The program with files in that folder and other times, by the names of its constants."""
    text = PROGRAM.replace(b"/tmp/ray", str(folder).encode()).decode()
    for name, value in ({"HOLD": 2.0} | seconds).items():
        text, count = re.subn(rf"^{name}_SECONDS = .*$", f"{name}_SECONDS = {value}", text, flags=re.MULTILINE)
        assert count == 1
    return text.encode()


def conversation(
    environment: dict[str, str], folder: Path, mode: str, call: Call | None = None, **seconds: float
) -> Any:
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, mode], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    text = program(folder, **seconds)
    process.stdin.write(b"%d\n" % len(text) + text)
    if call is not None:
        process.stdin.write(call.header() + b"\n" + call.content)
    process.stdin.flush()
    return process


def document(process: Any) -> bytes:
    while not (line := process.stdout.readline()).strip():
        assert process.poll() is None, process.stderr.read()
    told = json.loads(line)
    content: bytes = process.stdout.read(told["size"])
    assert hashlib.sha256(content).hexdigest() == told["sha256"]
    process.stdin.write(b"taken\n")
    process.stdin.flush()
    process.communicate(timeout=ANSWER_SECONDS)
    assert process.returncode == 0
    return content


def call_of(function: Callable[..., Any], *args: Any) -> Call:
    return pack(function, args, {}, capture=False)


def test_a_call_is_answered_whatever_is_printed(environment: dict[str, str], tmp_path: Path) -> None:
    def train(word: str) -> str:
        print("more noise")
        return word * 100_000

    found = document(conversation(environment, tmp_path, "call", call_of(train, "ab")))
    assert unpack(found, INFO, flatten=False) == [["ab" * 100_000]] * 2


def test_a_task_has_all_gpus_of_its_host(environment: dict[str, str], tmp_path: Path) -> None:  # E2-11
    ray = tmp_path / "ray.py"
    text = ray.read_text().replace('"TPU": 4.0}}', '"GPU": 2.0}}')
    ray.write_text(
        text
        + """
def take(self, resources, num_gpus):
    assert num_gpus == 2.0
    return Task(self.function, *resources)


Task.options = take
"""
    )
    assert unpack(document(conversation(environment, tmp_path, "call", call_of(len, "ab"))), INFO, flatten=True) == [
        2,
        2,
    ]


def test_a_call_that_raises_brings_its_exception_and_ends_the_others(
    environment: dict[str, str], tmp_path: Path
) -> None:  # E2-06
    def train() -> None:
        raise KeyError("x")

    with (tmp_path / "ray.py").open("a") as ray:
        ray.write(f"""
def cancel(task, force):
    assert force
    with open("{tmp_path}/cancelled", "a") as file:
        file.write("one")
""")

    with pytest.raises(JobFailed) as caught:
        unpack(document(conversation(environment, tmp_path, "call", call_of(train))), INFO, flatten=True)
    assert isinstance(caught.value.__cause__, KeyError)
    assert (tmp_path / "cancelled").read_text() == "one"


def test_a_lost_host_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    found = document(conversation(environment | {"SLIPWAY_WORLD_SIZE": "3"}, tmp_path, "call", call_of(len, "")))
    with pytest.raises(JobError, match="2 of 3 hosts are there") as caught:
        unpack(found, INFO, flatten=True)
    assert type(caught.value) is JobError


@pytest.mark.parametrize(("name", "kind", "state"), [
    ("NodeDiedError", JobPreempted, "preempted"),
    ("OwnerDiedError", JobPreempted, "preempted"),
    ("ActorDiedError", JobPreempted, "preempted"),
    ("ActorUnavailableError", JobPreempted, "preempted"),
    ("WorkerCrashedError", JobFailed, "failed"),
    ("RaySystemError", JobError, "error"),
])  # fmt: skip
def test_an_error_of_rays_own_is_told_by_what_it_means(
    environment: dict[str, str], tmp_path: Path, name: str, kind: type[JobError], state: str
) -> None:  # E2-07, E2-23
    with (tmp_path / "ray.py").open("a") as ray:
        ray.write(f"""
def get(task):
    kind = type("{name}", (Exception,), {{"__module__": "ray.exceptions"}})
    raise kind("it is gone")
""")
    with pytest.raises(JobError, match="it is gone") as caught:
        unpack(document(conversation(environment, tmp_path, "call", call_of(len, ""))), INFO, flatten=True)
    assert type(caught.value) is kind
    assert caught.value.info.state == state
    assert caught.value.host is not None
    assert caught.value.host.slice is None


def test_an_error_that_only_sounds_like_rays_is_the_programs(environment: dict[str, str], tmp_path: Path) -> None:
    def train() -> None:
        kind = type("NodeDiedError", (RuntimeError,), {})
        raise kind("owner died, the node was preempted")

    with pytest.raises(JobFailed, match="owner died"):  # E2-23
        unpack(document(conversation(environment, tmp_path, "call", call_of(train))), INFO, flatten=True)


def test_references_are_resolved_alone_and_in_lists(environment: dict[str, str], tmp_path: Path) -> None:
    def train(many: str) -> object:
        import ray

        found = {"all": [ray.put(1), ray.put(2)], "one": ray.put(3), "mixed": ["a", ray.put(4), 5], "none": []}
        return (found | {"deep": {"a": ray.put(6)}})[many]

    results = []
    for many in ("all", "one", "mixed", "none"):  # E2-27
        found = document(conversation(environment, tmp_path, "call", call_of(train, many)))
        results.append(unpack(found, INFO, flatten=True)[0])
    assert results == [[1, 2], 3, ["a", 4, 5], []]
    deep = document(conversation(environment, tmp_path, "call", call_of(train, "deep")))
    with pytest.raises(ResultMissing, match=r"host 0 of slice 0 \(index 0\) cannot be unpickled here"):
        unpack(deep, INFO, flatten=True)


def test_it_ends_with_the_stream(environment: dict[str, str], tmp_path: Path) -> None:
    # It would end for the silence, too.
    process = conversation(environment, tmp_path, "fetch", SILENCE=1e6)
    process.stdin.close()
    assert process.wait(timeout=ANSWER_SECONDS) == host_program.FAILED
    process.stdout.close()
    process.stderr.close()


def test_it_ends_when_nothing_is_heard(environment: dict[str, str], tmp_path: Path) -> None:
    def train() -> None:
        import threading

        threading.Event().wait(600)

    # The stream stays open, as it does where a laptop was closed.
    process = conversation(environment, tmp_path, "call", call_of(train), SILENCE=1.0, HEARTBEAT=0.5)
    assert process.wait(timeout=ANSWER_SECONDS) == host_program.FAILED
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def job(environment: dict[str, str], folder: Path, call: Call, **header: Any) -> Any:
    (folder / "call.json").write_text(json.dumps(json.loads(call.header()) | header))
    (folder / "call.pickle").write_bytes(call.content)
    return subprocess.Popen(
        [sys.executable, "-c", program(folder), "run", str(folder)], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_jobs_answer_waits_until_it_is_taken(environment: dict[str, str], tmp_path: Path) -> None:
    running = job(environment, tmp_path, call_of(len, "abc"))
    found = document(conversation(environment, tmp_path, "fetch"))
    assert unpack(found, INFO, flatten=True) == [3, 3]
    assert running.communicate(timeout=ANSWER_SECONDS) == (None, "")
    assert running.returncode == 0


def test_a_jobs_answer_does_not_wait_for_ever(environment: dict[str, str], tmp_path: Path) -> None:
    start = time.monotonic()
    running = job(environment, tmp_path, call_of(len, "abc"))
    running.communicate(timeout=ANSWER_SECONDS)
    assert running.returncode == 0
    assert 2 < time.monotonic() - start < ANSWER_SECONDS


@pytest.mark.parametrize("name", ["Python", "cloudpickle", "Ray"])
def test_each_version_is_compared_up_to_its_second_number(
    environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    mine = {"Python": platform.python_version(), "cloudpickle": cloudpickle.__version__, "Ray": "2.60.0"}
    patched = {one: ".".join(version.split(".")[:2]) + ".999" for one, version in mine.items()}
    for versions, refused in ((patched, False), (mine | {name: "0.9.1"}, True)):
        running = job(environment, tmp_path, call_of(len, "abc"), versions=versions)
        found = document(conversation(environment, tmp_path, "fetch"))
        _, said = running.communicate(timeout=ANSWER_SECONDS)
        for file in ("slipway-result", "slipway-taken", "slipway-reader"):
            (tmp_path / file).unlink(missing_ok=True)
        assert running.returncode == (host_program.REFUSED if refused else 0)
        assert said == (f"{name} is 0.9.1 where the call was made and {mine[name]} in the image\n" if refused else "")
        if refused:
            with pytest.raises(VersionMismatch, match=f"{name} is 0.9.1"):
                unpack(found, INFO, flatten=True)


def test_other_versions_end_the_job_with_a_code_of_their_own(environment: dict[str, str], tmp_path: Path) -> None:
    other = {"Python": "3.99.1", "cloudpickle": "3.1.0", "Ray": "2.59.0"}
    running = job(environment, tmp_path, call_of(len, "abc"), versions=other)
    found = document(conversation(environment, tmp_path, "fetch"))
    _, said = running.communicate(timeout=ANSWER_SECONDS)
    assert running.returncode == host_program.REFUSED
    with pytest.raises(VersionMismatch, match=r"Python is 3\.99\.1 .*; Ray is 2\.59\.0 where .* and 2\.60\.0"):
        unpack(found, INFO, flatten=True)
    assert "cloudpickle" not in said
