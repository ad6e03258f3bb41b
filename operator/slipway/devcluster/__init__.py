"""A Kubernetes with TPU node pools on one machine, for people and tests without TPUs."""

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.images.python_image import build_python_image
from slipway.devcluster.interface import Cluster, Provider
from slipway.devcluster.kind import KindCluster, KindProvider
from slipway.devcluster.native.cluster import NativeCluster
from slipway.devcluster.native.images import BUSYBOX_IMAGE
from slipway.devcluster.native.provider import NativeProvider
from slipway.devcluster.spec import ClusterSpec, Pool

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
