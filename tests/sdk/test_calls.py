"""Whole calls against an API server of the tests', which has no cluster behind it."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway import (
    CPU,
    TPU,
    AlreadyExists,
    Client,
    ClusterError,
    InvalidJob,
    JobCancelled,
    JobError,
    JobFailed,
    JobPreempted,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RayExecutor,
    ResultMissing,
    ServerFailed,
    Session,
    TooManyRequests,
    Unreachable,
    VersionMismatch,
    device_remote,
    tpu_remote,
)
from slipway.apiserver import exec_stream
from slipway.client import background_loop
from slipway.sdk import functions, payload, session
from slipway.sdk.jobs import Run
from tests.sdk.server import Server, until
from tests.waiting import ANSWER_SECONDS


def test_a_call_from_its_job_to_its_result(server: Server, executor: RayExecutor) -> None:
    def train(word: str, times: int) -> str:
        return word * times

    results = executor.autoscale_execute_resumable(train, ("ab",), {"times": 500_000}, flatten=False)
    assert results == [["ab" * 500_000], ["ab" * 500_000]]
    assert server.jobs == {}
    assert [kind for kind, _ in server.history] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


def test_what_the_images_python_prints_is_not_the_answer(server: Server, executor: RayExecutor) -> None:
    (server.folder / "sitecustomize.py").write_text("print('welcome', flush=True)")
    assert executor.autoscale_execute_resumable(len, ("ab",)) == [2, 2]


def test_what_an_earlier_attempt_told_is_not_the_result(server: Server, executor: RayExecutor) -> None:
    """The watch may be lost while another attempt begins and succeeds."""
    server.end = {"attempt": 1, "attempts": [{"number": 1}, {"number": 0, "cause": "preemption"}]}
    with pytest.raises(ResultMissing, match="it succeeded, and its result could not be read"):
        executor.autoscale_execute_resumable(len, ("",))
    assert len(server.jobs) == 1


def test_a_failure_keeps_the_job_and_tells_its_cause(server: Server, executor: RayExecutor) -> None:
    def train() -> None:
        raise KeyError("x")

    with pytest.raises(JobFailed, match="maxFailures") as caught:
        executor.autoscale_execute(train)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError: 'x'" in caught.value.log
    assert len(server.jobs) == 1


def test_a_refusal_is_the_servers_own_sentence(server: Server, executor: RayExecutor) -> None:
    server.refusal = "slices is not among acceptableSlices"
    with pytest.raises(InvalidJob, match="slices is not among acceptableSlices"):
        executor.autoscale_execute(len, ("",))


@pytest.mark.parametrize(("code", "reason", "kind"), [
    (400, "BadRequest", InvalidJob),
    (401, "Unauthorized", NotAuthenticated),
    (403, "Forbidden", NotAllowed),
    (404, "NotFound", NotFound),
    (422, "Invalid", InvalidJob),
    (429, "TooManyRequests", TooManyRequests),
    (503, "ServiceUnavailable", ServerFailed),
])  # fmt: skip
def test_each_answer_is_an_error_of_its_own(
    server: Server, executor: RayExecutor, code: int, reason: str, kind: type[Exception]
) -> None:
    server.refusal, server.refuses = "so it is", (code, reason)
    for call in (lambda: executor.autoscale_execute(len, ("",)), Session(executor).ensure):
        with pytest.raises(kind, match="so it is") as caught:
            call()
        assert type(caught.value) is kind
        assert "nothing" not in str(caught.value)


def test_a_cluster_without_slicejobs_is_told(server: Server, executor: RayExecutor) -> None:
    server.refusal, server.refuses = "the server could not find the requested resource", (404, "NotFound")
    with pytest.raises(NotFound, match="this cluster has no SliceJobs: Slipway's CRD is not installed"):
        executor.autoscale_execute(len, ("",))


def test_a_call_that_cannot_be_stored_takes_its_job_along(server: Server, executor: RayExecutor) -> None:
    server.secrets = False
    with pytest.raises(NotAllowed, match=r"was deleted, for its call could not be stored in Secret len-.*forbidden"):
        executor.autoscale_execute(len, ("",))
    assert server.jobs == {}


def test_a_call_that_cannot_be_stored_names_a_job_that_stays(server: Server, executor: RayExecutor) -> None:
    server.secrets, server.deletion = False, (403, "Forbidden", "you may not delete it")
    said = (
        r"SliceJob len-\S+ in x can never start and has to be deleted, which failed here \(you may not delete it\), for"
    )
    with pytest.raises(NotAllowed, match=f"{said} its call could not be stored in Secret len-.*: secrets is forbidden"):
        executor.autoscale_execute(len, ("",))


MAKES: dict[str, Callable[[RayExecutor], Any]] = {
    "a call": lambda executor: executor.autoscale_execute(len, ("abc",)).result,
    "a session": lambda executor: Session(executor).run_function(len, ("abc",)),
}


@pytest.mark.parametrize("call", MAKES.values(), ids=MAKES)
def test_a_job_that_was_made_without_an_answer_gets_its_call(
    server: Server, executor: RayExecutor, call: Callable[[RayExecutor], Any]
) -> None:
    server.breaks_off = True
    assert call(executor) == [3, 3]
    assert server.asked == 3


@pytest.mark.parametrize("call", MAKES.values(), ids=MAKES)
def test_a_job_of_which_nobody_knows_whether_it_was_made_is_named(
    server: Server, executor: RayExecutor, call: Callable[[RayExecutor], Any]
) -> None:
    server.breaks_off = server.silent_about_jobs = True
    said = (
        r"POST .*; so it is not known whether SliceJob (\S+) in x was created: find out with `slipway describe \1 -n x "
    )
    with pytest.raises(Unreachable, match=said):
        call(executor)


def test_what_ended_the_attempt_outranks_what_a_host_says(server: Server, executor: RayExecutor) -> None:
    # E2-13, E2-57: peers of a machine that was taken raise all kinds of errors
    def train() -> None:
        raise ConnectionError("a peer is gone")

    server.end = {"phase": "Preempted", "result": {"reason": "MaxPreemptions", "message": "1 attempt was preempted"}}
    with pytest.raises(JobPreempted, match="1 attempt was preempted") as caught:
        executor.autoscale_execute(train)
    assert caught.value.info.state == "preempted"


def made_here(make: Callable[[], Any]) -> Callable[[], Any]:
    """A function for the hosts, whose result is made when it is unpickled."""

    class Result:
        def __reduce__(self) -> Any:
            return make, ()

    def train() -> Any:
        return Result()

    return train


def made_by_another_call() -> Callable[[], Any]:
    """A function for the hosts, whose result is that of a call that is made while it is unpickled."""

    def call() -> Any:
        from slipway.client import background_loop

        async def done() -> str:
            return "done"

        return background_loop.run(done())

    return made_here(call)


def test_a_lost_attempt_is_lost_though_its_results_cannot_be_read(server: Server, executor: RayExecutor) -> None:
    def refuse() -> None:
        raise ValueError("not here")

    server.end = {"phase": "Preempted", "result": {"reason": "MaxPreemptions", "message": "1 attempt was preempted"}}
    with pytest.raises(JobPreempted, match="1 attempt was preempted"):
        executor.autoscale_execute(made_here(refuse))


ROLE = r"exec into pod len-.*-0-head was refused: {}; calls need get and create on pods/exec"
UNREAD = {
    "401": (401, ROLE.format("401 Unauthorized"), 1),
    "403": (403, ROLE.format("403 Forbidden"), 1),
    "404": (404, r"exec into pod len-.*-0-head was refused: 404", 0),
    "a stream that breaks": (None, "the stream was closed", 0),
}


@pytest.mark.parametrize(("code", "said", "printed"), UNREAD.values(), ids=UNREAD)
def test_why_a_result_could_not_be_read_is_told(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    code: int | None, said: str, printed: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(functions, "PROGRAM", functions.PROGRAM.replace(b"HOLD_SECONDS = 120.0", b"HOLD_SECONDS = 1.0"))
    monkeypatch.setattr(functions, "_PAUSE", 0.1)
    monkeypatch.setattr(functions, "_LAST_SECONDS", 0.5)
    server.stream, server.exec_refusal = "closed", code
    with pytest.raises(ResultMissing, match=f"it succeeded, and its result could not be read: {said}"):
        executor.autoscale_execute(len, ("",))
    # A role is missing for every attempt, and can be granted while the job runs.
    lines = re.findall(f"SliceJob len-.*: its result cannot be read yet: {said}", capsys.readouterr().err)
    assert len(lines) == printed


UNPICKLED: dict[str, Callable[[RayExecutor, Callable[[], Any]], Any]] = {
    "of a call": lambda executor, train: executor.autoscale_execute(train).result,
    "of a session": lambda executor, train: Session(executor).run_function(train),
}


@pytest.mark.parametrize("call", UNPICKLED.values(), ids=UNPICKLED)
def test_calls_go_on_while_a_result_is_unpickled(
    server: Server, executor: RayExecutor, call: Callable[[RayExecutor, Callable[[], Any]], Any]
) -> None:
    assert call(executor, made_by_another_call()) == ["done", "done"]


def test_calls_go_on_while_the_cause_of_a_failure_is_unpickled(server: Server, executor: RayExecutor) -> None:
    cause = made_by_another_call()

    def train() -> None:
        raise ValueError(cause())

    with pytest.raises(JobFailed) as caught:
        executor.autoscale_execute(train)
    assert repr(caught.value.__cause__) == "ValueError('done')"


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:  # E1-33
    nowhere = RayExecutor(CPU(), "acme/ray:1", client=Client(kubeconfig=tmp_path / "none"))
    for call in (lambda: nowhere.execute(len, ("",)), Session(nowhere).ensure):
        with pytest.raises(ClusterError, match=r"the kubeconfig .*none does not exist"):
            call()


def test_an_output_that_is_gone_is_told_by_its_host(server: Server, executor: RayExecutor) -> None:  # E1-40
    run = Run(executor.client, "train", "CPU")

    async def read() -> str:
        async with run.client.connect() as api:
            return await run.log(api, "train-0-0-1", "worker", "host 1 of slice 0 (index 1)")

    with pytest.raises(ResultMissing, match=r"host 1 of slice 0 \(index 1\) \(pod train-0-0-1\) cannot be read"):
        background_loop.run(read())


def test_a_session_calls_a_cluster_that_is_there(server: Server, executor: RayExecutor) -> None:  # E2-63
    first, same = Session(executor, name="lab"), Session(executor, name="lab")
    assert first.run_function(len, ("abc",)) == [3, 3]
    same.ensure()
    assert len(server.jobs) == 1
    same.close()
    assert server.jobs == {}
    assert first.run_function(len, ("abc",)) == [3, 3]
    first.close()
    first.close()
    assert server.jobs == {}


def test_a_session_of_another_shape_or_image_is_not_taken(server: Server, executor: RayExecutor) -> None:
    Session(executor, name="lab").ensure()
    other = Session(replace(executor, accelerator=CPU(slices=3), image="acme/ray:2"), name="lab")
    said = "session lab in x exists with image 'acme/ray:1' and not 'acme/ray:2', slices 2 and not 3: choose"
    with pytest.raises(AlreadyExists, match=said):
        other.run_function(len, ("abc",))
    other.close()
    assert server.jobs == {}


def test_a_shape_has_many_names(server: Server, executor: RayExecutor) -> None:
    Session(replace(executor, accelerator=TPU("v5litepod-16", spot=True)), name="lab").ensure()
    Session(replace(executor, accelerator=TPU("v5e-4x4", spot=True)), name="lab").ensure()
    with pytest.raises(AlreadyExists, match=r"type 'v5litepod-16' and not 'v5p-16', .*topology '4x4' and not '2x2x2'"):
        Session(replace(executor, accelerator=TPU("v5p-16", spot=True)), name="lab").ensure()
    with pytest.raises(AlreadyExists, match=r"exists with spot True and not False: choose"):
        Session(replace(executor, accelerator=TPU("v5e-16")), name="lab").ensure()


def test_a_session_is_closed_by_its_name(server: Server, executor: RayExecutor) -> None:
    Session(executor, name="lab").ensure()
    Session(executor, name="lab").close()
    assert server.jobs == {}
    server.jobs["lab"] = {"metadata": {"name": "lab", "uid": "u", "resourceVersion": "1"}, "spec": {"image": "a"}}
    for call in (Session(executor, name="lab").close, Session(executor, name="lab").ensure):
        with pytest.raises(AlreadyExists, match="SliceJob lab in x is no kept Ray cluster: choose another name"):
            call()


def test_a_device_makes_its_session_at_the_first_call(server: Server, executor: RayExecutor) -> None:
    # E2-71, E2-72, E2-74, E2-76
    @device_remote(executor=executor, flatten=False)
    class Greeter:
        def __init__(self, word: str) -> None:
            self.word = word

        def greet(self, name: str) -> str:
            return f"{self.word} {name}"

    @tpu_remote(executor=executor)
    def shout(word: str, times: int = 1) -> str:
        return word.upper() * times

    greeter: Any = Greeter("hello")
    assert server.jobs == {}
    later = greeter.greet.remote("you")
    assert later.result(timeout=ANSWER_SECONDS) == [["hello you"], ["hello you"]]
    assert greeter.greet("me") == [["hello me"], ["hello me"]]
    assert shout("go", times=2) == ["GOGO", "GOGO"]
    assert shout.remote("on").result(timeout=ANSWER_SECONDS) == ["ON", "ON"]
    assert len(server.jobs) == 2
    greeter.close()
    shout.close()
    assert server.jobs == {}


def test_a_cluster_that_is_still_going_is_waited_for(server: Server, executor: RayExecutor) -> None:  # E2-67
    first, second = Session(executor, name="lab"), Session(executor, name="lab")
    first.ensure()
    [old] = server.jobs.values()
    server.lingers = True
    with ThreadPoolExecutor(2) as background:
        closing = background.submit(first.close)
        until(lambda: "deletionTimestamp" in old["metadata"])
        again = background.submit(second.ensure)
        until(lambda: server.asked_again)
        assert not closing.done()
        assert not again.done()
        assert server.loop is not None
        asyncio.run_coroutine_threadsafe(server.remove(old), server.loop).result()
        closing.result(timeout=ANSWER_SECONDS)
        again.result(timeout=ANSWER_SECONDS)
    [new] = server.jobs.values()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


def test_a_job_that_vanished_while_nobody_looked_is_missed(server: Server, executor: RayExecutor) -> None:
    server.ready = False
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(Session(executor, name="lab").ensure)
        until(lambda: server.watched)
        assert server.loop is not None
        asyncio.run_coroutine_threadsafe(server.forget("lab"), server.loop).result()
        with pytest.raises(JobCancelled, match="it was deleted"):
            waiting.result(timeout=ANSWER_SECONDS)


def test_a_session_refuses_other_versions_by_name(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = payload.versions()
    monkeypatch.setattr(payload, "versions", lambda: {**mine, "cloudpickle": "1.2.0"})
    with pytest.raises(VersionMismatch, match=r"cloudpickle is 1\.2\.0 where the call was made"):
        Session(executor).run_function(len, ("abc",))


LOST = {
    "preemption": (JobPreempted, "preempted"),
    "infrastructure": (JobPreempted, "preempted"),
    "failure": (JobFailed, "failed"),
    "uncharged": (JobError, "error"),
}


@pytest.mark.parametrize(("cause", "kind", "state"), [(cause, *rest) for cause, rest in LOST.items()], ids=LOST)
def test_why_a_session_lost_its_cluster_is_the_operators_word(
    server: Server, executor: RayExecutor, cause: str, kind: type[JobError], state: str
) -> None:  # E2-07, E2-49
    server.stream = "closed"
    root = {"slice": 1, "host": 0, "exitCode": 137, "log": "the last line"}
    ended = {"number": 0, "cause": cause, "message": "node n is gone", "root": root}
    server.end = {"phase": "Starting", "conditions": [], "attempts": [{"number": 1}, ended], "resolved": {"hosts": 1}}
    with pytest.raises(JobError, match="attempt 0 was lost: node n is gone") as caught:
        Session(executor).run_function(len, ("abc",))
    assert type(caught.value) is kind
    assert caught.value.info.state == state
    assert (str(caught.value.host), caught.value.exit_code) == ("host 0 of slice 1 (index 1)", 137)
    assert caught.value.log == "the last line"


def test_a_host_that_fails_in_an_attempt_that_has_ended_is_not_to_blame(server: Server, executor: RayExecutor) -> None:
    def train() -> None:
        raise SystemExit(1)

    server.ended = True
    server.end = {"attempts": [{"number": 1}, {"number": 0, "cause": "preemption", "message": "node n is gone"}]}
    with pytest.raises(JobPreempted, match="attempt 0 was lost: node n is gone") as caught:
        Session(executor).run_function(train)
    assert isinstance(caught.value.__cause__, JobFailed)


def test_a_host_that_fails_while_the_attempt_goes_on_is_told_at_once(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:  # E2-07
    def train() -> None:
        raise KeyError("x")

    for patience in ("LOSS_SECONDS", "CRASH_SECONDS"):
        monkeypatch.setattr(session, patience, 1e6)
    with pytest.raises(JobFailed, match="KeyError: 'x'") as caught:
        Session(executor).run_function(train)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(("code", "kind"), [(401, NotAuthenticated), (403, NotAllowed)])
def test_a_caller_who_may_not_exec_is_told_at_once_what_is_missing(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(session, "LOSS_SECONDS", 1e6)
    server.exec_refusal = code
    said = rf"len could not begin in session lab: exec into pod lab-0-head was refused: {code} .* on pods/exec"
    with pytest.raises(kind, match=said):
        Session(executor, name="lab").run_function(len, ("abc",))


@pytest.mark.parametrize(
    ("how", "said"), [("closed", "the stream was closed"), ("silent", "nothing was heard for 1 s")]
)
def test_a_stream_that_breaks_on_a_cluster_that_is_well_is_told(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    if how == "silent":
        monkeypatch.setattr(exec_stream, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(session, "LOSS_SECONDS", 1.0)
    server.stream = how
    with pytest.raises(JobError, match=f"the cluster was lost under len: {said}") as caught:
        Session(executor).run_function(len, ("abc",))
    assert type(caught.value) is JobError


def test_calls_work_beside_a_running_loop(server: Server, executor: RayExecutor) -> None:
    async def notebook() -> Any:
        return executor.autoscale_execute(len, ("abc",)).result

    async def done() -> str:
        return "done"

    assert asyncio.run(notebook()) == [3, 3]
    assert background_loop.run(done()) == "done"
