"""Arguments of another kind than a call takes are refused by their names, before anything is asked of a cluster."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from slipway import CPU, Client, DockerConfig, RayExecutor, run_docker_async, run_docker_multislice, run_docker_on_pod
from tests.sdk.server import Server

NOWHERE = Client(kubeconfig=Path("/nowhere"))
CONFIG = DockerConfig("acme/train:1")


def function(**given: Any) -> None:
    fields: dict[str, Any] = {"accelerator": CPU(), "image": "acme/ray:1", "client": NOWHERE} | given
    RayExecutor(**fields).execute_resumable(len, ("abc",))


def containers(config: Any = CONFIG, accelerator: Any = CPU(), **given: Any) -> None:  # noqa: B008  it is immutable
    run_docker_multislice(config, accelerator, client=NOWHERE, **given)


def one_slice(accelerator: Any) -> None:
    run_docker_on_pod(CONFIG, accelerator, client=NOWHERE)


def background(**given: Any) -> None:
    run_docker_async(CONFIG, client=NOWHERE, **given)


WRONG: dict[str, tuple[Callable[..., None], Mapping[str, Any], str]] = {
    "no accelerator": (function, {"accelerator": None}, "accelerator must be a TPU, CPU or GPU, not None"),
    "an accelerator by its name": (function, {"accelerator": "v5e-16"}, "accelerator must be a TPU, CPU or GPU, not s"),
    "no environment": (function, {"env": None}, "environment must be a map or a list, not None"),
    "an environment that is a number": (function, {"env": 3}, "environment must be a map or a list, not int"),
    "a runtime_env that is a list": (function, {"runtime_env": ["pip"]}, "runtime_env must be a map, not list"),
    "no retries": (function, {"retries": None}, "retries must be a map, not None"),
    "retries that are a number": (function, {"retries": 3}, "retries must be a map, not int"),
    "no onExitCodes": (function, {"retries": {"onExitCodes": None}}, "spec.retries.onExitCodes null: input should be"),
    "no codes": (function, {"retries": {"onExitCodes": {"fail": None}}}, "spec.retries.onExitCodes.fail null: input"),
    "no spec": (function, {"spec": None}, "spec must be a map, not None"),
    "a fraction": (
        function,
        {"retries": {"maxFailures": Fraction(3)}},
        "spec has a value that JSON cannot hold",
    ),
    "no volumes": (function, {"spec": {"volumes": None}}, "spec.volumes is null: input should be"),
    "no client": (function, {"client": None}, "client must be a Client, not None"),
    "a timeout that is text": (function, {"timeout": "5"}, "timeout must be more than 0 s, not '5'"),
    "an image for a container": (containers, {"config": "acme/train:1"}, "config must be a DockerConfig, not str"),
    "containers on nothing": (containers, {"accelerator": None}, "accelerator must be a TPU, CPU or GPU, not None"),
    "containers on a name": (one_slice, {"accelerator": "v5e-16"}, "accelerator must be a TPU, CPU or GPU, not str"),
    "containers with a number of retries": (containers, {"retries": 3}, "retries must be a map, not int"),
    "containers with a list for a spec": (containers, {"spec": ["hosts"]}, "spec must be a map, not list"),
    "a container with a list for a spec": (background, {"spec": ["hosts"]}, "spec must be a map, not list"),
}


@pytest.mark.parametrize(("call", "given", "words"), WRONG.values(), ids=WRONG)
def test_an_argument_of_another_kind_is_named(call: Callable[..., None], given: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(**given)


class Count:
    """A whole number of another library than Python's, such as numpy.int64."""

    def __index__(self) -> int:
        return 3


def test_a_whole_number_of_another_library_is_one(server: Server) -> None:
    future = run_docker_async(CONFIG, name="train", spec={"retries": {"maxFailures": Count()}}, client=server.client)
    assert server.jobs["train"]["spec"]["retries"]["maxFailures"] == 3
    assert future.cancel()
