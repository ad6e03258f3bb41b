"""What tests ask of an API server, they ask as whom the kubeconfig says: by a token, or as kind does, a certificate."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.devcluster import NativeCluster
from slipway.devcluster.native import pki
from tests.kubectl import Kubectl


def by_certificate(folder: Path) -> dict[str, str]:
    """As in the kubeconfig of kind: of the API server itself, when it asks a kubelet."""
    names = {"client-certificate-data": "kubelet-client.crt", "client-key-data": "kubelet-client.key"}
    return {field: b64encode((folder / name).read_bytes()).decode() for field, name in names.items()}


def by_token(folder: Path) -> dict[str, str]:
    return {"token": (folder / "admin.token").read_text()}


@pytest.mark.parametrize("user", [by_certificate, by_token])
def test_a_kubeconfig_says_who_asks(
    control_plane: NativeCluster, tmp_path: Path, user: Callable[[Path], dict[str, str]]
) -> None:
    folder, file = control_plane.state.folder / "pki", tmp_path / "kubeconfig"
    pki.kubeconfig(file, control_plane.server, folder, user(folder), "test")
    kubectl = Kubectl(str(control_plane.state.binaries["kubectl"]), file, "default")
    assert "cpu-0" in {one["metadata"]["name"] for one in kubectl.get("nodes")["items"]}
