"""Why a pod ended: an ordered table of evidence; the first row that matches decides.

Conditions and reasons of the control plane outrank exit codes, which are ambiguous: 137 may be a preemption, an
exhausted grace period or the OOM killer. Program output is never searched for "preempted", because programs print what
they like. Only errors that Ray raises for its own processes are.
How the evidence of several pods becomes the cause of an attempt is in `verdict`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slipway.api import names
from slipway.api.status import Cause
from slipway.core.explain import ray
from slipway.core.explain.kubelet import cannot_start
from slipway.core.model.container_states import Terminated, signal_of
from slipway.core.planner.diagnosis.evidence import Evidence, Words
from slipway.core.planner.diagnosis.facts import POD_GC, Facts
from slipway.core.vocabulary.endings import (
    CANNOT_START,
    DEVICE_UNHEALTHY,
    DISRUPTED,
    ENDED_BY_NODE,
    EVICTED_FOR_OWN_USAGE,
    EXIT_CODE,
    FINAL_EXIT_CODE,
    IGNORED_EXIT_CODE,
    NODE_LOST,
    OOM_KILLED,
    POD_DELETED,
    PREEMPTED_BY_QUEUE,
    PREEMPTION_EXIT_CODE,
    RAY_NODE_LOST,
    REFUSED_BY_NODE,
    STOPPED_BY_QUEUE,
    TPU_UNAVAILABLE,
    UNEXPECTED_OUTCOME,
    WORKSPACE_SYMLINK,
    WORKSPACE_UNUSABLE,
    Ending,
)

_NEVER_STARTED: Final = ("StartError", "ContainerCannotRun")
"""What containerd and Docker say of a container whose command they could not start."""
_NODE_REASONS: Final = ("Shutdown", "Terminated", "NodeShutdown", "NodeLost", "Preempting", "Preempted")
_TPU_TROUBLE: Final = re.compile(
    r"/dev/vfio\S*:? .*Device or resource busy|TPU initialization failed|Failed to get global TPU topology"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table: `test` returns the words for the message, or None when the row does not match."""

    ending: Ending
    test: Callable[[Facts], str | None]


def _oom(facts: Facts) -> str | None:
    end = facts.end
    if end is None or end.reason != "OOMKilled":
        return None
    limit = facts.asked.runtime.memory_limit(facts.pod, facts.asked.spec)
    return f"ran out of memory (limit {limit})" if limit else "ran out of memory"


def _disrupted(facts: Facts) -> str | None:
    condition = facts.disruption
    if condition is None:
        return None
    # Pods are collected long after their machine was lost.
    late = facts.lost_late if condition.reason == POD_GC else facts.after_attempt_end(facts.disrupted_at)
    if late:
        return None
    return f"was disrupted: {condition.reason}"


def _queue(facts: Facts) -> str:
    return facts.queue_eviction.reason if facts.queue_eviction else ""


def _preempted_by_queue(facts: Facts) -> str | None:
    reason = _queue(facts)
    return f"was evicted by its queue: {reason}" if reason.endswith(("Preempted", "NodeFailures")) else None


def _stopped_by_queue(facts: Facts) -> str | None:
    return f"was stopped by its queue: {_queue(facts)}" if _queue(facts) else None


def _node_reason(facts: Facts) -> str | None:
    status = facts.pod.status
    return f"was ended by its node: {status.reason}" if status.reason in _NODE_REASONS else None


def _over_own_limit(facts: Facts) -> str | None:
    status = facts.pod.status
    # The second machine's words tell nothing of how the first run ended, and a disruption that came after the end of
    # the attempt is still one.
    evicted = status.reason == "Evicted" and not facts.ran_twice and facts.disruption is None
    return f"was evicted for its own usage: {status.message}" if evicted else None


def _refused(facts: Facts) -> str | None:
    status = facts.pod.status
    # The loss of its own node brought about that another refused it.
    refused = facts.refused and not facts.refused_by_successor
    return f"was refused by its node: {status.reason}: {status.message}" if refused else None


def _node_lost(facts: Facts) -> str | None:
    end, trouble = facts.end, facts.node_trouble
    if not trouble:
        return None
    if end is None or facts.lost:
        gone = facts.gone_at or facts.pod.terminating or facts.node_replaced or facts.ran_twice
        over = end is not None or gone or facts.pod.ended
        return f"was lost: {trouble}" if over else None
    if facts.deleted_by_us and not facts.ended_before(facts.pod.deletion_requested_at):
        return None
    return f"was killed (exit code {end.exit_code}) while {trouble}" if end.exit_code in (137, 143) else None


def _deleted(facts: Facts) -> str | None:
    if facts.deleted_by_others is None:
        return None
    return "was deleted by somebody else" if facts.deletion_known_at else "vanished without a trace"


def _failed_exit(facts: Facts) -> Terminated | None:
    end = facts.end
    if end is None or end.exit_code == 0:
        return None
    if facts.deleted_by_us and not facts.ended_by_itself_before(facts.pod.deletion_requested_at):
        return None
    # A disruption after the end of the attempt is no cause of it, and no more is the exit code it brought about.
    return end if facts.disruption is None else None


def _cannot_start(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None or end.reason not in _NEVER_STARTED:
        return None
    return f"could not start: {cannot_start(end.message, facts.asked.spec.image or '')}"


def _device_trouble(facts: Facts) -> str | None:
    """A pod whose program still ran when a peer failed counts too: the peers may have waited for its chips."""
    devices, end = facts.pod.unhealthy_devices, _failed_exit(facts)
    if not devices or (end is None and not facts.deleted_by_us):
        return None
    words = f"had {'an unhealthy device' if len(devices) == 1 else 'unhealthy devices'} ({', '.join(devices)})"
    return words if end is None else f"exited with code {end.exit_code} and {words}"


def _tpu_trouble(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None or not facts.asked.hardware.is_tpu:
        return None
    found = _TPU_TROUBLE.search(end.message)
    return f"could not open its TPU: {found.group(0)}" if found else None


def _ray_trouble(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None or not facts.pod.is_head:
        return None
    trouble = ray.preempted(end.message)
    return f"was let down by Ray: {trouble}" if trouble else None


def _exit_in(listed: str) -> Callable[[Facts], str | None]:
    def test(facts: Facts) -> str | None:
        end = _failed_exit(facts)
        codes = getattr(facts.asked.spec.retries.on_exit_codes, listed)
        # The listed codes are exit codes of the user's program; Ray has its own, in workers and in the head.
        if end is None or not facts.ran_program or end.exit_code not in codes:
            return None
        return f"exited with code {end.exit_code}, listed in retries.onExitCodes.{listed}"

    return test


def _exit_code(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None:
        return None
    signal = signal_of(end.exit_code)
    return f"exited with code {end.exit_code}" + (f" (signal {signal})" if signal is not None else "")


def _refused_directory(code: int) -> Callable[[Facts], str | None]:
    """The init container that makes the directories of the job exited with that code."""

    def test(facts: Facts) -> str | None:
        for status in facts.pod.status.init_container_statuses:
            end = status.state.terminated
            if status.name == names.WORKSPACE_CONTAINER and end is not None and end.exit_code == code:
                return f"could not start: {end.message.strip()}"
        return None

    return test


def _unexplained(facts: Facts) -> str | None:
    pod = facts.pod
    if not facts.ran_program and facts.end is not None and not facts.deleted_by_us:
        return f"left the Ray cluster with exit code {facts.end.exit_code} before the entrypoint ended"
    exited = facts.end is not None and (facts.end.exit_code != 0 or facts.deleted_by_us)
    if pod.status.phase != "Failed" or exited:
        return None
    if failed := pod.failed_init:
        name, end = failed
        return f"failed: init container {name} exited with code {end.exit_code}"
    return f"failed: {pod.status.reason or 'no reason given'} {pod.status.message}".strip()


RULES: Final[tuple[Rule, ...]] = (
    Rule(OOM_KILLED, _oom),
    Rule(DISRUPTED, _disrupted),
    Rule(PREEMPTED_BY_QUEUE, _preempted_by_queue),
    Rule(STOPPED_BY_QUEUE, _stopped_by_queue),
    Rule(ENDED_BY_NODE, _node_reason),
    Rule(EVICTED_FOR_OWN_USAGE, _over_own_limit),
    Rule(REFUSED_BY_NODE, _refused),
    Rule(NODE_LOST, _node_lost),
    Rule(POD_DELETED, _deleted),
    Rule(CANNOT_START, _cannot_start),
    Rule(DEVICE_UNHEALTHY, _device_trouble),
    Rule(TPU_UNAVAILABLE, _tpu_trouble),
    Rule(RAY_NODE_LOST, _ray_trouble),
    Rule(FINAL_EXIT_CODE, _exit_in("fail")),
    Rule(PREEMPTION_EXIT_CODE, _exit_in("preemption")),
    Rule(IGNORED_EXIT_CODE, _exit_in("ignore")),
    Rule(EXIT_CODE, _exit_code),
    Rule(WORKSPACE_SYMLINK, _refused_directory(names.EXIT_LINK)),
    Rule(WORKSPACE_UNUSABLE, _refused_directory(names.EXIT_UNUSABLE)),
    Rule(UNEXPECTED_OUTCOME, _unexplained),
)
"""The rows for one pod; the first match decides. `Facts.deleted_by_us` excludes what Slipway's own deletions did."""
_SECOND_RUN: Final = Rule(NODE_LOST, _node_lost)
"""The row of a worker that succeeded, and ran for the second time: its first run was lost with its node."""


def judge(facts: Facts, *, done: bool = False) -> Evidence | None:
    """The evidence of one pod, or None when no row matches.

    Of a host that is `done`, according to the status, nothing counts but that its worker was started again.
    """
    rules = RULES
    if done or facts.succeeded:
        rules = (_SECOND_RUN,) if facts.ran_twice else ()
    for rule in rules:
        seen = rule.test(facts)
        if seen is not None:
            return _evidence(rule.ending, seen, facts)
    return None


def _evidence(ending: Ending, seen: str, facts: Facts) -> Evidence:
    # The end of the second run is no evidence of how the first run ended; it ran out of memory all the same.
    pod, end = facts.pod, facts.end if ending is OOM_KILLED or not facts.ran_twice else None
    # The worker has written nothing where an init container failed before it.
    failed = pod.failed_init if ending is UNEXPECTED_OUTCOME else None
    where = f"{pod.place.words} (pod {pod.metadata.name}"
    where += f" on node {pod.spec.node_name})" if pod.spec.node_name else ")"
    return Evidence(
        ending=ending,
        time=_time(ending, facts),
        words=Words(where, seen, end.message if end else failed[1].message if failed else ""),
        place=pod.place,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
        exit_code=end.exit_code if end else None,
        confirmed=_confirmed(ending, facts),
    )


def _confirmed(ending: Ending, facts: Facts) -> bool:
    """Whether the time of the evidence is certain. The time at which a node died or a device broke is not.

    The rejection of a pod by a replacement node may be the first sign that the node died.
    """
    if ending is DEVICE_UNHEALTHY:
        return False
    taken = ending.cause is Cause.PREEMPTION or (ending is REFUSED_BY_NODE and facts.node_replaced)
    if not (facts.lost and taken):
        return True
    # The condition of an eviction has a certain time, unless the eviction followed from the failure of the node.
    if ending in (DISRUPTED, PREEMPTED_BY_QUEUE):
        return not facts.disrupted_by_machine
    return ending is POD_DELETED and facts.deletion_known_at is not None


def _time(ending: Ending, facts: Facts) -> datetime:
    queued = facts.queue_eviction if ending is PREEMPTED_BY_QUEUE else None
    ready = facts.node.ready if facts.node is not None else None
    candidates = (
        _refusal_time(facts) if ending is REFUSED_BY_NODE else None,
        facts.disrupted_at if ending is DISRUPTED else None,
        queued.last_transition_time if queued else None,
        _deletion_time(facts) if ending is POD_DELETED else None,
        facts.end.finished_at if facts.end else None,
        facts.pod.deletion_requested_at if not facts.deleted_by_us else None,
        ready.last_transition_time if ending is NODE_LOST and ready and ready.status != "True" else None,
        facts.gone_at,
    )
    return next((moment for moment in candidates if moment is not None), facts.now)


def _deletion_time(facts: Facts) -> datetime | None:
    """When the deletion was requested, or when the container terminated if that is earlier."""
    ended = facts.end.finished_at if facts.end else None
    return min((one for one in (facts.deleted_by_others, ended) if one is not None), default=None)


def _refusal_time(facts: Facts) -> datetime | None:
    """When both the pod was bound and its Node existed. A kubelet rejects a pod then, and records no time."""
    created = facts.node.metadata.creation_timestamp if facts.node is not None else None
    return max((one for one in (facts.pod.bound_at, created) if one is not None), default=None)
