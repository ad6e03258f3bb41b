"""The configuration files of a real node: containerd, its network plugin and the kubelet."""

from __future__ import annotations

import json
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.native import pki
from slipway.devcluster.native.addresses import Addresses
from slipway.devcluster.spec import NodePlan
from slipway.devcluster.state import ClusterState

INSIDE = paths.INSIDE_NODE
BROKEN = "broken"
"""Folder below it with a file for each unhealthy chip."""
SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "slipway.local/pause:1"

CONTAINERD = f"""\
version = 2
root = "{INSIDE}/disk/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE the kernel refuses scores below our own, and every sandbox would fail to start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{INSIDE}/cni"
"""


def folder(state: ClusterState, node: str) -> Path:
    """Return the folder of one node."""
    return state.folder / "nodes" / node


def write(state: ClusterState, plan: NodePlan, addresses: Addresses, cgroup: str) -> None:
    """Write all files of a node; its certificate is kept when it comes back after a preemption."""
    place = folder(state, plan.name)
    for part in ("cni", BROKEN):
        (place / part).mkdir(parents=True, exist_ok=True)
    (place / "containerd.toml").write_text(CONTAINERD)
    (place / "cni" / "10-slipway.conflist").write_text(json.dumps(_cni(addresses.pods(plan.index))))
    (place / "resolv.conf").write_text("")
    (place / "kubelet.json").write_text(json.dumps(_kubelet(state, plan, addresses, cgroup), indent=1))
    (place / "ca.crt").write_bytes(state.authority.read_bytes())
    secrets, name = state.folder / "pki", f"node-{plan.name}"
    if not (secrets / f"{name}.crt").exists():
        subject = f"/O=system:nodes/CN=system:node:{plan.name}"
        pki.issue(secrets, name, subject, [plan.name, addresses.node(plan.index)])
    for suffix in ("crt", "key"):
        target = place / f"kubelet.{suffix}"
        target.touch(mode=0o600)
        target.write_bytes((secrets / f"{name}.{suffix}").read_bytes())
    user = {"client-certificate": f"{INSIDE}/kubelet.crt", "client-key": f"{INSIDE}/kubelet.key"}
    pki.kubeconfig(place / "kubeconfig", state.server, secrets, user, state.spec.name)


def _cni(pods: str) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "0.4.0", "name": "slipway", "plugins": [bridge, ports]}


def _kubelet(state: ClusterState, plan: NodePlan, addresses: Addresses, cgroup: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.node(plan.index),
        "port": 10250,
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{INSIDE}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{INSIDE}/kubelet.crt",
        "tlsPrivateKeyFile": f"{INSIDE}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        # All nodes share one machine: none may evict or limit for what the others use.
        "enforceNodeAllocatable": [],
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [addresses.router],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{INSIDE}/resolv.conf",
        "registerWithTaints": plan.taints,
        # The Node object should say soon how many chips are healthy; otherwise it is written every five seconds.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5s",
        "nodeLeaseDurationSeconds": state.spec.lease_seconds,
        "serializeImagePulls": False,
        "maxPods": 110,
    }


def kubelet_command(state: ClusterState, plan: NodePlan, addresses: Addresses) -> list[str]:
    """Return the kubelet's command line, as it runs inside the node."""
    labels = ",".join(f"{key}={value}" for key, value in plan.labels.items())
    return [
        str(state.binaries["kubelet"]),
        f"--config={INSIDE}/kubelet.json",
        f"--kubeconfig={INSIDE}/kubeconfig",
        f"--root-dir={INSIDE}/disk/kubelet",
        f"--hostname-override={plan.name}",
        f"--node-ip={addresses.node(plan.index)}",
        f"--node-labels={labels}",
    ]
