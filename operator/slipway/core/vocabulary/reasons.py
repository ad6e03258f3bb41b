"""Why a job waits, in one word each: the reasons that more than one room gives or reads."""

from typing import Final

from slipway.core.vocabulary import endings

# Of nodes.
UNSCHEDULABLE: Final = "Unschedulable"
NO_SUCH_NODES: Final = "NoSuchNodes"
NO_SUCH_LABELS: Final = "SelectorMatchesNothing"
TOO_FEW: Final = "TooFewNodes"
HELD: Final = "NodesHeld"
TOO_LOW: Final = "PriorityTooLow"
COMING: Final = "NodesComing"
GATED: Final = "SchedulingGated"
GATED_BY_KUEUE: Final = "GatedByKueue"

# Of the API server.
POD_REJECTED: Final = "PodRejected"
WORKLOAD_REJECTED: Final = "WorkloadRejected"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
WEBHOOK_UNAVAILABLE: Final = "WebhookUnavailable"
NAME_TAKEN: Final = "NameTaken"

# Of a queue.
ENTERING: Final = "EnteringQueue"
QUEUED: Final = "Queued"
NO_QUOTA: Final = "WaitingForQuota"
NEVER_FITS: Final = "ExceedsMaxQuota"
PREEMPTS: Final = "WaitingForPreemptedWorkloads"
CHECKS: Final = "UnsatisfiedAdmissionChecks"
DEACTIVATED: Final = "Deactivated"
DELETED_WORKLOAD: Final = "WorkloadDeleted"
FINISHED_WORKLOAD: Final = "WorkloadFinished"
NOT_USABLE: Final = "AdmissionNotUsable"

# Of pods that have nodes.
PENDING: Final = "Pending"
IMAGE_UNAVAILABLE: Final = endings.IMAGE_UNAVAILABLE.reason
MISSING_OBJECTS: Final = endings.MISSING_OBJECTS.reason
WAIT_FOR_USER: Final = frozenset({MISSING_OBJECTS, "VolumeNotBound"})
"""Reasons that only an object of the user's can remove: nothing is charged, and no time counts."""

# Of the attempts before.
BACKOFF: Final = "Backoff"
PODS_DELETED: Final = "PodsDeleted"
WAITING_FOR_OLD: Final = "WaitingForOldPods"
