"""The control planes of the oldest Kubernetes that Slipway supports, and of the newest that there is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slipway.devcluster.programs.components import COMPONENTS, Component, GoModule, kubernetes

SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
HERE: Final = Path(__file__).parent


def _with_servers_of(module: GoModule) -> Mapping[str, Component]:
    return COMPONENTS | {name: kubernetes(name, module=module) for name in SERVERS}


OTHERS: Final = {
    "oldest": _with_servers_of(GoModule(HERE / "oldest", "1.34.4")),
    "newest": _with_servers_of(GoModule(HERE / "newest", "1.37.2")),
}
"""The programs of a cluster by which Kubernetes it is."""
