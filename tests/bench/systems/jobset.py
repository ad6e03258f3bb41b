"""JobSet with its webhooks, as it is shipped but for limits of requests in the unthrottled profile."""

import base64
from pathlib import Path
from typing import Any

import yaml

from slipway.apiserver.wire import JsonObject
from slipway.devcluster.native import pki
from slipway.devcluster.native.addresses import free_ports
from tests.bench import programs
from tests.bench.systems.base import Job, System, worker_spec
from tests.bench.systems.process import Controller


class JobSet(System):
    """The controller of sigs.k8s.io/jobset; Jobs below it are the Job controller's."""

    name = "jobset"
    selector = "jobset.sigs.k8s.io/jobset-name"
    job_label = "jobset.sigs.k8s.io/jobset-name"
    slice_label = "jobset.sigs.k8s.io/job-index"
    ends = True
    framework = "jobset.x-k8s.io/jobset"
    collection = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"

    async def start(self) -> None:
        program, sources = programs.JOBSET.ensure(), programs.JOBSET.sources() / "config/components"
        webhook, probe = free_ports(2)
        certificates = self.place.folder / "jobset-certificates"
        self.place.apply(yaml.safe_load((sources / "crd/bases/jobset.x-k8s.io_jobsets.yaml").read_text()))
        await self.place.served("/apis/jobset.x-k8s.io/v1alpha2/jobsets")
        authority = self._certificate(certificates)
        # The pods of other systems never meet these webhooks: they ask for JobSet's own label.
        self.place.apply(*_webhooks(sources / "webhook", webhook, authority))
        config = self.place.folder / "jobset.yaml"
        config.write_text(yaml.safe_dump(_config(webhook, certificates)))
        limits = ["--kube-api-qps=1000", "--kube-api-burst=2000"] if self.place.profile == "unthrottled" else []
        probes = [f"--health-probe-bind-address=127.0.0.1:{probe}", "--metrics-bind-address=0"]
        given = [f"--kubeconfig={self.kubeconfig}", f"--config={config}", "--leader-elect=false"]
        self._controller = Controller([str(program), *given, *probes, *limits], self.log, probe)
        await self._controller.ready()

    async def stop(self) -> None:
        await self._controller.stop()

    @property
    def pid(self) -> int:
        return self._controller.pid

    def manifest(self, job: Job) -> JsonObject:
        shape = job.shape
        template = {
            "spec": {
                "parallelism": shape.hosts,
                "completions": shape.hosts,
                "backoffLimit": 0,
                "template": {"spec": worker_spec(shape)},
            }
        }
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": job.name},
            "spec": {
                "failurePolicy": {"maxRestarts": 1000},
                "replicatedJobs": [{"name": "w", "replicas": shape.slices, "template": template}],
            },
        }

    def is_done(self, status: dict[str, Any]) -> bool:
        return any(one["type"] == "Completed" and one["status"] == "True" for one in status.get("conditions", ()))

    def _certificate(self, folder: Path) -> str:
        """Issue what the webhooks serve with; returns the authority for the API server."""
        folder.mkdir(exist_ok=True)
        issuer = self.place.cluster.state.folder / "pki"
        pki.issue(issuer, "jobset", "/CN=jobset", ["127.0.0.1"])
        for made, wanted in (("jobset.crt", "tls.crt"), ("jobset.key", "tls.key")):
            (folder / wanted).write_bytes((issuer / made).read_bytes())
        return base64.b64encode((issuer / "ca.crt").read_bytes()).decode()


def _config(webhook: int, certificates: Path) -> JsonObject:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": str(certificates)},
    }


def _webhooks(folder: Path, port: int, authority: str) -> list[JsonObject]:
    """The shipped webhooks, patches included, called by URL because the controller runs outside the cluster."""
    bodies = list(yaml.safe_load_all((folder / "manifests.yaml").read_text()))
    for body, patch in zip(bodies, ("mutating-patch.yaml", "validating-patch.yaml"), strict=True):
        for change in yaml.safe_load((folder / "patches" / patch).read_text()):
            body["webhooks"][int(change["path"].rpartition("/")[2])] = change["value"]
        body["metadata"]["name"] = f"jobset-{body['metadata']['name']}"
        for one in body["webhooks"]:
            path = one["clientConfig"].pop("service")["path"]
            one["clientConfig"] |= {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    return bodies
