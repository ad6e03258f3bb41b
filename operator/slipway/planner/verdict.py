"""Why an attempt ended: the first cause among its pods.

When one host is taken, its peers crash within seconds; when one program fails, its peers are deleted. Only the first
of these is the cause. A machine that died silently is noticed last of all (its node turns NotReady after 50 s), so a
host whose kubelet never confirmed its end explains away exit codes that came before the notice.
"""

from collections.abc import Iterable
from dataclasses import replace

from slipway.api.status import Attempt, Cause, Root
from slipway.planner.causes import BY_REASON, RULES, START_TIMEOUT, Evidence

# Whatever was seen before a start timeout has ended the attempt itself, so in the second of the timeout it came later.
_ORDER = {rule.reason: position for position, rule in enumerate((START_TIMEOUT, *RULES))}


def first_cause(evidence: Iterable[Evidence]) -> Evidence | None:
    """The evidence that explains the rest, by time of the event, then by rank in the table."""
    ordered = sorted(evidence, key=lambda one: (one.time.replace(microsecond=0), _rank(one), one.slice, one.host))
    if not ordered:
        return None
    first = ordered[0]
    if first.rule.outranked:
        return next((one for one in ordered if not one.confirmed), first)
    return first


def combined(noted: Evidence, fresh: Evidence) -> Evidence:
    """One pod's evidence, from when the attempt ended and from now: the higher row, at the earlier time.

    What was noted first could not mistake Slipway's own deletions for somebody else's; what is seen now may know more.
    """
    better = min(fresh, noted, key=_rank)
    return replace(better, time=min(noted.time, fresh.time))


def _rank(evidence: Evidence) -> int:
    return _ORDER.get(evidence.rule.reason, len(_ORDER))


def recorded(attempt: Attempt) -> Evidence | None:
    """The evidence an attempt's record holds, so that a verdict survives the loss of everything else."""
    rule, root = BY_REASON.get(attempt.reason or ""), attempt.root
    if rule is None or attempt.end_time is None:
        return None
    root = root or Root()
    return Evidence(
        rule=rule,
        time=root.time or attempt.end_time,
        message=attempt.message or "",
        slice=-1 if root.slice is None else root.slice,
        host=-1 if root.host is None else root.host,
        pod=root.pod or "",
        node=root.node,
        exit_code=root.exit_code,
        log=root.log,
        confirmed=root.exit_code is not None or rule.cause is not Cause.PREEMPTION,
    )


def root_of(evidence: Evidence) -> Root:
    """The evidence as it stands in the attempt's record."""
    code, somewhere = evidence.exit_code, evidence.slice >= 0
    return Root(
        time=evidence.time,
        slice=evidence.slice if somewhere else None,
        host=evidence.host if somewhere else None,
        pod=evidence.pod,
        node=evidence.node,
        exit_code=code,
        signal=code - 128 if code is not None and code > 128 else None,
        log=evidence.log,
    )
