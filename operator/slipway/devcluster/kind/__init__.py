"""Clusters whose nodes are containers of a Docker engine, made by kind (Kubernetes in Docker)."""

from slipway.devcluster.kind.cluster import KindCluster
from slipway.devcluster.kind.provider import KindProvider

__all__ = ["KindCluster", "KindProvider"]
