"""How a job may end, how long it goes on, and when its next attempt may begin.

That is read from the spec here, and asked of none of Slipway's tables: an error in them must not excuse itself.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import takewhile
from typing import Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Cause, Phase, SliceJobStatus
from tests.simulation.truth import Violation, require

PREEMPTED: Final = (Cause.PREEMPTION, Cause.INFRASTRUCTURE)
BY_PROGRAM: Final = ("ExitCode", "FinalExitCode", "PreemptionExitCode", "IgnoredExitCode")
REPAIR_SECONDS: Final = (10, 20, 40, 80, 160, 300)
UNSTARTED_SECONDS: Final = (0, 10, 20, 40, 80, 160, 300)
IGNORED_SECONDS: Final = 10
WAITS: Final = (
    "CapacityReleased",
    "NodePoolTaken",
    "FewerSlices",
    "ImageUnavailable",
    "MissingObjects",
    "PodsRefused",
    "DefaultsChanged",
)
"""Why attempts end that only waited."""


def check_end(new: SliceJobStatus, spec: SliceJobSpec, now: datetime, slack: float) -> None:
    """A job ends for a reason that its spec gives, and goes on without one.

    Raises:
        Violation: when it does not.
    """
    failures, preemptions = _limit(spec, spec.retries.max_failures), _limit(spec, spec.retries.max_preemptions)
    newest = new.newest
    failed = newest is not None and newest.cause is Cause.FAILURE
    fatal = failed and newest is not None and _program_code(newest, spec) in spec.retries.on_exit_codes.fail
    if new.phase is None or not new.phase.final:
        require(new.failures < failures, f"{new.failures} failures of {failures}, and the job goes on")
        require(new.preemptions < preemptions, f"{new.preemptions} preemptions of {preemptions}, and the job goes on")
        ended = [one.number for one in new.attempts if one.reason == "FinalExitCode" and one.cause is not None]
        ended += [newest.number] if fatal and newest is not None and newest.reason == "ExitCode" else []
        require(not ended, f"attempt {ended} exited with a code that ends the job, and the job goes on")
        require(new.result is None and new.completion_time is None, f"phase {new.phase} has a result")
        return
    reason = new.result.reason if new.result is not None else ""
    cause = newest.cause if newest is not None else None
    right = {
        Phase.SUCCEEDED: reason == "Succeeded" and new.result is not None and new.result.exit_code == 0,
        Phase.CANCELLED: reason == "Cancelled" and spec.cancel,
        Phase.PREEMPTED: reason == "PreemptionLimitExceeded" and new.preemptions >= preemptions and cause in PREEMPTED,
        Phase.FAILED: (reason == "FailureLimitExceeded" and new.failures >= failures and cause is Cause.FAILURE)
        or (reason == "FinalExitCode" and fatal)
        or (reason == "DeadlineExceeded" and _deadline_passed(new, spec, now, slack)),
    }[new.phase]
    counts = f"{new.failures} failures of {failures}, {new.preemptions} preemptions of {preemptions}"
    require(right, f"the job is {new.phase} for {reason!r}, with {counts}; last attempt: {newest}")
    require(new.result is not None and bool(new.result.message), f"nothing says why the job is {new.phase}")
    ended_at = new.completion_time
    early = max((one.end_time or one.start_time for one in new.attempts), default=ended_at)
    timely = ended_at is not None and early is not None and early <= ended_at
    require(timely and ended_at is not None and (ended_at - now).total_seconds() <= slack, f"it ended at {ended_at}")


def check_start(old: SliceJobStatus, new: SliceJobStatus) -> None:
    """The deadline counts from the first attempt, and anew from the first one after a suspension.

    Raises:
        Violation: when it does not.
    """
    newest = new.newest
    if new.phase is Phase.SUSPENDED:
        require(new.start_time is None, f"the job is suspended, and its deadline counts from {new.start_time}")
    elif new.attempt != old.attempt and newest is not None:
        right = old.start_time or newest.start_time
        require(new.start_time == right, f"the deadline counts from {new.start_time}, and not from {right}")


def check_pause(new: SliceJobStatus, spec: SliceJobSpec) -> None:
    """Between two attempts is the time that the spec, or the documentation, says.

    Raises:
        Violation: when it is less.
    """
    begun, last = new.attempts[:2]
    if last.end_time is None:
        raise Violation(f"attempt {begun.number} begins, and attempt {last.number} has not ended")
    passed, least = (begun.start_time - last.end_time).total_seconds(), _pause(last, new.attempts[1:], spec)
    require(passed >= least, f"attempt {begun.number} begins {passed:.3f} s after the last ended, and not {least} s")


def _pause(last: Attempt, ended: Iterable[Attempt], spec: SliceJobSpec) -> int:
    tried = [one for one in ended if one.reason not in WAITS]
    if last.cause is Cause.FAILURE:
        backoff = spec.retries.backoff
        count = sum(1 for _ in takewhile(lambda one: one.cause is Cause.FAILURE, tried))
        return int(min(backoff.max_seconds, backoff.initial_seconds * 2 ** (count - 1)))
    if last.cause is Cause.INFRASTRUCTURE:
        count = sum(1 for _ in takewhile(lambda one: one.cause is Cause.INFRASTRUCTURE, tried))
        return REPAIR_SECONDS[min(count, len(REPAIR_SECONDS)) - 1]
    if last.cause is Cause.PREEMPTION and last.reason != "PreemptedByQueue":
        alike = takewhile(lambda one: one.cause is Cause.PREEMPTION and one.running_time is None, tried)
        count = max(1, sum(1 for _ in alike))
        return UNSTARTED_SECONDS[min(count, len(UNSTARTED_SECONDS)) - 1]
    return IGNORED_SECONDS if last.reason == "IgnoredExitCode" else 0


def check_root(attempt: Attempt, job: str) -> None:
    """What a program's end is charged for names the pod, and how it ended.

    Raises:
        Violation: when it does not.
    """
    if attempt.reason in (*BY_PROGRAM, "OOMKilled", "NodeLost", "Disrupted", "PodDeleted"):
        pod = attempt.root.pod if attempt.root is not None else None
        mine = pod is not None and pod.startswith(f"{job}-{attempt.number}-")
        require(mine, f"attempt {attempt.number} ended {attempt.reason}, by pod {pod}")
    if attempt.reason in (*BY_PROGRAM, "OOMKilled"):
        code = _exit_code(attempt)
        require(code not in (None, 0), f"attempt {attempt.number} ended {attempt.reason} with code {code}")
    require(bool(attempt.message), f"nothing says how attempt {attempt.number} ended")


def _exit_code(attempt: Attempt) -> int | None:
    return attempt.root.exit_code if attempt.root is not None else None


def _program_code(attempt: Attempt, spec: SliceJobSpec) -> int | None:
    """The exit code of the user's program: in a Ray cluster it runs on the head, and workers have codes of Ray."""
    is_worker = attempt.root is not None and attempt.root.slice is not None
    return None if spec.ray is not None and is_worker else _exit_code(attempt)


def _limit(spec: SliceJobSpec, most: int) -> int:
    return max(1, most) if spec.retries.enabled else 1


def _deadline_passed(new: SliceJobStatus, spec: SliceJobSpec, now: datetime, slack: float) -> bool:
    limit, since = spec.active_deadline_seconds, new.start_time
    return limit is not None and since is not None and (now - since).total_seconds() >= limit - slack
