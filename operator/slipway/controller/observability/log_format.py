"""Log lines: time, level, job and message; as text for people, or as JSON for programs.

Messages repeat what users and the API server wrote. Secrets in them are removed, and control characters are escaped:
nobody can forge a line of the log, or send a terminal commands. Only tracebacks for people, which are Slipway's own,
take several lines.
"""

import copy
import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

from slipway.core.manifests.redact import redacted

NO_JOB: Final = "-"
FIELDS: Final = ("job", "attempt", "slice", "host", "cause")
"""What a line of JSON says of a job, where it is known."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Also what ends a line for some readers, and what turns the direction of writing."""


def _without_secrets(record: logging.LogRecord) -> logging.LogRecord:
    """The record without what looks like a secret, and without the secrets of the job that it is about."""
    clean, spec = copy.copy(record), getattr(record, "spec", None)
    clean.msg, clean.args = redacted(record.getMessage(), spec), None
    if record.exc_info:
        clean.exc_text, clean.exc_info = redacted(_PLAIN.formatException(record.exc_info), spec), None
    return clean


_PLAIN: Final = logging.Formatter()


def _moment(record: logging.LogRecord) -> str:
    """UTC with milliseconds."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Lines(logging.Formatter):
    """One readable line for each record: `time level job message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(job)s %(message)s", defaults={"job": NO_JOB})

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it the traceback, indented, for it may end in an error message of others."""
        clean = _without_secrets(record)
        if clean.exc_text:
            clean.exc_text = "\n".join("  " + _CONTROL.sub(_escaped, line) for line in clean.exc_text.split("\n"))
        return super().format(clean)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """UTC with milliseconds."""
        return _moment(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, without the traceback."""
        return _CONTROL.sub(_escaped, super().formatMessage(record))


class JsonLines(logging.Formatter):
    """One JSON object for each record, on one line of ASCII; what is not known is left out."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback is in `error`."""
        clean = _without_secrets(record)
        said = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean.getMessage(),
            **{name: getattr(record, name, None) for name in FIELDS},
            "error": clean.exc_text,
        }
        return json.dumps({name: value for name, value in said.items() if value is not None})


FORMATS: Final[dict[str, type[logging.Formatter]]] = {"text": Lines, "json": JsonLines}


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def configure(level: int, form: str) -> None:
    """Log to standard error in one of FORMATS; of libraries only what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[form]())
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
