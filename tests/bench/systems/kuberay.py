"""KubeRay's operator, as it is shipped but for limits of requests in the unthrottled profile."""

import yaml

from slipway.apiserver.wire import JsonObject
from slipway.devcluster.native.addresses import free_ports
from tests.bench import programs
from tests.bench.systems.base import IMAGE, Job, System, worker_spec
from tests.bench.systems.process import Controller

_KINDS = ("rayclusters", "raycronjobs", "rayjobs", "rayservices")


class KubeRay(System):
    """RayClusters of one worker group, one replica for each slice; the head pod is not counted."""

    name = "kuberay"
    selector = "ray.io/node-type=worker"
    job_label = "ray.io/cluster"
    slice_label = "ray.io/worker-group-replica-index"
    collection = "/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
    whole_restart = False
    framework = "ray.io/raycluster"

    async def start(self) -> None:
        program, sources = programs.KUBERAY.ensure(), programs.KUBERAY.sources() / "config/crd/bases"
        self.place.apply(*(yaml.safe_load((sources / f"ray.io_{one}.yaml").read_text()) for one in _KINDS))
        await self.place.served("/apis/ray.io/v1/rayclusters")
        (probe,) = free_ports(1)
        limits = ["--qps=1000", "--burst=2000"] if self.place.profile == "unthrottled" else []
        probes = [f"--health-probe-bind-address=127.0.0.1:{probe}", "--metrics-addr=0"]
        given = [f"--kubeconfig={self.kubeconfig}", "--enable-leader-election=false"]
        self._controller = Controller([str(program), *given, *probes, *limits], self.log, probe)
        await self._controller.ready()

    async def stop(self) -> None:
        await self._controller.stop()

    @property
    def pid(self) -> int:
        return self._controller.pid

    def manifest(self, job: Job) -> JsonObject:
        shape, replicas = job.shape, 1 if job.fused else job.shape.slices
        group = {
            "groupName": "w",
            "replicas": replicas,
            "minReplicas": replicas,
            "maxReplicas": replicas,
            "numOfHosts": shape.pods // replicas,
            "rayStartParams": {},
            "template": {"spec": worker_spec(shape)},
        }
        head = {"containers": [{"name": "head", "image": IMAGE}]}
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": job.name},
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}},
                "workerGroupSpecs": [group],
            },
        }
