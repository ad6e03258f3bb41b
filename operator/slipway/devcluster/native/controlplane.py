"""The control plane: etcd, API server, controller manager and scheduler as plain processes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.kubeapi import KubeApi, client
from slipway.devcluster.native import pki
from slipway.devcluster.native.addresses import Addresses, free_ports
from slipway.devcluster.processes import PATIENCE
from slipway.devcluster.state import ClusterState

Start = Callable[[str, list[str]], None]


def server_names(addresses: Addresses, host: str) -> list[str]:
    """Return every name and address under which the API server is called."""
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    return [*names, "localhost", "127.0.0.1", host, addresses.kubernetes_service]


def prepare(state: ClusterState, addresses: Addresses, host: str) -> None:
    """Choose ports, make certificates and write the kubeconfigs."""
    etcd, peer, server = free_ports(3)
    state.ports = {"etcd": etcd, "peer": peer}
    # On the cluster's own link nobody else listens, so the usual port is free there.
    state.server = f"https://{host}:{server if host == '127.0.0.1' else 6443}"
    folder = state.folder / "pki"
    pki.create(folder, server_names(addresses, host))
    for name in pki.IDENTITIES:
        path = state.kubeconfig if name == "admin" else folder / f"{name}.kubeconfig"
        token = (folder / f"{name}.token").read_text()
        pki.kubeconfig(path, state.server, folder, {"token": token}, state.spec.name)


def etcd_command(state: ClusterState) -> list[str]:
    """Return the command line of etcd."""
    folder = state.folder / "pki"
    client, peer = (f"https://127.0.0.1:{state.ports[name]}" for name in ("etcd", "peer"))
    return [
        str(state.binaries["etcd"]),
        f"--data-dir={state.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *_certificate_flags(folder),
        *(flag.replace("--", "--peer-", 1) for flag in _certificate_flags(folder)),
        # The data need not survive a power cut: `down` and `up` give a new cluster in seconds.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def _certificate_flags(folder: Path) -> list[str]:
    """With which etcd answers its clients, and nobody without a certificate; those for its peers have a prefix."""
    return [
        f"--cert-file={folder / 'etcd.crt'}",
        f"--key-file={folder / 'etcd.key'}",
        f"--trusted-ca-file={folder / 'etcd-ca.crt'}",
        "--client-cert-auth",
    ]


def api_server_command(state: ClusterState, addresses: Addresses) -> list[str]:
    """Return the command line of the API server."""
    folder = state.folder / "pki"
    host, _, port = state.server.removeprefix("https://").rpartition(":")
    return [
        str(state.binaries["kube-apiserver"]),
        f"--etcd-servers=https://127.0.0.1:{state.ports['etcd']}",
        f"--etcd-cafile={folder / 'etcd-ca.crt'}",
        f"--etcd-certfile={folder / f'{pki.ETCD_CLIENT}.crt'}",
        f"--etcd-keyfile={folder / f'{pki.ETCD_CLIENT}.key'}",
        f"--bind-address={host}",
        f"--advertise-address={host}",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--kubelet-certificate-authority={folder / 'ca.crt'}",
        f"--kubelet-client-certificate={folder / 'kubelet-client.crt'}",
        f"--kubelet-client-key={folder / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        *_front_proxy_flags(folder),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-cluster-ip-range={addresses.services}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        # A stopped server should be gone at once: tests take it away and bring it back.
        "--shutdown-delay-duration=0s",
        # Load tests on a laptop should measure the caller, not this limit.
        "--max-requests-inflight=1600",
        "--max-mutating-requests-inflight=800",
        # A loopback address can be in no Endpoints, and from 1.37 on the API server does not start over it.
        *(["--endpoint-reconciler-type=none"] if ip_address(host).is_loopback else []),
    ]


def _front_proxy_flags(folder: Path) -> list[str]:
    """By which the API server tells the server of an APIService on whose behalf it asks, as kubeadm has them."""
    return [
        f"--requestheader-client-ca-file={folder / 'front-proxy-ca.crt'}",
        f"--requestheader-allowed-names={pki.FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder / f'{pki.FRONT_PROXY}.crt'}",
        f"--proxy-client-key-file={folder / f'{pki.FRONT_PROXY}.key'}",
    ]


def controller_manager_command(state: ClusterState, addresses: Addresses) -> list[str]:
    """Return the command line of the controller manager."""
    folder = state.folder / "pki"
    return [
        str(state.binaries["kube-controller-manager"]),
        f"--kubeconfig={folder / 'kube-controller-manager.kubeconfig'}",
        f"--service-account-private-key-file={folder / 'sa.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        "--use-service-account-credentials",
        "--controllers=*",
        "--leader-elect=false",
        "--secure-port=0",
        f"--node-monitor-grace-period={state.spec.grace_seconds}s",
        "--node-monitor-period=2s",
        # One preempted slice of many nodes must not look like a zone outage, which would slow evictions down.
        "--unhealthy-zone-threshold=1.0",
        "--node-eviction-rate=10",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler_command(state: ClusterState) -> list[str]:
    """Return the command line of the scheduler."""
    return [
        str(state.binaries["kube-scheduler"]),
        f"--kubeconfig={state.folder / 'pki' / 'kube-scheduler.kubeconfig'}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def start(state: ClusterState, addresses: Addresses, run: Start) -> KubeApi:
    """Start all four and return when objects can be created."""
    run("etcd", etcd_command(state))
    # An API server that finds no etcd waits a whole second before it asks again.
    wait(state, ["etcd"], lambda: _listens(state.ports["etcd"]), "listen")
    run("kube-apiserver", api_server_command(state, addresses))
    api = client(state)
    await_ready(state, api)
    # Started earlier they would only ask in vain, and take the processor from the API server's start.
    run("kube-controller-manager", controller_manager_command(state, addresses))
    run("kube-scheduler", scheduler_command(state))
    manager = ["etcd", "kube-apiserver", "kube-controller-manager"]
    wait(state, manager, lambda: _default_account_exists(api), "make the default service account")
    return api


def await_ready(state: ClusterState, api: KubeApi) -> None:
    """Wait until the API server is ready."""
    wait(state, ["etcd", "kube-apiserver"], api.ready, "become ready")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _default_account_exists(api: KubeApi) -> bool:
    # Pods cannot be created before it exists.
    return api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None


def wait(state: ClusterState, names: list[str], condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition that the last of some processes brings about; a death or silence is an error."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for name in names:
            if not state.processes[name].alive():
                raise LocalClusterError(f"{name} ended early; so {names[-1]} did not {what}.", log=state.log(name))
        if time.monotonic() > deadline:
            raise LocalClusterError(f"{names[-1]} did not {what} within {PATIENCE:.0f} s.", log=state.log(names[-1]))
        time.sleep(0.05)
