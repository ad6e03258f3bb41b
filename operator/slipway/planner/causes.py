"""Why a pod ended: an ordered table of evidence; the first row that matches decides.

Conditions and reasons that the control plane set outrank exit codes, which say little: 137 may be a preemption, an
exhausted grace period or the kernel. Text is never searched for "preempted", for programs print what they like,
except in what Ray itself says of its own end.
How the evidence of several pods becomes the cause of an attempt is in `verdict`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Cause
from slipway.planner import ray_errors
from slipway.planner.redact import last_line, log_tail
from slipway.planner.snapshot import Node, Pod, PodCondition, Terminated

NEAR: Final = timedelta(seconds=120)
"""A node's trouble explains a death this close to it."""

SKEW: Final = timedelta(seconds=5)
"""How far the clocks of several API servers, and of the kubelets that date a container's end, may be apart."""

_NODE_REASONS: Final = ("Shutdown", "Terminated", "NodeShutdown", "NodeLost", "Preempting", "Preempted")
_ADMISSION_REASONS: Final = ("UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")
_AFTER_A_MACHINE: Final = ("DeletionByTaintManager", "DeletionByPodGC", "NodeFailures")
"""How the reasons of disruptions end that come long after the machine's own."""

_RESTARTED: Final = (255, "Unknown")
"""Exit code and reason that containerd gives for containers that a restart of the machine took."""

_TPU_TROUBLE: Final = re.compile(
    r"/dev/vfio\S*:? .*Device or resource busy|TPU initialization failed|Failed to get global TPU topology"
)


def ours_from(ended: datetime) -> datetime:
    """From when on deletions are Slipway's own, in an attempt that ended then."""
    return ended.replace(microsecond=0) - SKEW


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one pod when its end is judged."""

    pod: Pod
    spec: SliceJobSpec
    node: Node | None
    """The node it was bound to, if the API still has one of that name."""
    node_replaced: bool
    """Whether that machine is gone: its node was lost, or a younger one has its name."""
    gone_at: datetime | None
    """When the pod's absence from the API was noticed."""
    we_deleted_since: datetime | None
    """When the attempt ended: deletions from then on are Slipway's own."""
    now: datetime

    @property
    def end(self) -> Terminated | None:
        """How the worker container, or what a Ray head is judged by, ended, as the kubelet reported it."""
        state = self.pod.worker
        return state.terminated if state else None

    @property
    def is_ray_worker(self) -> bool:
        """Whether the container ran Ray for an entrypoint that runs elsewhere."""
        return self.spec.ray is not None and not self.pod.is_head

    @property
    def machine_restarted(self) -> bool:
        """Whether the container was found dead, its end unseen, when its machine came up again."""
        end = self.end
        return end is not None and (end.exit_code, end.reason) == _RESTARTED

    @property
    def lost(self) -> bool:
        """Whether the container's end was never seen by the kubelet that started it."""
        end = self.end
        if end is None or self.pod.end_unseen or self.machine_restarted:
            return True
        created = self.node.metadata.creation_timestamp if self.node is not None else None
        return self.node_replaced and bool(created and end.finished_at and end.finished_at >= created)

    @property
    def ours(self) -> bool:
        """Whether Slipway itself asked for the pod's deletion."""
        if self.we_deleted_since is None:
            return False
        since = self.pod.going_since or self.gone_at
        return since is not None and since >= ours_from(self.we_deleted_since)

    def after_our_word(self, moment: datetime | None) -> bool:
        """Whether something happened to the pod only after the attempt had ended."""
        return self.we_deleted_since is not None and moment is not None and moment > self.we_deleted_since

    @property
    def disruption(self) -> PodCondition | None:
        """The disruption that reached the pod before its container ended by itself."""
        return self._before_end(self.pod.condition("DisruptionTarget"))

    @property
    def queue_eviction(self) -> PodCondition | None:
        """An eviction by a queue, such as Kueue's, that came before the container ended by itself."""
        return self._before_end(self.pod.condition("TerminationTarget"))

    @property
    def disrupted_by_machine(self) -> bool:
        """Whether the disruption only followed from what its machine had suffered before."""
        found = self.disruption or self.queue_eviction
        return bool(self.node_trouble) or (found is not None and found.reason.endswith(_AFTER_A_MACHINE))

    @property
    def deleted_by_others(self) -> datetime | None:
        """When somebody else asked for the deletion, or when the pod was found missing."""
        if self.ours:
            return None
        since = self.pod.going_since or self.gone_at
        if since is None or (self.ended_before(since) and not self._stopped_and_gone):
            return None
        return since

    @property
    def _stopped_and_gone(self) -> bool:
        """Whether it was stopped by a signal and is going without grace: so a deletion ends, whose first date is lost.

        The API server dates a deletion anew when the kubelet, done with the pod, deletes it once more.
        """
        again = self.pod.metadata.deletion_grace_period_seconds == 0
        return again and self.end is not None and self.end.exit_code in (137, 143)

    @property
    def node_trouble(self) -> str:
        """What is wrong with the machine around the time of the end; empty when nothing is known."""
        if self.node_replaced:
            return "its node is gone"
        if self.node is None:
            return ""
        for key in names.TAINTS_OF_LOSS:
            if self.node.taint(key) is not None:
                return f"its node is tainted {key}"
        ready = self.node.ready
        if ready is not None and ready.status != "True" and self._near(ready.last_transition_time):
            return f"its node is not ready ({ready.reason or ready.status})"
        if self.machine_restarted:
            return "its machine restarted"
        over = self.end is not None or self.gone_at is not None
        return "its node was away" if over and self.lost and self._node_was_away else ""

    @property
    def _node_was_away(self) -> bool:
        """Whether the node has been not ready at some time since the pod was bound to it."""
        bound, ready = self.pod.bound_at, self.node.ready if self.node is not None else None
        since = ready.last_transition_time if ready is not None else None
        return bool(since and bound and since > bound and self._was_there(since))

    def _was_there(self, moment: datetime | None) -> bool:
        """Whether the pod was not gone yet by then."""
        return self.gone_at is None or moment is None or moment <= self.gone_at + SKEW

    def _near(self, moment: datetime | None) -> bool:
        if not self._was_there(moment):
            return False
        died = (self.end.finished_at if self.end else None) or self.pod.going_since or self.gone_at or self.now
        return moment is None or abs(moment - died) <= NEAR

    def ended_before(self, moment: datetime | None) -> bool:
        """Whether the kubelet confirmed an end that came before that moment."""
        end = self.end
        return bool(end and end.finished_at and moment and end.finished_at < moment)

    def _before_end(self, condition: PodCondition | None) -> PodCondition | None:
        if condition is None or self.ended_before(condition.last_transition_time):
            return None
        return condition

    @property
    def succeeded(self) -> bool:
        """Whether the worker exited 0 of its own will; an exit 0 on SIGTERM is an interruption, not success.

        A Ray worker serves until it is told to stop: that it ends is never success.
        """
        end = self.end
        if self.is_ray_worker:
            return False
        if end is not None and end.exit_code != 0:
            return False
        if end is None and self.pod.status.phase != "Succeeded":
            return False
        if self.pod.ending and not self.pod.going and self.gone_at is None:
            # The phase is still to come, and with it perhaps the reason of an eviction.
            return False
        if self.pod.status.phase == "Failed" and self.pod.status.reason:
            # Whoever ended the pod said why; the program only obeyed.
            return False
        interrupted = self.disruption or self.queue_eviction or self.deleted_by_others
        return interrupted is None and not self._exited_on_our_word

    @property
    def _exited_on_our_word(self) -> bool:
        end, since = self.end, self.pod.going_since
        return bool(self.ours and end and since and not (end.finished_at and end.finished_at < since))


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table: `test` returns what was seen, in words, or None when the row does not match."""

    reason: str
    cause: Cause
    test: Callable[[Facts], str | None]
    row: str = ""
    """The row of the platform's evidence table it implements."""
    outranked: bool = False
    """Whether a peer whose kubelet never confirmed its end explains this one away (exit codes, but never OOM)."""
    final: bool = False
    """Whether it ends the job whatever the budgets say."""


def _oom(facts: Facts) -> str | None:
    end = facts.end
    if end is None or end.reason != "OOMKilled":
        return None
    ray, own = facts.spec.ray, facts.spec.resources
    limit = (ray.head.resources if ray is not None and facts.pod.is_head else own).limits.get("memory")
    return f"ran out of memory (limit {limit})" if limit else "ran out of memory"


def _disrupted(facts: Facts) -> str | None:
    found = facts.disruption
    if found is None or (found.reason != "DeletionByPodGC" and facts.after_our_word(found.last_transition_time)):
        return None
    return f"was disrupted: {found.reason}"


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
    return f"was evicted for its own usage: {status.message}" if status.reason == "Evicted" else None


def _refused(facts: Facts) -> str | None:
    status = facts.pod.status
    if status.reason in _ADMISSION_REASONS or status.reason.startswith("OutOf"):
        return f"was refused by its node: {status.reason}: {status.message}"
    return None


def _node_lost(facts: Facts) -> str | None:
    end, trouble = facts.end, facts.node_trouble
    if not trouble:
        return None
    if end is None or facts.lost:
        over = end is not None or facts.gone_at or facts.pod.going or facts.pod.ended or facts.node_replaced
        return f"was lost: {trouble}" if over else None
    if facts.ours and not facts.ended_before(facts.pod.going_since):
        return None
    return f"was killed (exit code {end.exit_code}) while {trouble}" if end.exit_code in (137, 143) else None


def _deleted(facts: Facts) -> str | None:
    if facts.deleted_by_others is None:
        return None
    return "was deleted by somebody else" if facts.pod.going_since else "vanished without a trace"


def _failed_exit(facts: Facts) -> Terminated | None:
    end = facts.end
    if end is None or end.exit_code == 0:
        return None
    if facts.ours and not facts.ended_before(facts.pod.going_since):
        return None
    return end


def _tpu_trouble(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None or facts.spec.accelerator is None:
        return None
    found = _TPU_TROUBLE.search(end.message)
    return f"could not open its TPU: {found.group(0)}" if found else None


def _ray_trouble(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None or not facts.pod.is_head:
        return None
    trouble = ray_errors.preempted(end.message)
    return f"was let down by Ray: {trouble}" if trouble else None


def _exit_in(listed: str) -> Callable[[Facts], str | None]:
    def test(facts: Facts) -> str | None:
        end = _failed_exit(facts)
        codes = getattr(facts.spec.retries.on_exit_codes, listed)
        # The codes are those of the user's program.
        if end is None or facts.is_ray_worker or end.exit_code not in codes:
            return None
        return f"exited with code {end.exit_code}, listed in retries.onExitCodes.{listed}"

    return test


def _exit_code(facts: Facts) -> str | None:
    end = _failed_exit(facts)
    if end is None:
        return None
    return f"exited with code {end.exit_code}" + (f" (signal {end.exit_code - 128})" if end.exit_code > 128 else "")


def _unexplained(facts: Facts) -> str | None:
    pod = facts.pod
    if facts.is_ray_worker and facts.end is not None and not facts.ours:
        return f"left the Ray cluster with exit code {facts.end.exit_code} before the entrypoint ended"
    if pod.status.phase != "Failed" or facts.end is not None:
        return None
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated
        if ended is not None and ended.exit_code != 0:
            return f"failed: init container {status.name} exited with code {ended.exit_code}"
    return f"failed: {pod.status.reason or 'no reason given'} {pod.status.message}".strip()


RULES: Final = (
    Rule("OOMKilled", Cause.FAILURE, _oom, "2"),
    Rule("Disrupted", Cause.PREEMPTION, _disrupted, "3"),
    Rule("PreemptedByQueue", Cause.PREEMPTION, _preempted_by_queue, "4"),
    Rule("StoppedByQueue", Cause.UNCHARGED, _stopped_by_queue, "4"),
    Rule("EndedByNode", Cause.PREEMPTION, _node_reason, "5"),
    Rule("EvictedForOwnUsage", Cause.FAILURE, _over_own_limit, "5"),
    Rule("RefusedByNode", Cause.INFRASTRUCTURE, _refused, "6"),
    Rule("NodeLost", Cause.PREEMPTION, _node_lost, "8"),
    Rule("PodDeleted", Cause.PREEMPTION, _deleted, "7"),
    Rule("TPUUnavailable", Cause.INFRASTRUCTURE, _tpu_trouble, "10", outranked=True),
    Rule("RayNodeLost", Cause.PREEMPTION, _ray_trouble, "10", outranked=True),
    Rule("FinalExitCode", Cause.FAILURE, _exit_in("fail"), "11", outranked=True, final=True),
    Rule("PreemptionExitCode", Cause.PREEMPTION, _exit_in("preemption"), "11", outranked=True),
    Rule("IgnoredExitCode", Cause.UNCHARGED, _exit_in("ignore"), "11", outranked=True),
    Rule("ExitCode", Cause.FAILURE, _exit_code, "13", outranked=True),
    Rule("UnexpectedOutcome", Cause.FAILURE, _unexplained, "13", outranked=True),
)
"""Evidence on one pod, first match wins. Row 1 of the platform's table, "we deleted it", is `Facts.ours`."""

START_TIMEOUT: Final = Rule("StartTimeout", Cause.FAILURE, lambda _: None, "12")

BY_REASON: Final = {rule.reason: rule for rule in (*RULES, START_TIMEOUT)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why one pod ended."""

    rule: Rule
    time: datetime
    message: str
    slice: int
    host: int
    pod: str
    node: str | None = None
    exit_code: int | None = None
    log: str | None = None
    confirmed: bool = True
    """Whether it is known when it happened: a machine that died never confirms the end of its containers."""


def judge(facts: Facts) -> Evidence | None:
    """The evidence of one pod, or None when nothing is wrong with it."""
    if facts.succeeded:
        return None
    for rule in RULES:
        seen = rule.test(facts)
        if seen is not None:
            return _evidence(rule, seen, facts)
    return None


def _evidence(rule: Rule, seen: str, facts: Facts) -> Evidence:
    pod, end = facts.pod, facts.end
    slice_index, host = pod.slot
    log = log_tail(end.message, facts.spec) if end else None
    where = f"{names.place_of(pod.slot)} (pod {pod.metadata.name}"
    where += f" on node {pod.spec.node_name})" if pod.spec.node_name else ")"
    line = last_line(log) if rule.outranked else ""
    return Evidence(
        rule=rule,
        time=_time(rule, facts),
        message=f"{where} {seen}" + (f": {line}" if line else ""),
        slice=slice_index,
        host=host,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
        exit_code=end.exit_code if end else None,
        log=log,
        confirmed=_confirmed(rule, facts),
    )


def _confirmed(rule: Rule, facts: Facts) -> bool:
    """Whether it is known when it happened: nobody knows when a machine died.

    Another in its place may refuse its pods, and be the first to tell.
    """
    taken = rule.cause is Cause.PREEMPTION or (rule.reason == "RefusedByNode" and facts.node_replaced)
    if not (facts.lost and taken):
        return True
    # Whoever asked for the pod's end dated that, unless it was because of its machine.
    if rule.reason in ("Disrupted", "PreemptedByQueue"):
        return not facts.disrupted_by_machine
    return rule.reason == "PodDeleted" and facts.pod.going_since is not None


def _time(rule: Rule, facts: Facts) -> datetime:
    condition = {"Disrupted": facts.disruption, "PreemptedByQueue": facts.queue_eviction}.get(rule.reason)
    ready = facts.node.ready if facts.node is not None else None
    candidates = (
        _refusal_time(facts) if rule.reason == "RefusedByNode" else None,
        condition.last_transition_time if condition else None,
        _deletion_time(facts) if rule.reason == "PodDeleted" else None,
        facts.end.finished_at if facts.end else None,
        facts.pod.going_since if not facts.ours else None,
        ready.last_transition_time if rule.reason == "NodeLost" and ready and ready.status != "True" else None,
        facts.gone_at,
    )
    return next((moment for moment in candidates if moment is not None), facts.now)


def _deletion_time(facts: Facts) -> datetime | None:
    """When it was asked for; a program ends later, as its grace allows, and earlier only where that date was lost."""
    ended = facts.end.finished_at if facts.end else None
    return min((one for one in (facts.deleted_by_others, ended) if one is not None), default=None)


def _refusal_time(facts: Facts) -> datetime | None:
    """A kubelet refuses a pod as soon as both are there, and leaves no time of its own."""
    created = facts.node.metadata.creation_timestamp if facts.node is not None else None
    return max((one for one in (facts.pod.bound_at, created) if one is not None), default=None)
