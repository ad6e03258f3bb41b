"""What a container with a Ray node in it runs: waits for the head, then runs `ray start`.

Its text stands in the pod's command and it runs in the user's image: the standard library and Python 3.9 must do.

    python3 -c TEXT HOST:PORT ray start …      HOST:PORT is empty on the head itself

It ends with Ray's own code, and with 143 when it was told to stop: Ray says 1 then, as if it had crashed.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from types import FrameType

TOLD_TO_STOP = 128 + signal.SIGTERM


def await_head(address: str) -> None:
    """Return when something listens there; name resolution may take a while, too."""
    host, _, port = address.rpartition(":")
    told = time.monotonic()
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"waiting for the Ray head at {address}: {error}", flush=True)
            time.sleep(0.5)


def main() -> int:
    """Run; returns the exit code."""
    stopped = False
    ray: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if ray is None:
            sys.exit(TOLD_TO_STOP)
        ray.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    if sys.argv[1]:
        await_head(sys.argv[1])
    ray = subprocess.Popen(sys.argv[2:])
    code = ray.wait()
    return TOLD_TO_STOP if stopped else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
