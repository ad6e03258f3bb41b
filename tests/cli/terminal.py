"""A command at a terminal, with somebody who types."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import ANSWER_SECONDS, until


class Terminal:
    """A command that runs, and what it has written."""

    def __init__(self, *arguments: str) -> None:
        self._side, its_side = pty.openpty()
        os.set_blocking(self._side, False)
        program = [sys.executable, "-m", "slipway.cli.main", *arguments]
        self._process = subprocess.Popen(program, stdin=its_side, stdout=its_side, stderr=its_side)
        os.close(its_side)
        self.written = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._side)

    def until(self, text: str) -> None:
        """Wait until it has written that."""

        def found() -> bool:
            self._read()
            return text in self.written

        until(text, found, every=0.02)

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._side, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C once the command waits.

        Python's input() overlooks one that comes after it has written its question and before it reads, until a line is
        typed. A person is not so fast, but a test beside a busy processor is.
        """
        until("the command waits", self._waits, every=0.02)
        self._process.send_signal(signal.SIGINT)

    def _waits(self) -> bool:
        """Whether its main thread sleeps, or it has ended."""
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in ("S", "Z")

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        code = self._process.wait(ANSWER_SECONDS)
        self._read()
        return code

    def _read(self) -> None:
        try:
            while read := os.read(self._side, 65536):
                self.written += read.decode().replace("\r\n", "\n")
        except OSError:
            # There is no more at the moment, or the command has ended.
            pass
