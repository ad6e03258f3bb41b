"""The control plane of the oldest Kubernetes that Slipway supports."""

from pathlib import Path
from typing import Final

from slipway.local_cluster.components import COMPONENTS, GoModule, kubernetes

MODULE: Final = GoModule(Path(__file__).parent / "gomod", "1.34.4")
SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
OLDEST: Final = COMPONENTS | {name: kubernetes(name, module=MODULE) for name in SERVERS}
