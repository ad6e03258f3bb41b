"""Docker's words become a SliceJob's, or are refused by name."""

import re
from pathlib import Path
from typing import Any

import pytest

from slipway import CPU, GPU, TPU, Client, ClusterError, DockerConfig, RayExecutor, Session, run_docker_on_pod
from slipway.api.slicejob import SliceJobSpec
from slipway.client.manifests.reading import check, manifest
from slipway.sdk.accelerators import differences, merged

BARE = {"image": "python:3.9", "args": ["true"]}

CONVERTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "E1-01 image and command suffice": ({}, {}),
    "E1-04 a list is taken as it is": (
        {"command": ["a b", "", "'q'", "$(VAR)", "$$"]},
        {"args": ["a b", "", "'q'", "$$(VAR)", "$$$$"]},
    ),
    "E1-18 no shell reads it": ({"command": ["echo", "; rm -rf /"]}, {"args": ["echo", "; rm -rf /"]}),
    "E1-05 a string is split": (
        {"command": "python 'my train.py' --x=1"},
        {"args": ["python", "my train.py", "--x=1"]},
    ),
    "E1-06 volumes": (
        {"volumes": {"/data": "/in:ro", "/out": "/out"}},
        {
            "volumes": [
                {"name": "docker-0", "hostPath": {"path": "/data"}},
                {"name": "docker-1", "hostPath": {"path": "/out"}},
            ],
            "volumeMounts": [
                {"name": "docker-0", "mountPath": "/in", "readOnly": True},
                {"name": "docker-1", "mountPath": "/out"},
            ],
        },
    ),
    "E1-06 paths of pathlib": (
        {"volumes": {Path("/data"): "/in"}, "workdir": Path("/app")},
        {
            "volumes": [{"name": "docker-0", "hostPath": {"path": "/data"}}],
            "volumeMounts": [{"name": "docker-0", "mountPath": "/in"}],
            "workingDir": "/app",
        },
    ),
    "E1-08 E2-33 environment, in order": (
        {"environment": {"B": "x=$(A)\n", "A": 1, "NONE": None, "C": True}},
        {"env": [{"name": "B", "value": "x=$$(A)\n"}, {"name": "A", "value": "1"}, {"name": "C", "value": "True"}]},
    ),
    "N-35 a list of pairs": (
        {"environment": ["B=x=$(A)", "A=", "HERE"]},
        {"env": [{"name": "B", "value": "x=$$(A)"}, {"name": "A", "value": ""}, {"name": "HERE", "value": "mine"}]},
    ),
    "N-35 an entrypoint's words": (
        {"entrypoint": "python -m 'my train'", "command": ["--x"]},
        {"command": ["python", "-m", "my train"], "args": ["--x"]},
    ),
    "N-35 an entrypoint's list": (
        {"entrypoint": ["a b", "$X"], "command": []},
        {"command": ["a b", "$$X"], "args": None},
    ),
    "E1-09 host": ({"network": "host"}, {"hostNetwork": True}),
    "E1-09 bridge": ({"network": "bridge"}, {"hostNetwork": False}),
    "E1-09 no network named": ({"network": None}, {"hostNetwork": False}),
    "E1-10 privileged": ({"privileged": True}, {"securityContext": {"privileged": True}}),
    "F-08 the node's IPC": ({"ipc_mode": "host"}, {"podTemplate": {"spec": {"hostIPC": True}}}),
    "F-08 the pod's own IPC": ({"ipc_mode": "private"}, {}),
    "F-08 capabilities": ({"cap_add": ["SYS_PTRACE"]}, {"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}),
    "E1-11 a number of GPUs": ({"gpus": "2"}, {"resources": {"limits": {"nvidia.com/gpu": "2"}}}),
    "E1-11 all GPUs of a node": ({"gpus": "all"}, {"accelerator": {"gpu": {"vendor": "nvidia"}}}),
    "E1-13 2g": ({"shm_size": "2g"}, {"shmSize": "2Gi"}),
    "E1-13 512MB": ({"shm_size": "512MB"}, {"shmSize": "512Mi"}),
    "E1-13 bytes": ({"shm_size": "64"}, {"shmSize": "64"}),
    "E1-13 a number of bytes": ({"shm_size": 67108864}, {"shmSize": "67108864"}),
    "E1-13 2Gi": ({"shm_size": "2Gi"}, {"shmSize": "2Gi"}),
    "E1-15 workdir": ({"workdir": "/app"}, {"workingDir": "/app"}),
    "E1-16 user and group": ({"user": "1000:2000"}, {"securityContext": {"runAsUser": 1000, "runAsGroup": 2000}}),
    "E1-16 a number": ({"user": 1000}, {"securityContext": {"runAsUser": 1000}}),
    "E1-16 root": ({"user": "0"}, {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}}),
    "E1-16 root as a number": ({"user": 0}, {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}}),
    "E1-19 an empty list runs the image's own command": ({"command": []}, {"args": None}),
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "E1-05 unbalanced quotes": ({"command": "python 'x"}, "cannot be split into words: No closing quotation"),
    "E1-07 unknown suffix": ({"volumes": {"/data": "/in:z"}}, "only :ro and :rw are known"),
    "E1-06 relative path": ({"volumes": {"data": "/in"}}, "volume 'data' is not an absolute path"),
    "E1-06 no container path": ({"volumes": {"/data": None}}, "volumes['/data'] is None: write the container path"),
    "E1-06 a map within": ({"volumes": {"/data": {"bind": "/in"}}}, "volumes['/data'] is {'bind': '/in'}: write the"),
    "E1-06 no map": ({"volumes": ["/data:/in"]}, "volumes must be a map of host paths to container paths, not ['/da"),
    "E1-06 a number for a path": ({"volumes": {5: "/in"}}, "volume 5 is not an absolute path"),
    "E1-09 a named network": ({"network": "mine"}, "network 'mine' does not exist in a cluster"),
    "E1-12 chosen GPUs": ({"gpus": "0,1"}, "Kubernetes chooses the devices"),
    "E1-12 no digit": ({"gpus": "²"}, "gpus '²': Kubernetes chooses the devices, so say how many, such as 2, or all"),
    "E1-12 none": ({"gpus": 0}, "gpus 0: Kubernetes chooses the devices"),
    "B-19 a nested variable": (
        {"environment": {"env_vars": {"A": "1"}}},
        "environment variable 'env_vars' is a dict and must be text",
    ),
    "N-35 no such variable": ({"environment": ["A=1", "AWAY"]}, "environment[1]: AWAY is not set here"),
    "N-35 no name": ({"environment": ["=1"]}, "environment[0] is '=1': write NAME=VALUE"),
    "N-35 no text": ({"environment": [7]}, "environment[0] is 7: write NAME=VALUE"),
    "B-17 twice": ({"environment": ["A=1", "A=2"]}, "environment[1]: A stands there twice"),
    "N-35 one string": ({"environment": "A=1"}, "environment must be a map or a list, not 'A=1'"),
    "N-35 empty entrypoint": ({"entrypoint": ""}, "entrypoint is empty"),
    "B-05 a number in a list": ({"command": ["a", 1]}, "command[1] is 1, and must be text: write '1'"),
    "B-05 no list": ({"command": 7}, "command must be a string or a list of strings, not 7"),
    "E1-13 no size": ({"shm_size": "much"}, "shm_size 'much' is not a size"),
    "F-08 another IPC": ({"ipc_mode": "container:x"}, "ipc_mode 'container:x' does not exist in a cluster"),
    "E1-15 relative workdir": ({"workdir": "app"}, "workdir 'app' is not an absolute path"),
    "E1-16 a user's name": ({"user": "alice"}, "numeric uid[:gid] required"),
    "E1-16 a truth value": ({"user": True}, "user True: numeric uid[:gid] required"),
    "E1-13 a negative number": ({"shm_size": -1}, "shm_size -1 is not a size"),
    "E1-19 empty string": ({"command": "  "}, "command is empty"),
}


def config(changes: dict[str, Any]) -> DockerConfig:
    return DockerConfig(**({"image": "python:3.9", "command": ["true"]} | changes))


@pytest.mark.parametrize(("given", "expected"), CONVERTED.values(), ids=CONVERTED)
def test_it_is_converted(given: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "mine")
    spec = config(given).to_spec()
    assert spec == {name: value for name, value in (BARE | expected).items() if value is not None}
    SliceJobSpec.model_validate(spec)


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.row("B-05", "B-17", "B-19", "B-27", "B-29")
def test_it_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        config(given).to_spec()
    assert said in str(caught.value)


NOWHERE = Client(namespace="x", kubeconfig="/no/such/file")  # type: ignore[arg-type]


def test_what_is_wrong_is_told_before_any_call() -> None:  # E1-30, E2-03
    with pytest.raises(ValueError, match="use run_docker_multislice"):
        run_docker_on_pod(config({}), TPU("v5p-16", slices=2), client=NOWHERE)
    with pytest.raises(ValueError, match="maxRetries"):
        run_docker_on_pod(config({}), CPU(), retries={"maxRetries": 3}, client=NOWHERE)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (
            {"name": "TOKEN", "val": "s3cret"},
            "spec.env[TOKEN].val is not a known field of this version of Slipway: did you mean value?",
        ),
        ({"name": "TOKEN", "value": 5312}, "spec.env[TOKEN].value is a number: input should be a valid string"),
    ],
    ids=["a field that is not known", "a value of another kind"],
)
def test_the_value_of_a_variable_is_never_shown(variable: dict[str, Any], said: str) -> None:
    executor = RayExecutor(CPU(), "acme/ray:1", spec={"env": [variable]}, client=NOWHERE)
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        executor.execute(len, ("",))
    assert str(caught.value) == said
    # Nor by what a traceback shows above it.
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(("kind", "said"), [
    ("v7e-8", "type 'v7e-8': not in the catalogue (v4, "),
    ("v6e-17", "type 'v6e-17': v6e has no slice of 17 chips; try type v6e-16"),
    (4, "accelerator.type"),
])  # fmt: skip
def test_a_type_that_no_slice_has_is_told_before_any_call(kind: Any, said: str) -> None:
    pods = RayExecutor(TPU(kind), "acme/ray:1", client=NOWHERE)
    for call in (
        lambda: run_docker_on_pod(config({}), TPU(kind), client=NOWHERE),
        lambda: pods.execute(len, ("",)),
        lambda: Session(pods),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        assert said in str(caught.value)


def test_a_type_of_the_future_may_be_described() -> None:
    described = {"accelerator": {"label": "tpu-v7e", "topology": "2x4", "chipsPerHost": 4}}
    with pytest.raises(ClusterError):
        run_docker_on_pod(config({}), TPU("v7e-8"), spec=described, client=NOWHERE)


@pytest.mark.parametrize("count", [0, -1, 1.5, "four", True])
@pytest.mark.row("B-08")
def test_counts_are_whole_numbers(count: Any) -> None:
    said = re.escape(f"must be a whole number of at least 1, not {count!r}")
    for make in (
        lambda: TPU("v4-8", slices=count),
        lambda: TPU("v4-8", pod_count=count),
        lambda: CPU(hosts=count),
        lambda: CPU(slices=count),
        lambda: GPU(hosts=count),
        lambda: GPU(slices=count),
    ):
        with pytest.raises(ValueError, match=said):
            make()


def test_further_fields_take_nothing_away() -> None:
    base = config({"environment": {"A": "1"}, "volumes": {"/data": "/in"}, "gpus": 1}).to_spec()
    more = {"env": [{"name": "B", "value": "2"}], "resources": {"requests": {"cpu": "1"}}, "args": ["b"]}
    found = merged(base, more)
    assert [one["name"] for one in found["env"]] == ["A", "B"]
    assert found["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    assert found["volumes"] == base["volumes"]
    assert found["args"] == ["b"]


def test_gpus_are_an_accelerator() -> None:  # E1-11, E1-44, E2-11, K-13
    gpus = GPU("nvidia-tesla-v100", count=2, hosts=3)
    assert (gpus.kind, gpus.fields()["hosts"], gpus.fields()["slices"]) == ("GPU", 3, 1)
    pods = RayExecutor(gpus, "acme/ray:1", spec={"resources": {"requests": {"cpu": "4"}}})
    spec = pods.ray_spec({"keepAlive": True}, {})
    assert spec["resources"] == {"requests": {"cpu": "4"}}
    assert spec["accelerator"] == {"gpu": {"vendor": "nvidia", "count": 2, "model": "nvidia-tesla-v100"}}
    assert GPU(vendor="amd").fields()["accelerator"] == {"gpu": {"vendor": "amd", "count": 1}}
    check(manifest("train", spec))
    with pytest.raises(ValueError, match=r"gpus=1 and GPU\(count=2\) contradict each other"):
        run_docker_on_pod(config({"gpus": 1}), gpus, client=NOWHERE)
    with pytest.raises(ClusterError):
        run_docker_on_pod(config({"gpus": "2"}), gpus, client=NOWHERE)
    with pytest.raises(ValueError, match=r"at least 1, not 0: use CPU\(\)"):
        GPU(count=0)


def test_other_gpus_are_another_shape() -> None:
    two, four = (dict(GPU("nvidia-l4", count=count).fields()) for count in (2, 4))
    assert differences(two, dict(two)) == []
    [other] = differences(two, four)
    assert re.match(r"gpu \{.*'count': 4.*\} and not \{.*'count': 2.*\}", other)
    assert differences(two, {"accelerator": {"type": "v5p-8"}})


def test_the_type_has_two_names() -> None:  # K-14
    assert TPU(tpu_version="v4-8", pod_count=2) == TPU("v4-8", 2)
    with pytest.raises(ValueError, match="type=v4-8, tpu_version=v4-16 contradict each other"):
        TPU("v4-8", tpu_version="v4-16")
    with pytest.raises(ValueError, match="type is missing"):
        TPU()


def test_a_word_that_is_not_known_is_named() -> None:  # F-08
    with pytest.raises(TypeError, match="ulimits"):
        config({"ulimits": []})


def test_the_number_of_slices_has_three_names() -> None:  # E1-44, K-14
    counts = (TPU("v4-8"), TPU("v4-32", slices=4), TPU("v4-32", num_slices=4), TPU("v4-32", pod_count=4, slices=4))
    assert [one.slices for one in counts] == [1, 4, 4, 4]
    with pytest.raises(ValueError, match="slices=2, pod_count=3 contradict each other"):
        TPU("v4-32", slices=2, pod_count=3)
    with pytest.raises(ValueError, match="slices=1, pod_count=3 contradict each other"):
        TPU("v4-32", slices=1, pod_count=3)
