"""A real Ray in containers of this machine: a head and workers, whose entrypoint runs to its end."""

import io
import json
import shutil
import stat
import tarfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from slipway.devcluster.images.archives import references
from slipway.devcluster.progress import Silent
from tests.local_engine.engine import Dockerd, Engine, User
from tests.places import ROOT
from tests.ray.image import IMAGE, build_image
from tests.waiting import until

pytestmark = pytest.mark.thorough

PROGRAM = (ROOT / "tests/ray/programs/on_every_host.py").read_text()
ASKS = """
import json, sys, urllib.error, urllib.request

def code(**headers):
    try:
        return urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers), timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code

token = open("/var/run/slipway/ray/token").read()
print(json.dumps({"without": code(), "with": code(Authorization="Bearer " + token), "token": token}))
"""
SMALL = {"resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}


def loadable(archive: Path, made: Path) -> Path:
    """The archive with the list of images that an engine looks for."""
    shutil.copy(archive, made)
    digest = references(archive)[IMAGE].removeprefix("sha256:")
    with tarfile.open(archive) as content:
        manifest: Any = json.load(content.extractfile(f"blobs/sha256/{digest}") or io.BytesIO())
    blobs = [one["digest"].replace("sha256:", "blobs/sha256/") for one in (manifest["config"], *manifest["layers"])]
    listed = json.dumps([{"Config": blobs[0], "RepoTags": [IMAGE], "Layers": blobs[1:]}]).encode()
    with tarfile.open(made, "a") as content:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(listed)
        content.addfile(entry, io.BytesIO(listed))
    return made


@pytest.fixture(scope="module")
def image(dockerd: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of the Ray example, on the engine."""
    archive = loadable(build_image(Silent()), tmp_path_factory.mktemp("image") / "ray.tar")
    with closing(docker.APIClient(dockerd.host, timeout=280)) as api, archive.open("rb") as content:
        for answer in api.load_image(content):
            assert "error" not in answer, answer
    archive.unlink()
    return IMAGE


def cluster(image: str, **env: str) -> dict[str, Any]:
    """Fields of a job of two workers, whose entrypoint is the program."""
    variables = [{"name": key, "value": value} for key, value in {"PROGRAM": PROGRAM, **env}.items()]
    ray = {"entrypoint": 'python3 -c "$PROGRAM"', "head": SMALL}
    return {"image": image, "hosts": 2, "env": variables, "ray": ray, "terminationGracePeriodSeconds": 10}


def answers(user: User, attempt: int) -> list[str]:
    """What the entrypoint of an attempt printed of its workers."""
    lines = user.slipway("logs", "train", "--attempt", str(attempt), "--role", "head", code=None).out.splitlines()
    return sorted(line[line.index("answer ") :] for line in lines if "answer " in line)


def told(user: User, engine: Engine) -> str:
    """All that Slipway and the engine say of the job to who asks."""
    words = [json.dumps(engine.client.api.inspect_container(one.id)) for one in engine.containers()]
    for path in user.folder().rglob("*"):
        # The supervisor replaces files meanwhile.
        with suppress(FileNotFoundError):
            words += [path.read_text(errors="replace")] if path.is_file() and path.name != "ray-token" else []
    return "".join(words)


# T-04: the cluster that pods would be. Its token is in a file of its owner's and in its containers, and nowhere else.
def test_the_entrypoint_runs_a_task_on_each_worker(user: User, engine: Engine, dockerd: Dockerd, image: str) -> None:
    user.submit(**cluster(image, WAITS="1"))
    wanted = ["answer rank=0 hostname=0-0-0", "answer rank=1 hostname=0-0-1"]
    until("an answer of each worker", lambda: answers(user, 0) == wanted, every=0.5)
    pods = ["train-0-0-0", "train-0-0-1", "train-0-head"]
    assert [one.name for one in engine.containers()] == [*pods, "train-0-head.ray-head", "train-0-head_sandbox"]
    token = (user.folder() / "ray-token").read_text()
    assert stat.S_IMODE((user.folder() / "ray-token").stat().st_mode) == 0o600
    assert token not in told(user, engine)
    for name in pods:
        # By the name of the Service, as clients of the cluster use it.
        asked = dockerd.printed(name, "python3", "-c", ASKS, "http://train-head.local.svc:8265/api/version")
        assert json.loads(asked) == {"without": 401, "with": 200, "token": token}
    for name in ("train-0-0-0", "train-0-head.ray-head"):
        assert int(dockerd.printed(name, "sh", "-c", "echo $(($(stat -f -c '%b * %S' /dev/shm)))")) > 2**28
    dockerd.printed("train-0-head", "touch", "/tmp/ray/go")
    status = user.ended()
    counters = [status[name] for name in ("phase", "attempt", "failures", "preemptions", "infrastructureFailures")]
    assert counters == ["Succeeded", 0, 0, 0, 0], user.slipway("logs", "train")
    assert status["result"]["message"] == "the entrypoint of attempt 0 exited 0"
    assert status["ray"]["service"] == "train-head"
    assert token not in told(user, engine)


# T-04: the attempt ends as its driver does, and the next one is a new cluster with the token of the job.
def test_a_driver_that_fails_is_charged_and_the_next_attempt_succeeds(user: User, image: str) -> None:
    user.submit(**cluster(image, FAILS="1"))
    status = user.ended()
    assert (status["phase"], status["failures"]) == ("Succeeded", 1), user.slipway("logs", "train")
    second, first = status["attempts"]
    assert (first["cause"], first["reason"], second["reason"]) == ("failure", "ExitCode", "Succeeded")
    assert (first["root"]["pod"], first["root"]["exitCode"]) == ("train-0-head", 7)
    assert "answer rank=1 hostname=0-0-1" in first["root"]["log"].splitlines()
    for attempt in (0, 1):
        assert answers(user, attempt) == [f"answer rank={rank} hostname={attempt}-0-{rank}" for rank in (0, 1)]
    assert "exited with code 7" in user.slipway("why", "train").out + user.slipway("describe", "train").out
