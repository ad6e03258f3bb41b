"""The fake chips of real nodes: a device plugin tells each kubelet which there are and which are healthy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.native import node_files
from slipway.devcluster.spec import TPU_RESOURCE, NodePlan
from slipway.devcluster.state import ClusterState

PLUGIN = "slipway-chips"


def command(state: ClusterState, plan: NodePlan) -> list[str]:
    """Return the device plugin's command line, as it runs inside the node."""
    return [str(state.binaries[PLUGIN]), TPU_RESOURCE, str(plan.tpus), f"{node_files.INSIDE}/{node_files.BROKEN}"]


def check(plan: NodePlan, numbers: Sequence[int]) -> None:
    """Refuse to break what a node does not have."""
    if plan.kind == "simulated" or not plan.tpus:
        what = "is simulated and has no device plugin" if plan.tpus else "has no chips"
        raise LocalClusterError(f"The node {plan.name} {what}.", hint="Only chips of real TPU nodes can be broken.")
    if unknown := [number for number in numbers if number not in range(plan.tpus)]:
        raise LocalClusterError(f"The node {plan.name} has no chip {unknown[0]}; it has 0 to {plan.tpus - 1}.")


def damage(state: ClusterState, node: str, chips: Iterable[int]) -> None:
    """Make chips of a node unhealthy."""
    for chip in chips:
        _mark(state, node, chip).touch()


def mend(state: ClusterState, node: str) -> None:
    """Make all chips of a node healthy."""
    for chip in broken(state, node):
        _mark(state, node, chip).unlink()


def broken(state: ClusterState, node: str) -> list[int]:
    """Return the numbers of the unhealthy chips of a node."""
    marks = (node_files.folder(state, node) / node_files.BROKEN).glob("chip-*")
    return sorted(int(mark.name.removeprefix("chip-")) for mark in marks)


def _mark(state: ClusterState, node: str, chip: int) -> Path:
    return node_files.folder(state, node) / node_files.BROKEN / f"chip-{chip}"
