"""The demo on a machine that has much to do."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from slipway.demo import run

OURS = "lost: slipway-operator-7 does not hold Lease default/slipway-operator"
THEIRS = "lost: another-1 has Lease default/slipway-operator"


class Ending:
    """Operators that end one after the other, each with the next words; the last one stays."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self.stays = False

    @contextmanager
    def process(self, kubeconfig: Path, log: Path, host_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
        self.stays = not self.words
        log.write_text(self.words.pop(0) if self.words else "leading")
        with subprocess.Popen(["sleep", "600" if self.stays else "0"]) as process:
            yield process
            process.kill()


def demo_of(operators: Ending, folder: Path, monkeypatch: pytest.MonkeyPatch) -> run.Demo:
    monkeypatch.setattr(run, "operator_process", operators.process)
    cluster: Any = SimpleNamespace(state=SimpleNamespace(binaries={"kubectl": "kubectl"}), kubeconfig=folder / "none")
    demo = run.Demo(cluster, Console(quiet=True), folder)
    monkeypatch.setattr(demo, "_view", SimpleNamespace(show=lambda seen: None))
    return demo


def until(demo: run.Demo, operators: Ending) -> None:
    seen: Any = SimpleNamespace(status={})
    with demo._open:
        demo._start_operator()
        demo._until(seen, "the end", lambda: operators.stays)


def test_an_operator_that_lost_its_lease_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = Ending(OURS, THEIRS)
    until(demo_of(operators, tmp_path, monkeypatch), operators)
    assert operators.stays


def test_an_operator_that_ends_otherwise_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = Ending("Traceback: no such thing")
    with pytest.raises(run.DemoFailed, match="the operator ended while waiting for the end: Traceback"):
        until(demo_of(operators, tmp_path, monkeypatch), operators)
