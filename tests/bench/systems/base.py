"""What the benchmark asks of a system."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from slipway.api.accelerators import resolve
from slipway.apiserver.errors import NotFound
from slipway.apiserver.wire import JsonObject
from tests.bench.observer import Seen
from tests.bench.place import Place

START_SECONDS = 240.0
PAUSE_SECONDS = 0.05
IMAGE = "bench.local/nothing:1"
"""Never pulled: simulated nodes run no containers."""


@dataclass(frozen=True)
class Shape:
    """How many slices of which TPU type."""

    slices: int
    type: str

    @property
    def hosts(self) -> int:
        """Pods of one slice."""
        return resolve(self.type).hosts

    @property
    def pods(self) -> int:
        """Pods of one job."""
        return self.slices * self.hosts


@dataclass(frozen=True)
class Job:
    """One job of the benchmark."""

    name: str
    shape: Shape
    fused: bool = False
    """Whether a system that restarts slice by slice should take all slices for one, so as to restart them all."""
    queue: str = ""
    """Name of the LocalQueue that it waits in; empty without Kueue."""


@dataclass(frozen=True)
class Loss:
    """What was taken from a job."""

    failed: tuple[Seen, ...] = ()
    """Pods that ended with an error."""
    machines: tuple[Seen, ...] = ()
    """Pods whose nodes are gone."""


class System(ABC):
    """A way to run jobs. Each turn of a measurement makes a new one, with a new process."""

    name: ClassVar[str]
    selector: ClassVar[str]
    """Label selector of the pods that count."""
    job_label: ClassVar[str]
    slice_label: ClassVar[str]
    collection: ClassVar[str]
    """Path of the objects that stand for jobs, with `{namespace}` in it."""
    whole_restart: ClassVar[bool] = True
    """Whether the loss of one pod replaces all pods of a job rather than those of one slice."""
    ends: ClassVar[bool] = False
    """Whether its jobs come to an end of their own."""
    framework: ClassVar[str] = "batch/job"
    """Kueue's own integration for its objects; SliceJobs are known to Kueue as an external framework."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.namespace = f"bench-{self.name}"
        self.kubeconfig: Path = place.account(self.name)
        self.log = place.folder / f"{self.name}.log"

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def objects(self) -> str:
        """Path of the objects that stand for jobs."""
        return self.collection.format(namespace=self.namespace)

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id of the controller."""

    @abstractmethod
    async def start(self) -> None:
        """Start the controller and wait until it is ready."""

    @abstractmethod
    async def stop(self) -> None:
        """End the controller."""

    @abstractmethod
    def manifest(self, job: Job) -> JsonObject:
        """The object that asks for a job."""

    def is_done(self, status: dict[str, Any]) -> bool:
        """Whether a job is done, by its object's status."""
        return False

    async def prepare(self, jobs: Sequence[Job]) -> None:
        """Do what should not be measured before jobs are submitted."""
        return

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Ask for jobs."""
        create = self.place.api.create
        await asyncio.gather(*(create(self.objects, _labelled(self.manifest(job), job), JsonObject) for job in jobs))

    async def brace(self, job: Job) -> None:
        """Do what should not be measured before a job loses something."""
        return

    async def react(self, job: Job, loss: Loss) -> None:
        """Be told of a loss, where no controller watches for it."""
        return

    async def remove(self, jobs: Sequence[Job]) -> None:
        """Have jobs and their pods deleted."""
        await self._delete([f"{self.objects}/{job.name}" for job in jobs])

    async def _delete(self, paths: Iterable[str]) -> None:
        await asyncio.gather(*(self._delete_one(path) for path in paths))

    async def _delete_one(self, path: str) -> None:
        try:
            found = await self.place.api.get(path, JsonObject)
            await self.place.api.delete(path, uid=found["metadata"]["uid"], propagation="Background")
        except NotFound:
            return


def _labelled(manifest: JsonObject, job: Job) -> JsonObject:
    if job.queue:
        manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": job.queue}
    return manifest


class ReplicatedSystem(System):
    """A system of which a second process can take over."""

    @abstractmethod
    async def stand_by(self) -> None:
        """Start a second controller and wait until it stands by."""

    @abstractmethod
    async def kill_leader(self) -> None:
        """Kill the first; the second is the one that is measured from here on."""


def worker_spec(shape: Shape) -> JsonObject:
    """A plain TPU worker, for systems that take pod templates."""
    tpu = resolve(shape.type)
    chips = {"google.com/tpu": str(tpu.chips_per_host)}
    return {
        "restartPolicy": "Never",
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": tpu.label,
            "cloud.google.com/gke-tpu-topology": tpu.topology,
        },
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
        "containers": [
            {
                "name": "worker",
                "image": IMAGE,
                "command": ["train"],
                "resources": {"limits": chips, "requests": chips},
            }
        ],
    }
