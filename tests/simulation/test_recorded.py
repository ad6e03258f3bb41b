"""Recorded histories that were judged wrongly once: which cause is charged when they are decided on again."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from slipway.api.status import Cause, SliceJobStatus
from slipway.controller.recorder import records
from slipway.core.planner.contract.freshness import Horizon
from slipway.core.planner.contract.snapshot import OwnDeletions, Snapshot
from slipway.core.planner.plan import plan
from slipway.core.vocabulary.endings import ending_of

RECORDED: Final = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class History:
    """A recorded history and its verdict."""

    seed: int
    happened: str
    attempt: int
    right: frozenset[Cause]
    by_others: frozenset[str] = frozenset()
    """UIDs of pods that somebody else deleted, which the process that made the record knew of all others."""


def _one_of(*causes: Cause) -> frozenset[Cause]:
    return frozenset(causes)


HISTORIES: Final = (
    History(
        700016414,
        "a machine died while another had done its work; the next machine of that name ran the pod, and it crashed",
        0,
        _one_of(Cause.PREEMPTION),
    ),
    History(
        700105331,
        "a machine came back with an empty disk, and the worker, which had run, waits for its image",
        0,
        _one_of(Cause.PREEMPTION),
    ),
    History(
        700121389,
        "a machine died in silence, a peer could not open its TPU, and the job was cancelled before that was clear",
        0,
        _one_of(Cause.INFRASTRUCTURE, Cause.PREEMPTION),
    ),
    History(
        700192970,
        "a machine died a second before a peer could not open its TPU; cancelled before it was clear to start",
        0,
        _one_of(Cause.INFRASTRUCTURE, Cause.PREEMPTION),
    ),
    History(
        700224262,
        "a machine died with half the attempt, and another of its name ran its pod before the other half was scheduled",
        1,
        _one_of(Cause.PREEMPTION),
    ),
    History(
        700245931,
        "a program failed; a machine from which its pod had gone already died half a minute later",
        0,
        _one_of(Cause.FAILURE),
    ),
    History(
        700261741,
        "somebody deleted a pod that had just started and was not seen yet, and its peers crashed",
        1,
        _one_of(Cause.PREEMPTION),
        by_others=frozenset({"pod-00026"}),
    ),
    History(
        700283539,
        "somebody deleted a pod before all ran, it was created again, and its peer crashed",
        0,
        _one_of(Cause.PREEMPTION),
        by_others=frozenset({"pod-00004"}),
    ),
)


@pytest.mark.parametrize("history", HISTORIES, ids=[f"{one.seed}: {one.happened}" for one in HISTORIES])
def test_a_recorded_history_is_charged_to_the_right_cause(history: History) -> None:
    assert verdict(history) in history.right


def verdict(history: History) -> Cause | None:
    """What the attempt is charged to, or will be: statuses are carried along, all else is as it was seen."""
    status: SliceJobStatus | None = None
    for record in records(RECORDED / f"{history.seed}.jsonl"):
        decision = plan(_seen(history, record.snapshot, record.now, status), record.now)
        status = decision.status
    assert status is not None
    attempt = next(one for one in status.attempts if one.number == history.attempt)
    return attempt.cause or (ending_of(attempt).cause if attempt.reason else None)


def _seen(history: History, snapshot: Snapshot, now: datetime, status: SliceJobStatus | None) -> Snapshot:
    """As recorded, with the status decided on last, and with an answer to everything that would be asked first."""
    job = snapshot.job if status is None else replace(snapshot.job, status=status)
    pods = (*snapshot.pods, *(one.pod for one in snapshot.vanished))
    uids = frozenset(pod.metadata.uid for pod in pods) - history.by_others
    ours = OwnDeletions(uids, complete=True) if history.by_others else OwnDeletions()
    known = Horizon(pods_as_of=now, nodes_as_of={pod.spec.node_name: now for pod in pods})
    return replace(snapshot, job=job, known=known, deleted_here=ours)
