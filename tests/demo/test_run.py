"""The demo when its operator fails."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from slipway.demo import run


@contextmanager
def ends_at_once(kubeconfig: Path, log: Path, host_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    log.write_text("Traceback: no such thing")
    with subprocess.Popen(["true"]) as process:
        process.wait()
        yield process


def test_an_operator_that_ends_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "operator_process", ends_at_once)
    cluster: Any = SimpleNamespace(state=SimpleNamespace(binaries={"kubectl": "kubectl"}), kubeconfig=tmp_path / "none")
    demo = run.Demo(cluster, Console(quiet=True), tmp_path)
    monkeypatch.setattr(demo, "_view", SimpleNamespace(show=lambda seen: None))
    seen: Any = SimpleNamespace(job=None, ended=False)
    with demo._open:
        demo._start_operator()
        with pytest.raises(run.DemoFailed, match="the operator ended while waiting for the end: Traceback"):
            demo._until(seen, "the end", lambda: False)
