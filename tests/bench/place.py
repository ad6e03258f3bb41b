"""Where everything is measured: a control plane with simulated nodes, and an identity for each system."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from slipway.apiserver.access import load_access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import SlipwayClusterError
from slipway.devcluster import ClusterSpec, NativeCluster, NativeProvider, Pool
from slipway.devcluster.kubeapi import KubeApi
from slipway.devcluster.native import pki
from slipway.devcluster.state import cluster_dir
from tests.places import CRDS
from tests.waiting import START_SECONDS

HERE = Path(__file__).parent
HOME = "bench-system"
"""Namespace of the accounts that the systems run under."""

Profile = Literal["unthrottled", "shipped"]
"""Whether controllers may send what they like, or what they are shipped to send."""


@dataclass
class Place:
    """A running control plane."""

    cluster: NativeCluster
    api: ApiConnection
    folder: Path
    profile: Profile
    beside: dict[str, int] = field(default_factory=dict)
    """Process ids of what a workload has started beside the components."""

    @property
    def audit_log(self) -> Path:
        """Requests of the measured systems."""
        return self.folder / "audit.log"

    @property
    def pids(self) -> dict[str, int]:
        """Process id of every component."""
        return {name: record.pid for name, record in self.cluster.state.processes.items()} | self.beside

    def account(self, name: str) -> Path:
        """Make a service account with all rights and a namespace for a system; returns its kubeconfig.

        All rights for all: what is compared are controllers, not the length of their roles.
        """
        path = self.folder / f"{name}.kubeconfig"
        if path.exists():
            return path
        api = self.fresh_api()
        api.create("/api/v1/namespaces", {"metadata": {"name": f"bench-{name}"}})
        api.create(f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": f"bench-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
        }
        api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        asked = {"spec": {"expirationSeconds": 24 * 3600}}
        answer = api.call("POST", f"/api/v1/namespaces/{HOME}/serviceaccounts/{name}/token", asked)
        state = self.cluster.state
        pki.kubeconfig(path, state.server, state.folder / "pki", {"token": answer["status"]["token"]}, name)
        return path

    def fresh_api(self) -> KubeApi:
        """A blocking client with new connections: the server closes those that nobody used for a while."""
        self.cluster.api().close()
        return self.cluster.api()

    def apply(self, *bodies: Any) -> None:
        """Server-side apply."""
        text = self.folder / "apply.json"
        text.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)}))
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(text))

    async def served(self, path: str) -> None:
        """Wait until a resource that was defined just now is served."""
        for _ in range(10 * START_SECONDS):
            with suppress(SlipwayClusterError):
                await self.api.get(path, msgspec.Raw)
                return
            await asyncio.sleep(0.1)
        raise SystemExit(f"the API server does not serve {path}")


@asynccontextmanager
async def place(pools: Sequence[Pool], profile: Profile, folder: Path) -> AsyncIterator[Place]:
    """A control plane with these nodes; all of it ends with the context."""
    name = f"bench-{os.getpid()}"
    provider = NativeProvider(_flags(folder, profile, name))
    try:
        cluster = await asyncio.to_thread(provider.up, ClusterSpec(name=name, pools=list(pools)))
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": HOME}})
        async with ApiConnection(await load_access(cluster.kubeconfig)) as api:
            made = Place(cluster, api, folder, profile)
            for crd in CRDS:
                made.apply(yaml.safe_load(crd.read_text()))
            await made.served("/apis/slipway.dev/v1alpha1/slicejobs")
            yield made
    finally:
        await asyncio.to_thread(provider.down, name)


def _flags(folder: Path, profile: Profile, cluster: str) -> dict[str, list[str]]:
    """What a measurement asks of the components beyond what every local cluster does."""
    scheduler = folder / "scheduler.yaml"
    scheduler.write_text(yaml.safe_dump(_scheduler(cluster_dir(cluster) / "pki/kube-scheduler.kubeconfig")))
    qps, burst = {"unthrottled": (1000, 2000), "shipped": (20, 30)}[profile]
    return {
        "kube-apiserver": [
            f"--audit-policy-file={HERE / 'audit-policy.yaml'}",
            f"--audit-log-path={folder / 'audit.log'}",
            "--audit-log-mode=batch",
            "--audit-log-batch-buffer-size=200000",
            "--audit-log-maxsize=4000",
            # Nodes keep no leases here, so nobody would take this taint off again.
            "--disable-admission-plugins=TaintNodesByCondition",
        ],
        "kube-controller-manager": [
            # Heartbeats of thousands of nodes would be most of the load.
            "--controllers=-node-lifecycle-controller,-taint-eviction-controller",
            f"--kube-api-qps={qps}",
            f"--kube-api-burst={burst}",
        ],
        "kube-scheduler": [f"--config={scheduler}"],
        "kwok": [f"--config={HERE / 'kwok.yaml'}", "--node-lease-duration-seconds=0"],
    }


def _scheduler(kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "percentageOfNodesToScore": 1,
    }
