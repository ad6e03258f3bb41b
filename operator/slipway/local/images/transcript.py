"""Reading the stream of events with which an engine answers a build or a push."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from slipway.local.images.progress import BuildReporter

KEPT_LINES: Final = 20
"""Lines of the running step that an error repeats."""

# The engine paints what programs write to stderr.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")

# On the engine's own containers and layers; they explain no failure.
_NOTES: Final = (" ---> ", "Removing intermediate container ")


class Transcript:
    """What the engine has said so far: the step it is at, that step's last lines, how it ended."""

    def __init__(self, progress: BuildReporter) -> None:
        self._progress = progress
        self._unfinished = ""
        self.step = ""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.image = ""
        """Id of the image that was built."""
        self.digest = ""
        """Digest that the registry knows the pushed image by."""
        self.error = ""
        self.exit_code = 1

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event and pass it on to whoever watches."""
        if "stream" in event:
            self._output(event["stream"])
        elif "error" in event:
            self._flush()
            self.error = event["error"].strip()
            self.exit_code = event.get("errorDetail", {}).get("code") or 1
        elif "aux" in event:
            # Also with each push, where it has a digest and no id.
            self.image = event["aux"].get("ID", self.image)
            self.digest = event["aux"].get("Digest", self.digest)
        elif "status" in event:
            self._status(event)

    def end(self) -> None:
        """Take what came without a line's end for a line."""
        self._flush()

    def said(self) -> str:
        """Return the last lines of the step, and the engine's error."""
        return "\n".join([*self.lines, *([self.error] if self.error else [])])

    def _output(self, text: str) -> None:
        *whole, self._unfinished = (self._unfinished + text).split("\n")
        for line in whole:
            self._line(line)

    def _flush(self) -> None:
        if self._unfinished:
            self._line(self._unfinished)
            self._unfinished = ""

    def _line(self, text: str) -> None:
        line = _COLOURS.sub("", text).rstrip()
        if line.startswith("Step "):
            self.step = line.removeprefix("Step ").replace(" : ", ": ", 1)
            self.lines.clear()
            self._progress.step(line)
        elif line:
            if not line.startswith(_NOTES):
                self.lines.append(line)
            self._progress.line(line)

    def _status(self, event: Mapping[str, Any]) -> None:
        if "id" not in event:
            self._line(event["status"])
            return
        moved = event.get("progressDetail") or {}
        self._progress.layer(event["id"], event["status"], moved.get("current", 0), moved.get("total", 0))
