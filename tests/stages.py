"""Where a test runs, beside which others, and whether the gate has it.

A test is in the gate unless it, or its module, is marked `thorough`. Its stage follows from the fixtures that it uses.
What makes a cluster or an engine by itself says so with a mark: `stage("nodes")`.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, Final

import pytest

from tests.clusters import fixtures_of


class Stage(StrEnum):
    """Where a test runs. `make test-all PART=…` runs one of them."""

    PURE = "pure"
    """It needs processors, files of its own and 127.0.0.1, and runs on all processors beside others of its kind."""
    CONTROL_PLANE = "control-plane"
    """It uses a real API server, with nodes that are simulated."""
    CLUSTERS = "clusters"
    """It makes simulated clusters by itself."""
    KUEUE = "kueue"
    """It uses a real API server and a real Kueue."""
    NODES = "nodes"
    """It uses nodes with kubelets and containers."""
    ENGINES = "engines"
    """It uses a Docker engine."""
    VERSIONS = "versions"
    """It uses other versions of Kubernetes, or of Slipway."""
    MACHINE = "machine"
    """It looks at the whole machine, and runs alone, last."""


_NEEDS: Final[dict[str, Stage]] = {
    "control_plane": Stage.CONTROL_PLANE,
    "own_cluster": Stage.CLUSTERS,
    "kueue_cluster": Stage.KUEUE,
    "real_nodes": Stage.NODES,
    "own_nodes": Stage.NODES,
    "dockerd": Stage.ENGINES,
    "shared_engine": Stage.ENGINES,
    "other_control_plane": Stage.VERSIONS,
}
"""By fixtures; of several the last counts."""
PHASES: Final[tuple[tuple[tuple[Stage, ...], ...], ...]] = (
    ((Stage.PURE,),),
    ((Stage.NODES,), (Stage.ENGINES, Stage.CLUSTERS, Stage.KUEUE, Stage.VERSIONS), (Stage.CONTROL_PLANE,)),
    ((Stage.MACHINE,),),
)
"""What follows each other: which processes of pytest run beside each other, and which stages share one."""


def stage_of(item: pytest.Item) -> Stage:
    """Where a test runs."""
    if (mark := item.get_closest_marker("stage")) is not None:
        return Stage(mark.args[0])
    used = fixtures_of(item)
    return next((stage for name, stage in reversed(_NEEDS.items()) if name in used), Stage.PURE)


def thorough_but(gate: Collection[str], cases: Iterable[str]) -> list[Any]:
    """The names of cases as parameters: the gate runs these, and `make test-all` all of them."""
    return [case if case in gate else pytest.param(case, marks=pytest.mark.thorough) for case in cases]


def is_in_the_gate(item: pytest.Item) -> bool:
    """Whether `make test` runs it; `make test-all` runs every test."""
    return item.get_closest_marker("thorough") is None
