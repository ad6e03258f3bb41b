"""The configuration that kind gets: one container for each node, labelled and tainted as a cloud's."""

from __future__ import annotations

import json
from typing import Any

from slipway.devcluster.spec import ClusterSpec, NodePlan


def of(spec: ClusterSpec) -> dict[str, Any]:
    """Return kind's Cluster: a control plane, then the real nodes of a cluster in their order."""
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane"}, *map(_worker, spec.nodes("real"))],
        "kubeadmConfigPatches": [_kubelet()],
    }


def _kubelet() -> str:
    # The Node object should say soon how many chips are healthy, and old machines have control groups of version 1.
    settings = {"nodeStatusUpdateFrequency": "1s", "failCgroupV1": False}
    return json.dumps({"kind": "KubeletConfiguration", **settings})


def _worker(plan: NodePlan) -> dict[str, Any]:
    # kind names the containers itself, but the kubelet inside takes any name.
    join = {"kind": "JoinConfiguration", "nodeRegistration": {"name": plan.name, "taints": plan.taints}}
    return {"role": "worker", "labels": plan.labels, "kubeadmConfigPatches": [json.dumps(join)]}


def containers(spec: ClusterSpec) -> dict[str, str]:
    """Return the container of each node, as kind names and numbers them."""
    plans = spec.nodes("real")
    return {plan.name: f"{spec.name}-worker{index + 1 if index else ''}" for index, plan in enumerate(plans)}


def control_plane(spec: ClusterSpec) -> str:
    """Return the container of the control plane."""
    return f"{spec.name}-control-plane"
