"""Workloads of Kueue in the API: what the server and Kueue's webhooks answer, and what the operator may ask."""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.controller.seen.kueue import KINDS
from slipway.core.model.merge_patch import apply_merge_patch
from slipway.core.model.pods import ENDED_PHASES
from tests.simulation.requests import Query, Server, refuse
from tests.simulation.store import NAMESPACE, LogEntry, Store
from tests.simulation.truth import Violation, require

if TYPE_CHECKING:
    from tests.simulation.choices import Choices

Json = dict[str, Any]

VERSION: Final = "kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUE: Final = "research"
FLAVOR: Final = "any"
PODS: Final = "pods"
PRIORITIES: Final = {"high": 1000, "low": 1}
LOCAL_QUEUES: Final = ("tpu", "night")

_encode: Final = msgspec.json.Encoder().encode


def holds(workload: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition of a Workload is True."""
    return bool(condition(workload, kind).get("status") == "True")


def condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of a Workload; empty without it."""
    return next((one for one in workload["status"].get("conditions", ()) if one["type"] == kind), {})


def asked(workload: Mapping[str, Any]) -> int:
    """How many pods a Workload asks quota for."""
    return sum(int(one["count"]) for one in workload["spec"]["podSets"])


def given(workload: Mapping[str, Any]) -> int:
    """For how many of its pods a Workload has quota; as many as it asks for while it has none."""
    admission = workload["status"].get("admission")
    if admission is None:
        return asked(workload)
    return min(asked(workload), sum(int(one["count"]) for one in admission["podSetAssignments"]))


def job_of(workload: Mapping[str, Any]) -> str:
    """UID of the job that a Workload is of; empty for one of a stranger."""
    return str(workload["metadata"].get("labels", {}).get(names.LABEL_JOB_UID, ""))


class Workloads:
    """The Workloads there are, and the answers to requests about them."""

    def __init__(self, store: Store, server: Server) -> None:
        self._store = store
        self._server = server
        self.away = False
        """Whether Kueue's webhooks do not answer."""
        self.boosts = False
        """Whether the feature gate PriorityBoost is on."""
        self.quota = 0
        """For how many pods there is quota."""
        self.resource, self.each = PODS, 1
        """What there is quota of, and how much of it each pod needs."""
        self.choices: Choices | None = None
        """Watches over jobs that can run on several numbers of slices."""
        self.on_write: Callable[[Json], None] = lambda workload: None
        """Called with a Workload that was written, or is gone."""
        self._strays: set[str] = set()
        """UIDs of pods that were created when their job was gone."""
        self._others = {
            "resourceflavors": [_of_cluster(FLAVOR, {})],
            "clusterqueues": [_of_cluster(CLUSTER_QUEUE, {})],
            "workloadpriorityclasses": [_of_cluster(name, {}) | {"value": one} for name, one in PRIORITIES.items()],
            "localqueues": [_local_queue(name) for name in LOCAL_QUEUES],
        }
        collection = paths.workloads(VERSION, NAMESPACE)
        server.extend(
            (
                (re.compile(paths.GROUPS), "GET", self._list_groups),
                (re.compile(paths.of_version(VERSION)), "GET", self._list_kinds),
                (re.compile(paths.of_kueue(VERSION, "([a-z]+)")), "GET", self._list),
                (re.compile(paths.workloads(VERSION, "default")), "POST", self._check),
                (re.compile(collection), "POST", self._create),
                (re.compile(f"{collection}/([^/]+)"), "GET", self._get),
                (re.compile(f"{collection}/([^/]+)"), "PATCH", self._patch),
                (re.compile(f"{collection}/([^/]+)/status"), "PATCH", self.patch_status),
                (re.compile(f"{collection}/([^/]+)"), "DELETE", self._delete),
                (re.compile(paths.pods(NAMESPACE)), "POST", self._create_pod),
            )
        )

    def put(self, workload: Json) -> None:
        """Store a new version of a Workload; one that is going and that nothing holds is removed."""
        metadata = workload["metadata"]
        metadata["resourceVersion"] = self._store.next_version()
        gone = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        before = self._store.workloads.get(metadata["name"])
        known = before is not None
        if before is None or before["spec"] != workload["spec"]:
            metadata["generation"] = metadata.get("generation", 0) + 1
        if gone:
            del self._store.workloads[metadata["name"]]
        else:
            self._store.workloads[metadata["name"]] = workload
        if gone and self.choices is not None:
            self.choices.gone(job_of(workload))
        if job_of(workload):
            self._store.log_workload("DELETED" if gone else "MODIFIED" if known else "ADDED", workload)
        self.on_write(workload)

    def delete(self, workload: Json) -> None:
        """Ask a Workload to go."""
        if "deletionTimestamp" not in workload["metadata"]:
            marked = deepcopy(workload)
            marked["metadata"]["deletionTimestamp"] = self._store.stamp()
            self.put(marked)

    def publish(self, reserved: int, pending: int, *, active: bool) -> None:
        """Show what is reserved and who waits in the status of the queues, if that has changed."""
        amounts = {"name": self.resource, "nominalQuota": str(self.quota * self.each)}
        flavors = [{"name": FLAVOR, "resources": [amounts]}]
        usage = {"name": FLAVOR, "resources": [{"name": self.resource, "total": str(reserved * self.each)}]}
        spec = {"resourceGroups": [{"coveredResources": [self.resource], "flavors": flavors}]}
        status = {"flavorsReservation": [usage], "pendingWorkloads": pending}
        states = [{"type": "Active", "status": str(active)}]
        changed = self._show("clusterqueues", {"spec": spec, "status": status})
        changed |= self._show("localqueues", {"status": {"conditions": states}})
        if changed and self.choices is not None:
            self.choices.shown(0 if pending or not active else self.quota - reserved)

    def _show(self, plural: str, content: Json) -> bool:
        """Store new versions of queues; returns whether that changed anything."""
        known = self._others[plural]
        self._others[plural] = [self._newer(plural, one, content) for one in known]
        return self._others[plural] != known

    def _newer(self, plural: str, known: Json, content: Json) -> Json:
        made = known | content
        if made == known:
            return known
        made["metadata"] = known["metadata"] | {"resourceVersion": self._store.next_version()}
        self._store.log_other(plural, made)
        return made

    def may_run(self, job: str) -> int:
        """How many pods of a job may run."""
        return sum(
            one.owner == job and one.pod.status.phase not in ENDED_PHASES and one.uid not in self._strays
            for one in self._store.pods.values()
        )

    def _list_groups(self, *, who: str, query: Query, body: Json) -> bytes:
        return _encode({"groups": [{"versions": [{"groupVersion": VERSION}]}]})

    def _list_kinds(self, *, who: str, query: Query, body: Json) -> bytes:
        return _encode({"resources": [{"name": one} for one in KINDS]})

    def _list(self, plural: str, *, who: str, query: Query, body: Json) -> bytes:
        items = self._others.get(plural)
        if items is None:
            items = [one for one in self._store.workloads.values() if job_of(one)]
        return _encode({"metadata": {"resourceVersion": str(self._store.version)}, "items": items})

    def _known(self, name: str) -> Json:
        if name not in self._store.workloads:
            raise refuse(404, "NotFound", f"workloads {name} not found")
        return deepcopy(self._store.workloads[name])

    def _get(self, name: str, *, who: str, query: Query, body: Json) -> bytes:
        return _encode(self._known(name))

    def _ask_webhook(self, webhook: str) -> None:
        if self.away:
            said = f'Internal error occurred: failed calling webhook "{webhook}": connect: connection refused'
            raise refuse(500, "InternalError", said)

    def _check(self, *, who: str, query: Query, body: Json) -> bytes:
        """A dry run of a Workload whose boost is no number."""
        self._ask_webhook("vworkload.kb.io")
        require(bool(query.get("dryRun")), f"{who} creates a Workload in another namespace")
        if self.boosts:
            raise refuse(422, "Invalid", f"metadata.annotations[{names.PRIORITY_BOOST}]: Invalid value")
        return _encode(body)

    def _create(self, *, who: str, query: Query, body: Json) -> bytes:
        self._ask_webhook("mworkload.kb.io")
        name, spec = body["metadata"]["name"], body["spec"]
        if name in self._store.workloads:
            raise refuse(409, "AlreadyExists", f"workloads {name} already exists")
        if "priorityClassRef" in spec and "priority" not in spec:
            raise refuse(422, "Invalid", "spec.priority: Required value")
        [owner] = body["metadata"]["ownerReferences"]
        uid = body["metadata"]["labels"][names.LABEL_JOB_UID]
        require(owner["uid"] == uid and owner["controller"], f"Workload {name} of {uid} is owned by {owner}")
        if self.choices is not None:
            self.choices.created(uid, asked(body))
        made = deepcopy(body)
        made["metadata"] |= {
            "uid": self._store.new_uid("workload"),
            "namespace": NAMESPACE,
            "creationTimestamp": self._store.stamp(),
        }
        made["status"] = {}
        self.put(made)
        if uid not in self._store.owners():
            self._store.on_job_gone()
        return _encode(made)

    def _changed(self, name: str, body: Json) -> tuple[Json, Json]:
        before = self._known(name)
        if body["metadata"].pop("resourceVersion") != before["metadata"]["resourceVersion"]:
            raise refuse(409, "Conflict", f"workload {name} has changed")
        return before, apply_merge_patch(before, body)

    def _patch(self, name: str, *, who: str, query: Query, body: Json) -> bytes:
        self._ask_webhook("vworkload.kb.io")
        before, after = self._changed(name, body)
        after["status"] = before["status"]
        if holds(before, "QuotaReserved") and before["spec"]["queueName"] != after["spec"]["queueName"]:
            raise refuse(422, "Invalid", "spec.queueName: field is immutable while quota is reserved")
        if holds(before, "QuotaReserved") and before["spec"]["podSets"] != after["spec"]["podSets"]:
            raise refuse(422, "Invalid", "spec.podSets: field is immutable")
        if self.choices is not None:
            self.choices.changed(who, job_of(before), before, after)
        if before["metadata"].get("finalizers") and not after["metadata"].get("finalizers"):
            self._released(who, before)
        self.put(after)
        return _encode(after)

    def patch_status(self, name: str, *, who: str, query: Query, body: Json) -> bytes:
        """Change the status of a Workload, as Kueue's webhook lets it."""
        self._ask_webhook("vworkload.kb.io")
        before, after = self._changed(name, body)
        after = before | {"status": after["status"]}
        if holds(after, "QuotaReserved") and after["status"].get("admission") is None:
            raise refuse(422, "Invalid", "status.admission: Required value: while the QuotaReserved condition is true")
        if holds(before, "QuotaReserved") and not holds(after, "QuotaReserved"):
            require(holds(before, "Evicted"), f"{who} takes {name} out of its quota, and nobody has evicted it")
            self._released(who, before)
        elif holds(after, "Finished"):
            self._released(who, before)
        self.put(after)
        return _encode(after)

    def _delete(self, name: str, *, who: str, query: Query, body: Json) -> bytes:
        known = self._known(name)
        if body["preconditions"]["uid"] != known["metadata"]["uid"]:
            raise refuse(409, "Conflict", f"the UID of {name} is another")
        self._may_go(who, known)
        self.delete(known)
        return b"{}"

    def _may_go(self, who: str, workload: Json) -> None:
        """A job keeps its Workload over all its attempts, unless it is suspended at some time, or over.

        With fewer slices than it can have it may give that back for more.
        """
        uid = job_of(workload)
        changes = self._store.changes("jobs", uid)
        asked_to_go = any(b'"suspend":true' in one.line or b'"deletionTimestamp"' in one.line for one in changes)
        right = asked_to_go or uid not in self._store.owners() or holds(workload, "Finished")
        right = right or self._was_refused(workload, changes)
        if not right and self.choices is not None and holds(workload, "Admitted"):
            again = "deletionTimestamp" in workload["metadata"]
            right = again or self.choices.may_give_back(who, uid, workload)
        require(right, f"{who} deletes {workload['metadata']['name']}, and its job has not left the queue")

    def _was_refused(self, workload: Json, jobs: list[LogEntry]) -> bool:
        """Whether the pods were refused of a job that was admitted, or has changed, since it is in the queue.

        `jobs` are all versions of the job.
        """
        versions = self._store.changes("workloads", workload["metadata"]["uid"])
        before = [one for one in jobs if one.version < versions[0].version]
        since = jobs[len(before) :]
        was_admitted = any(b'"admission":{' in one.line for one in versions)
        generation = b'"generation":%d,' % msgspec.json.decode(before[-1].line)["object"]["metadata"]["generation"]
        has_changed = any(generation not in one.line for one in since) or b'"phase":"Invalid"' in before[-1].line
        return (was_admitted or has_changed) and any(b'"phase":"Invalid"' in one.line for one in since)

    def _released(self, who: str, workload: Json) -> None:
        """Slipway releases quota only when no pod of the job may run."""
        if holds(workload, "QuotaReserved") and (running := self.may_run(job_of(workload))):
            name = workload["metadata"]["name"]
            raise Violation(f"{who} gives the quota of {name} back while {running} of its pods may run")

    def _create_pod(self, *, who: str, query: Query, body: Json) -> bytes:
        self._ask_webhook("mpod.kb.io")
        answer = self._server.create_pod(who=who, query=query, body=body)
        if not query.get("dryRun"):
            self._check_admitted(body["metadata"]["ownerReferences"][0], body["metadata"]["name"])
        return answer

    def _check_admitted(self, owner: Json, pod: str) -> None:
        job = self._store.jobs.get(owner["name"])
        if job is None or job["metadata"]["uid"] != owner["uid"] or "deletionTimestamp" in job["metadata"]:
            # It was on its way when the job went, which nobody can know; it is collected like the others.
            self._strays.add(self._store.pods[pod].uid)
            return
        known = self._store.workloads.get(f"slicejob-{owner['name']}")
        mine = known is not None and job_of(known) == owner["uid"]
        admitted = known is not None and mine and holds(known, "Admitted") and known["status"].get("admission")
        require(bool(admitted), f"pod {pod} is created, and its job is not admitted")
        assert known is not None
        running, most = self.may_run(owner["uid"]), given(known)
        require(running <= most, f"{running} pods of {owner['name']} may run, which is admitted for {most}")
        self.check_quota()

    def check_quota(self) -> None:
        """What may run is never more than the quota."""
        running = sum(self.may_run(uid) for uid in self._store.owners())
        others = [one for one in self._store.workloads.values() if not job_of(one) and holds(one, "Admitted")]
        total = running + sum(map(asked, others))
        require(total <= self.quota, f"{total} pods may run, {running} of them of jobs; the quota is {self.quota}")


def _of_cluster(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"}, "spec": spec}


def _local_queue(name: str) -> Json:
    made = _of_cluster(name, {"clusterQueue": CLUSTER_QUEUE})
    made["metadata"]["namespace"] = NAMESPACE
    return made
