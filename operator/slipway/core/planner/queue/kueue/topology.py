"""Placement by a topology of Kueue: each slice in one node pool, its hosts in the order of their ranks.

Where the flavors of a queue have a topology, Kueue chooses the nodes. Each pod is gated until it is told its own.
"""

from dataclasses import replace
from typing import Final

from slipway.api import names
from slipway.core.manifests.additions import PodAdditions
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod
from slipway.core.model.workload import Workload, workload_name
from slipway.core.planner.lifecycle.attempts import end_at_once
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import STOPPED_BY_QUEUE

GATE: Final = "kueue.x-k8s.io/topology"
_SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_ANYWHERE: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
_POD_SET: Final = "kueue.x-k8s.io/podset"


def request(draft: Draft, slices: int, *, head: bool = False) -> Body:
    """What a podSet asks of the topology: slices of several hosts in one node pool each, all other pods anywhere."""
    if head or not draft.hardware.own_pool:
        return {"unconstrained": True}
    return {
        "podIndexLabel": names.LABEL_HOST,
        "subGroupIndexLabel": names.LABEL_SLICE,
        "subGroupCount": slices,
        "podSetSliceRequiredTopology": draft.snapshot.settings.topology_key,
        "podSetSliceSize": draft.resolved.hosts,
    }


def placed(draft: Draft, known: Workload, added: PodAdditions, pod_set: str, *, head: bool = False) -> PodAdditions:
    """What the pods of a podSet need so that Kueue tells each its node."""
    asked = request(draft, draft.granted, head=head)
    words = {_ANYWHERE: "true"}
    if "podSetSliceSize" in asked:
        level, size = asked["podSetSliceRequiredTopology"], asked["podSetSliceSize"]
        words = {_SLICE_LEVEL: str(level), _SLICE_SIZE: str(size)}
    annotations = {**added.annotations, names.QUEUE_WORKLOAD: known.metadata.name, **words}
    return replace(added, labels={**added.labels, _POD_SET: pod_set}, annotations=annotations, gates=(GATE,))


def leave(draft: Draft) -> None:
    """End the attempt of a job that has left its queue and whose pods wait for Kueue to tell them their nodes."""
    gated = sum(_is_gated(draft, pod) for pod in draft.seen.live.values())
    if gated and not (draft.seen.evidence or draft.spec.suspend or draft.spec.cancel):
        why = "the job is in no queue any more" if draft.job.queue is None else "Kueue is not installed any more"
        message = f"{gated} pod(s) wait for a node from Kueue, and {why}"
        end_at_once(draft, STOPPED_BY_QUEUE, message)


def _is_gated(draft: Draft, pod: Pod) -> bool:
    """Whether Slipway has gated a pod, and not Kueue, which may take the pod for a job of its own."""
    ours = pod.metadata.annotations.workload == workload_name(draft.job.name)
    return ours and any(gate.name == GATE for gate in pod.spec.scheduling_gates)
