"""How an attempt may end: one row for each reason, and in the row everything that follows from it.

The reason of an ended attempt is a word for people. The consequences are looked up here, so a new ending is a new row.
The evidence on a pod that leads to each row is in `causes`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from slipway.api.status import Attempt, Cause


class Delay(Enum):
    """How long the next attempt waits after this one has ended; it also waits until no pod of it may still run."""

    NONE = "no delay"
    BACKOFF = "delay `retries.backoff`"
    STARTED = "no delay if every host had run"
    REPAIR = "delay 10 s to 300 s"
    PAUSE = "delay 10 s"
    HELD = "delay 30 s, doubled each time up to 600 s"
    CAPACITY = "delay twice `retries.capacityRetrySeconds`, doubled each time while an older job waits"


@dataclass(frozen=True, slots=True)
class Ending:
    """One row. The table in docs/causes.md is generated from it."""

    reason: str
    """One CamelCase word, as in `status.attempts[].reason`."""
    seen: str
    """What happened, in the words of docs/causes.md."""
    cause: Cause
    """The budget that the attempt is charged to."""
    delay: Delay
    outranked: bool = False
    """Whether a host whose kubelet never reported its end is the cause instead. True of exit codes, never of OOM."""
    final: bool = False
    """Whether it ends the job, whatever the budgets say."""
    a_try: bool = True
    """Whether the attempt counts as one. False when it only waited for slices that it did not get."""
    keeps_slices: bool = False
    """Whether the next attempt requests as many slices as this one had at the end."""
    doubts_pools: bool = False
    """Whether later attempts are pinned to the node pools of this one last."""
    scheduler_chooses: bool = False
    """Whether the scheduler chooses the node pools of the next attempt."""
    held: bool = False
    """Whether the pods had nodes and could not start, so that the next attempt waits for nodes anew."""
    never_started: bool = False
    """Whether the program could not start, so that it counts for `retries.maxStartFailures`."""
    of_all_hosts: bool = False
    """Whether the ending is about the attempt as a whole, as a timeout is. The host that it names is an example.

    It wins ties within one second."""
    pods_own_grace: bool = False
    """Whether each pod keeps its own grace period: a program that is stopped on request can still make progress."""


CAPACITY_RELEASED: Final = Ending(
    "CapacityReleased",
    "some hosts had nodes and the others found none, and the job deleted its pods for an older job or to try other "
    "node pools",
    Cause.UNCHARGED,
    Delay.CAPACITY,
    a_try=False,
    scheduler_chooses=True,
)
POOL_TAKEN: Final = Ending(
    "NodePoolTaken",
    "a slice was pinned to a [node pool](placement.md) that looked free and had no room",
    Cause.UNCHARGED,
    Delay.NONE,
    a_try=False,
    keeps_slices=True,
    doubts_pools=True,
    scheduler_chooses=True,
)
FEWER_SLICES: Final = Ending(
    "FewerSlices",
    "a smaller number in `acceptableSlices` found nodes and is requested from now on",
    Cause.UNCHARGED,
    Delay.NONE,
    a_try=False,
    keeps_slices=True,
)
IMAGE_UNAVAILABLE: Final = Ending(
    "ImageUnavailable",
    "the image could not be pulled for a minute, and the nodes are released; once that has gone on for "
    "`timeouts.startSeconds`, the attempt ends with `StartTimeout`",
    Cause.UNCHARGED,
    Delay.HELD,
    a_try=False,
    held=True,
)
MISSING_OBJECTS: Final = Ending(
    "MissingObjects",
    "a Secret, a ConfigMap or a volume of the job was missing for a minute, and the nodes are released; once the job "
    "has waited for `timeouts.scheduleSeconds`, it fails with `ScheduleTimeout`",
    Cause.UNCHARGED,
    Delay.HELD,
    a_try=False,
    held=True,
)
PODS_REFUSED: Final = Ending(
    "PodsRefused",
    "some pods had nodes for a minute and the others could not be created, because the API server refused them or "
    "somebody deleted them, and the nodes are released; once the job has waited for `timeouts.scheduleSeconds`, it "
    "fails with `ScheduleTimeout`",
    Cause.UNCHARGED,
    Delay.HELD,
    a_try=False,
    held=True,
)
UNWITNESSED: Final = Ending(
    "Unwitnessed",
    "an operator took over and found pods missing while other hosts had already succeeded; it could not determine "
    "whether the missing pods had ever run",
    Cause.UNCHARGED,
    Delay.NONE,
)
DEFAULTS_CHANGED: Final = Ending(
    "DefaultsChanged",
    "a SliceJobProfile changed while the pods of the attempt were created, and the operator that took over does not "
    "know its earlier version",
    Cause.UNCHARGED,
    Delay.NONE,
    a_try=False,
    keeps_slices=True,
)
SUSPENDED: Final = Ending(
    "Suspended", "`spec.suspend` was set to true", Cause.UNCHARGED, Delay.NONE, pods_own_grace=True
)
CANCELLED: Final = Ending(
    "Cancelled", "`spec.cancel` was set to true", Cause.UNCHARGED, Delay.NONE, final=True, pods_own_grace=True
)
DEADLINE_EXCEEDED: Final = Ending(
    "DeadlineExceeded", "`activeDeadlineSeconds` passed", Cause.UNCHARGED, Delay.NONE, final=True, pods_own_grace=True
)
SCHEDULE_TIMEOUT: Final = Ending(
    "ScheduleTimeout",
    "a pod had no node for `timeouts.scheduleSeconds`",
    Cause.UNCHARGED,
    Delay.NONE,
    final=True,
    pods_own_grace=True,
)
START_TIMEOUT: Final = Ending(
    "StartTimeout",
    "not running `timeouts.startSeconds` after being scheduled, or no attempt could pull the image for so long",
    Cause.FAILURE,
    Delay.BACKOFF,
    of_all_hosts=True,
)

SANDBOX_FAILED: Final = Ending(
    "SandboxFailed",
    "not running `timeouts.startSeconds` after being scheduled, because the kubelet could not set up the network or "
    "the sandbox of a pod",
    Cause.INFRASTRUCTURE,
    Delay.REPAIR,
    of_all_hosts=True,
    doubts_pools=True,
)

CANNOT_START: Final = Ending(
    "CannotStart",
    "the container runtime could not start the command: it is not in the image, or may not be executed. "
    "`retries.maxStartFailures` such attempts in a row end the job",
    Cause.FAILURE,
    Delay.BACKOFF,
    never_started=True,
)
OOM_KILLED: Final = Ending("OOMKilled", "the worker container ran out of memory", Cause.FAILURE, Delay.BACKOFF)
DISRUPTED: Final = Ending(
    "Disrupted",
    "condition `DisruptionTarget`: scheduler preemption, NoExecute taint, eviction, pod garbage collection, node "
    "shutdown",
    Cause.PREEMPTION,
    Delay.STARTED,
)
PREEMPTED_BY_QUEUE: Final = Ending(
    "PreemptedByQueue",
    "the [Workload](kueue.md) of the job was evicted for `Preempted` or `NodeFailures`; or a pod has the condition "
    "`TerminationTarget` whose reason ends in one of them (Kueue)",
    Cause.PREEMPTION,
    Delay.STARTED,
)
STOPPED_BY_QUEUE: Final = Ending(
    "StoppedByQueue",
    "the [Workload](kueue.md) of the job was evicted for any other reason or deleted, or the job left its queue while "
    "pods waited for a node from a topology of Kueue; or a pod has the condition `TerminationTarget` with any other "
    "reason",
    Cause.UNCHARGED,
    Delay.PAUSE,
)
ENDED_BY_NODE: Final = Ending(
    "EndedByNode",
    "pod reason `Shutdown`, `Terminated`, `NodeShutdown`, `NodeLost`, `Preempting`, `Preempted`",
    Cause.PREEMPTION,
    Delay.STARTED,
)
EVICTED_FOR_OWN_USAGE: Final = Ending(
    "EvictedForOwnUsage",
    "pod reason `Evicted` without a disruption: its own storage or memory limit",
    Cause.FAILURE,
    Delay.BACKOFF,
)
REFUSED_BY_NODE: Final = Ending(
    "RefusedByNode",
    "pod reason `UnexpectedAdmissionError`, `OutOf…`, `NodeAffinity`, `TopologyAffinityError`",
    Cause.INFRASTRUCTURE,
    Delay.REPAIR,
    doubts_pools=True,
)
NODE_LOST: Final = Ending(
    "NodeLost",
    "the node is gone or another one has its name; or the container was killed (137, 143), or lost, around the time at "
    "which the node was not ready or tainted",
    Cause.PREEMPTION,
    Delay.STARTED,
)
POD_DELETED: Final = Ending(
    "PodDeleted", "somebody else deleted the pod, or it vanished without a trace", Cause.PREEMPTION, Delay.STARTED
)
DEVICE_UNHEALTHY: Final = Ending(
    "DeviceUnhealthy",
    "exit code ≠ 0, or another pod of the attempt failed with one, and a device of the pod, such as a chip, is "
    "`Unhealthy` in `allocatedResourcesStatus`",
    Cause.INFRASTRUCTURE,
    Delay.REPAIR,
    outranked=True,
    doubts_pools=True,
)
TPU_UNAVAILABLE: Final = Ending(
    "TPUUnavailable",
    "exit code ≠ 0 and the last lines say that the TPU could not be opened",
    Cause.INFRASTRUCTURE,
    Delay.REPAIR,
    outranked=True,
    doubts_pools=True,
)
RAY_NODE_LOST: Final = Ending(
    "RayNodeLost",
    "the entrypoint of a Ray job failed with an error of Ray's own that says that a machine was taken",
    Cause.PREEMPTION,
    Delay.STARTED,
    outranked=True,
)
FINAL_EXIT_CODE: Final = Ending(
    "FinalExitCode",
    "exit code listed in `retries.onExitCodes.fail`",
    Cause.FAILURE,
    Delay.BACKOFF,
    outranked=True,
    final=True,
)
PREEMPTION_EXIT_CODE: Final = Ending(
    "PreemptionExitCode",
    "exit code listed in `retries.onExitCodes.preemption`",
    Cause.PREEMPTION,
    Delay.STARTED,
    outranked=True,
)
IGNORED_EXIT_CODE: Final = Ending(
    "IgnoredExitCode", "exit code listed in `retries.onExitCodes.ignore`", Cause.UNCHARGED, Delay.PAUSE, outranked=True
)
EXIT_CODE: Final = Ending("ExitCode", "any other exit code ≠ 0", Cause.FAILURE, Delay.BACKOFF, outranked=True)
WORKSPACE_SYMLINK: Final = Ending(
    "WorkspaceSymlink",
    "a symbolic link is in the place of a directory of `workspace` or `output`",
    Cause.FAILURE,
    Delay.BACKOFF,
    final=True,
    never_started=True,
)
WORKSPACE_UNUSABLE: Final = Ending(
    "WorkspaceUnusable",
    "a directory of `workspace` or `output` is missing, or the user of the pod cannot make it or write to it. "
    "`retries.maxStartFailures` such attempts in a row end the job",
    Cause.FAILURE,
    Delay.BACKOFF,
    never_started=True,
)
UNEXPECTED_OUTCOME: Final = Ending(
    "UnexpectedOutcome", "the pod failed without a reason or an exit code", Cause.FAILURE, Delay.BACKOFF, outranked=True
)

ENDINGS: Final = {ending.reason: ending for ending in tuple(vars().values()) if isinstance(ending, Ending)}
"""Every ending above, by its reason."""
OF_ALL_HOSTS: Final = tuple(ending for ending in ENDINGS.values() if ending.of_all_hosts)
"""The endings that have evidence without a rule for one pod."""
_UNKNOWN: Final = Ending("", "", Cause.UNCHARGED, Delay.NONE)


def ending_of(attempt: Attempt | None) -> Ending:
    """The row of an ended attempt. No attempt, or an unknown reason, gives a row without consequences."""
    return ENDINGS.get(attempt.reason or "", _UNKNOWN) if attempt is not None else _UNKNOWN


def tries(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts that count as one."""
    return [attempt for attempt in attempts if ending_of(attempt).a_try]
