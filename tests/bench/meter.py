"""CPU, memory and requests between two moments."""

import asyncio
import time
from datetime import UTC, datetime

from tests.bench import audit
from tests.bench.place import Place
from tests.bench.records import Record
from tests.bench.systems import System
from tests.bench.usage import Reading, now_mib, peak_mib

AUDIT_SECONDS = 2.0
"""After this the API server has written every request down."""


class Meter:
    """Counts from its making on."""

    def __init__(self, place: Place, system: System) -> None:
        self._place, self._system = place, system
        self._pids = {**place.pids, "controller": system.pid}
        self._before = Reading.of(self._pids)
        self._begin = datetime.now(UTC)
        self._start = time.monotonic()

    def times(self, **moments: float | None) -> dict[str, float]:
        """Moments as seconds since the start; those that never came are left out."""
        return {name: moment - self._start for name, moment in moments.items() if moment is not None}

    async def read(self, record: Record) -> None:
        """Put what was used until now into a record."""
        end, span = datetime.now(UTC), time.monotonic() - self._start
        record.cpu = Reading.of(self._pids).since(self._before)
        record.span = span
        record.peak_mib, record.rss_mib = peak_mib(self._system.pid), now_mib(self._system.pid)
        if record.rss_mib == 0:
            record.problem = f"the controller ended: {self._system.log.read_text(errors='replace')[-400:]}"
        await asyncio.sleep(AUDIT_SECONDS)
        record.requests = audit.requests(self._place.audit_log, self._begin, end)
