"""The pods of a Ray cluster as containers: what becomes of probes, of the token, and of the two halves of a head."""

import io
import json
import tarfile
from typing import Any

import pytest

from slipway.api.places import FIRST, HEAD, Place
from slipway.core.model.parts import Body
from slipway.local.conversion.convert import Surroundings, containers, problems
from slipway.local.conversion.empty_volumes import opening
from slipway.local.conversion.ray import TOKEN_PLACES
from slipway.local.submission import Refused, Wishes, check, rendered
from tests.local.pods import pod, variables

RAY: Body = {"entrypoint": "python3 x.py"}
TOKEN = b"0123abcd"


def made(place: Place, **fields: Any) -> Body:
    return pod(place, **{"ray": RAY, **fields})


def parts(place: Place, **fields: Any) -> dict[str, Body]:
    found = containers(made(place, **fields), Surroundings(network="slipway"))
    return {one.name: one.body for one in found}


def mounts(body: Body) -> dict[str, tuple[str, bool]]:
    """The source of each mount, and whether it is only read."""
    found = body["HostConfig"].get("Mounts", ())
    return {one["Target"]: (one.get("Source", ""), one.get("ReadOnly", False)) for one in found}


def test_a_head_is_a_sandbox_ray_and_the_driver_that_has_the_name_of_the_pod() -> None:
    found = parts(HEAD)
    assert list(found) == ["train-0-head_sandbox", "train-0-head.ray-head", "train-0-head"]
    sandbox, ray, driver = found.values()
    assert (ray["Entrypoint"][0], driver["Entrypoint"][0]) == ("python3", "python3")
    assert json.loads(driver["Entrypoint"][-1])["submission"]["entrypoint"] == "python3 x.py"
    # Docker never starts Ray again: its first end is the end of the attempt.
    assert {one["HostConfig"]["RestartPolicy"]["Name"] for one in found.values()} == {"no"}
    assert driver["Labels"]["slipway.dev/parts"] == "sandbox:,sidecar:ray-head"
    for one in (ray, driver):
        assert one["HostConfig"]["NetworkMode"] == one["HostConfig"]["IpcMode"] == "container:train-0-head_sandbox"
        assert mounts(one)["/tmp/ray"] == ("train-0-head_sandbox:/volumes/slipway-ray", False)
        assert mounts(one)["/var/run/slipway/ray"] == ("train-0-head_sandbox:/volumes/slipway-ray-token", False)
    assert set(mounts(sandbox)) == {"/volumes/slipway-ray", "/volumes/slipway-ray-token"}


def test_workers_find_the_head_by_the_names_of_its_pod_and_of_its_service() -> None:
    [endpoint] = parts(HEAD)["train-0-head_sandbox"]["NetworkingConfig"]["EndpointsConfig"].values()
    assert endpoint["Aliases"] == [
        *("0-head", "0-head.train-head", "0-head.train-head.ml.svc", "0-head.train-head.ml.svc.cluster.local"),
        *("train-head", "train-head.ml.svc", "train-head.ml.svc.cluster.local"),
    ]
    assert variables(made(FIRST), network="slipway")["RAY_ADDRESS"] == "0-head.train-head.ml.svc:6379"


def test_a_worker_is_one_container_with_a_volume_for_the_token() -> None:
    [worker] = parts(FIRST).values()
    assert mounts(worker) == {"/var/run/slipway/ray": ("", False)}
    assert worker["HostConfig"]["Tmpfs"] == {"/dev/shm": "exec"}
    assert variables(made(FIRST), network="slipway")["RAY_AUTH_TOKEN_PATH"] == "/var/run/slipway/ray/token"


@pytest.mark.parametrize("place", [FIRST, HEAD])
def test_nothing_of_what_slipway_gives_ray_is_refused(place: Place) -> None:
    assert problems(made(place)) == ()


OF_JOBS: dict[str, tuple[Place, Body, str]] = {
    "a probe of the job's own": (
        FIRST,
        {"podTemplate": {"spec": {"containers": [{"name": "worker", "readinessProbe": {"periodSeconds": 9}}]}}},
        "spec.containers[worker].readinessProbe: nobody asks a container of the local engine how it is",
    ),
    "a Secret of the job's own": (
        HEAD,
        {"volumes": [{"name": "key", "secret": {"secretName": "key"}}]},
        "spec.volumes[key].secret: there is no Kubernetes API to read it from",
    ),
    "a variable of the head from a Secret": (
        HEAD,
        {"ray": RAY | {"head": {"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "k", "key": "k"}}}]}}},
        'spec.initContainers[ray-head].env[K].valueFrom.secretKeyRef "k": there is no Kubernetes API that could be '
        "asked for it: give the value itself, or say optional: true",
    ),
}


@pytest.mark.parametrize(("place", "fields", "words"), OF_JOBS.values(), ids=OF_JOBS.keys())
def test_what_a_job_asks_for_itself_is_refused_as_in_any_other(place: Place, fields: Body, words: str) -> None:
    assert problems(made(place, **fields)) == (words,)


@pytest.mark.parametrize("place", TOKEN_PLACES)
def test_the_token_is_in_its_volume_for_whoever_runs_there_and_in_no_other(place: str) -> None:
    archive = opening([{"Type": "volume", "Target": one} for one in (place, "/scratch")], TOKEN)
    assert archive is not None
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        modes = {one.name: one.mode for one in content}
        token = content.extractfile(f"{place[1:]}/token")
        assert token is not None
        assert token.read() == TOKEN
    assert modes == {place[1:]: 0o755, f"{place[1:]}/token": 0o444, "scratch": 0o777}


def job(**spec: Any) -> Body:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    return body | {"spec": {"image": "ray:1", "hosts": 2, "ray": RAY} | spec}


def test_the_head_is_among_what_is_checked_before_a_job_begins() -> None:
    assert [one["metadata"]["name"] for one in check(job())] == ["train-0-0-0", "train-0-0-1", "train-0-head"]
    fields, words = OF_JOBS["a variable of the head from a Secret"][1:]
    with pytest.raises(Refused) as refused:
        check(job(**fields))
    assert str(refused.value) == words
    # What a worker has as well is said once.
    with pytest.raises(Refused) as refused:
        check(job(**OF_JOBS["a Secret of the job's own"][1]))
    assert str(refused.value) == OF_JOBS["a Secret of the job's own"][2]


def test_a_head_is_no_single_docker_command() -> None:
    with pytest.raises(Refused, match="container ray-head: one docker command starts one container"):
        rendered(job())


def test_ray_is_refused_on_the_network_of_the_machine() -> None:
    with pytest.raises(Refused, match=r"--network host beside spec\.ray: all Ray nodes listen on the same ports"):
        check(job(), Wishes(network="host"))
    assert check(job(), Wishes(network="mine"))
