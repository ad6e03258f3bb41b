"""What the API server shows of one pod when its end is judged: its container, its Node, its deletion."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.core.manifests.accepted import Effective
from slipway.core.model.container_states import Terminated
from slipway.core.model.nodes import Node, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.pods import NEVER, Pod
from slipway.core.planner.contract.snapshot import SKEW

NEAR: Final = timedelta(seconds=120)
"""A failure of the node explains the end of a container this close to it."""

LATE_LOSS: Final = 2 * NEAR
"""A machine that was well so long after the end of the attempt has not caused it.

That is longer than NEAR, because a watch may show a Node that is gone a minute or two late.
"""

REMOVAL: Final = timedelta(seconds=35)
"""How long after the end of its containers a kubelet may remove a pod that it was asked to terminate.

The pod garbage collector removes a pod at the earliest 40 s after its Node has gone, and dates have whole seconds.
"""

PHASE_SET: Final = timedelta(seconds=10)
"""By when a kubelet that lives has set the phase of a pod whose containers have terminated."""

POD_GC: Final = "DeletionByPodGC"
"""The reason that the pod garbage collector gives for a pod whose Node is gone."""

_AFTER_A_MACHINE: Final = ("DeletionByTaintManager", POD_GC, "NodeFailures")
"""Suffixes of the reasons of disruptions that follow the failure of a node, often much later."""

_BY_KUBELET: Final = "TerminationByKubelet"
"""Reason of the disruption of a pod that its kubelet evicts, which it sets when the containers have terminated."""

_ADMISSION_REASONS: Final = ("UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")

_STOPPED: Final = (0, 137, 143)
"""Exit codes of programs that were asked to terminate, or killed."""

_RESTARTED: Final = (255, "Unknown")
"""Exit code and reason that containerd reports for containers that ended with a reboot of the node."""


def ours_from(ended: datetime) -> datetime:
    """From when on deletions count as Slipway's own, in an attempt that ended at that time."""
    return ended.replace(microsecond=0) - SKEW


def started_again(pod: Pod, all_ran_at: datetime | None) -> bool:
    """Whether the worker waits, or was started again, after every host of the attempt had been running."""
    until = runs_until(all_ran_at)
    return until is not None and pod.run_since is not None and pod.run_since > until


def runs_until(all_ran_at: datetime | None) -> datetime | None:
    """By when the workers had begun their runs, given when all of them were seen to run."""
    return all_ran_at + SKEW if all_ran_at is not None else None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one pod when its end is judged."""

    pod: Pod
    asked: Effective
    """What the job asks for."""
    node: Node | None
    """The Node it was bound to, if one of that name exists."""
    node_replaced: bool
    """Whether that Node is gone or was created again."""
    gone_at: datetime | None
    """When the pod's absence from the API was noticed."""
    we_deleted_since: datetime | None
    """When the attempt ended. Slipway deletes pods only after this."""
    now: datetime
    deleted_here: bool | None = None
    """Whether this process deleted the pod; None when only the dates say so."""
    removed_at: datetime | None = None
    """When its kubelet removed the pod from the API after the containers had terminated."""
    all_ran_at: datetime | None = None
    """When every host of the attempt was seen running."""
    is_root: bool = False
    """Whether it was the end of this pod that ended the attempt."""
    troubled_since: datetime | None = None
    """Since when its machine was last not ready or gone, where this process has seen it."""

    @property
    def end(self) -> Terminated | None:
        """How the worker ended; None while its kubelet has not reported that."""
        return self.pod.end

    @property
    def ran_program(self) -> bool:
        """Whether the user's program ran in it and ended it. The workers of a Ray job run Ray, and a head has both."""
        return self.asked.runtime.runs_program(self.pod)

    @property
    def machine_restarted(self) -> bool:
        """Whether the node rebooted, and the kubelet found the container dead or started it again."""
        end = self.end
        return self.ran_twice or (end is not None and (end.exit_code, end.reason) == _RESTARTED)

    @property
    def ran_twice(self) -> bool:
        """Whether the kubelet started the worker a second time, which happens only when the node lost its state."""
        return self.pod.restarted or self._replaced_before_end or started_again(self.pod, self.all_ran_at)

    @property
    def _replaced_before_end(self) -> bool:
        end, created = self.end, self.node.metadata.creation_timestamp if self.node is not None else None
        return self.node_replaced and bool(end and created and end.finished_at and end.finished_at >= created)

    @property
    def refused(self) -> bool:
        """Whether a kubelet has refused to run it."""
        reason = self.pod.status.reason
        return reason in _ADMISSION_REASONS or reason.startswith("OutOf")

    @property
    def refused_by_successor(self) -> bool:
        """Whether the node that replaced the pod's own has refused it, which tells nothing of how its program ended."""
        return self.refused and self.node_replaced and (self.all_ran_at is not None or self.node is not None)

    @property
    def lost(self) -> bool:
        """Whether the kubelet that started the container never reported its end, or all of it."""
        end = self.end
        return end is None or self.pod.termination_unobserved or self.machine_restarted or self._phase_missing

    @property
    def _phase_missing(self) -> bool:
        """Whether its program exited 0, and its kubelet had not set the phase when the pod or its Node was to go."""
        over = self.gone_at is not None or self.pod.terminating or self.node_replaced
        return over and self.pod.ending and self.end is not None and self.end.exit_code == 0

    @property
    def deleted_by_us(self) -> bool:
        """Whether Slipway itself deleted the pod."""
        if self.we_deleted_since is None:
            return False
        if self.deleted_here is not None:
            return self.deleted_here
        since = self.pod.deletion_requested_at or self.gone_at
        return since is not None and since >= ours_from(self.we_deleted_since)

    def after_attempt_end(self, moment: datetime | None) -> bool:
        """Whether that moment is after the end of the attempt."""
        return self.we_deleted_since is not None and moment is not None and moment > self.we_deleted_since

    @property
    def disruption(self) -> PodCondition | None:
        """The DisruptionTarget condition, if it was set before the container terminated by itself."""
        condition = self.pod.condition("DisruptionTarget")
        told_late = condition is not None and (condition.reason == _BY_KUBELET or self._cut_short(condition))
        return condition if told_late else self._before_end(condition)

    def _cut_short(self, disruption: PodCondition) -> bool:
        """Whether its program exited 0 and its machine was gone before the kubelet had set the phase.

        Kubelets set it within a second or so: the machine was about to go, and its SIGTERM may have ended the program.
        """
        end, since = self.end, disruption.last_transition_time
        if end is None or end.exit_code != 0 or not disruption.reason.endswith(_AFTER_A_MACHINE):
            return False
        late = since is not None and end.finished_at is not None and since - end.finished_at > PHASE_SET
        return (self.pod.ending and late) or (disruption.reason == POD_GC and self.pod.status.phase == "Failed")

    @property
    def disrupted_at(self) -> datetime | None:
        """When the disruption began, as far as dates tell."""
        condition, end = self.disruption, self.end
        since = condition.last_transition_time if condition is not None else None
        if condition is None or condition.reason != _BY_KUBELET or end is None:
            return since
        # By the clock of a kubelet that is ahead, what ended the attempt seems to come after that.
        ended = self.we_deleted_since if self.is_root else None
        return min(filter(None, (since, end.finished_at, ended)), default=None)

    @property
    def queue_eviction(self) -> PodCondition | None:
        """The TerminationTarget condition (Kueue), if it was set before the container terminated by itself."""
        return self._before_end(self.pod.condition("TerminationTarget"))

    @property
    def disrupted_by_machine(self) -> bool:
        """Whether the disruption followed from an earlier failure of the node."""
        condition = self.disruption or self.queue_eviction
        return bool(self.node_trouble) or (condition is not None and condition.reason.endswith(_AFTER_A_MACHINE))

    @property
    def deleted_by_others(self) -> datetime | None:
        """When another client deleted the pod, or when the pod was found missing."""
        if self.deleted_by_us:
            return None
        since = self.deletion_known_at or self.gone_at
        if since is None or (self.ended_by_itself_before(since) and not self._stopped_and_gone):
            return None
        return since

    @property
    def deletion_known_at(self) -> datetime | None:
        """When its deletion was requested, or announced by who evicted it, if the watch missed the request."""
        announced = self.disruption
        if self.pod.deletion_requested_at is not None or announced is None or self.disrupted_by_machine:
            return self.pod.deletion_requested_at
        return announced.last_transition_time if self.gone_at is not None else None

    @property
    def _stopped_and_gone(self) -> bool:
        """Whether a signal terminated it and its grace period is 0, as at the end of a graceful deletion.

        The kubelet deletes a terminated pod a second time, which replaces the first deletionTimestamp. A deletion long
        after the end is somebody else's, of a pod that had terminated: the pod garbage collector's, say.
        """
        end, since = self.end, self.pod.deletion_requested_at
        again = self.pod.metadata.deletion_grace_period_seconds == 0
        if not again or since is None or end is None or end.exit_code not in (137, 143):
            return False
        states = (status.state.terminated for status in self.pod.status.container_statuses)
        ends = [state.finished_at for state in states if state is not None and state.finished_at is not None]
        return not ends or since - max(ends) <= REMOVAL

    @property
    def node_trouble(self) -> str:
        """What was wrong with the node around the time of the end; empty when nothing is known."""
        if self.lost_late:
            return ""
        if self.node_replaced:
            return "its node is gone"
        restarted = "its machine restarted" if self.machine_restarted else ""
        if self.node is None:
            return restarted
        for key in names.TAINTS_OF_LOSS:
            taint = self.node.taint(key)
            if taint is not None and self._was_there(taint.time_added) and not self._added_later(taint):
                return f"its node is tainted {key}"
        ready = self.node.ready
        if ready is not None and ready.status != "True" and self._near(ready.last_transition_time):
            return f"its node is not ready ({ready.reason or ready.status})"
        if restarted:
            return restarted
        over = self.end is not None or self.gone_at is not None
        return "its node was away" if over and self.lost and self._node_was_away else ""

    @property
    def _node_was_away(self) -> bool:
        """Whether the Ready condition of the node has changed since the pod was bound to it."""
        bound, ready = self.pod.bound_at, self.node.ready if self.node is not None else None
        since = ready.last_transition_time if ready is not None else None
        return bool(since and bound and since > bound and self._was_there(since))

    @property
    def lost_late(self) -> bool:
        """Whether its machine was lost or restarted, and not before the attempt had long ended for another reason."""
        end, began = self.end, self.pod.run_since
        restarted = (began if self.ran_twice else end.finished_at if end else None) if self.machine_restarted else None
        known = [one for one in (self.troubled_since, restarted) if one is not None and one != NEVER]
        return bool(known) and self._is_late(min(known))

    def _is_late(self, moment: datetime) -> bool:
        return self.we_deleted_since is not None and moment > self.we_deleted_since + LATE_LOSS

    def _added_later(self, taint: Taint) -> bool:
        """Whether the taint was added after the attempt had ended: at all if it announces the end of the machine.

        The others are added when a machine has been lost, or a person has found it to be.
        """
        if taint.time_added is None:
            return False
        if taint.key == names.TAINT_IMPENDING_TERMINATION:
            return self._long_after_attempt(taint.time_added)
        return self._is_late(taint.time_added)

    def _long_after_attempt(self, moment: datetime) -> bool:
        """Whether that moment is after the end of the attempt on every clock; dates of the API have whole seconds."""
        ended = self.we_deleted_since
        return ended is not None and moment >= ended.replace(microsecond=0) + SKEW

    def _was_there(self, moment: datetime | None) -> bool:
        """Whether the pod was on its node then; what has no date is taken for the present."""
        gone, bound = self.removed_at or self.gone_at, self.pod.bound_at
        if moment is None:
            return self.removed_at is None
        if self.removed_at is not None and moment > self.removed_at and self._long_after_attempt(moment):
            # The kubelet that removed the pod still ran when the attempt had ended.
            return False
        return (gone is None or moment <= gone + SKEW) and (bound is None or bound <= moment + SKEW)

    def _near(self, moment: datetime | None) -> bool:
        if not self._was_there(moment):
            return False
        died = (
            (self.end.finished_at if self.end else None) or self.pod.deletion_requested_at or self.gone_at or self.now
        )
        return moment is None or abs(moment - died) <= NEAR

    def ended_before(self, moment: datetime | None) -> bool:
        """Whether the kubelet reported that the container terminated before that moment."""
        end = self.end
        return bool(end and end.finished_at and moment and end.finished_at < moment)

    def ended_by_itself_before(self, moment: datetime | None) -> bool:
        """Whether the container terminated before somebody ended the pod at that moment, and so by itself.

        A kubelet's clock may be off by SKEW. One that is behind may date the end of a container that SIGTERM or SIGKILL
        ended before the deletion, so exit codes of signals need that distance. One that is ahead may date an end after
        the deletion, though that version of the pod was seen first: the order of versions counts, not the dates.
        """
        if self.end is None or moment is None:
            return False
        if self.pod.ended_unasked:
            return not self.pod.termination_unobserved
        return self.ended_before(moment - SKEW if self.end.exit_code in _STOPPED else moment)

    def _before_end(self, condition: PodCondition | None) -> PodCondition | None:
        if condition is None or self.ended_by_itself_before(condition.last_transition_time):
            return None
        return condition

    @property
    def succeeded(self) -> bool:
        """Whether the worker exited 0 by itself. An exit 0 after SIGTERM is an interruption, not a success.

        Ray runs until it is terminated, so its end is never a success, in a worker or in the head.
        """
        end = self.end
        if not self.ran_program:
            return False
        if end is not None and end.exit_code != 0:
            return False
        if end is None and self.pod.status.phase != "Succeeded":
            return False
        if self.pod.ending and ((not self.pod.terminating and self.gone_at is None) or self.node_trouble):
            # The kubelet has yet to set the phase, and may set the reason of an eviction with it; or it never could.
            return False
        if self.pod.status.phase == "Failed" and self.pod.status.reason and not self.refused_by_successor:
            # The reason of the pod outranks the exit code of its program.
            return False
        interrupted = self.disruption or self.queue_eviction or self.deleted_by_others
        return interrupted is None and not self._terminated_by_us

    @property
    def _terminated_by_us(self) -> bool:
        end, since = self.end, self.pod.deletion_requested_at
        return bool(self.deleted_by_us and end and since and not (end.finished_at and end.finished_at < since))
