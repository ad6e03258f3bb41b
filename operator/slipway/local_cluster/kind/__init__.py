"""Clusters whose nodes are containers of a Docker engine, made by kind (Kubernetes in Docker)."""

from slipway.local_cluster.kind.cluster import KindCluster
from slipway.local_cluster.kind.provider import KindProvider

__all__ = ["KindCluster", "KindProvider"]
