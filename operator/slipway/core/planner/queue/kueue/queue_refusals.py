"""Why a job can be in no queue, whatever Kueue says of it."""

from datetime import timedelta
from typing import Final

from slipway.api import names
from slipway.api.status import ConditionType
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.redact import printable
from slipway.core.model.workload import QUOTA_RESERVED, Workload
from slipway.core.planner.state.draft import Draft

PATIENCE: Final = timedelta(seconds=60)
"""How long a job keeps quota that it cannot use."""


def refusal(draft: Draft) -> InvalidSpec | None:
    """Why the job can be in no queue; None where it can."""
    job, kueue = draft.job, draft.snapshot.kueue
    label = f"metadata.labels[{names.QUEUE_LABEL}] {printable(job.queue or '')!r}"
    if kueue.problem:
        return InvalidSpec("KueueUnreadable", f"{label}: the operator cannot follow the queue: {kueue.problem}")
    if not kueue.version:
        return InvalidSpec(
            "KueueNotInstalled",
            f"{label}: {draft.snapshot.settings.maker} has no Workloads of Kueue: install Kueue, or remove the label",
        )
    if not names.is_dns_subdomain(job.queue):
        return InvalidSpec("QueueNotSupported", f"{label}: name a LocalQueue, or remove the label")
    workload = kueue.workload
    has_it = workload is not None and workload.spec.priority_class == job.queue_priority
    if job.queue_priority and not has_it and job.queue_priority not in kueue.priorities:
        there = ", ".join(sorted(kueue.priorities)) or "none"
        return InvalidSpec(
            "PriorityClassNotFound",
            f"metadata.labels[{names.QUEUE_PRIORITY_LABEL}] {printable(job.queue_priority)!r}: there is no such "
            f"WorkloadPriorityClass; there are: {there}",
        )
    return None


def leaves_for_now(draft: Draft, known: Workload) -> bool:
    """Whether the job wants no quota now. It enters the queue again when it does."""
    return draft.spec.suspend or _cannot_go_on(draft, known)


def _cannot_go_on(draft: Draft, known: Workload) -> bool:
    """Whether quota would lie idle until somebody changes the job, or what it names: no attempt can begin before."""
    if draft.job.elsewhere or draft.job.origin or draft.active is not None or draft.unjudged is not None:
        return False
    if draft.snapshot.kueue.problem or not known.holds(QUOTA_RESERVED):
        return False
    return refusal(draft) is not None or (draft.problem is not None and _has_lasted(draft))


def _has_lasted(draft: Draft) -> bool:
    """Whether what is wrong with the job has been so for a while: a profile is away while it is replaced."""
    accepted = draft.job.status.condition(ConditionType.ACCEPTED)
    if accepted is None or accepted.status != "False":
        return False
    return draft.passed(accepted.last_transition_time + PATIENCE)
