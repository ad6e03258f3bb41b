"""What the model API server keeps: objects, one counter of versions, and a log that watches read."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from tests.simulation.timeline import Timeline, second

NAMESPACE: Final = "ml"
JOB_NAME: Final = "train"

_OF_KUEUE: Final = ("localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses")
"""What Kueue has beside Workloads; the last two nobody changes during a history."""

_encode: Final = msgspec.json.Encoder().encode
replace: Final = msgspec.structs.replace


MARK = "PROFILE"
"""The variable by which a pod shows of which version of a profile it is."""
SECRET = "hunter2hunter2"
"""What every version of a profile sets a variable to whose name says that it is secret."""


@dataclass(slots=True)
class PodRecord:
    """A pod as the API has it, with the parts of its spec that the cluster acts on."""

    pod: Pod
    owner: str
    selector: dict[str, str]
    slice_key: str
    exclusive: bool
    """Whether affinity has to give the slice a node pool to itself."""
    kept_out: frozenset[str]
    """Node pools that affinity keeps the pod out of."""
    mark: str = ""
    """By which profile the pod was made."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def grace(self) -> int:
        return self.pod.spec.termination_grace_period_seconds

    @property
    def version(self) -> int:
        return int(self.pod.metadata.resource_version)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of one object."""

    version: int
    time: float
    kind: str
    name: str
    uid: str
    line: bytes


@dataclass(slots=True)
class Log:
    """The changes of one resource, oldest first."""

    entries: list[LogEntry] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    readers: list[Callable[[], None]] = field(default_factory=list)

    def add(self, entry: LogEntry) -> None:
        self.entries.append(entry)
        self.versions.append(entry.version)
        for wake in self.readers:
            wake()

    def after(self, version: int) -> int:
        """Index of the first change after a version."""
        return bisect_right(self.versions, version)


class Store:
    """Objects by name, in one namespace."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.version = 100
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, Node] = {}
        self.nodes_gone_at: dict[str, float] = {}
        """When each Node was last removed."""
        self.jobs: dict[str, dict[str, Any]] = {}
        self.dependents: dict[tuple[str, str], str] = {}
        """UID of the owner by (resource, name), for Services and ConfigMaps."""
        self.pages: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        """Resource version and binaryData of each ConfigMap of a history, by (UID of the owner, name)."""
        self.events: dict[str, dict[str, Any]] = {}
        self.profiles: dict[str, dict[str, Any]] = {}
        self.workloads: dict[str, dict[str, Any]] = {}
        kinds = ("pods", "nodes", "jobs", "slicejobprofiles", "workloads", *_OF_KUEUE)
        self.logs: dict[str, Log] = {kind: Log() for kind in kinds}
        self.asked_at: dict[str, float] = {}
        """When each pod was first asked to go, by UID."""
        self.bound_in: dict[str, int] = {}
        """By UID of a pod: the version in which it was bound."""
        self.removed_at: dict[str, float] = {}
        """When each pod that is gone was removed, by UID."""
        self.final: dict[str, PodRecord] = {}
        """The last version of each pod that is gone, by UID."""
        self.on_pod: Callable[[str, PodRecord], None] = lambda kind, record: None
        self.on_job_gone: Callable[[], None] = lambda: None
        self.on_dependent: Callable[[str], None] = lambda owner: None
        self.behind = 0.0
        """By how many seconds the clock of the API server that carries out a request is behind."""
        self.job_names: dict[str, str] = {}
        """Names of all jobs there ever were, by UID."""
        self._uids = 0

    def new_uid(self, kind: str) -> str:
        self._uids += 1
        return f"{kind}-{self._uids:05d}"

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def put_pod(self, kind: str, record: PodRecord, pod: Pod) -> None:
        """Store a new version of a pod and tell everybody."""
        metadata = replace(pod.metadata, resource_version=self.next_version())
        record.pod = replace(pod, metadata=metadata)
        self.pods[metadata.name] = record
        self._log_pod(kind, record)

    def drop_pod(self, record: PodRecord) -> None:
        """Remove a pod."""
        name = record.pod.metadata.name
        del self.pods[name]
        # The last delete dates the deletion anew, without grace.
        metadata = replace(
            record.pod.metadata,
            resource_version=self.next_version(),
            deletion_timestamp=self.second(),
            deletion_grace_period_seconds=0,
        )
        record.pod = replace(record.pod, metadata=metadata)
        self.removed_at[record.uid] = self.timeline.now
        self.final[record.uid] = record
        self._log_pod("DELETED", record)

    def _log_pod(self, kind: str, record: PodRecord) -> None:
        metadata = record.pod.metadata
        self._log("pods", kind, metadata.name, metadata.uid, record.pod)
        self.on_pod(kind, record)

    def put_node(self, node: Node) -> None:
        """Store a new version of a node."""
        kind = "MODIFIED" if node.metadata.name in self.nodes else "ADDED"
        metadata = replace(node.metadata, resource_version=self.next_version())
        self.nodes[metadata.name] = replace(node, metadata=metadata)
        self._log("nodes", kind, metadata.name, metadata.uid, self.nodes[metadata.name])

    def drop_node(self, name: str) -> None:
        """Remove a node."""
        node = self.nodes.pop(name)
        self.nodes_gone_at[name] = self.timeline.now
        node = replace(node, metadata=replace(node.metadata, resource_version=self.next_version()))
        self._log("nodes", "DELETED", name, node.metadata.uid, node)

    def put_profile(self, name: str, spec: dict[str, Any]) -> None:
        """Store a new version of a SliceJobProfile."""
        known = self.profiles.get(name)
        metadata: dict[str, Any] = dict(known["metadata"]) if known else {"name": name, "namespace": NAMESPACE}
        metadata.setdefault("uid", self.new_uid("profile"))
        metadata |= {"generation": metadata.get("generation", 0) + 1, "resourceVersion": self.next_version()}
        self.profiles[name] = {"metadata": metadata, "spec": spec}
        kind = "MODIFIED" if known else "ADDED"
        self._log("slicejobprofiles", kind, name, metadata["uid"], self.profiles[name])

    def drop_profile(self, name: str) -> None:
        """Remove a SliceJobProfile."""
        body = self.profiles.pop(name)
        body = body | {"metadata": body["metadata"] | {"resourceVersion": self.next_version()}}
        self._log("slicejobprofiles", "DELETED", name, body["metadata"]["uid"], body)

    def put_job(self, kind: str, body: dict[str, Any]) -> None:
        """Store a new version of a job; the body is not to be changed afterwards."""
        body["metadata"]["resourceVersion"] = self.next_version()
        name = body["metadata"]["name"]
        self.jobs[name] = body
        self._log("jobs", kind, name, body["metadata"]["uid"], body)

    def drop_job(self, name: str) -> None:
        """Remove a job."""
        body = self.jobs.pop(name)
        body = body | {"metadata": body["metadata"] | {"resourceVersion": self.next_version()}}
        self._log("jobs", "DELETED", name, body["metadata"]["uid"], body)
        self.on_job_gone()

    def log_workload(self, kind: str, body: dict[str, Any]) -> None:
        """Tell everybody of a new version of a Workload."""
        self._log("workloads", kind, body["metadata"]["name"], body["metadata"]["uid"], body)

    def log_other(self, resource: str, body: dict[str, Any]) -> None:
        """Tell everybody of a new version of another object of Kueue."""
        self._log(resource, "MODIFIED", body["metadata"]["name"], body["metadata"]["uid"], body)

    def _log(self, resource: str, kind: str, name: str, uid: str, thing: object) -> None:
        line = _encode({"type": kind, "object": thing})
        self.logs[resource].add(LogEntry(self.version, self.timeline.now, kind, name, uid, line))

    def changes(self, resource: str, uid: str) -> list[LogEntry]:
        """All changes of one object, oldest first."""
        return [one for one in self.logs[resource].entries if one.uid == uid]

    def owners(self) -> set[str]:
        """UIDs of the jobs there are."""
        return {str(body["metadata"]["uid"]) for body in self.jobs.values()}

    def second(self) -> datetime:
        """This second."""
        return second(self.timeline.now - self.behind)

    def stamp(self) -> str:
        """This second as the API writes it."""
        return self.second().isoformat().replace("+00:00", "Z")
