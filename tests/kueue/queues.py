"""Queues of one test, the jobs in them, and what they hold."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.kueue.server import Server
from tests.kueue.versions import every_version, in_order
from tests.running import Jobs
from tests.waiting import START_SECONDS

GROUP: Final = "kueue.x-k8s.io/v1beta2"
CHIPS: Final = 16
"""Chips of one slice of the nodes."""
TPU: Final[dict[str, Any]] = {"accelerator": {"type": "v5litepod-16", "spot": True}, "slices": 1}
SMALL_CHIPS: Final = 8
SMALL: Final[dict[str, Any]] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 1}
"""For tests with many jobs: of two hosts."""


class Queues:
    """A ClusterQueue, a LocalQueue and a flavor in a namespace, with SliceJobs."""

    def __init__(self, jobs: Jobs, server: Server, version: str = GROUP) -> None:
        self.jobs, self.server, self.kubectl = jobs, server, jobs.kubectl
        self._version = version
        self.name = jobs.kubectl.namespace

    def open(
        self, chips: int, *, local: str = "tpu", name: str = "", topology: str | None = None, cpus: int = 0, **spec: Any
    ) -> None:
        """Make a queue with that many chips, and with CPUs of any nodes beside them; and priority classes."""
        name = name or self.name
        flavor: dict[str, Any] = {"nodeLabels": {"cloud.google.com/gke-spot": "true"}}
        flavor["tolerations"] = [{"key": "example.com/flavor", "operator": "Exists"}]
        flavor |= {"topologyName": topology} if topology else {}
        flavors, groups = [self._body("ResourceFlavor", name, spec=flavor)], [_group(name, {"google.com/tpu": chips})]
        if cpus:
            flavors.append(self._body("ResourceFlavor", f"{name}-any", spec={}))
            groups.append(_group(f"{name}-any", {"cpu": cpus, "memory": f"{8 * cpus}Gi"}))
        preemption = {"withinClusterQueue": "LowerPriority"}
        queue = {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": groups} | spec
        self.kubectl.apply(
            *flavors,
            self._body("ClusterQueue", name, spec=queue),
            self._body("LocalQueue", local, spec={"clusterQueue": name}),
            self._body("WorkloadPriorityClass", "high", value=1000, description=""),
            self._body("WorkloadPriorityClass", "low", value=1, description=""),
        )

    def apply(self, kind: str, name: str, **fields: Any) -> None:
        self.kubectl.apply(self._body(kind, name, **fields))

    def _body(self, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        return {"apiVersion": self._version, "kind": kind, "metadata": {"name": name}, **fields}

    def submit(self, name: str = "train", queue: str = "tpu", priority: str | None = None, **spec: Any) -> None:
        """Apply a SliceJob with the labels of a queue; a field that is None is left out."""
        self.submit_all({name: queue}, priority, **spec)

    def submit_all(self, queue_of: dict[str, str], priority: str | None = None, **spec: Any) -> None:
        """Apply SliceJobs, each with its queue."""
        given = {"image": "slipway.local/busybox:1"} | TPU | spec
        spec = {field: value for field, value in given.items() if value is not None}
        bodies = []
        for name, queue in queue_of.items():
            labels = {"kueue.x-k8s.io/queue-name": queue}
            labels |= {"kueue.x-k8s.io/priority-class": priority} if priority else {}
            meta = {"name": name, "labels": labels}
            bodies.append({"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": meta, "spec": spec})
        self.kubectl.apply(*bodies)

    def workload(self, name: str = "train") -> Any:
        """The Workload of a job; None when there is none."""
        found = self.kubectl.get("workloads.kueue.x-k8s.io")["items"]
        return next((one for one in found if one["metadata"]["name"] == f"slicejob-{name}"), None)

    def versions(self) -> dict[str, tuple[str, str]]:
        """UID and resource version of all Workloads."""
        found = (one["metadata"] for one in self.kubectl.get("workloads.kueue.x-k8s.io")["items"])
        return {one["name"]: (one["uid"], one["resourceVersion"]) for one in found}

    def conditions(self, name: str = "train") -> dict[str, tuple[str, str]]:
        """Status and reason of the conditions of a Workload."""
        found = (self.workload(name) or {}).get("status", {}).get("conditions", ())
        return {one["type"]: (one["status"], one["reason"]) for one in found}

    def until_condition(
        self, kind: str, status: str = "True", name: str = "train", *, seconds: float = START_SECONDS
    ) -> None:
        self.jobs.until_true(
            f"{kind}={status} of {name}", lambda: self.conditions(name).get(kind, ("",))[0] == status, seconds=seconds
        )

    def until_reason(self, reason: str, name: str = "train", *, words: str = "", seconds: float = START_SECONDS) -> str:
        """Wait until the job is Queued for that reason, with these words in its message; returns the message."""
        return self.jobs.until_said("Queued", reason, words, name=name, seconds=seconds)

    def until_gone(self, name: str = "train") -> None:
        """Wait until the job's Workload and pods are gone."""
        self.jobs.until_true("no Workload and no pods", lambda: not self.workload(name) and not self.jobs.pods(name))

    def until_used(self, chips: int) -> None:
        """Wait until Kueue says that so many chips are used; it says so once a second."""
        self.jobs.until_true(f"{chips} chips used", lambda: self.used() == chips)

    def used(self) -> int:
        """Chips that Kueue says are used."""
        status = self.kubectl.get("clusterqueues.kueue.x-k8s.io", self.name).get("status", {})
        usage = [one for flavor in status.get("flavorsReservation", ()) for one in flavor["resources"]]
        return sum(int(one["total"]) for one in usage)

    @contextmanager
    def never_more_than(self, chips: int) -> Iterator[None]:
        """At no moment do the jobs of a LocalQueue hold more chips, be it by quota or by pods that may run."""
        paths = (f"/apis/{GROUP}/namespaces/{self.name}/workloads", f"/api/v1/namespaces/{self.name}/pods")
        workloads, pods = list[Any](), list[Any]()
        try:
            with every_version(self.kubectl, paths[0]) as workloads, every_version(self.kubectl, paths[1]) as pods:
                yield
        finally:
            queue_of = {one["object"]["metadata"]["name"]: one["object"]["spec"]["queueName"] for one in workloads}
            for there in in_order(workloads, pods):
                held = _held(there)
                used = Counter[str]()
                for name, asked in held.items():
                    used[queue_of[name]] += asked
                assert max(used.values(), default=0) <= chips, held


def _group(flavor: str, quotas: dict[str, Any]) -> dict[str, Any]:
    """Quotas of one flavor."""
    resources = [{"name": resource, "nominalQuota": most} for resource, most in quotas.items()]
    return {"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}


def _held(there: dict[tuple[str, str], Any]) -> dict[str, int]:
    """The chips of each Workload: all while it has quota, and without quota those of its pods that may run."""
    reserved, running = Counter[str](), Counter[str]()
    for (kind, name), one in there.items():
        if kind == "Workload" and _holds(one, "QuotaReserved"):
            reserved[name] = 4 * sum(pods["count"] for pods in one["spec"]["podSets"])
        elif kind == "Pod" and one["status"].get("phase") not in ("Succeeded", "Failed"):
            running[f"slicejob-{one['metadata']['labels']['slipway.dev/job-name']}"] += 4
    return reserved | running


def _holds(workload: Any, kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
