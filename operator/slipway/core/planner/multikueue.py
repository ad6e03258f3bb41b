"""A job that another cluster runs: MultiKueue copies it there, and the status of the copy back.

Here the job has a Workload and no pods. MultiKueue writes its status while the queue admits the job, and Slipway does
before that and after a request to stop.
"""

from typing import Final

from slipway.api import names
from slipway.api.status import SliceJobStatus
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.workload import FINISHED
from slipway.core.planner.lifecycle import requests
from slipway.core.planner.queue.kueue import admission
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.status import conditions

_NO_QUEUE: Final = InvalidSpec(
    "QueueMissing",
    f"spec.managedBy {names.MULTIKUEUE!r}: no label {names.QUEUE_LABEL} names the LocalQueue that the job waits in: "
    "add it, or create the job without managedBy",
)


def follow(draft: Draft) -> None:
    """Keep the job in its queue until it has ended in the other cluster.

    Raises:
        InvalidSpec: when the job can be in no queue, is dispatched nowhere and is not cancelled.
    """
    if draft.job.queue is None and not (draft.spec.cancel or draft.status.final):
        raise _NO_QUEUE
    # The other cluster may have other defaults, and accepts the spec by them.
    draft.problem = None
    stopped = draft.spec.cancel or draft.spec.suspend or draft.status.final
    workload = draft.snapshot.kueue.workload
    mine = workload if workload is not None and admission.is_ours(draft, workload) else None
    if mine is None and draft.snapshot.kueue.unseen and draft.status.attempt is not None and not stopped:
        # The copy may run: whether the queue admits the job is known once the Workloads are listed.
        return
    ended = mine is not None and mine.holds(FINISHED)
    if ended and not (draft.status.final or draft.spec.cancel):
        # MultiKueue has written the last status before; the watch of jobs has yet to show it.
        return
    copied = draft.status.final or (mine is not None and mine.admitted)
    if not draft.status.final:
        requests.stop_on_request(draft)
    if not (copied or draft.status.final or draft.spec.suspend):
        # A copy that was dispatched before is gone, and the next one begins anew.
        draft.status = SliceJobStatus()
        draft.look()
        admission.stand(draft)
    admission.settle(draft)
    requests.expire(draft)
    if not copied or draft.status != draft.job.status:
        conditions.summarise(draft)
