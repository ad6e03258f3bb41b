"""Access to the API server of a cluster that kind made."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from slipway.devcluster.state import ClusterState


def keep(state: ClusterState) -> str:
    """Write the certificates of kind's kubeconfig to files of their own; returns the URL of the API server."""
    config: Any = yaml.safe_load(state.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    folder = state.authority.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    _write(state.authority, cluster["certificate-authority-data"])
    _write(folder / "admin.crt", user["client-certificate-data"])
    _write(folder / "admin.key", user["client-key-data"])
    return str(cluster["server"])


def _write(path: Path, data: str) -> None:
    path.touch(mode=0o600)
    path.write_bytes(base64.b64decode(data))
