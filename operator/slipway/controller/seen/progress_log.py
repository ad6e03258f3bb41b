"""What a program has printed of its progress: the lines of one log, and what they come to."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api.progress import CHECKPOINT, MAX_STEP, STEP, TOTAL, ProgressState, compiled
from slipway.core.accounting.spans import whole
from slipway.core.planner.contract.snapshot import Printed
from slipway.core.planner.status.progress import Source

LINE_BYTES: Final = 4096
"""Of a line that is looked at, without its timestamp."""
_MOST_DIGITS: Final = len(str(MAX_STEP))


@dataclass(slots=True)
class _Last:
    """The last line of one kind."""

    step: int
    time: datetime


class Reading:
    """The progress that one log tells, line by line.

    A stream that begins again repeats lines: those of a time up to which all were read change nothing. Lines of stdout
    and stderr may come in another order than that of their times; the later time counts.
    """

    def __init__(self, source: Source) -> None:
        self.source: Final = source
        self.opened = False
        """Whether the API server has sent the log."""
        self.problem: tuple[str, str] | None = None
        """Reason and message of why it cannot be read."""
        state = source.known or ProgressState(attempt=source.attempt)
        self._total = state.total
        self._first = _last(state.first_step, state.first_time)
        self._step = _last(state.step, state.time)
        self._checkpoint = _last(state.checkpoint, state.checkpoint_time)
        self._known: dict[str, datetime] = {}

    def begin(self) -> datetime | None:
        """A stream begins. Returns the whole second from which on its lines are wanted; None for all."""
        last = {STEP: self._step, CHECKPOINT: self._checkpoint}
        self._known = {kind: one.time for kind, one in last.items() if one is not None}
        newest = max(self._known.values(), default=None)
        # A second earlier, for lines of stdout and stderr that stand in another order.
        return newest.replace(microsecond=0) - timedelta(seconds=1) if newest is not None else None

    def take(self, line: bytes) -> bool:
        """A line after its timestamp; returns whether it says something new."""
        stamp, _, text = line.partition(b" ")
        found = compiled(self.source.asked.pattern).search(text[:LINE_BYTES].decode(errors="replace"))
        moment = _moment(stamp) if found is not None else None
        if found is None or moment is None:
            return False
        said = {name: _number(text) for name, text in found.groupdict().items()}
        return self._take_step(moment, said) | self._take_checkpoint(moment, said)

    def seen(self) -> Printed:
        """What a decision is made from."""
        return Printed(self.source.attempt, self.opened, self.problem, self._state())

    def _take_step(self, moment: datetime, said: dict[str, int | None]) -> bool:
        step, before = said.get(STEP), self._step
        if step is None or not self._is_new(STEP, moment, before):
            return False
        if self._first is None or before is None or step < before.step:
            self._first = _Last(step, moment)
        self._step = _Last(step, moment)
        self._total = said.get(TOTAL) or self._total
        return True

    def _take_checkpoint(self, moment: datetime, said: dict[str, int | None]) -> bool:
        step = said.get(CHECKPOINT)
        if step is None or not self._is_new(CHECKPOINT, moment, self._checkpoint):
            return False
        self._checkpoint = _Last(step, moment)
        return True

    def _is_new(self, kind: str, moment: datetime, last: _Last | None) -> bool:
        known = self._known.get(kind)
        return (known is None or moment > known) and (last is None or moment >= last.time)

    def _state(self) -> ProgressState | None:
        first, last, saved = self._first, self._step, self._checkpoint
        if last is None and saved is None:
            return None
        passed = (last.time - first.time).total_seconds() if last is not None and first is not None else 0.0
        return ProgressState(
            attempt=self.source.attempt,
            step=last.step if last is not None else None,
            total=self._total or self.source.asked.total,
            time=last.time if last is not None else None,
            rate=round((last.step - first.step) / passed, 6) if passed and last and first else None,
            first_step=first.step if first is not None else None,
            first_time=first.time if first is not None else None,
            checkpoint=saved.step if saved is not None else None,
            checkpoint_time=saved.time if saved is not None else None,
        )


def _last(step: int | None, time: datetime | None) -> _Last | None:
    return _Last(step, time) if step is not None and time is not None else None


def _number(text: str | None) -> int | None:
    """The digits as a number; None for anything else."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return None
    number = int(text)
    return number if number <= MAX_STEP else None


def _moment(stamp: bytes) -> datetime | None:
    """The kubelet's timestamp, as it would be read back from a status."""
    try:
        moment = datetime.fromisoformat(stamp.decode())
    except ValueError:
        return None
    return whole(moment) if moment.tzinfo is not None else None
