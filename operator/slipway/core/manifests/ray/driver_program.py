"""What the `driver` container runs: waits for the workers, runs the entrypoint once, ends with its exit code.

Its text stands in the pod's command and it runs in the user's image: the standard library and Python 3.9 must do.

    python3 -c TEXT '{"workers": 4, "submission": {"submission_id": …, "entrypoint": …, "runtime_env": …}}'

The entrypoint is submitted to Ray's job server on the same pod and runs beside Ray; what it prints is followed in
Ray's log folder, which both containers share. Without a submission the cluster is kept until somebody stops it.
Where the entrypoint has no exit code, because Ray did not run it to its end, the driver's is NOT_RUN.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import signal
import sys
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SERVER = "http://127.0.0.1:8265"
SESSION = Path("/tmp/ray/session_latest")
JOINED = Path("/tmp/ray/slipway-joined")
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 120.0
"""How long the server may fail to answer while the entrypoint runs, or to take it."""
TOLD_TO_STOP = 128 + signal.SIGTERM
NOT_RUN = 250
"""Exit code when the entrypoint has none; few programs use it. docs/ray.md names it."""
UNANSWERED = (OSError, ValueError, http.client.HTTPException)
"""Errors of a server that is away, breaks off, or answers with an error."""


def call(path: str, body: Any = None) -> Any:
    """Ask the server; None for an answer of 404."""
    headers = {"Content-Type": "application/json"}
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "/nonexistent"))
    if token.exists():
        headers["Authorization"] = "Bearer " + token.read_text().strip()
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data=content, headers=headers)
    try:
        with DIRECT.open(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def patiently(path: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Ask again while the server does not answer."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call(path)
        except UNANSWERED:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)


def await_workers(wanted: int) -> None:
    """Return when that many workers have joined the head; how long that may take is Slipway's to judge."""
    shown = -1
    while True:
        nodes = patiently("/api/v0/nodes?limit=10000", math.inf)["data"]["result"]["result"]
        joined = sum(node["state"] == "ALIVE" and not node["is_head_node"] for node in nodes)
        if joined != shown:
            print(f"{joined} of {wanted} workers have joined", flush=True)
            shown = joined
        if joined >= wanted:
            JOINED.touch()
            return
        time.sleep(POLL_SECONDS)


def submit(submission: Any) -> None:
    """Submit the entrypoint, again and again where Ray is too busy to take it or its answer is lost.

    One Ray runs it once, by its name. But a Ray that the kubelet started anew knows none of the names.
    """
    session, end = SESSION.resolve(), time.monotonic() + PATIENCE_SECONDS
    while not taken(submission, last=time.monotonic() > end):
        time.sleep(POLL_SECONDS)
        if SESSION.resolve() != session:
            give_up("it was started anew")


def taken(submission: Any, *, last: bool) -> bool:
    """Submit the entrypoint once; whether Ray has it. Ends the program when it never will."""
    try:
        call("/api/jobs/", submission)
    except UNANSWERED as error:
        if is_there(submission["submission_id"]):
            return True
        if last or (isinstance(error, urllib.error.HTTPError) and error.code < 500):
            give_up(words(error))
        return False
    return True


def is_there(identity: str) -> bool:
    """Whether Ray has it; not if nobody answers."""
    try:
        return call("/api/jobs/" + identity) is not None
    except UNANSWERED:
        return False


def words(error: Exception) -> str:
    """What the server says; the last line of a traceback."""
    text = error.read().decode(errors="replace").strip() if isinstance(error, urllib.error.HTTPError) else ""
    return text.splitlines()[-1] if text else str(error)


def give_up(why: str) -> None:
    """End without having run the entrypoint."""
    print(f"Ray did not take the entrypoint: {why}", flush=True)
    sys.exit(NOT_RUN)


def show(log: BinaryIO | None, path: Path) -> BinaryIO | None:
    """Print what is new in the log."""
    if log is None and path.exists():
        log = path.open("rb")
    while log is not None and (piece := log.read(1 << 20)):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return log


def follow(identity: str) -> int:
    """Print what the entrypoint prints until it ends; returns its exit code."""
    log, path = None, SESSION / "logs" / f"job-driver-{identity}.log"
    while True:
        job = patiently("/api/jobs/" + identity)
        log = show(log, path)
        if job is None:
            print("Ray knows nothing of the entrypoint: it was started anew", flush=True)
            return NOT_RUN
        if job.get("status") in ("SUCCEEDED", "FAILED", "STOPPED"):
            break
        time.sleep(POLL_SECONDS)
    code = job.get("driver_exit_code")
    if job["status"] == "SUCCEEDED":
        return 0
    if code is None:
        print(f"Ray did not run the entrypoint to its end: {job.get('message') or job['status']}", flush=True)
        return NOT_RUN
    return int(code) if code >= 0 else 128 - int(code)


def stop(number: int, frame: FrameType | None) -> None:
    """End at once: Ray, told to stop after this container, stops the entrypoint."""
    os._exit(TOLD_TO_STOP)


def drive(workers: int, submission: Any) -> int:
    """Run the entrypoint, or keep the cluster; returns the exit code."""
    await_workers(workers)
    if submission is None:
        print("the cluster is ready", flush=True)
        while True:
            signal.pause()
    submit(submission)
    return follow(submission["submission_id"])


def main() -> int:
    """Run; returns the exit code."""
    signal.signal(signal.SIGTERM, stop)
    order = json.loads(sys.argv[1])
    try:
        return drive(order["workers"], order["submission"])
    except UNANSWERED as error:
        print(f"Ray's job server does not answer: {error}", flush=True)
    except Exception:
        # Python's own exit code would be taken for the entrypoint's.
        traceback.print_exc()
    return NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
