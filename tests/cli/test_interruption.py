"""A command that creates a cluster removes all of it when a signal or a closed terminal ends the command."""

import os
import pty
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slipway.devcluster.processes import wait_until
from tests.waiting import ANSWER_SECONDS

PROGRAM = """
import sys, time
from pathlib import Path
from slipway.cli.main import main
from slipway.demo import run
from slipway.devcluster.native import provider

made = Path("made")

def make(*_):
    made.touch()
    time.sleep(600)

def remove(name):
    # A terminal that is closed sends several signals.
    time.sleep(0.2)
    made.unlink()

provider.packages.ensure = provider.binaries.ensure = lambda *_: {}
provider._start, provider.cleanup.stop, provider.cleanup.remove = make, remove, remove
run.check_machine = provider.check_machine = run.build_image = lambda _: Path("image")
main(sys.argv[1:])
"""


def tell(number: signal.Signals) -> Callable[[int, int], None]:
    def send(process: int, terminal: int) -> None:
        os.kill(process, number)

    return send


def close(process: int, terminal: int) -> None:
    os.close(terminal)


@pytest.mark.parametrize("command", [["demo"], ["cluster", "up", "dev", "--simulated", "1*cpu"]], ids=" ".join)
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(tell(signal.SIGINT), id="Ctrl-C"),
        pytest.param(tell(signal.SIGTERM), id="SIGTERM, as of timeout"),
        pytest.param(close, id="the terminal is closed"),
    ],
)
def test_what_was_made_is_removed(
    command: list[str], end: Callable[[int, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path / "state"))
    process, terminal = pty.fork()
    if process == 0:
        # Where nohup runs the tests it is ignored, which a child inherits.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, *command])
    made = tmp_path / "made"
    assert wait_until(made.exists, ANSWER_SECONDS)
    end(process, terminal)
    os.waitpid(process, 0)
    with suppress(OSError):
        os.close(terminal)
    assert not made.exists()
