"""The model API server's answers to the requests that Slipway makes."""

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.apiserver import errors, paths
from slipway.core.model.merge_patch import apply_merge_patch
from slipway.core.model.pod_parts import PodLabels
from slipway.core.model.pods import ENDED_PHASES
from tests.simulation import pods
from tests.simulation.store import NAMESPACE, PodRecord, Store
from tests.simulation.timeline import moment
from tests.simulation.truth import Violation

Query = Mapping[str, str]
Body = Mapping[str, Any]
Route = tuple[re.Pattern[str], str, Callable[..., bytes]]
"""Pattern of the path, method, and what answers."""

MOST_CREATED: Final = 40
"""Pods of one name in a minute."""
_encode: Final = msgspec.json.Encoder().encode
_DEPENDENTS: Final = rf"/apis?/[a-z0-9./]*/namespaces/{NAMESPACE}/(services|configmaps|secrets|networkpolicies)"
_TERM: Final = re.compile(r"([^,=( ]+)(?:=([^,]*)| (in|notin) \(([^)]*)\))")
_POD_LABELS: Final = {
    names.LABEL_JOB_NAME: "job_name",
    names.LABEL_JOB_UID: "job_uid",
    names.LABEL_ATTEMPT: "attempt",
    names.LABEL_SLICE: "slice",
    names.LABEL_HOST: "host",
    names.LABEL_ROLE: "role",
}


def refuse(code: int, reason: str, message: str, retry_after: float | None = None) -> errors.ApiError:
    """The server's way to say no."""
    details = errors.Details(retry_after_seconds=retry_after)
    return errors.from_status(errors.Status(code, reason, message, details))


def _not_found(name: str) -> errors.ApiError:
    return refuse(404, "NotFound", f"{name} not found")


def _selector(text: str) -> Callable[[PodLabels], bool]:
    """A label selector: `key=value`, `key in (a,b)`, `key notin (a,b)`, joined by commas."""
    terms: list[tuple[str, bool, frozenset[str]]] = []
    for found in _TERM.finditer(text):
        key, value, word, values = found.groups()
        chosen = frozenset((value,) if word is None else values.split(","))
        terms.append((_POD_LABELS[key], word != "notin", chosen))
    return lambda labels: all((getattr(labels, name) in chosen) is wanted for name, wanted, chosen in terms)


class Server:
    """Carries out requests on the store, at once and completely."""

    def __init__(self, store: Store, on_status: Callable[[str, dict[str, Any], dict[str, Any]], None]) -> None:
        """`on_status` hears of every status written: process, job before, job after."""
        self._store = store
        self._on_status = on_status
        self._created: dict[str, list[float]] = {}
        """When pods of each name were created in the last minute."""
        self._marks: dict[tuple[str, int], str] = {}
        """By UID of the job and attempt: of which version of a profile its pods are."""
        self.quota_full = False
        """Whether pods are refused for lack of quota."""
        self.denied: Callable[[], bool] = lambda: False
        """Whether a policy denies a pod."""
        self.quota: int | None = None
        """How many pods that have not ended there may be."""
        self.clocks = (0.0, 0.0)
        """By how many seconds the clock of each API server is behind."""
        self.renewed_at: Callable[[str], float | None] = lambda node: None
        """When the kubelet of a node last renewed its Lease; None when there is none."""
        self.partial: Callable[[int], int] = lambda count: count
        """How many of a collection are deleted before something goes wrong."""
        self.on_create: Callable[[PodRecord, Body], None] = lambda record, body: None
        """Called with a pod that was created, and what was sent."""
        self.on_delete: Callable[[str, PodRecord, int | None], None] = lambda who, record, grace: None
        """Called with a process, a pod that it deletes, and the grace period."""
        self.on_delete_job: Callable[[dict[str, Any]], None] = lambda job: None
        self._routes: list[Route] = [
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods"), "POST", self.create_pod),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods"), "DELETE", self._delete_pods),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods/([^/]+)"), "GET", self._get_pod),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods/([^/]+)"), "DELETE", self._delete_pod),
            (re.compile(r"/api/v1/pods"), "GET", self._list_pods),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods"), "GET", self._list_pods),
            (re.compile(r"/api/v1/nodes"), "GET", self._list_nodes),
            (re.compile(paths.profiles()), "GET", self._list_profiles),
            (re.compile(paths.GROUPS), "GET", self._list_groups),
            (re.compile(r"/api/v1/nodes/([^/]+)"), "GET", self._get_node),
            (re.compile(f"{paths.kubelet_lease('([^/]+)')}"), "GET", self._get_lease),
            (re.compile(_DEPENDENTS), "POST", self._create_dependent),
            (re.compile(rf"{_DEPENDENTS}/([^/]+)"), "GET", self._get_dependent),
            (re.compile(rf"{_DEPENDENTS}/([^/]+)"), "DELETE", self._delete_dependent),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/configmaps/([^/]+)"), "PATCH", self._patch_page),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/events"), "POST", self._create_event),
            (re.compile(rf"/api/v1/namespaces/{NAMESPACE}/events"), "GET", self._list_events),
            (re.compile(rf"/apis/{names.API_VERSION}/slicejobs"), "GET", self._list_jobs),
            (re.compile(rf"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/slicejobs/([^/]+)"), "GET", self._get_job),
            (
                re.compile(rf"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/slicejobs/([^/]+)"),
                "DELETE",
                self._delete_job,
            ),
            (
                re.compile(rf"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/slicejobs/([^/]+)/status"),
                "PATCH",
                self._patch_status,
            ),
        ]

    def choose_clock(self, rng: random.Random) -> float:
        """Which API server answers: by how many seconds its clock is behind."""
        return rng.choice(self.clocks)

    def extend(self, routes: Iterable[Route]) -> None:
        """Let others answer these requests."""
        self._routes[:0] = routes

    def handle(self, who: str, method: str, path: str, query: Query, data: bytes | None) -> bytes:
        """Answer a request of a process.

        Raises:
            ApiError: as the real server would refuse it.
        """
        for pattern, verb, answer in self._routes:
            if verb == method and (found := pattern.fullmatch(path)):
                body = {} if data is None else json.loads(data)
                return answer(*found.groups(), who=who, query=query, body=body)
        raise AssertionError(f"the model does not know {method} {path}")

    def _reference(self, owner: str) -> dict[str, str]:
        """The owner reference that objects of the job of that UID carry."""
        name = self._store.job_names[owner]
        return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": name, "uid": owner}

    def _list(self, items: list[Any]) -> bytes:
        return _encode({"metadata": {"resourceVersion": str(self._store.version)}, "items": items})

    def _list_pods(self, *, who: str, query: Query, body: Body) -> bytes:
        if "labelSelector" not in query:
            node = query["fieldSelector"].removeprefix("spec.nodeName=")
            found = [one.pod for one in self._store.pods.values() if one.pod.spec.node_name == node]
            return self._list([{"metadata": pod.metadata, "spec": {"containers": []}} for pod in found])
        matches = _selector(query["labelSelector"])
        return self._list([one.pod for one in self._store.pods.values() if matches(one.pod.metadata.labels)])

    def _list_nodes(self, *, who: str, query: Query, body: Body) -> bytes:
        return self._list(list(self._store.nodes.values()))

    def _list_profiles(self, *, who: str, query: Query, body: Body) -> bytes:
        return self._list(list(self._store.profiles.values()))

    def _list_groups(self, *, who: str, query: Query, body: Body) -> bytes:
        return _encode({"groups": [{"versions": [{"groupVersion": names.API_VERSION}]}]})

    def _list_jobs(self, *, who: str, query: Query, body: Body) -> bytes:
        return self._list(list(self._store.jobs.values()))

    def _get_node(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        if name not in self._store.nodes:
            raise _not_found(name)
        return _encode(self._store.nodes[name])

    def _get_lease(self, node: str, *, who: str, query: Query, body: Body) -> bytes:
        renewed = self.renewed_at(node)
        if renewed is None:
            raise _not_found(node)
        return _encode({"metadata": {"name": node}, "spec": {"renewTime": moment(renewed)}})

    def _get_job(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        if name not in self._store.jobs:
            raise _not_found(name)
        return _encode(self._store.jobs[name])

    def _get_pod(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        record = self._pod(name)
        shown = json.loads(_encode(record.pod))
        shown["metadata"]["ownerReferences"] = [self._reference(record.owner)]
        return _encode(shown)

    def _pod(self, name: str) -> PodRecord:
        if name not in self._store.pods:
            raise _not_found(name)
        return self._store.pods[name]

    def create_pod(self, *, who: str, query: Query, body: Body) -> bytes:
        """Create a pod, or refuse it."""
        name = body["metadata"]["name"]
        if self.quota_full or (self.quota is not None and self._used() >= self.quota):
            raise refuse(403, "Forbidden", f"pods {name} is forbidden: exceeded quota: tpus")
        if name in self._store.pods:
            raise refuse(409, "AlreadyExists", f"pods {name} already exists")
        if self.denied():
            raise refuse(403, "Forbidden", 'admission webhook "policy.example.com" denied the request: not now')
        if query.get("dryRun"):
            return _encode({"metadata": {"name": name}})
        self._not_too_often(name)
        made = pods.create(self._store, body)
        self._has_its_host_list(made.owner, body)
        mark = self._marks.setdefault((made.owner, made.pod.attempt), made.mark)
        if mark != made.mark:
            raise Violation(f"attempt {made.pod.attempt} has pods of profile {mark!r} and of {made.mark!r}")
        self.on_create(made, body)
        return _encode(made.pod)

    def mark_of(self, key: tuple[str, int]) -> str:
        """By which version of a profile the pods of an attempt were made."""
        return self._marks.get(key, "")

    def _has_its_host_list(self, owner: str, body: Body) -> None:
        """The kubelet starts no container whose variables come from a ConfigMap that is not there."""
        for variable in (one for container in body["spec"]["containers"] for one in container.get("env", ())):
            name = variable.get("valueFrom", {}).get("configMapKeyRef", {}).get("name")
            if name is not None and self._store.dependents.get(("configmaps", name)) != owner:
                raise Violation(f"pod {body['metadata']['name']} is created before its ConfigMap {name}")

    def _not_too_often(self, name: str) -> None:
        """Where a controller deletes new pods at once, Slipway must not create one after the other."""
        now = self._store.timeline.now
        lately = [one for one in self._created.get(name, ()) if one > now - 60.0]
        self._created[name] = [*lately, now]
        if len(lately) >= MOST_CREATED:
            raise Violation(f"pod {name} is created {len(lately) + 1} times in a minute")

    def _used(self) -> int:
        return sum(record.pod.status.phase not in ENDED_PHASES for record in self._store.pods.values())

    def _delete_pod(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        record = self._pod(name)
        if body["preconditions"]["uid"] != record.uid:
            raise refuse(409, "Conflict", f"the UID of pod {name} is {record.uid}")
        if int(body["preconditions"].get("resourceVersion", record.version)) != record.version:
            raise refuse(409, "Conflict", f"pod {name} has changed")
        self.on_delete(who, record, body.get("gracePeriodSeconds"))
        pods.delete(self._store, record, body.get("gracePeriodSeconds"))
        return b"{}"

    def _delete_pods(self, *, who: str, query: Query, body: Body) -> bytes:
        matches = _selector(query["labelSelector"])
        excluded = {term for term in query.get("fieldSelector", "").split(",") if term}
        found = [
            record
            for name, record in self._store.pods.items()
            if matches(record.pod.metadata.labels)
            and excluded.isdisjoint({f"status.phase!={record.pod.status.phase}", f"metadata.name!={name}"})
        ]
        answer = self._list([record.pod for record in found])
        count = self.partial(len(found))
        for record in found[:count]:
            self.on_delete(who, record, body.get("gracePeriodSeconds"))
            pods.delete(self._store, record, body.get("gracePeriodSeconds"))
        if count < len(found):
            raise refuse(500, "InternalError", "etcdserver: request timed out")
        return answer

    def _create_dependent(self, resource: str, *, who: str, query: Query, body: Body) -> bytes:
        name = body["metadata"]["name"]
        if (resource, name) in self._store.dependents:
            raise refuse(409, "AlreadyExists", f"{resource} {name} already exists")
        if query.get("dryRun"):
            return b"{}"
        owner = body["metadata"]["ownerReferences"][0]["uid"]
        self._store.dependents[(resource, name)] = owner
        if "binaryData" in body:
            self._store.pages[(owner, name)] = (self._store.next_version(), body["binaryData"])
        if owner not in self._store.owners():
            self._store.on_job_gone()
        self._store.on_dependent(owner)
        return b"{}"

    def _get_dependent(self, resource: str, name: str, *, who: str, query: Query, body: Body) -> bytes:
        owner = self._store.dependents.get((resource, name))
        if owner is None:
            raise _not_found(name)
        metadata = {"uid": f"{resource}-of-{owner}", "ownerReferences": [self._reference(owner)]}
        version, content = self._store.pages.get((owner, name), ("1", {}))
        return _encode({"metadata": metadata | {"resourceVersion": version}, "binaryData": content})

    def _patch_page(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        owner = self._store.dependents.get(("configmaps", name))
        if owner is None:
            raise _not_found(name)
        version, content = self._store.pages[(owner, name)]
        if body["metadata"]["resourceVersion"] != version:
            raise refuse(409, "Conflict", f"configmap {name} has changed")
        self._store.pages[(owner, name)] = (self._store.next_version(), content | body["binaryData"])
        return b"{}"

    def _delete_dependent(self, resource: str, name: str, *, who: str, query: Query, body: Body) -> bytes:
        owner = self._store.dependents.get((resource, name))
        if owner is None:
            raise _not_found(name)
        if body["preconditions"]["uid"] != f"{resource}-of-{owner}":
            raise refuse(409, "Conflict", f"the UID of {name} is another")
        there = owner in self._store.owners()
        needed = there and not (resource == "configmaps" and self._is_read_no_more(owner, name))
        assert not needed, f"{who} deletes {resource} {name} of a job that is there"
        del self._store.dependents[(resource, name)]
        return b"{}"

    def _is_read_no_more(self, owner: str, name: str) -> bool:
        """Whether a ConfigMap lists the hosts of an attempt of which no pod may run."""
        attempt = re.fullmatch(r".+-(\d+)-\d+", name)
        pods = (one.pod for one in self._store.pods.values() if one.pod.metadata.labels.job_uid == owner)
        return attempt is not None and not any(pod.may_run for pod in pods if pod.attempt == int(attempt[1]))

    def _create_event(self, *, who: str, query: Query, body: Body) -> bytes:
        name = body["metadata"]["name"]
        if name in self._store.events:
            raise refuse(409, "AlreadyExists", f"event {name} already exists")
        self._store.events[name] = dict(body)
        return b"{}"

    def _list_events(self, *, who: str, query: Query, body: Body) -> bytes:
        """Those of a pod, of which nobody here makes any."""
        return self._list([])

    def _delete_job(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        job = self._store.jobs.get(name)
        if job is None:
            raise _not_found(name)
        if body["preconditions"]["uid"] != job["metadata"]["uid"]:
            raise refuse(409, "Conflict", f"the UID of job {name} is another")
        if body["preconditions"]["resourceVersion"] != job["metadata"]["resourceVersion"]:
            raise refuse(409, "Conflict", f"job {name} has changed")
        self.on_delete_job(job)
        self._store.drop_job(name)
        return b"{}"

    def _patch_status(self, name: str, *, who: str, query: Query, body: Body) -> bytes:
        before = self._store.jobs.get(name)
        if before is None:
            raise _not_found(name)
        if body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise refuse(409, "Conflict", f"job {name} has changed")
        after = before | {
            "metadata": dict(before["metadata"]),
            "status": apply_merge_patch(before.get("status", {}), body["status"]),
        }
        if after["status"] != before.get("status", {}):
            self._store.put_job("MODIFIED", after)
            self._on_status(who, before, after)
        return _encode(after)
