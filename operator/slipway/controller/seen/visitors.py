"""Which pods occupy each node: those of SliceJobs from the watch, those of others as they were read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import chain

import msgspec

from slipway.api import names
from slipway.controller.seen.jobs import JobStore
from slipway.controller.seen.pods import PodStore
from slipway.core.manifests.placement import requested
from slipway.core.model.job import Key
from slipway.core.model.pods import ENDED_PHASES
from slipway.core.model.tenants import Tenant, Tenants, Use, Visitors


class WatchedTenants(Tenants):
    """The tenants of the moment at which they are asked for."""

    def __init__(self, pods: PodStore, jobs: JobStore, visitors: Mapping[str, Visitors]) -> None:
        """`visitors` are the pods of others by node, always current."""
        super().__init__(visitors)
        self._pods = pods
        self._jobs = jobs

    def on(self, node: str, since: datetime) -> Iterator[Tenant]:
        """The SliceJobs that have pods on a node, and the pods of others if they were read since that time."""
        yield from map(self._job, self._pods.busy.get(node, ()))
        yield from super().on(node, since)

    def in_pool(self, pool: str, nodes: Sequence[str], since: datetime) -> Iterator[Tenant]:
        """The SliceJobs that have a node of the pool, or pods pinned to it, each once; pods of others as in `on`."""
        pods = self._pods
        there = filter(None, map(pods.busy.get, nodes))
        yield from map(self._job, dict.fromkeys(chain(pods.pinned.get(pool, ()), chain.from_iterable(there))))
        for node in filter(self.visitors.__contains__, nodes):
            yield from super().on(node, since)

    def _job(self, key: Key) -> Tenant:
        job = self._jobs.get(key)
        if job is None:
            return Tenant(names.KIND, *key)
        newest = job.status.newest
        since = (newest.running_time or newest.start_time) if newest is not None else None
        of_class = job.spec.priority_class_name if job.spec is not None else None
        pod = next(iter(self._pods.of(key)), None)
        return Tenant(names.KIND, *key, job.uid, pod.spec.priority if pod is not None else 0, of_class or "", since)


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    resources: _Resources = _Resources()
    restart_policy: str = ""

    @property
    def asked(self) -> dict[str, str]:
        return self.resources.limits | self.resources.requests


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] = []
    overhead: dict[str, str] = {}
    priority: int = 0
    priority_class_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    start_time: datetime | None = None


class Visitor(msgspec.Struct, frozen=True):
    """A pod of anybody, as far as it matters who has a node."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()

    @property
    def takes_devices(self) -> bool:
        """Whether it is not Slipway's, and requests TPUs."""
        ours = names.LABEL_JOB_UID in self.metadata.labels
        return not ours and any(names.TPU_RESOURCE in each.asked for each in self.spec.containers)

    @property
    def use(self) -> Use:
        """What it requests of its node, and whose it is."""
        spec = self.spec
        inits = [(container.restart_policy == "Always", container.asked) for container in spec.init_containers]
        sizes = requested((container.asked for container in spec.containers), inits, spec.overhead)
        return Use(_tenant(self), sizes | {"pods": Decimal(1)})


def visitors(pods: Iterable[Visitor], at: datetime) -> Visitors:
    """What is remembered of the pods that were read on one node."""
    there = [pod for pod in pods if pod.status.phase not in ENDED_PHASES]
    devices = tuple(_tenant(pod) for pod in there if pod.takes_devices)
    return Visitors(at, devices, tuple(pod.use for pod in there))


def _tenant(pod: Visitor) -> Tenant:
    spec, of = pod.spec, pod.metadata
    if (uid := of.labels.get(names.LABEL_JOB_UID)) is not None:
        # The pods of a job are one tenant, whenever each of them was started.
        job = of.labels.get(names.LABEL_JOB_NAME, "")
        return Tenant(names.KIND, of.namespace, job, uid, spec.priority, spec.priority_class_name)
    return Tenant("Pod", of.namespace, of.name, "", spec.priority, spec.priority_class_name, pod.status.start_time)
