"""What is known of Kueue: its Workloads, flavors and priority classes, as the watch shows them."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import ApiError, Forbidden, SlipwayClusterError
from slipway.controller.seen.reflector import Identity, Reflector, number
from slipway.core.explain.kueue_messages import preemptor_of, stops_for
from slipway.core.model.cluster_queue import (
    ClusterQueue,
    LocalQueue,
    PriorityClass,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    is_active,
    unused,
)
from slipway.core.model.job import Key
from slipway.core.model.workload import Kueue, Workload

VERSIONS: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""The API versions that Slipway speaks, the preferred one first."""
KINDS: Final = frozenset(("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses"))
"""The kinds that are followed, by their plurals; without all of them there are no queues."""


class _Served(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: tuple[_Served, ...] = ()


class _Groups(msgspec.Struct):
    groups: tuple[_Group, ...]


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: tuple[_Resource, ...] | None


class WorkloadStore(Reflector[Workload, Key]):
    """Workloads by namespace and the job whose name they have; those of other names are left out."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        super().__init__(clock)
        self._jobs: dict[str, Key] = {}
        self._stopping: dict[str, set[Key]] = {}
        """Jobs that stop because another preempts them, by the UID of that one."""

    def applied(self, seen: Workload) -> Collection[Key]:
        """Take a Workload as the watch shows it, or as the server answered one of our own requests."""
        return super().applied(seen) if seen.job_name else ()

    def job_of(self, uid: str) -> str:
        """Namespace and name of the job that has this UID and a Workload; empty if there is none."""
        return "/".join(self._jobs.get(uid, ()))

    def preempted_by(self, uid: str) -> tuple[str, ...]:
        """Namespace and name of the jobs that have yet to stop because the job of this UID preempts them."""
        return tuple(sorted("/".join(key) for key in self._stopping.get(uid, ())))

    def _changed(self, before: Workload | None, after: Workload) -> Collection[Key]:
        if before is not None:
            self._leave(before)
        key, labels = _key(after), after.metadata.labels
        if labels.job_name == after.job_name:
            self._jobs[labels.job_uid] = key
        if (preemptor := stops_for(after)) != "":
            self._stopping.setdefault(preemptor, set()).add(key)
        return super()._changed(before, after)

    def _gone(self, known: Workload, last: Workload, event: Workload | None) -> Collection[Key]:
        self._leave(known)
        return super()._gone(known, last, event)

    def _leave(self, known: Workload) -> None:
        if self._jobs.get(known.metadata.labels.job_uid) == _key(known):
            del self._jobs[known.metadata.labels.job_uid]
        if (preemptor := stops_for(known)) != "":
            stopping = self._stopping[preemptor]
            stopping.discard(_key(known))
            if not stopping:
                del self._stopping[preemptor]

    def _identity(self, workload: Workload) -> Identity:
        it = workload.metadata
        return Identity(_key(workload), it.uid, number(it.resource_version), it.namespace)


class KueueStore:
    """Everything that is known of Kueue."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self.version = ""
        """The API version that is followed; empty while the API server has none."""
        self.listed = False
        """Whether everything was listed once, or cannot be; until then jobs in queues are not looked at."""
        self.boosts = False
        """Whether Kueue reads the annotation that boosts the priority of a Workload."""
        self.problems: dict[str, str] = {}
        """Why objects cannot be read, by what they are and where, of those that cannot."""
        self.workloads = WorkloadStore(clock)
        self.flavors: Reflector[ResourceFlavor, Key] = Reflector(clock)
        self.priorities: Reflector[PriorityClass, Key] = Reflector(clock)
        self.local_queues: Reflector[LocalQueue, Key] = Reflector(clock)
        self.cluster_queues: Reflector[ClusterQueue, Key] = Reflector(clock)

    def of(self, key: Key, queue: str | None) -> Kueue:
        """What is known for a job with the label of that LocalQueue."""
        # What cannot be read in another namespace is nothing to this job.
        concerns = sorted(what for what in self.problems if " " not in what or what.endswith(f" {key[0]}"))
        problem, workload = "; ".join(self.problems[what] for what in concerns), self.workloads.get(key)
        unseen = any(what.startswith("workloads") for what in concerns)
        if queue is None:
            return Kueue(self.version, problem, unseen, workload)
        return Kueue(
            version=self.version,
            problem=problem,
            unseen=unseen,
            workload=workload,
            flavors={flavor.metadata.name: flavor.spec for flavor in self.flavors.all()},
            priorities={one.metadata.name: one.value for one in self.priorities.all()},
            topologies=self._topologies(key[0], queue),
            unused=self._unused(key[0], queue) if workload is not None and _may_have_more(workload, queue) else {},
            preemptor=self.workloads.job_of(preemptor_of(workload)) if workload is not None else "",
            preempted=self.workloads.preempted_by(workload.metadata.labels.job_uid) if workload is not None else (),
            boosts=self.boosts,
        )

    def jobs(self) -> set[Key]:
        """Jobs that have a Workload, be they gone or not."""
        return {_key(workload) for workload in self.workloads.all()}

    def _topologies(self, namespace: str, queue: str) -> frozenset[str] | None:
        """The resources of which a flavor of a queue has a topology; None for a queue that is not known."""
        of_all = self._cluster_queue(namespace, queue)
        if of_all is None:
            return None
        groups = of_all.spec.resource_groups
        return frozenset(name for group in groups if self._has_topology(group) for name in group.covered_resources)

    def _unused(self, namespace: str, queue: str) -> Quota:
        """The quota that a job of a queue may have beside its own."""
        local, of_all = self.local_queues.get((namespace, queue)), self._cluster_queue(namespace, queue)
        if local is None or of_all is None or not is_active(local):
            return {}
        return unused(of_all, self.cluster_queues.all())

    def _cluster_queue(self, namespace: str, queue: str) -> ClusterQueue | None:
        local = self.local_queues.get((namespace, queue))
        return self.cluster_queues.get(("", local.spec.cluster_queue)) if local is not None else None

    def _has_topology(self, group: ResourceGroup) -> bool:
        named = (self.flavors.get(("", flavor.name)) for flavor in group.flavors)
        return any(flavor is not None and flavor.spec.topology_name for flavor in named)


def _key(workload: Workload) -> Key:
    return workload.metadata.namespace, workload.job_name


def _may_have_more(known: Workload, queue: str) -> bool:
    """Whether a job has quota of that queue, and can run on several numbers of slices."""
    return known.admitted and known.spec.queue_name == queue and known.metadata.labels.for_attempt >= 0


async def served_version(api: ApiConnection) -> str:
    """The API version of Kueue that is spoken here; empty where the API server has none with all kinds.

    That is read off its lists of what it serves. A 404 for Kueue's group would not do: a load balancer that has no API
    server behind it for a moment answers so, too.

    Raises:
        SlipwayClusterError: when that is not known.
    """
    groups = (await api.get(paths.GROUPS, _Groups)).groups
    there = {one.group_version for group in groups for one in group.versions}
    for version in VERSIONS:
        if version in there:
            resources = await api.get(paths.of_version(version), _Resources)
            if {resource.name for resource in resources.resources or ()} >= KINDS:
                return version
    return ""


async def can_be_listed(api: ApiConnection, collections: Iterable[str]) -> bool:
    """Whether the API server has all these collections, and can convert what is in them, as far as they may be read."""
    read = False
    for path in collections:
        try:
            await api.get(f"{path}?limit=1", dict)
        except Forbidden:
            # The API server says so of what it does not have, too.
            continue
        except SlipwayClusterError:
            return False
        read = True
    return read


async def reads_boosts(api: ApiConnection, version: str, namespace: str) -> bool | None:
    """Whether Kueue's feature gate PriorityBoost is on; None where that is not known.

    Kueue shows its gates to nobody. With this one on, its webhook refuses a boost that is no number.
    """
    annotations = {names.PRIORITY_BOOST: "no-number"}
    pods = {"containers": [{"name": "none", "image": "none"}], "restartPolicy": "Never"}
    body = {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {"name": "slipway-priority-boost", "namespace": namespace, "annotations": annotations},
        "spec": {"podSets": [{"name": "none", "count": 1, "template": {"spec": pods}}]},
    }
    try:
        await api.create(paths.workloads(version, namespace), body, Workload, check=True)
    except ApiError as error:
        return True if names.PRIORITY_BOOST in str(error) else None
    except SlipwayClusterError:
        return None
    return False
