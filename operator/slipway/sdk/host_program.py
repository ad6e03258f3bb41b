"""What runs on the Ray head for a call: one task on every host, and their answers for whoever asked.

It runs in the user's image, which has Ray but not Slipway: the standard library, Python 3.9 and Ray must do.

    run FOLDER   the entrypoint of a job: the call is in files, its answer waits in a file until it is taken
    fetch        beside `run`: waits for that answer and hands it over
    call         in a session: the call comes on standard input, the answer goes to standard output

Answers do not pass through logs. `fetch` and `call` talk over a stream that may break without a sign, so both sides
say every few seconds that they are there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

RESULT = Path("/tmp/ray/slipway-result")
READER = Path("/tmp/ray/slipway-reader")
TAKEN = Path("/tmp/ray/slipway-taken")
FAILED = 1
REFUSED = 78
"""Exit code when trying again cannot help: sysexits calls it a configuration error."""
HOLD_SECONDS = 120.0
"""How long the answer waits, chips and all, while nobody reads."""
HOLD_FAILURE_SECONDS = 5.0
HEARTBEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
POLL_SECONDS = 0.2
STATES = {
    "ActorDiedError": "preempted",
    "ActorUnavailableError": "preempted",
    "LocalRayletDiedError": "preempted",
    "NodeDiedError": "preempted",
    "OwnerDiedError": "preempted",
    # A process that crashed on a machine that is well is the program's own doing.
    "WorkerCrashedError": "failed",
}
"""What errors of Ray's own mean; any other is an `error`."""


def find_pickler() -> Any:
    """The image's cloudpickle, or else the copy that Ray carries, under the name that pickles know."""
    try:
        import cloudpickle
    except ImportError:
        import ray.cloudpickle as cloudpickle
        import ray.cloudpickle.cloudpickle as inner

        sys.modules.update({"cloudpickle": cloudpickle, "cloudpickle.cloudpickle": inner})
    return cloudpickle


def mismatch(caller: dict[str, str]) -> str:
    """In what the caller's versions differ from the image's, major and minor; else nothing."""
    import ray

    mine = {"Python": platform.python_version(), "cloudpickle": find_pickler().__version__, "Ray": ray.__version__}
    differing = [
        f"{name} is {version} where the call was made and {mine[name]} in the image"
        for name, version in caller.items()
        if version.split(".")[:2] != mine[name].split(".")[:2]
    ]
    return "; ".join(differing)


@contextlib.contextmanager
def captured(wanted: bool, into: dict[str, Any]) -> Iterator[None]:
    """Keep what is written meanwhile, by Python and by whatever it starts."""
    if not wanted:
        yield
        return
    with tempfile.TemporaryFile() as file, open(file.fileno(), "w", buffering=1, closefd=False) as writer:
        saved = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stdout(writer), contextlib.redirect_stderr(writer):
                yield
        finally:
            for number, kept in enumerate(saved, 1):
                os.dup2(kept, number)
                os.close(kept)
            writer.flush()
            file.seek(0)
            into["output"] = file.read().decode(errors="replace")


def on_host(call: bytes, capture: bool) -> dict[str, Any]:
    """The task: one call in a process of its own."""
    places = ("slice", "host", "rank")
    answer: dict[str, Any] = {name: int(os.environ["SLIPWAY_" + name.upper()]) for name in places}
    pickler = find_pickler()
    try:
        with captured(capture, answer):
            function, construct, args, kwargs = pickler.loads(call)
            if construct is not None:
                method, init_args, init_kwargs = construct
                function = getattr(function(*init_args, **init_kwargs), method)
            value = resolved(function(*args, **kwargs))
        try:
            answer["blob"] = pickler.dumps(value)
        except Exception as error:
            raise TypeError(f"the result, a {type(value).__name__}, cannot be pickled: {error}") from error
    except BaseException as error:
        answer["error"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        answer["blob"] = b""
        # An exception that cannot travel is still told by its traceback.
        with contextlib.suppress(Exception):
            answer["blob"] = pickler.dumps(error)
    return answer


def resolved(value: Any) -> Any:
    """The value, with what references of Ray's stand for in place of them; where it is a list, its items' too.

    The process that owns what they stand for ends with the call, so nobody could read them later.
    """
    import ray

    if isinstance(value, list):
        references = [one for one in value if isinstance(one, ray.ObjectRef)]
        found = iter(ray.get(references) if references else ())
        return [next(found) if isinstance(one, ray.ObjectRef) else one for one in value]
    return ray.get(value) if isinstance(value, ray.ObjectRef) else value


def fan_out(header: dict[str, Any], call: bytes, log_to_driver: bool) -> list[dict[str, Any]]:
    """The answers of all hosts in order, or that of the first host that failed.

    Errors of Ray's own are let through: the operator tells by them whether a machine was taken.
    """
    import ray

    ray.init(logging_level="warning", log_to_driver=log_to_driver, runtime_env=header["runtime_env"] or None)
    of_slice = re.compile(re.escape(os.environ["SLIPWAY_JOB"]) + r"-s\d+")
    # A process for each call gives the devices back when it ends.
    remote = ray.remote(num_cpus=0, max_calls=1, max_retries=0)(on_host)
    pending = []
    for node in ray.nodes():
        offered = node["Resources"] if node["Alive"] else {}
        for name in filter(of_slice.fullmatch, offered):
            chips = {"TPU": offered["TPU"]} if offered.get("TPU") else {}
            gpus = {"num_gpus": offered["GPU"]} if offered.get("GPU") else {}
            pending.append(remote.options(resources={name: 1, **chips}, **gpus).remote(call, header["capture"]))
    wanted = int(os.environ["SLIPWAY_WORLD_SIZE"])
    if len(pending) != wanted:
        raise RuntimeError(f"{len(pending)} of {wanted} hosts are there: the cluster has lost some")
    answers = []
    while pending:
        [ready], pending = ray.wait(pending, num_returns=1)
        answer = ray.get(ready)
        if "error" in answer:
            for task in pending:
                ray.cancel(task, force=True)
            return [answer]
        answers.append(answer)
    return sorted(answers, key=lambda one: (one["slice"], one["host"]))


def document(answers: list[dict[str, Any]], refused: str = "") -> bytes:
    """The answers as they travel: a line of JSON, then the pickles one after the other."""
    hosts = [{**answer, "blob": len(answer["blob"])} for answer in answers]
    head = json.dumps({"refused": refused, "hosts": hosts}).encode()
    return b"\n".join([head, b"".join(answer["blob"] for answer in answers)])


def answer_to(header: dict[str, Any], call: bytes, log_to_driver: bool) -> tuple[bytes, int]:
    """The document and the exit code; the reason of a failure is printed last, for the job's status."""
    refused = mismatch(header["versions"])
    if refused:
        print(refused, file=sys.stderr, flush=True)
        return document([], refused), REFUSED
    answers = fan_out(header, call, log_to_driver)
    failed = next((answer for answer in answers if "error" in answer), None)
    if failed is None:
        return document(answers), 0
    print(f"{failed['error']}on host {failed['host']} of slice {failed['slice']}", file=sys.stderr, flush=True)
    return document(answers), FAILED


def run(folder: Path) -> int:
    """The entrypoint of a job."""
    header = json.loads((folder / "call.json").read_text())
    found, code = answer_to(header, (folder / "call.pickle").read_bytes(), log_to_driver=True)
    whole = RESULT.with_suffix(".part")
    whole.write_bytes(found)
    whole.rename(RESULT)
    hold(HOLD_FAILURE_SECONDS if code else HOLD_SECONDS)
    return code


def hold(seconds: float) -> None:
    """Wait until the answer is taken; that long without a reader, and as long as it takes with one."""
    end, seen = time.monotonic() + seconds, 0.0
    while not TAKEN.exists() and time.monotonic() < end:
        touched = READER.stat().st_mtime if READER.exists() else 0.0
        if touched != seen:
            seen, end = touched, max(end, time.monotonic() + SILENCE_SECONDS)
        time.sleep(POLL_SECONDS)


class Peer:
    """The other side of the stream; this process ends when it is gone."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.heard = time.monotonic()
        self.taken = threading.Event()
        self.sending = threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()

    def listen(self) -> None:
        """Hear that it is there, or has what it wanted."""
        while line := sys.stdin.buffer.readline():
            self.heard = time.monotonic()
            if line == b"taken\n":
                self.taken.set()
        if not self.taken.is_set():
            os._exit(FAILED)

    def beat(self) -> None:
        """Say that we are there; a broken stream ends this process, and with it the tasks of its call."""
        while time.monotonic() - self.heard < SILENCE_SECONDS:
            try:
                with self.sending:
                    self.out.write(b"\n")
                    self.out.flush()
            except OSError:
                break
            time.sleep(HEARTBEAT_SECONDS)
        os._exit(FAILED)

    def send(self, content: bytes, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Hand the document over, and wait until it has been taken."""
        told = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        with self.sending:
            self.out.write(json.dumps(told).encode() + b"\n" + content)
            self.out.flush()
        while not self.taken.wait(HEARTBEAT_SECONDS):
            meanwhile()


def fetch(peer: Peer) -> int:
    """Hand over the answer of `run`, once there is one."""
    while not RESULT.exists():
        READER.touch()
        time.sleep(POLL_SECONDS)
    peer.send(RESULT.read_bytes(), READER.touch)
    TAKEN.touch()
    return 0


def call(out: BinaryIO) -> int:
    """Answer what comes on standard input."""
    header = json.loads(sys.stdin.buffer.readline())
    given = sys.stdin.buffer.read(header["size"])
    peer = Peer(out)
    try:
        found, _ = answer_to(header, given, log_to_driver=False)
    except Exception as error:
        found = document([trouble(error)])
    peer.send(found)
    return 0


def trouble(error: Exception) -> dict[str, Any]:
    """The answer where none came from the hosts: what became of the call, as far as Ray knows."""
    kind = type(error)
    state = STATES.get(kind.__name__, "error") if kind.__module__ == "ray.exceptions" else "error"
    return {"slice": None, "host": None, "rank": None, "state": state, "error": traceback.format_exc(), "blob": b""}


def main(mode: str, *folder: str) -> int:
    """Run; returns the exit code."""
    if mode == "run":
        return run(Path(folder[0]))
    # What anything prints must not get into the stream.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    code = fetch(Peer(out)) if mode == "fetch" else call(out)
    # The thread that listens holds standard input, and Python aborts when it cannot have that at its end.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
