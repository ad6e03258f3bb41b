"""Removing all of a cluster: also when its making was interrupted, its records are lost, or the machine restarted."""

from __future__ import annotations

import os

from slipway.devcluster import processes, state
from slipway.devcluster.native import cgroups, network, nodes
from slipway.devcluster.spec import ClusterSpec
from slipway.devcluster.state import ClusterState


def remove(name: str) -> None:
    """Stop the cluster, then delete its files. Harmless to repeat."""
    stop(name)
    state.remove(name)


def stop(name: str) -> None:
    """End the cluster's processes and remove its links and control groups; its logs stay."""
    # The folder alone leads to all that the cluster has.
    found = state.readable(name)
    records = list(found.processes.values()) if found else []
    stray = processes.marked(state.cluster_dir(name))
    processes.end({record.pid: record for record in [*stray, *records]}.values())
    if os.geteuid() == 0:
        # The namespaces, and with them mounts and most links, went with the processes that held them.
        cluster = found or ClusterState(spec=ClusterSpec(name=name), number=0)
        network.remove_machine_link(nodes.link_name(cluster))
        for group in cgroups.matching(nodes.cgroup_prefix(cluster)):
            cgroups.remove(group)
