"""The programs that clusters in containers take: kind, and the command of a Docker engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.programs.components import COMPONENTS, KUBERNETES, Component, GoModule

KIND: Final = Component(
    "kind", "0.33.0", "sigs.k8s.io/kind", ("version",), module=GoModule(Path(__file__).parent / "gomod", KUBERNETES)
)
PROGRAMS: Final = COMPONENTS | {KIND.name: KIND}
NEEDED: Final = (KIND.name, "kubectl", "slipway-chips")

_ENGINE: Final = {"KIND_EXPERIMENTAL_PROVIDER": "docker"}
"""kind would find another engine by itself, of which the command `docker` knows nothing."""
_SECONDS: Final = 120.0
_FEW_LINES: Final = 8
"""So many lines of an error are short enough to be shown whole."""


def check_engine() -> None:
    """Refuse a machine without a Docker engine that answers, before anything is made."""
    if shutil.which("docker") is None:
        raise LocalClusterError(
            "There is no `docker` on PATH.", hint="Install Docker, or use --provider native on Linux as root."
        )
    docker("version", "--format", "{{.Server.Version}}")


def engine_id() -> str:
    """Return what tells the engine that the command leads to from others."""
    return docker("info", "--format", "{{.ID}}").strip()


def docker(*arguments: str, seconds: float = _SECONDS) -> str:
    """Run the Docker command; returns what it prints."""
    return run(["docker", *arguments], seconds)


def run(command: Sequence[str], seconds: float, log: Path | None = None) -> str:
    """Run a program; returns what it prints.

    Args:
        command: the program and its arguments.
        seconds: how long it may take.
        log: a file for all that it says; without one, its last words are in the error when it fails.

    Raises:
        LocalClusterError: it fails, or takes too long.
    """
    name = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        done = subprocess.run(
            list(command),
            env=os.environ | _ENGINE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise LocalClusterError(f"{name} cannot be run: {error}.") from error
    except subprocess.TimeoutExpired as error:
        raise LocalClusterError(f"{name} took longer than {seconds:.0f} s.") from error
    if log is not None:
        log.parent.mkdir(exist_ok=True)
        log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        # kind repeats all that kubeadm said, with the reason among hundreds of lines.
        reasons = [line for line in said if len(said) < _FEW_LINES or line.lower().startswith("error")] or said[-3:]
        hint = None if log is None else f"All that it said is in {log}."
        raise LocalClusterError(f"{name} failed: {' '.join(reasons)[:800]}", hint=hint)
    return done.stdout
