"""Placement by a topology of Kueue: each slice in one node pool, its hosts in the order of their ranks.

Where the flavors of a queue have a topology, Kueue chooses the nodes. Each pod is gated until it is told its own.
"""

from dataclasses import replace
from typing import Final

from slipway.api import names
from slipway.planner.actions import Body, PodAdditions
from slipway.planner.draft import Draft
from slipway.planner.kueue_objects import Workload

GATE: Final = "kueue.x-k8s.io/topology"
_SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_ANYWHERE: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
_POD_SET: Final = "kueue.x-k8s.io/podset"
_WORKLOAD: Final = "kueue.x-k8s.io/workload"


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
    annotations = {**added.annotations, _WORKLOAD: known.metadata.name, **words}
    return replace(added, labels={**added.labels, _POD_SET: pod_set}, annotations=annotations, gates=(GATE,))
