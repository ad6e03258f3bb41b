"""What people are told in Events: read off two statuses, so that a write whose answer was lost is told of as well."""

from dataclasses import dataclass
from typing import Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, ConditionType, Phase, PhaseKind, SliceJobStatus
from slipway.core.explain import kubelet, scheduler
from slipway.core.model.site import NO_SITE, Site
from slipway.core.planner.contract.actions import EventRecord
from slipway.core.planner.lifecycle import retries
from slipway.core.validation.warnings import notices
from slipway.core.vocabulary.charges import FAILURES, Charge, charge_of

_TROUBLES: Final = kubelet.START_REASONS | scheduler.NODE_REASONS.keys()


@dataclass(frozen=True, slots=True)
class EventCursor:
    """How much of a job's story has been told."""

    phase: Phase | None = None
    judged: int = -1
    """Number of the newest attempt whose cause is known."""
    trouble: str | None = None
    """Reason why pods do not start."""
    begun: bool = False
    """Whether an attempt has been made."""


def cursor_of(status: SliceJobStatus) -> EventCursor:
    """How far the story goes in a status."""
    judged = next((attempt.number for attempt in status.attempts if attempt.cause is not None), -1)
    return EventCursor(status.phase, judged, _trouble(status), status.attempt is not None)


def _trouble(status: SliceJobStatus) -> str | None:
    running = status.condition(ConditionType.RUNNING)
    waits = status.phase in (Phase.STARTING, Phase.PENDING, Phase.WAITING_FOR_CAPACITY)
    return running.reason if waits and running is not None and running.reason in _TROUBLES else None


def news(
    told: EventCursor, status: SliceJobStatus, spec: SliceJobSpec | None, site: Site = NO_SITE
) -> tuple[EventRecord, ...]:
    """What a status says that has not been told yet, in the order in which it happened."""
    records: list[EventRecord] = []
    if spec is not None and status.attempt is not None and not told.begun:
        records += [EventRecord(*notice) for notice in notices(spec, site)]
    if spec is not None:
        records += [
            _judged(attempt, charge_of(attempt.cause), status, spec)
            for attempt in reversed(status.attempts)
            if attempt.cause is not None and attempt.number > told.judged
        ]
    running = status.condition(ConditionType.RUNNING)
    words = running.message if running is not None else ""
    trouble = _trouble(status)
    newest = status.newest
    if status.phase is not None and status.phase is not told.phase:
        # What a pending job waits for says more than that it is pending.
        waits = trouble if status.phase is Phase.PENDING else None
        warning = status.phase.kind in (PhaseKind.FAILED, PhaseKind.REFUSED) or waits is not None
        records.append(EventRecord(waits or status.phase.value, words, warning=warning, attempt=newest))
    elif trouble is not None and trouble != told.trouble:
        records.append(EventRecord(trouble, words, warning=True, attempt=newest))
    return tuple(records)


def _judged(attempt: Attempt, charge: Charge, status: SliceJobStatus, spec: SliceJobSpec) -> EventRecord:
    words = f"attempt {attempt.number} ({retries.count_of(status, charge, spec)}): {attempt.message}"
    return EventRecord(charge.event, words, warning=charge.budget is FAILURES, attempt=attempt)
