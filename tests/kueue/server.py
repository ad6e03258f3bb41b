"""Kueue as a process beside the API server: installed from the manifests that its module ships."""

import base64
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from slipway.local_cluster import NativeCluster, pki
from slipway.local_cluster.addresses import free_ports
from tests.conftest import Kubectl
from tests.kueue.program import KUEUE
from tests.waiting import ended, is_ready

START_SECONDS = 60
STOP_SECONDS = 10
_PARTS = ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""What a Kueue needs of its manifests that does not run in a pod, and has an administrator's rights."""
FRAMEWORK = "SliceJob.v1alpha1.slipway.dev"


class Server:
    """A Kueue that can be stopped, killed and started again."""

    def __init__(self, cluster: NativeCluster, kubectl: Kubectl, folder: Path) -> None:
        self._cluster, self._kubectl, self._folder = cluster, kubectl, folder
        self._webhook, self._probe = free_ports(2)
        self.log = folder / "kueue.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._crds: list[str] = []

    def install(self) -> None:
        """Apply CRDs, roles and webhooks; the webhooks refuse everything until Kueue runs."""
        authority = self._certificates()
        shown = self._kubectl("kustomize", str(KUEUE.sources().parents[1] / "config/default"), seconds=120).stdout
        bodies = [body for body in yaml.safe_load_all(shown) if body["kind"] in _PARTS]
        for body in bodies:
            self._call_by_url(body, authority)
        crds = [body for body in bodies if body["kind"] == "CustomResourceDefinition"]
        self._apply(crds)
        self._crds = [crd["metadata"]["name"] for crd in crds]
        self._kubectl.until_established(*self._crds)
        self._kubectl("create", "namespace", "kueue-system", check=False)
        self._apply([body for body in bodies if body not in crds])

    def remove_webhooks(self) -> None:
        """Let pods be created without it."""
        for kind in _PARTS[1:]:
            self._kubectl("delete", kind, "--all")

    def remove(self) -> None:
        """Leave the cluster as it was."""
        self.remove_webhooks()
        self._kubectl("delete", "crds", *self._crds, "--wait=false")

    def start(self, **config: Any) -> None:
        """Start it, and wait until its webhooks answer."""
        path = self._folder / "config.yaml"
        path.write_text(yaml.safe_dump(self._config() | config))
        certificates = self._folder / "certificates"
        # It insists on certificates of its metrics in a folder of the machine, even where it serves none.
        own_etc = (
            f"mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && ln -s {certificates} /etc/kueue/metrics/certs "
            f"&& exec {KUEUE.path} --config={path} --kubeconfig={self._cluster.kubeconfig} --zap-log-level=2"
        )
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c", own_etc],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {"POD_NAMESPACE": "kueue-system"},
            )
        end = time.monotonic() + START_SECONDS
        while not is_ready(self._probe):
            assert self._process.poll() is None, self.tail()
            assert time.monotonic() < end, self.tail()
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def stop(self, *, at_once: bool = False) -> None:
        """End it; its webhooks then refuse every pod of the cluster."""
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
            # It waits for its watches, which an API server that is busy may hold for long.
            ended(process, STOP_SECONDS)

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def _apply(self, bodies: list[Any]) -> None:
        text = yaml.safe_dump_all(bodies)
        self._kubectl("apply", "--server-side", "-f", "-", stdin=text)

    def _certificates(self) -> str:
        """Issue what the webhooks serve with; returns the authority for the API server."""
        issuer, folder = self._cluster.state.folder / "pki", self._folder / "certificates"
        folder.mkdir()
        pki.issue(issuer, "kueue", "/CN=kueue", ["127.0.0.1"])
        for made, wanted in (("kueue.crt", "tls.crt"), ("kueue.key", "tls.key")):
            (folder / wanted).write_bytes((issuer / made).read_bytes())
        return base64.b64encode((issuer / "ca.crt").read_bytes()).decode()

    def _call_by_url(self, body: Any, authority: str) -> None:
        """Have the API server reach webhooks on this machine: Kueue runs outside the cluster."""
        clients = [one["clientConfig"] for one in body.get("webhooks", ())]
        conversion = body.get("spec", {}).get("conversion", {}) if body["kind"] == "CustomResourceDefinition" else {}
        if conversion.get("strategy") == "Webhook":
            clients.append(conversion["webhook"]["clientConfig"])
        for client in clients:
            path = client.pop("service").get("path", "/convert")
            client |= {"url": f"https://127.0.0.1:{self._webhook}{path}", "caBundle": authority}

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._probe}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": self._webhook, "host": "127.0.0.1", "certDir": str(self._folder / "certificates")},
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "featureGates": {"VisibilityOnDemand": False},
            "clientConnection": {"qps": 300, "burst": 500},
            "integrations": {"frameworks": ["batch/job", "pod"], "externalFrameworks": [FRAMEWORK]},
        }
