"""Clusters by their names, whichever provider made them."""

from __future__ import annotations

from typing import Literal

from slipway.devcluster import state
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.interface import Cluster, Provider
from slipway.devcluster.kind import KindCluster, KindProvider
from slipway.devcluster.kind.provider import CONFIGURATION
from slipway.devcluster.native.cluster import NativeCluster
from slipway.devcluster.native.provider import NativeProvider
from slipway.devcluster.progress import StepReporter

ProviderName = Literal["native", "kind"]


def provider(name: ProviderName) -> Provider:
    """Return the provider of that name."""
    return KindProvider() if name == "kind" else NativeProvider()


def find(name: str, progress: StepReporter | None = None) -> Cluster:
    """Return a cluster that is made.

    Raises:
        ClusterNotFound: when there is none; the message names those that there are.
        LocalClusterError: when it is half made, and lacks what a command would use of it.
    """
    found = state.load(name)
    if found is None and not state.cluster_dir(name).is_dir():
        raise state.not_found(name)
    if found is None or found.phase != "running":
        raise LocalClusterError(
            f"The cluster {name!r} is half made: `up` still runs, or did not come to its end.",
            hint=f"Repeat `slipway cluster up {name}`, or remove it with `slipway cluster down {name}`.",
        )
    return KindCluster(name, progress) if found.provider == "kind" else NativeCluster(name, progress)


def down(name: str, progress: StepReporter | None = None) -> bool:
    """Remove a cluster and all that belongs to it, also one whose record cannot be read; False when there was none."""
    made_by_kind = (state.cluster_dir(name) / CONFIGURATION).exists()
    return provider("kind" if made_by_kind else "native").down(name, progress)
