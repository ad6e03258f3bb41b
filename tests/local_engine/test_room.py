"""A full disk, shared memory, many jobs at once, and what is left behind."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import docker.types
import pytest
from docker.models.networks import Network

from slipway.api import names
from slipway.local.containers.containers import Containers, EngineRefuses
from slipway.local.jobs.job_files import LABEL_HOME
from tests.local_engine.engine import IMAGE, Dockerd, Engine, User
from tests.waiting import until

pytestmark = pytest.mark.thorough

JOBS: Final = 50
"""Jobs at once; more than about 30 need more networks than an engine has by default."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


# A status that cannot be written is written later: nothing is lost or done twice.
def test_a_full_disk(dockerd: Dockerd, engine: Engine, small_disk: Path, shared: dict[str, Any]) -> None:
    user = User(small_disk, dockerd.host)
    user.submit("[ $SLIPWAY_ATTEMPT -gt 0 ] || { until [ -e /shared/full ]; do sleep 0.1; done; exit 5; }", **shared)
    engine.running("train")
    user.until("Running")
    full = small_disk / "full"
    with pytest.raises(OSError, match="No space left"):
        full.write_bytes(bytes(2**20))
    (Path(shared["volumes"][0]["hostPath"]["path"]) / "full").touch()
    until("the end of the container", lambda: [one.status for one in engine.containers("train")] == ["exited"])
    assert user.status()["phase"] == "Running"
    user.slipway("list")
    user.only_supervisor()
    full.unlink()
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 1, 1)
    user.slipway("prune")
    assert engine.of_jobs() == []


def test_shared_memory_is_as_large_as_the_memory(user: User) -> None:  # T-19
    user.submit("grep ' /dev/shm ' /proc/mounts", resources={"limits": {"memory": "200Mi"}})
    assert user.ended()["phase"] == "Succeeded"
    assert f"size={200 * 1024}k" in user.slipway("logs", "train").out


# Jobs of one user do not get in each other's way.
def test_many_jobs_at_once(user: User, engine: Engine) -> None:
    chosen = [f"job-{number}" for number in range(JOBS)]
    for name in chosen:
        # An engine has about thirty networks, and a job that finds none free tries again after that time.
        user.submit("echo $SLIPWAY_JOB; sleep 1", name, retries={"capacityRetrySeconds": 1})
    for name in chosen:
        status = user.ended(name, seconds=300)
        assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 0, 0), name
    for name in chosen:
        assert user.slipway("logs", name).out == f"{name}\n"


# N-32..N-34: prune removes what has ended and what nobody knows any more, of this user, and nothing else.
def test_prune(user: User, engine: Engine, dockerd: Dockerd, tmp_path: Path) -> None:
    other = User(tmp_path / "other", dockerd.host)
    for whose, name in ((user, "ended"), (user, "runs"), (user, "lost"), (other, "theirs")):
        whose.submit("true" if name == "ended" else "sleep 1000", name)
    for name in ("runs", "lost", "theirs"):
        engine.running(name)
    user.ended("ended")
    # Somebody has removed the files of a job, whose supervisor then ends.
    user.until("Running", "lost")
    shutil.rmtree(user.folder("lost").rename(tmp_path / "removed"))
    until("the end of its supervisor", lambda: not user.supervisors("lost"))
    pruned = user.slipway("prune").out
    assert sorted(pruned.splitlines()) == ["ended deleted", "what was left of job lost deleted"]
    assert [len(engine.containers(name)) for name in ("ended", "lost", "runs", "theirs")] == [0, 0, 1, 1]
    assert {name.partition("-")[0] for name in engine.of_jobs() if not name.startswith("slipway-")} == {
        "runs",
        "theirs",
    }
    assert "has not ended: cancel it first" in user.slipway("prune", "runs", code=1).err
    assert "no job nobody" in user.slipway("prune", "nobody", code=4).err
    assert user.slipway("prune").out == ""
    assert user.status("runs")["phase"] in ("Starting", "Running")
    other.slipway("delete", "--yes", "--wait", "theirs")
    until("the end of their supervisor", lambda: not other.supervisors())


# N-33: what cannot be removed is named and keeps nothing else; the next time it goes, too.
def test_prune_goes_on_where_something_cannot_be_removed(
    user: User, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.submit("true", "ended")
    user.submit("sleep 1000", "lost", hosts=2)
    stuck = engine.running("lost", 2)[0]
    user.ended("ended")
    shutil.rmtree(user.folder("lost").rename(tmp_path / "removed"))
    until("the end of its supervisor", lambda: not user.supervisors("lost"))
    remove = Containers.remove

    def refuse_one(containers: Containers, container: str) -> None:
        if container == stuck.id:
            raise EngineRefuses(f"container {stuck.name} is held by its driver", 500)
        remove(containers, container)

    with monkeypatch.context() as patch:
        patch.setattr(Containers, "remove", refuse_one)
        done = user.slipway("prune", code=1)
    assert done.out == "ended deleted\n"
    [line] = done.err.splitlines()
    assert "what was left of job lost cannot be removed" in line
    # The one that is left is in the network, which therefore stays, too.
    assert "container lost-0-0-0 is held by its driver" in line
    assert re.search(r"network slipway-lost-\w+ id \w+ has active endpoints", line)
    assert [one.name for one in engine.containers("lost")] == ["lost-0-0-0"]
    assert user.slipway("prune").out == "what was left of job lost deleted\n"
    assert engine.of_jobs() == []


# N-33: a job whose engine is away cannot be removed; those of other engines can.
def test_prune_goes_on_where_an_engine_is_away(user: User, dockerd: Dockerd, tmp_path: Path) -> None:
    far = tmp_path / "far.sock"
    far.symlink_to(dockerd.socket)
    User(user.state, f"unix://{far}").submit("true", "far")
    user.submit("true", "near")
    for name in ("far", "near"):
        user.ended(name)
    far.unlink()
    done = user.slipway("prune", code=1)
    assert done.out == "near deleted\n"
    assert f"job far cannot be removed: The Docker engine is not reachable at unix://{far}" in done.err
    far.symlink_to(dockerd.socket)
    assert user.slipway("prune").out == "far deleted\n"


ALL_ADDRESSES: Final = ("172.18.0.0/15", "172.20.0.0/14", "172.24.0.0/13", "192.168.0.0/16")
"""What an engine makes its networks from, but for that of its own bridge."""


def network_of(engine: Engine, subnet: str) -> Network:
    pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=subnet)])
    return engine.client.networks.create(f"all-{subnet.replace('/', '-')}", driver="bridge", ipam=pool)


# An engine has about 30 networks for all: a job that gets none waits for one, and says so.
def test_a_job_waits_for_a_network(user: User, engine: Engine) -> None:
    made = [network_of(engine, subnet) for subnet in ALL_ADDRESSES]
    try:
        user.submit("true", retries={"capacityRetrySeconds": 1})
        user.until("WaitingForCapacity")
        assert "docker network prune" in user.slipway("why", "train").out
        assert user.status()["failures"] == 0
    finally:
        for one in made:
            one.remove()
    assert user.ended()["phase"] == "Succeeded"


# A client of the job joins its network, as docs/local.md says, and may outlive it.
def test_a_container_that_has_joined_the_network_of_a_job_keeps_it_from_nothing(
    user: User, engine: Engine, shared: dict[str, Any]
) -> None:
    user.submit("until [ -e /shared/go ]; do sleep 0.1; done", **shared)
    engine.running("train")
    [network] = engine.client.networks.list(filters={"label": names.LABEL_JOB_NAME})
    theirs = engine.client.containers.run(IMAGE, ["sleep", "1000"], network=network.name, detach=True)
    try:
        (Path(shared["volumes"][0]["hostPath"]["path"]) / "go").touch()
        user.ended()
        until("the end of the supervisor", lambda: not user.supervisors())
        assert engine.of_jobs() == []
        assert user.slipway("prune").out == "train deleted\n"
        theirs.reload()
        assert theirs.status == "running"
    finally:
        theirs.remove(force=True)


SIDECAR: Final = {"name": "beside", "image": IMAGE, "command": ["sleep", "1000"], "restartPolicy": "Always"}


# A port of this machine is somebody's until he ends: the program is not to blame, and trying again at once is no use.
@pytest.mark.parametrize(
    "beside", [pytest.param([], id="a host of one container"), pytest.param([SIDECAR], id="a host of several")]
)
def test_a_job_waits_for_a_port_of_this_machine(user: User, engine: Engine, beside: list[dict[str, Any]]) -> None:
    theirs = engine.client.containers.run(IMAGE, ["sleep", "1000"], ports={"80/tcp": 18080}, detach=True)
    try:
        ports = [{"containerPort": 80, "hostPort": 18080}]
        template = {"spec": {"containers": [{"name": "worker", "ports": ports}], "initContainers": beside}}
        user.submit("true", podTemplate=template, retries={"maxFailures": 0, "capacityRetrySeconds": 1})
        user.until("WaitingForCapacity")
        assert "a port of this machine is in use" in user.slipway("why", "train").out
        # Each try finds the port in use, and is charged to nobody.
        said = user.state / "slipway/jobs/train/supervisor.log"
        until("three tries", lambda: said.read_text().count("a port of this machine is in use") > 2)
    finally:
        theirs.remove(force=True)
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 0, 0)


# What is somebody else's has no label of a job: prune does not know it.
def test_prune_leaves_other_containers(user: User, engine: Engine) -> None:
    theirs = engine.client.containers.create(IMAGE, ["true"], labels={"app": "theirs"})
    ours = engine.client.containers.create(
        IMAGE, ["true"], labels={names.LABEL_JOB_UID: "u", names.LABEL_JOB_NAME: "old", LABEL_HOME: "other"}
    )
    try:
        assert user.slipway("prune").out == ""
        theirs.reload()
        ours.reload()
    finally:
        theirs.remove()
        ours.remove()
