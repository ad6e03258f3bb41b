"""Clusters by their names, whichever provider made them."""

from __future__ import annotations

from typing import Literal

from slipway.local_cluster import state
from slipway.local_cluster.cluster import NativeCluster
from slipway.local_cluster.interface import Cluster, Provider
from slipway.local_cluster.kind import KindCluster, KindProvider
from slipway.local_cluster.kind.provider import CONFIGURATION
from slipway.local_cluster.progress import Progress
from slipway.local_cluster.provider import NativeProvider

ProviderName = Literal["native", "kind"]


def provider(name: ProviderName) -> Provider:
    """Return the provider of that name."""
    return KindProvider() if name == "kind" else NativeProvider()


def find(name: str, progress: Progress | None = None) -> Cluster:
    """Return a cluster that exists.

    Raises:
        ClusterNotFound: when there is none; the message names those that there are.
    """
    found = state.load(name)
    if found is None:
        raise state.not_found(name)
    return KindCluster(name, progress) if found.provider == "kind" else NativeCluster(name, progress)


def down(name: str, progress: Progress | None = None) -> bool:
    """Remove a cluster and all that belongs to it, also one whose record cannot be read; False when there was none."""
    made_by_kind = (state.cluster_dir(name) / CONFIGURATION).exists()
    return provider("kind" if made_by_kind else "native").down(name, progress)
