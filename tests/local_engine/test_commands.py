"""What people type, and what they are answered."""

import json
import os
import re
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.local_engine.engine import IMAGE, Dockerd, Engine, User
from tests.waiting import START_SECONDS, until

IN_TWO_ATTEMPTS = """
for i in 1 2 3; do echo "line $i of $SLIPWAY_ATTEMPT"; sleep 0.4; done
echo "end of $SLIPWAY_ATTEMPT"
touch /shared/$SLIPWAY_HOST
until [ -e /shared/0 -a -e /shared/1 ]; do sleep 0.1; done
[ $SLIPWAY_ATTEMPT -gt 0 ] || exit 4
until [ -e /shared/go ]; do sleep 0.1; done
"""


# N-01, T-03: `run` follows a job to its end, and exits as it did.
@pytest.mark.parametrize(
    ("script", "code", "sentence"),
    [
        pytest.param("echo hello", 0, "slicejob train Succeeded", id="succeeds"),
        pytest.param("exit 9", 1, "slicejob train Failed (exit code 9)", id="fails"),
    ],
)
@pytest.mark.thorough
def test_run(user: User, script: str, code: int, sentence: str) -> None:
    job = ("--image", IMAGE, "--name", "train", "--max-failures", "1")
    done = user.command("run", *job, "--", "sh", "-c", script, code=code)
    assert sentence in done.err


# N-01: the place is a word of the cluster's command; a relative source begins in the current folder (T-13).
def test_run_on_this_machine(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, value in user.variables.items():
        monkeypatch.setenv(name, value)
    job = ("--image", IMAGE, "--name", "train", "--mount", "type=bind,src=data,dst=/data")
    given = ("run", "--on", "local", *job, "--", "sh", "-c", "echo made > /data/here")
    done = CliRunner().invoke(main, given, catch_exceptions=False)
    assert (done.exit_code, "slicejob train Succeeded" in done.output) == (0, True), done.output
    assert (tmp_path / "data/here").read_text() == "made\n"
    assert user.status()["phase"] == "Succeeded"


# N-17, T-14, T-21, T-22: everything is told of a job while it runs, when it has ended, and of attempts that are gone.
@pytest.mark.thorough
def test_what_is_told_of_a_job(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    user.submit(IN_TWO_ATTEMPTS, hosts=2, **shared)
    follower = user.popen("logs", "train", "-f", "--attempt", "all", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    waiter = user.popen("wait", "train", "-q")
    engine.running("train", 2, attempt=1)
    user.until("Running")
    until("the last lines", lambda: user.slipway("logs", "train").out.count("end of 1") == 2)
    [job] = json.loads(user.slipway("list", "-o", "json").out)
    assert (job["metadata"]["name"], job["status"]["phase"], job["status"]["failures"]) == ("train", "Running", 1)
    assert re.search(r"train +Running", user.slipway("list").out)
    assert "all 2 hosts of attempt 1 run" in user.slipway("why", "train").out
    described = user.slipway("describe", "train").out
    assert "■ 2 running" in described
    assert "end of 0" in described
    events = user.slipway("events", "train").out
    assert [word for word in ("Starting", "AttemptFailed", "Running") if word not in events] == []
    logs = {
        ("--attempt", "0", "--host", "1", "--no-history"): "",
        ("--attempt", "0", "--host", "1"): "line 1 of 0\nline 2 of 0\nline 3 of 0\nend of 0\n",
        ("--failed", "--tail", "1"): "end of 0\n",
        ("--host", "0", "--tail", "2"): "line 3 of 1\nend of 1\n",
        ("--host", "0", "--since", "1s", "--regex", "line 1"): "",
    }
    assert {options: user.slipway("logs", "train", *options).out for options in logs} == logs
    both = user.slipway("logs", "train", "--attempt", "all", "--regex", "end").out.splitlines()
    assert sorted(both) == ["[0/0] end of 0", "[0/0] end of 1", "[0/1] end of 0", "[0/1] end of 1"]

    (Path(shared["volumes"][0]["hostPath"]["path"]) / "go").touch()
    out, _ = follower.communicate(timeout=START_SECONDS)
    followed = [line for line in out.decode().splitlines() if line.startswith("[0/1] ")]
    expected = [f"[0/1] {word} of {n}" for n in (0, 1) for word in ("line 1", "line 2", "line 3", "end")]
    assert followed == expected
    assert waiter.wait(timeout=START_SECONDS) == 0
    assert user.ended()["phase"] == "Succeeded"
    assert engine.of_jobs() == []
    kept = user.slipway("logs", "train", "--attempt", "all", "--host", "1").out.splitlines()
    assert [line for line in kept if " of " in line] == [line.removeprefix("[0/1] ") for line in expected]
    assert "[0/1] line 1 of 1" in user.slipway("logs", "train").out
    assert "AttemptFailed" in user.slipway("events", "train").out
    assert "Succeeded" in user.slipway("why", "train").out


# N-23: whoever cancels, suspends, resumes or deletes is obeyed; a job that has ended stays as it is.
@pytest.mark.thorough
def test_jobs_are_changed(user: User, engine: Engine) -> None:
    for name in ("one", "two"):
        user.submit("sleep 1000", name)
    [first] = engine.running("one")
    engine.running("two")
    user.slipway("suspend", "one")
    user.until("Suspended", "one")
    until("no container", lambda: engine.containers("one") == [])
    user.slipway("delete", "--yes", "--wait", "two")
    assert engine.containers("two") == []
    assert not user.folder("two").exists()
    assert user.slipway("list", "-o", "name").out.split() == ["slicejob.slipway.dev/one"]
    user.slipway("resume", "one")
    [second] = engine.running("one")
    assert (first.name, second.name) == ("one-0-0-0", "one-1-0-0")
    user.slipway("cancel", "one")
    status = user.ended("one")
    assert (status["phase"], status["failures"]) == ("Cancelled", 0)
    assert "one is Cancelled already" in user.slipway("cancel", "one", code=5).err
    user.slipway("wait", "one", code=1)
    assert "no job nobody" in user.slipway("describe", "nobody", code=4).err


# B-36: jobs without names of their own are named after the image, no two the same, and all of them run.
@pytest.mark.row("B-36")
@pytest.mark.thorough
def test_jobs_without_names_run_beside_each_other(user: User) -> None:
    submitted = [user.slipway("submit", "--image", IMAGE, "-o", "name", "--", "true").out for _ in range(3)]
    names = {one.strip().rpartition("/")[2] for one in submitted}
    assert len(names) == 3
    assert all(one.startswith("busybox-") for one in names)
    assert {user.ended(one)["phase"] for one in names} == {"Succeeded"}


# N-07: the same job again changes nothing; another one of the name is refused.
@pytest.mark.thorough
def test_a_job_is_submitted_again(user: User) -> None:
    user.submit("echo once")
    user.ended()
    before = user.file().read_bytes()
    user.submit("echo once")
    assert user.file().read_bytes() == before
    assert "exists with another command" in user.submit("echo twice", code=2).err


@pytest.mark.parametrize(
    ("options", "spec", "code", "sentence"),
    [
        pytest.param(
            (), {"image": "slipway.local/nowhere:1", "imagePullPolicy": "Never"}, 2,
            "image slipway.local/nowhere:1 is not on this machine", id="an image that must not be pulled",
        ),
        pytest.param(
            (), {"image": "127.0.0.1:9/nowhere:1"}, 2,
            "image 127.0.0.1:9/nowhere:1 cannot be pulled", id="an image that cannot be pulled",
        ),
        pytest.param(
            ("--network", "elsewhere"), {}, 2,
            "there is no Docker network elsewhere: docker network create elsewhere", id="no such network",
        ),
        pytest.param(
            (), {"accelerator": {"type": "v5litepod-4"}}, 2,
            "--without-devices tries the job without them", id="more devices than there are",
        ),
        pytest.param(
            ("--device", "/dev/none-such"), {}, 2,
            "this machine has no device /dev/none-such", id="a device that is not there",
        ),
        pytest.param(
            (), {"command": []}, 2,
            f"container worker has no command, and neither has its image {IMAGE}: set spec.command",
            id="nothing to run",
        ),
    ],
)  # fmt: skip
@pytest.mark.row("B-45", "F-14", "F-59", "E1-22")
def test_what_cannot_run_here_is_refused_at_once(
    user: User, options: tuple[str, ...], spec: dict[str, Any], code: int, sentence: str
) -> None:
    assert sentence in user.submit("true", "train", *options, code=code, **spec).err
    assert not user.folder().exists()


def test_a_folder_that_cannot_be_used_is_named(user: User, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    alone = User(tmp_path / "file", user.host)
    refused = alone.submit("true", code=2).err
    assert f"the folder of this machine's jobs cannot be used: [Errno 20] Not a directory: '{tmp_path}/file" in refused


# N-09: a name that somebody else has is told, costs nothing, and is waited for.
@pytest.mark.thorough
def test_a_container_of_somebody_else_has_the_name(user: User, engine: Engine) -> None:
    theirs = engine.client.containers.create(IMAGE, ["true"], name="train-0-0-1")
    user.submit("true", hosts=2, retries={"maxFailures": 1, "capacityRetrySeconds": 1})
    words = "container train-0-0-1 exists and is not of this job: remove it, or choose another name for the job"
    try:
        why = until("the reason", lambda: words in (said := user.slipway("why", "train").out) and said)
        assert "NameTaken" in why
        status = user.status()
        assert (status["attempt"], status.get("failures", 0), status.get("preemptions", 0)) == (0, 0, 0)
        theirs.reload()
        assert theirs.status == "created"
    finally:
        theirs.remove()
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 0, 0)


# B-44, F-13: without an engine the reason is one sentence.
def test_no_engine(user: User, dockerd: Dockerd, tmp_path: Path) -> None:
    alone = User(user.state, f"unix://{tmp_path}/none.sock")
    [line] = alone.command("run", "--image", IMAGE, "--", "true", code=3).err.splitlines()
    assert "is not reachable at unix://" in line
    assert "Start the engine" in line
    alone.command("list")


# B-44: who may not use the engine hears who may.
def test_no_right_to_use_the_engine(user: User, tmp_path: Path) -> None:
    user.submit("true", "train", "--dry-run", "server")
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        folder.chmod(0o777)
        listener.bind(str(folder / "engine.sock"))
        (folder / "engine.sock").chmod(0o600)
        os.seteuid(65534)
        try:
            done = User(folder, f"unix://{folder}/engine.sock").submit("true", code=3)
        finally:
            os.seteuid(0)
    assert "Only root and the group `docker` may use this engine" in done.err


# A Docker network that somebody has made is used, and is left alone in the end (T-18, N-34).
@pytest.mark.thorough
def test_a_network_that_is_there(user: User, engine: Engine) -> None:
    network = engine.client.networks.create("ours", driver="bridge")
    try:
        user.submit("sleep 1000", "train", "--network", "ours", hosts=2)
        hosts = engine.running("train", 2)
        assert all(list(one.attrs["NetworkSettings"]["Networks"]) == ["ours"] for one in hosts)
        user.slipway("cancel", "--now", "train")
        user.ended()
        user.slipway("prune")
        network.reload()
    finally:
        network.remove()


# K-08: the networks that every engine has know no names; a job of one host finds itself nevertheless.
@pytest.mark.parametrize("network", ["bridge", "none"])
@pytest.mark.thorough
def test_a_network_of_the_engine_s_own(user: User, network: str) -> None:
    asks = 'nc -w 9 "${SLIPWAY_COORDINATOR_ADDRESS%:*}" 8081 < /dev/null'
    script = f"nc -l -p 8081 & until {asks}; do sleep 0.1; done"
    user.submit(script, "train", "--network", network, retries={"maxFailures": 0})
    status = user.ended()
    assert (status["phase"], status["failures"]) == ("Succeeded", 0)
    user.submit("true", "beside", "--network", network, code=2, hosts=2)
    assert not user.folder("beside").exists()


# A network that is removed while the job is suspended: the job says so, and how to make it again.
@pytest.mark.thorough
def test_a_network_that_goes(user: User, engine: Engine) -> None:
    network = engine.client.networks.create("ours", driver="bridge")
    user.submit("sleep 1000", "train", "--network", "ours", retries={"capacityRetrySeconds": 1})
    engine.running("train")
    user.slipway("suspend", "train")
    user.until("Suspended")
    until("no container", lambda: engine.containers("train") == [])
    network.remove()
    user.slipway("resume", "train")
    until("the reason", lambda: "docker network create ours" in user.slipway("why", "train").out)
    assert user.status()["failures"] == 0
    again = engine.client.networks.create("ours", driver="bridge")
    engine.running("train")
    user.slipway("cancel", "--now", "train")
    user.ended()
    again.remove()
