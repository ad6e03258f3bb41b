"""Log lines: when, how serious, which job, what.

Messages repeat what users and the API server wrote, so control characters in them are escaped: nobody can forge a line
of the log, or send a terminal commands. Only tracebacks, which are Slipway's own, take several lines.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

NO_JOB: Final = "-"

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Also what ends a line for some readers, and what turns the direction of writing."""


class Lines(logging.Formatter):
    """One readable line for each record: `time level job message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(job)s %(message)s", defaults={"job": NO_JOB})

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """UTC with milliseconds."""
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, without the traceback."""
        return _CONTROL.sub(_escaped, super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback, indented, for it may end in an error message of others."""
        return "\n".join("  " + _CONTROL.sub(_escaped, line) for line in super().formatException(ei).split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def configure(level: int) -> None:
    """Log to standard error; of libraries only what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("slipway").setLevel(level)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    hush_kopf()


def hush_kopf() -> None:
    """Leave it to `main` to say why kopf ended, in one sentence and without a traceback."""
    for name in ("orchestration", "running"):
        logging.getLogger(f"kopf._core.reactor.{name}").setLevel(logging.CRITICAL)
