"""Why a job can be in no queue, whatever Kueue says of it."""

from slipway.api import names
from slipway.planner.acceptance import InvalidSpec
from slipway.planner.draft import Draft
from slipway.planner.redact import printable


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
    if not job.queue:
        return InvalidSpec("QueueNotSupported", f"{label}: name a LocalQueue, or remove the label")
    known = kueue.workload
    has_it = known is not None and known.spec.priority_class == job.queue_priority
    if job.queue_priority and not has_it and job.queue_priority not in kueue.priorities:
        there = ", ".join(sorted(kueue.priorities)) or "none"
        return InvalidSpec(
            "PriorityClassNotFound",
            f"metadata.labels[{names.QUEUE_PRIORITY_LABEL}] {printable(job.queue_priority)!r}: there is no such "
            f"WorkloadPriorityClass; there are: {there}",
        )
    return None
