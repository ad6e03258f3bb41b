"""Why an attempt ended: the first cause among its pods.

When one host is preempted, its peers crash within seconds. When one program fails, Slipway deletes its peers. Only the
first of these events is the cause. A node that dies silently becomes NotReady only after 50 s, later than the exit
codes of the peers. So a host whose kubelet never reported its end is the cause, and earlier exit codes are not. The
same holds for a host with an unhealthy device, because nobody dates when it broke.
"""

from collections.abc import Iterable
from dataclasses import replace

from slipway.api.places import HEAD, worker
from slipway.api.status import Attempt, Cause, Root
from slipway.core.model.container_states import signal_of
from slipway.core.planner.diagnosis.causes import RULES
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.vocabulary.endings import DEVICE_UNHEALTHY, ENDINGS, OF_ALL_HOSTS

# Earlier evidence would have ended the attempt itself. So within the second of a timeout the timeout is first.
_ORDER = {ending.reason: place for place, ending in enumerate((*OF_ALL_HOSTS, *(rule.ending for rule in RULES)))}
"""Evidence older than a timeout would have ended the attempt already, so the timeout wins a tie."""


def first_cause(evidence: Iterable[Evidence]) -> Evidence | None:
    """The evidence that explains the rest, by time of the event, then by rank in the table.

    Among equals within one second the evidence that ended the attempt wins, because that pod is kept with its log.
    """
    ordered = sorted(evidence, key=lambda one: (one.time.replace(microsecond=0), _rank(one), not one.noted, one.place))
    if not ordered:
        return None
    first = ordered[0]
    if first.ending.outranked:
        return next((one for one in ordered if not one.confirmed), first)
    return first


def combined(noted: Evidence, fresh: Evidence) -> Evidence:
    """The evidence of one pod, recorded when the attempt ended and seen now: the higher row, at the earlier time.

    The recorded evidence is from before Slipway deleted any pod. The evidence seen now may be more complete.
    """
    better = min(fresh, noted, key=_rank)
    return replace(better, time=min(noted.time, fresh.time), noted=True)


def _rank(evidence: Evidence) -> int:
    return _ORDER.get(evidence.ending.reason, len(_ORDER))


def recorded(attempt: Attempt) -> Evidence | None:
    """The evidence in the record of an attempt, so that a verdict is possible when the pods are gone."""
    ending, root = ENDINGS.get(attempt.reason or ""), attempt.root
    if ending is None or attempt.end_time is None:
        return None
    root = root or Root()
    dated = root.exit_code is not None or ending.cause is not Cause.PREEMPTION
    return Evidence(
        ending=ending,
        # By the clock of a kubelet that is ahead, what ended the attempt seems to come after that.
        time=min(root.time or attempt.end_time, attempt.end_time),
        message=attempt.message or "",
        place=HEAD if root.slice is None or root.host is None else worker(root.slice, root.host),
        pod=root.pod or "",
        node=root.node,
        exit_code=root.exit_code,
        log=root.log,
        confirmed=dated and ending is not DEVICE_UNHEALTHY,
        noted=True,
    )


def root_of(evidence: Evidence) -> Root:
    """The evidence in the form of the attempt's record."""
    code, place = evidence.exit_code, evidence.place
    return Root(
        time=evidence.time,
        slice=None if place.is_head else place.slice,
        host=None if place.is_head else place.host,
        pod=evidence.pod,
        node=evidence.node,
        exit_code=code,
        signal=signal_of(code) if code is not None else None,
        log=evidence.log,
    )
