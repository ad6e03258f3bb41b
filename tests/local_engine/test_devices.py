"""Two jobs never have the same device.

The machine is made up, and its device nodes are other names of /dev/null; the engine is real. The supervisors are
threads of this process, so that they see the made-up machine, too.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from slipway.local import submission
from slipway.local.conversion.devices import LABEL_DEVICES, Device, Inventory
from slipway.local.jobs.job_files import JobFolder
from slipway.local.supervisor import supervisor
from tests.local_engine.engine import IMAGE, Engine, User
from tests.waiting import START_SECONDS, until

pytestmark = pytest.mark.thorough

NULL: Final = os.makedev(1, 3)


@pytest.fixture
def two_chips(monkeypatch: pytest.MonkeyPatch, user: User, tmp_path: Path) -> Iterator[None]:
    nodes = [tmp_path / f"accel{number}" for number in range(2)]
    for node in nodes:
        os.mknod(node, stat.S_IFCHR | 0o666, NULL)
    threads: list[Thread] = []

    def supervise(job: JobFolder) -> None:
        if supervisor.needs_supervisor(job):
            threads.append(Thread(target=supervisor.supervise, args=(job,)))
            threads[-1].start()

    chips = tuple(Device("tpu", number, str(node)) for number, node in enumerate(nodes))
    monkeypatch.setattr(Inventory, "read", lambda: Inventory({"tpu": chips}))
    monkeypatch.setattr(supervisor, "ensure_supervisor", supervise)
    monkeypatch.setattr(submission, "ensure_supervisor", supervise)
    monkeypatch.setenv("XDG_STATE_HOME", str(user.state))
    monkeypatch.setenv("DOCKER_HOST", user.host)
    yield
    if names := user.unfinished():
        user.slipway("delete", "--yes", *names)
    for one in threads:
        one.join(START_SECONDS)


# T-11, T-13: a device comes with the permissions that are asked for, and no others. That to write to /dev/kmsg is no
# container's by default, and opening it writes nothing.
@pytest.mark.parametrize(
    ("mount", "said"),
    [
        pytest.param("src=/dev/kmsg,dst=/dev/mine,perm=r", "Operation not permitted", id="to read only"),
        pytest.param("src=/dev/kmsg,dst=/dev/mine,perm=rw", "opened", id="to read and to write"),
        pytest.param("src=/dev/kmsg,dst=/dev/mine", "opened", id="all, where none are named"),
    ],
)
def test_a_device_has_the_permissions_that_are_asked_for(user: User, mount: str, said: str) -> None:
    script = "(: > /dev/mine) 2>&1 && echo opened || true"
    job = ("--image", IMAGE, "--name", "train", "--mount", f"type=device,{mount}")
    user.slipway("run", *job, "--", "sh", "-c", script)
    assert said in user.slipway("logs", "train").out


# The third of three jobs that want one of two chips waits, says who has them, and begins when one is free.
def test_two_jobs_never_have_the_same_device(user: User, engine: Engine, two_chips: None) -> None:
    names = ["a", "b", "c"]
    spec = {"accelerator": {"type": "v5litepod-1"}, "retries": {"capacityRetrySeconds": 1}}
    for name in names:
        # Not every machine lets its engine lift this limit, as a TPU wants it.
        user.submit("sleep 1000", name, "--ulimit", "memlock=65536", **spec)

    def held() -> dict[str, str]:
        there = {name: engine.containers(name) for name in names}
        return {name: found[0].labels[LABEL_DEVICES] for name, found in there.items() if found}

    until("two jobs with chips", lambda: sum(len(engine.containers(name)) for name in names) == 2)
    first = held()
    assert sorted(first.values()) == ["tpu:0", "tpu:1"]
    for name in first:
        engine.running(name)
    [waiting] = set(names) - first.keys()
    there = "this machine has 2 (tpu:0 and tpu:1)"
    words = until("the reason", lambda: there in (why := user.slipway("why", waiting).out) and why)
    assert all(f"{name} uses {chip}" in words for name, chip in first.items())
    given_up = min(first)
    user.slipway("cancel", given_up)
    engine.running(waiting)
    assert held()[waiting] == first[given_up]
    assert user.status(waiting)["failures"] == 0
