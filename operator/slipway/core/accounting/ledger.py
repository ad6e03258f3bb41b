"""The ledger: how long a job was in each state, and how many chips it held meanwhile.

The sums in the status hold what is certain: what the newest attempt may still change is added by a later write. They
are patched only together with another change of the status. `account_at` adds the time since then for commands and
metrics.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slipway.api.ledger import Account, Ledger
from slipway.api.status import Attempt, SliceJobStatus
from slipway.core.accounting.spans import Span, State, spans, whole

Sums = dict[State, float]

NOTHING: Final = Account()


@dataclass(frozen=True, slots=True)
class Holding:
    """Chips that are held for a time: those of a pod that is bound, or of several."""

    chips: int
    begin: datetime
    end: datetime


def account_at(created: datetime, status: SliceJobStatus, now: datetime) -> Ledger:
    """The ledger of a job at any moment: what is certain, and what the newest attempt makes of the time since.

    The chips of that time are estimated: all are held from when the last pod is bound until the attempt ends.
    """
    ledger = status.ledger or Ledger(until=whole(created), seconds=NOTHING)
    until = whole(max(status.completion_time or now, ledger.until))
    held = (held_by_attempt(attempt, places_with_chips(status), status, until) for attempt in status.attempts)
    return continued(ledger, spans(created, status, until), until, [holding for some in held for holding in some])


def sums(account: Account | None) -> Sums:
    """The sums of an account by state, in its order; seconds, or chip seconds."""
    found: Sums = {}
    for name, value in (account or NOTHING).model_dump(exclude_none=True).items():
        found |= {(name, part): one for part, one in value.items()} if isinstance(value, dict) else {(name,): value}
    return found


def by_state(account: Account | None) -> Counter[str]:
    """The same without the parts of lost time; a state that the job was never in has 0."""
    found: Counter[str] = Counter()
    for (state, *_), value in sums(account).items():
        found[state] += value  # type: ignore[assignment]  # A Counter adds up seconds as well.
    return found


def _account(found: Sums) -> Account:
    nested: dict[str, float | dict[str, float]] = {}
    for (name, *part), value in found.items():
        if part:
            nested[name] = {**dict(nested.get(name, {})), part[0]: value}  # type: ignore[arg-type]
        else:
            nested[name] = value
    return Account.model_validate(nested)


def continued(known: Ledger, passed: Iterable[Span], until: datetime, held: Iterable[Holding]) -> Ledger:
    """A ledger with the time that has passed since, and with the chips that were held in it."""
    seconds, chips = sums(known.seconds), sums(known.chip_seconds)
    holdings = [(holding.begin.timestamp(), holding.end.timestamp(), holding.chips) for holding in held]
    for span in passed:
        begin, end = max(span.begin, known.until).timestamp(), min(span.end, until).timestamp()
        if begin < end:
            seconds[span.state] = round(seconds.get(span.state, 0.0) + end - begin, 3)
            weighed = sum(max(0.0, min(end, to) - max(begin, since)) * count for since, to, count in holdings)
            if weighed:
                chips[span.state] = round(chips.get(span.state, 0.0) + weighed, 3)
    return Ledger(until=until, seconds=_account(seconds), chip_seconds=_account(chips) if chips else None)


def held_by_attempt(attempt: Attempt, places: int, status: SliceJobStatus, until: datetime) -> Iterator[Holding]:
    """What so many pods of an attempt held that nobody sees any more: all were bound from one moment until its end."""
    since = attempt.scheduled_time or attempt.running_time
    if since is not None and places > 0 and (each := chips_of_pod(status)):
        yield Holding(each * places, since, attempt.end_time or until)


def places_with_chips(status: SliceJobStatus) -> int:
    """How many pods with chips the newest attempt has."""
    return status.slices.granted * status.resolved.hosts if status.slices and status.resolved else 0


def chips_of_pod(status: SliceJobStatus) -> int:
    """TPU chips or GPUs of one pod."""
    return (status.resolved.chips_per_host or status.resolved.gpus_per_host or 0) if status.resolved else 0
