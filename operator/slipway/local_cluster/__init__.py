"""A Kubernetes with TPU node pools on one machine, for people and tests without TPUs."""

from slipway.local_cluster.cluster import NativeCluster
from slipway.local_cluster.errors import LocalClusterError
from slipway.local_cluster.images import BUSYBOX_IMAGE
from slipway.local_cluster.interface import Cluster, Provider
from slipway.local_cluster.kind import KindCluster, KindProvider
from slipway.local_cluster.provider import NativeProvider
from slipway.local_cluster.python_image import build_python_image
from slipway.local_cluster.spec import ClusterSpec, Pool

__all__ = [
    "BUSYBOX_IMAGE",
    "Cluster",
    "ClusterSpec",
    "KindCluster",
    "KindProvider",
    "LocalClusterError",
    "NativeCluster",
    "NativeProvider",
    "Pool",
    "Provider",
    "build_python_image",
]
