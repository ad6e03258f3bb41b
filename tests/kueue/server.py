"""Kueue as a process beside the API server: installed from the manifests that its module ships."""

import base64
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from slipway.devcluster import NativeCluster
from slipway.devcluster.native import pki
from slipway.devcluster.native.addresses import free_ports
from tests.chart.rights import access, of_kueue
from tests.kubectl import Kubectl
from tests.kueue.program import KUEUE, manifests
from tests.waiting import START_SECONDS, ended, is_ready, pause, until

STOP_SECONDS = 10
NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
FRAMEWORK = "SliceJob.v1alpha1.slipway.dev"
_CRD: Final = "CustomResourceDefinition"
_API: Final = "APIService"
_WEBHOOKS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_OF_ITS_POD: Final = ("Deployment", "Service", "Secret", "ConfigMap")
"""What a Kueue does not need of its manifests that runs in no pod."""


class Server:
    """A Kueue with the rights of its own roles, which can be stopped, killed and started again."""

    def __init__(self, cluster: NativeCluster, kubectl: Kubectl, folder: Path) -> None:
        self._cluster, self._kubectl, self._folder = cluster, kubectl, folder
        self._webhook, self._probe, self._visibility = free_ports(3)
        self.log = folder / "kueue.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._bodies: list[Any] = []

    def install(self) -> None:
        """Apply CRDs, roles and webhooks; the webhooks refuse everything until Kueue runs."""
        authority = self._certificates()
        self._bodies = [body for body in manifests(self._kubectl.program) if body["kind"] not in _OF_ITS_POD]
        self._bodies += of_kueue(NAMESPACE)
        for body in self._bodies:
            self._call_by_url(body, authority)
        early = self._of(_CRD, "Namespace")
        self._apply(early)
        self._kubectl.until_established(*(body["metadata"]["name"] for body in self._of(_CRD)))
        self._apply([body for body in self._bodies if body not in early and body["kind"] != _API])
        access(self._cluster, NAMESPACE, ACCOUNT, self._folder / "root/kubeconfig")

    @contextmanager
    def without_rights(self) -> Iterator[None]:
        """While it lasts, a Kueue that is started may not read SliceJobs."""
        bodies = of_kueue(NAMESPACE)
        self._kubectl("delete", "--namespace=", "-f", "-", stdin=yaml.safe_dump_all(bodies))
        try:
            yield
        finally:
            self._apply(bodies)

    def remove_webhooks(self) -> None:
        """Let pods be created without it."""
        for kind in _WEBHOOKS:
            self._kubectl("delete", kind, "--all")

    def remove(self) -> None:
        """Leave the cluster as it was."""
        self.remove_webhooks()
        text = yaml.safe_dump_all(self._bodies)
        self._kubectl("delete", "--namespace=", "--ignore-not-found", "--wait=false", "-f", "-", stdin=text)

    def start(self, **config: Any) -> None:
        """Start it, and wait until its webhooks answer."""
        (self._folder / "root/config.yaml").write_text(yaml.safe_dump(self._config() | config))
        self._begin()

        def ready() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                # Its ports are anybody's while it is not there.
                assert "address already in use" in self.tail(), self.tail()
                pause(1)
                self._begin()
            return is_ready(self._probe)

        until(f"Kueue is ready at port {self._probe}", ready, seconds=START_SECONDS)

    def _begin(self) -> None:
        root = self._folder / "root"
        # It reads certificates from folders that no option moves, so it has a root of its own.
        own_root = (
            f"mount --bind {KUEUE.path} {root}/kueue && "
            f"exec unshare --root={root} /kueue --config=/config.yaml --kubeconfig=/kubeconfig --zap-log-level=2"
        )
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c", own_root],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {"POD_NAMESPACE": NAMESPACE},
            )

    @contextmanager
    def visible(self) -> Iterator[None]:
        """While it lasts, the API server has Kueue's visibility API."""
        # The API server dials such a Service itself: none of its pods are needed.
        meta = {"name": "kueue-visibility-server", "namespace": NAMESPACE}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        bodies = self._of(_API)
        for body in bodies:
            body["spec"]["service"]["port"] = self._visibility
        self._apply([service, *bodies])
        apis = [f"apiservice/{body['metadata']['name']}" for body in bodies]
        try:
            self._kubectl.wait(*apis, until="condition=Available", seconds=START_SECONDS)
            yield
        finally:
            self._kubectl("delete", *apis)

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

    def _of(self, *kinds: str) -> list[Any]:
        return [body for body in self._bodies if body["kind"] in kinds]

    def _apply(self, bodies: list[Any]) -> None:
        text = yaml.safe_dump_all(bodies)
        self._kubectl("apply", "--namespace=", "--server-side", "-f", "-", stdin=text)

    def _certificates(self) -> str:
        """Issue what it serves with, in a root of its own; returns the authority for the API server."""
        issuer, root = self._cluster.state.folder / "pki", self._folder / "root"
        pki.issue(issuer, "kueue", "/CN=kueue", ["127.0.0.1"])
        for folder in ("webhook", "visibility", "etc/kueue/metrics/certs"):
            (root / folder).mkdir(parents=True)
            for made, wanted in (("kueue.crt", "tls.crt"), ("kueue.key", "tls.key")):
                (root / folder / wanted).write_bytes((issuer / made).read_bytes())
        (root / "kueue").touch()
        return base64.b64encode((issuer / "ca.crt").read_bytes()).decode()

    def _call_by_url(self, body: Any, authority: str) -> None:
        """Have the API server reach webhooks on this machine: Kueue runs outside the cluster."""
        clients = [one["clientConfig"] for one in body.get("webhooks", ())]
        conversion = body.get("spec", {}).get("conversion", {}) if body["kind"] == _CRD else {}
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
            "webhook": {"port": self._webhook, "host": "127.0.0.1", "certDir": "/webhook"},
            "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": self._visibility},
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 300, "burst": 500},
            "integrations": {"frameworks": ["batch/job", "pod"], "externalFrameworks": [FRAMEWORK]},
        }
