"""Makes recorded decisions once more, and writes them down for people."""

from collections.abc import Iterator
from pathlib import Path

from slipway.api.status import SliceJobStatus
from slipway.controller.recorder import Record, records
from slipway.core.planner.contract.actions import Action, Plan
from slipway.core.planner.plan import plan

_LONGEST = 120


def decisions(path: Path) -> Iterator[tuple[Record, Plan]]:
    """What each decision of a record was made from, and what it is now."""
    for record in records(path):
        yield record, plan(record.snapshot, record.now)


def replayed(path: Path) -> Iterator[str]:
    """One line a decision: when, how many pods, phase, attempt and its cause, actions."""
    for record, decision in decisions(path):
        pods = f"{len(record.snapshot.pods)} pods, {len(record.snapshot.vanished)} gone"
        yield f"{record.now:%H:%M:%S.%f} ({pods}): {_status(decision.status)} -> {_actions(decision)}"


def _status(status: SliceJobStatus) -> str:
    charged = next((one for one in status.attempts if one.cause is not None), None)
    newest = status.attempts[0] if status.attempts else None
    ended = f", ended: {newest.reason}" if newest is not None and newest.end_time is not None else ""
    charge = f", charged {charged.number}: {charged.cause} ({charged.reason})" if charged is not None else ""
    return f"{status.phase}, attempt {status.attempt}{ended}{charge}"


def _actions(decision: Plan) -> str:
    later = f"look at {decision.wake_at:%H:%M:%S}" if decision.wake_at is not None else "wait"
    return ", ".join(map(_action, decision.actions)) or later


def _action(action: Action) -> str:
    text = repr(action)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
