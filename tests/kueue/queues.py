"""Queues of one test, the jobs in them, and what they hold."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.kueue.server import Server
from tests.running import Jobs

GROUP: Final = "kueue.x-k8s.io/v1beta2"
CHIPS: Final = 16
"""Chips of one slice of the nodes."""
TPU: Final[dict[str, Any]] = {"accelerator": {"type": "v5litepod-16", "spot": True}, "slices": 1}


class Queues:
    """A ClusterQueue, a LocalQueue and a flavor in a namespace, with SliceJobs."""

    def __init__(self, jobs: Jobs, server: Server, version: str = GROUP) -> None:
        self.jobs, self.server, self.kubectl = jobs, server, jobs.kubectl
        self._version = version
        self.name = jobs.kubectl.namespace

    def open(self, chips: int, *, local: str = "tpu", topology: str | None = None, cpus: int = 0, **spec: Any) -> None:
        """Make a queue with that many chips, and with CPUs of any nodes beside them; and priority classes."""
        flavor: dict[str, Any] = {"nodeLabels": {"cloud.google.com/gke-spot": "true"}}
        flavor["tolerations"] = [{"key": "example.com/flavor", "operator": "Exists"}]
        flavor |= {"topologyName": topology} if topology else {}
        quota = [{"name": "google.com/tpu", "nominalQuota": chips}]
        queue: dict[str, Any] = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["google.com/tpu"], "flavors": [{"name": self.name, "resources": quota}]}
            ],
        }
        if cpus:
            self.apply("ResourceFlavor", f"{self.name}-any", spec={})
            quotas = [{"name": "cpu", "nominalQuota": cpus}, {"name": "memory", "nominalQuota": f"{8 * cpus}Gi"}]
            flavors = [{"name": f"{self.name}-any", "resources": quotas}]
            queue["resourceGroups"].append({"coveredResources": ["cpu", "memory"], "flavors": flavors})
        self.apply("ResourceFlavor", self.name, spec=flavor)
        self.apply("ClusterQueue", self.name, spec=queue | spec)
        self.apply("LocalQueue", local, spec={"clusterQueue": self.name})
        for name, value in (("high", 1000), ("low", 1)):
            self.apply("WorkloadPriorityClass", name, value=value, description="")

    def apply(self, kind: str, name: str, **fields: Any) -> None:
        self.kubectl.apply({"apiVersion": self._version, "kind": kind, "metadata": {"name": name}, **fields})

    def submit(self, name: str = "train", queue: str = "tpu", priority: str | None = None, **spec: Any) -> None:
        """Apply a SliceJob with the labels of a queue; a field that is None is left out."""
        labels = {"kueue.x-k8s.io/queue-name": queue}
        labels |= {"kueue.x-k8s.io/priority-class": priority} if priority else {}
        given = {"image": "slipway.local/busybox:1"} | TPU | spec
        spec = {field: value for field, value in given.items() if value is not None}
        meta = {"name": name, "labels": labels}
        self.kubectl.apply({"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": meta, "spec": spec})

    def workload(self, name: str = "train") -> Any:
        """The Workload of a job; None when there is none."""
        found = self.kubectl.get("workloads.kueue.x-k8s.io")["items"]
        return next((one for one in found if one["metadata"]["name"] == f"slicejob-{name}"), None)

    def conditions(self, name: str = "train") -> dict[str, tuple[str, str]]:
        """Status and reason of the conditions of a Workload."""
        found = (self.workload(name) or {}).get("status", {}).get("conditions", ())
        return {one["type"]: (one["status"], one["reason"]) for one in found}

    def until_condition(self, kind: str, status: str = "True", name: str = "train", *, seconds: float = 120) -> None:
        self.jobs.until_true(
            f"{kind}={status} of {name}", lambda: self.conditions(name).get(kind, ("",))[0] == status, seconds=seconds
        )

    def until_reason(self, reason: str, name: str = "train", *, seconds: float = 120) -> str:
        """Wait until the job is Queued for that reason; returns the message."""

        def found() -> str:
            status = self.jobs.status(name)
            running: dict[str, Any] = next(
                (one for one in status.get("conditions", ()) if one["type"] == "Running"), {}
            )
            queued = status.get("phase") == "Queued" and running.get("reason") == reason
            return str(running.get("message")) if queued else ""

        return str(self.jobs.until_true(f"Queued for {reason}", found, seconds=seconds))

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
        """Watch all the while that neither admitted Workloads nor pods that may run have more chips than that."""
        seen: list[str] = []
        looks, over = 0, threading.Event()

        def look() -> None:
            nonlocal looks
            while not over.is_set():
                found = self.kubectl.get("workloads.kueue.x-k8s.io")["items"]
                admitted = [one["metadata"]["name"] for one in found if _holds(one, "Admitted")]
                asked = sum(4 * pods["count"] for one in found if _holds(one, "Admitted") for pods in _pod_sets(one))
                pods = self.kubectl.get("pods")["items"]
                running = [one for one in pods if one["status"].get("phase") not in ("Succeeded", "Failed")]
                if asked > chips or 4 * len(running) > chips:
                    seen.append(f"{admitted} with {asked} chips, {len(running)} pods")
                looks += 1

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not seen, seen
        assert looks > 1


def _holds(workload: Any, kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _pod_sets(workload: Any) -> list[Any]:
    found: list[Any] = workload["spec"]["podSets"]
    return found
