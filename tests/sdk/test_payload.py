"""What travels, and what is refused before anything starts."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from slipway import (
    CPU,
    TPU,
    Captured,
    Client,
    JobFailed,
    JobInfo,
    NotPicklable,
    PayloadTooLarge,
    RayExecutor,
    Session,
    VersionMismatch,
    autoscale_execute,
    autoscale_execute_resumable,
    device_remote,
    execute,
    execute_resumable,
    tpu_remote,
)
from slipway.sdk import host_program
from slipway.sdk.payload import pack, pack_method, unpack

INFO = JobInfo("train-1", "succeeded", "TPU")
NOWHERE = RayExecutor(CPU(), "acme/ray:1", client=Client(namespace="x", kubeconfig=Path("/no/such/file")))


def answers(**changes: Any) -> list[dict[str, Any]]:
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return [
        {"slice": one, "host": host, "rank": 2 * one + host, "blob": cloudpickle.dumps((one, host)), **changes}
        for one, host in places
    ]


def test_results_come_slice_by_slice() -> None:  # E2-05, E2-26, E2-61
    found = host_program.document(answers())
    assert unpack(found, INFO, flatten=True) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert unpack(found, INFO, flatten=False) == [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    assert unpack(host_program.document([]), INFO, flatten=True) == []  # E2-27
    [first, *_] = unpack(host_program.document(answers(output="said\n")), INFO, flatten=True)
    assert first == Captured((0, 0), "said\n")


def test_a_failure_tells_host_traceback_and_cause() -> None:  # E2-46
    broken = {
        "slice": 1,
        "host": 0,
        "rank": 2,
        "error": "Traceback …\nKeyError: 'x'\n",
        "blob": cloudpickle.dumps(KeyError("x")),
    }
    with pytest.raises(JobFailed, match="KeyError: 'x'") as caught:
        unpack(host_program.document([broken]), INFO, flatten=True)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.host is not None
    assert str(caught.value.host) == "host 0 of slice 1 (index 2)"
    assert caught.value.info.state == "failed"
    assert "Traceback" in caught.value.log


def test_an_exception_that_cannot_travel_is_still_told() -> None:
    broken = {"slice": 1, "host": 0, "rank": 2, "error": "Odd: 1\n", "blob": b"no pickle"}
    with pytest.raises(JobFailed, match="Odd: 1") as caught:
        unpack(host_program.document([broken]), INFO, flatten=True)
    assert caught.value.__cause__ is None


def test_other_versions_are_refused_by_name() -> None:
    with pytest.raises(VersionMismatch, match=r"Python is 3\.12"):
        unpack(host_program.document([], "Python is 3.12.1 where …"), INFO, flatten=True)


@pytest.mark.row("B-64", "E2-70")
def test_what_cannot_be_pickled_is_named_before_anything_starts() -> None:
    lock = threading.Lock()

    def train(data: Any = None) -> Any:
        return lock

    def fine(data: Any = None) -> Any:
        return data

    class Trainer:
        held = lock

        def step(self) -> None: ...

    for call in (NOWHERE.execute, NOWHERE.autoscale_execute_resumable, Session(NOWHERE).run_function):
        with pytest.raises(NotPicklable, match="train cannot be pickled, and nothing was started"):
            call(train)
        with pytest.raises(NotPicklable, match=r"argument data of .*fine cannot be pickled"):
            call(fine, kwargs={"data": lock})
    with pytest.raises(NotPicklable, match="Trainer cannot be pickled"):
        Session(NOWHERE).run_class_method(Trainer, "step")


class ObjectRef:
    """A reference as Ray makes them: it can be pickled, and Ray of another process waits for its value for ever."""

    __module__ = "ray"


HOLD: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "alone": ((1, ObjectRef()), {}, "argument 1 of "),
    "in a list, with values": (([1, ObjectRef(), "two"],), {}, "argument 0 of "),
    "by keyword, deep inside": ((), {"data": {"parts": [(ObjectRef(),)]}}, "argument data of "),
}


@pytest.mark.parametrize(("args", "kwargs", "words"), HOLD.values(), ids=HOLD)
def test_a_reference_of_the_callers_ray_is_refused_by_name(
    args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:  # E2-27
    def train(*parts: Any, data: Any = None) -> None: ...

    for call in (NOWHERE.execute, NOWHERE.autoscale_execute_resumable, Session(NOWHERE).run_function):
        with pytest.raises(NotPicklable, match=rf"{words}.*train holds a Ray reference, and nothing was started"):
            call(train, args, kwargs)


def test_a_function_that_holds_a_reference_is_refused() -> None:  # E2-27
    held = ObjectRef()

    def train() -> Any:
        return held

    with pytest.raises(NotPicklable, match=r"train holds a Ray reference"):
        NOWHERE.execute(train)


ONCE: dict[str, Callable[[], Any]] = {
    "a generator": lambda: (str(one) for one in (1, 2)),
    "a map": lambda: map(str, (1, 2)),
    "a list": lambda: ["1", "2"],
}


@pytest.mark.parametrize("given", ONCE.values(), ids=ONCE)
def test_arguments_that_can_be_read_once_travel(given: Callable[[], Any]) -> None:
    call = pack(len, given(), {}, capture=False)
    method = pack_method(dict, (given(), {}), "get", given(), {}, capture=False)
    assert cloudpickle.loads(call.content)[2] == ("1", "2")
    assert cloudpickle.loads(method.content)[1:3] == (("get", ("1", "2"), {}), ("1", "2"))


def test_what_does_not_fit_is_refused_before_anything_starts() -> None:
    with pytest.raises(PayloadTooLarge, match="put the data where the hosts can read it"):
        NOWHERE.execute(len, (b"x" * 1_000_001,))


def test_one_slice_calls_name_their_siblings() -> None:  # E2-03, E2-75
    two = RayExecutor(TPU("v5p-16", slices=2), "acme/ray:1", client=NOWHERE.client)
    with pytest.raises(ValueError, match="execute runs on 1 slice, not 2: use autoscale_execute for several"):
        two.execute(len)
    with pytest.raises(ValueError, match="use autoscale_execute_resumable"):
        two.execute_resumable(len)


@pytest.mark.parametrize("decorator", [execute, execute_resumable, autoscale_execute, autoscale_execute_resumable])
def test_decorating_calls_nothing_and_keeps_the_name(decorator: Any) -> None:  # E2-73, E2-76
    @decorator(NOWHERE)
    def train() -> int:
        """Train."""
        return 1

    assert (train.__name__, train.__doc__) == ("train", "Train.")


@pytest.mark.parametrize("decorator", [execute, execute_resumable, autoscale_execute, autoscale_execute_resumable])
def test_a_decorator_without_its_brackets_is_refused_at_once(decorator: Any) -> None:  # E2-74
    def train() -> None: ...

    with pytest.raises(TypeError, match=r"takes a RayExecutor, not function: write @NAME\(executor\)"):
        decorator(train)
    with pytest.raises(TypeError, match="takes a RayExecutor, not TPU"):
        device_remote(executor=TPU("v5p-16"))  # type: ignore[arg-type]


def test_devices_take_functions_and_classes() -> None:  # E2-72, E2-74, E2-76
    @tpu_remote(executor=NOWHERE)
    class Trainer:
        def step(self) -> int:
            return 1

    trainer: Any = Trainer()
    with pytest.raises(AttributeError, match="leap"):
        trainer.leap()
    trainer.close()
    with pytest.raises(TypeError, match="takes a function or a class, not int"):
        device_remote(executor=NOWHERE)(7)


@pytest.mark.row("E2-36", "B-19")
def test_a_nested_variable_is_refused_before_anything_starts() -> None:
    nested = replace(NOWHERE, env={"env_vars": {"A": "1"}})
    for call in (lambda: nested.execute(len, ("",)), lambda: Session(nested)):
        with pytest.raises(ValueError, match=r"'env_vars' is a dict and .* belongs into Ray's runtime_env"):
            call()


NO_JSON: dict[str, tuple[dict[str, Any], str]] = {
    "a path": ({"working_dir": Path("x")}, "runtime_env['working_dir'] cannot be written as JSON: Object of type "),
    "a set": ({"env_vars": {}, "pip": {"a"}}, "runtime_env['pip'] cannot be written as JSON: Object of type set"),
    "deep inside": ({"env_vars": {"A": b"1"}}, "runtime_env['env_vars'] cannot be written as JSON: Object of type b"),
}


@pytest.mark.parametrize(("given", "said"), NO_JSON.values(), ids=NO_JSON)
def test_a_session_refuses_an_environment_that_its_calls_could_not_bring(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words, which are no pattern, are looked for below
        Session(replace(NOWHERE, runtime_env=given))
    assert said in str(caught.value)


def test_the_hosts_spec(tmp_path: Path) -> None:  # E2-28, E2-33, E2-40
    executor = RayExecutor(
        TPU("v5p-16"), "acme/ray:1", env={"A": 1, "NONE": None, "D": "$(A)"}, runtime_env={"env_vars": {"B": "b"}},
        spec={"env": [{"name": "C", "value": "c"}], "ray": {"head": {"nodeSelector": {"pool": "cpu"}}}},
    )  # fmt: skip
    spec = executor.call_spec("train-1", {"maxFailures": 2, "onExitCodes": {"fail": [3]}})
    assert spec["env"] == [
        {"name": "A", "value": "1"},
        {"name": "D", "value": "$$(A)"},
        {"name": "C", "value": "c"},
    ]
    assert spec["ray"]["head"] == {"nodeSelector": {"pool": "cpu"}}
    assert spec["ray"]["runtimeEnv"] == {"env_vars": {"B": "b"}}
    assert spec["retries"] == {"maxFailures": 2, "onExitCodes": {"fail": [3, 78]}}
    json.dumps(spec)


def test_an_exit_code_that_ends_the_job_anyway_stands_once() -> None:
    spec = NOWHERE.call_spec("train-1", {"onExitCodes": {"fail": [78, 3]}})
    assert spec["retries"]["onExitCodes"]["fail"] == [78, 3]


def test_further_fields_are_merged() -> None:
    volume, mount = {"name": "data", "emptyDir": {}}, {"name": "data", "mountPath": "/data"}
    retries = {"maxPreemptions": 5, "maxFailures": 5, "enabled": True, "onExitCodes": {"ignore": [4], "fail": [5]}}
    more = {"volumes": [volume], "volumeMounts": [mount], "retries": retries, "ray": {"runtimeEnv": {"pip": ["a"]}}}
    executor = replace(NOWHERE, spec=more, runtime_env={"env_vars": {"B": "b"}}, retries={"maxFailures": 2})
    spec = executor.call_spec("train-1", executor.retries)
    assert [one["name"] for one in spec["volumes"]] == [one["name"] for one in spec["volumeMounts"]]
    assert spec["volumes"][0] == volume
    assert spec["ray"]["runtimeEnv"] == {"pip": ["a"], "env_vars": {"B": "b"}}
    codes = {"ignore": [4], "fail": [5, 78]}
    assert spec["retries"] == {"maxPreemptions": 5, "maxFailures": 2, "enabled": True, "onExitCodes": codes}
    assert executor.call_spec("train-1", {"enabled": False})["retries"]["enabled"] is False
    assert Session(executor)._spec["retries"]["maxPreemptions"] == 5
