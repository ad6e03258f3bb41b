"""Types what a page shows into a shell."""

import os
import subprocess
import sys
from pathlib import Path


def type_in(commands: str, folder: Path, seconds: float, programs: tuple[Path, ...] = (), **environment: str) -> str:
    """Run commands in a folder, with Slipway's and these folders of programs first; returns what they print."""
    path = ":".join([*map(str, (Path(sys.executable).parent, *programs)), os.environ["PATH"]])
    done = subprocess.run(
        # Job control, because a page may end what it has begun with `kill %1`.
        ["bash", "-euo", "pipefail", "-m", "-c", commands],
        cwd=folder,
        env=os.environ | environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
