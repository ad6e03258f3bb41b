"""Log lines: when, how serious, which job, what."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

NO_JOB: Final = "-"


class Lines(logging.Formatter):
    """One readable line for each record: `time level job message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(job)s %(message)s", defaults={"job": NO_JOB})

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """UTC with milliseconds."""
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
