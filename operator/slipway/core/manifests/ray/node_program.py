"""What a container with a Ray node in it runs: waits for the head, then runs `ray start`.

Its text stands in the pod's command and it runs in the user's image: the standard library and Python 3.9 must do.

    python3 -c TEXT URL ray start …      URL tells how the head is; it is empty on the head itself

Ray gives a node 30 s to come up, which is short where many join at once or a machine is busy; so a start that fails
is tried again. Once the node was up it is not: the cluster has lost it. The end is Ray's own exit code, and 143 when
it was told to stop: Ray says 1 then, as if it had crashed.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
import urllib.request
from types import FrameType

HERE = "http://127.0.0.1:52365/api/local_raylet_healthz"
TRIES = 3
PAUSE_SECONDS = 2.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ray is in the cluster: a proxy that the job has for other addresses does not know it."""
TOLD_TO_STOP = 128 + signal.SIGTERM


def is_well(health: str) -> bool:
    """Whether the node there is up."""
    try:
        DIRECT.open(health, timeout=5).close()
    except (OSError, http.client.HTTPException):
        # It is away, or what answers is no node of Ray.
        return False
    return True


def await_head(health: str) -> None:
    """Return when the head is up; a worker that comes before the head's own node is refused."""
    told = time.monotonic()
    while not is_well(health):
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"waiting for the Ray head: {health}", flush=True)
        time.sleep(0.5)


class Node:
    """`ray start --block`, and what became of it."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Take SIGTERM."""
        self.stopped = True
        if self.process is None:
            sys.exit(TOLD_TO_STOP)
        self.process.send_signal(signal.SIGTERM)

    def run(self) -> int:
        """Run it to its end; returns the exit code."""
        for left in reversed(range(TRIES)):
            code, was_up = self.run_once()
            if self.stopped:
                return TOLD_TO_STOP
            if was_up or code == 0 or left == 0:
                break
            print(f"the Ray node did not start, {left} more tries", flush=True)
            time.sleep(PAUSE_SECONDS)
            if self.stopped:
                return TOLD_TO_STOP
        return code if code >= 0 else 128 - code

    def run_once(self) -> tuple[int, bool]:
        """Returns the exit code, and whether the node was up before."""
        self.process = subprocess.Popen(self.command)
        while self.process.poll() is None and not is_well(HERE):
            time.sleep(1.0)
        was_up = self.process.poll() is None
        return self.process.wait(), was_up


def main() -> int:
    """Run; returns the exit code."""
    node = Node(sys.argv[2:])
    signal.signal(signal.SIGTERM, node.stop)
    if sys.argv[1]:
        await_head(sys.argv[1])
    return node.run()


if __name__ == "__main__":
    sys.exit(main())
