"""Certificates and tokens of a cluster, made with the openssl program (elliptic curve: quick)."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.programs.packages import find_tool

# Who gets a token: name -> (user, group). The users are those that Kubernetes' own RBAC roles expect.
IDENTITIES = {
    "admin": ("slipway-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "coredns": ("slipway-coredns", "system:masters"),
    "kwok": ("slipway-kwok", "system:masters"),
}
FRONT_PROXY = "front-proxy-client"
"""The API server's own name where it passes a request on to another one, with the user that it was asked by."""

ETCD_CLIENT = "apiserver-etcd-client"
"""The API server's own name where it asks etcd."""


def create(folder: Path, server_names: list[str]) -> None:
    """Make the authorities, the certificates of the API server and of etcd, the service account key and all tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    _create_authority(folder, "ca", "/CN=slipway-local-cluster")
    issue(folder, "apiserver", "/CN=kube-apiserver", server_names)
    issue(folder, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", [])
    # The API server lets a client with a certificate of this authority act as any user: it signs nothing else.
    _create_authority(folder, "front-proxy-ca", "/CN=front-proxy-ca")
    issue(folder, FRONT_PROXY, f"/CN={FRONT_PROXY}", [], authority="front-proxy-ca")
    # Who may ask etcd may read every Secret and become anybody: on this machine that is the API server alone.
    _create_authority(folder, "etcd-ca", "/CN=etcd-ca")
    issue(folder, "etcd", "/CN=etcd", ["127.0.0.1"], authority="etcd-ca")
    issue(folder, ETCD_CLIENT, f"/CN={ETCD_CLIENT}", [], authority="etcd-ca")
    _openssl(["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(folder / "sa.key")])
    _openssl(["ec", "-in", str(folder / "sa.key"), "-pubout", "-out", str(folder / "sa.pub")])
    rows = []
    for name, (user, group) in IDENTITIES.items():
        token = secrets.token_urlsafe(24)
        (folder / f"{name}.token").write_text(token)
        rows.append(",".join([token, user, user] + ([f'"{group}"'] if group else [])))
    (folder / "tokens.csv").write_text("\n".join(rows) + "\n")


def _create_authority(folder: Path, name: str, subject: str) -> None:
    _openssl(
        ["req", "-x509", *_new_key(folder / f"{name}.key"), "-days", "3650", "-subj", subject,
         "-addext", "basicConstraints=critical,CA:TRUE",
         "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
         "-out", str(folder / f"{name}.crt")]
    )  # fmt: skip


def issue(folder: Path, name: str, subject: str, hosts: list[str], authority: str = "ca") -> None:
    """Issue a certificate for server and client use: NAME.crt and NAME.key."""
    names = ",".join(f"{'IP' if host[0].isdigit() else 'DNS'}:{host}" for host in hosts)
    extensions = ["-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=CA:FALSE"]
    extensions += ["-addext", f"subjectAltName={names}"] if names else []
    request = folder / f"{name}.csr"
    _openssl(["req", "-new", *_new_key(folder / f"{name}.key"), "-subj", subject, *extensions, "-out", str(request)])
    _openssl(
        ["x509", "-req", "-in", str(request),
         "-CA", str(folder / f"{authority}.crt"), "-CAkey", str(folder / f"{authority}.key"),
         "-set_serial", str(secrets.randbits(96)), "-days", "3650", "-copy_extensions", "copyall",
         "-out", str(folder / f"{name}.crt")]
    )  # fmt: skip
    request.unlink()


def kubeconfig(path: Path, server: str, folder: Path, user: dict[str, str], cluster: str) -> None:
    """Write a kubeconfig that checks the server's certificate. JSON is YAML, and needs no quoting rules."""

    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    context = f"slipway-{cluster}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _new_key(path: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(path)]


def _openssl(arguments: list[str]) -> None:
    program = find_tool("openssl")
    if program is None:
        raise LocalClusterError("This machine lacks openssl.", hint="Install the package `openssl`.")
    result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LocalClusterError(f"openssl {arguments[0]} failed: {result.stderr.strip()[-300:]}")
