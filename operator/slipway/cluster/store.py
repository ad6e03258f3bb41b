"""What is known of pods and nodes, kept so that no decision is made on what never was or no longer is.

Two sources feed the pods: the watch, and the answers to our own requests (write-through). The watch lags; an answer
does not. Resource versions order them, because all pods of a cluster share one counter.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec

from slipway.api import names
from slipway.cluster.graveyard import Graveyard
from slipway.cluster.watch import Applied, Deleted, Event, Init, InitDone
from slipway.planner.snapshot import Node, Pod, Vanished

Key = tuple[str, str]
"""(namespace, name) of a SliceJob."""

ASKED_SECONDS: Final = 30.0
"""How long a confirmed deletion may take to show in the watch before it is asked for again."""

MAX_LOST: Final = 10_000
"""Nodes remembered as gone; an older one is simply asked for when a pod still names it."""

_NOTHING: Final[Mapping[str, Pod]] = MappingProxyType({})


def key_of(pod: Pod) -> Key:
    """The job whose name the pod carries."""
    return pod.metadata.namespace, pod.metadata.labels.job_name


def version_of(thing: Pod | Node) -> int:
    """Resource version as a number; 0 when it is none."""
    text = thing.metadata.resource_version
    return int(text) if text.isdigit() else 0


def _places(pod: Pod) -> tuple[tuple[str, str], ...]:
    """What a pod that has not ended takes up: the node it is bound to, the node pool it is pinned to."""
    if not pod.may_run:
        return ()
    held = (("node", pod.spec.node_name), ("pool", pod.metadata.labels.node_pool))
    return tuple(place for place in held if place[1])


def _as_first_asked(known: Pod, pod: Pod) -> Pod:
    """The pod with the time at which its deletion was asked for first.

    When a kubelet has stopped a pod it deletes it once more, without grace, and the API server dates the deletion
    anew: it would seem to have come after the container's end.
    """
    since, again = known.going_since, pod.going_since
    if since is None or again is None or since >= again:
        return pod
    first = known.metadata
    metadata = msgspec.structs.replace(
        pod.metadata,
        deletion_timestamp=first.deletion_timestamp,
        deletion_grace_period_seconds=first.deletion_grace_period_seconds,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


class PodStore:
    """Pods by job, what became of those that vanished, and which were asked to go.

    Every method that takes news returns the jobs that the news is for, none when it changes nothing for them.
    """

    def __init__(self, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
        """`now` dates disappearances; `clock` is monotonic, in seconds."""
        self._now = now
        self._clock = clock
        self._pods: dict[str, Pod] = {}
        self._by_job: dict[Key, dict[str, Pod]] = {}
        self._starting: Counter[Key] = Counter()
        self._vanished: dict[Key, dict[str, Vanished]] = {}
        self._asked: dict[Key, dict[str, float]] = {}
        self._on_node: dict[str, dict[Key, int]] = {}
        self._held: Counter[tuple[str, str]] = Counter()
        self._listing: dict[str, dict[str, Pod]] = {}
        self._graveyard = Graveyard(clock)

    def __len__(self) -> int:
        return len(self._pods)

    def observe(self, event: Event[Pod], scope: str = "") -> Collection[Key]:
        """Take an event of the watch of one namespace, or of all when `scope` is empty."""
        match event:
            case Applied(pod):
                if scope in self._listing:
                    self._listing[scope][pod.metadata.uid] = pod
                    return ()
                return self.applied(pod)
            case Deleted(pod):
                return self._removed(pod)
            case Init():
                self._listing[scope] = {}
                return ()
            case InitDone(version):
                known = (pod for pod in self._pods.values() if not scope or pod.metadata.namespace == scope)
                return self._swap(known, self._listing.pop(scope, {}), version)

    def applied(self, pod: Pod) -> Collection[Key]:
        """Take a pod as the watch shows it, or as the server answered one of our own requests."""
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if uid in self._graveyard:
            return self._recalled(pod)
        if known is not None and version_of(pod) <= version_of(known):
            return ()
        key = key_of(pod)
        woken = [key]
        if known is not None:
            pod = _as_first_asked(known, pod)
            if known.spec == pod.spec and known.status == pod.status and known.going == pod.going:
                woken = []
            if (old := key_of(known)) != key:
                woken = [old, key]
            self._unlink(known)
        self._link(pod)
        if pod.going:
            self._not_asked(key, uid)
        return woken

    def of(self, key: Key) -> Collection[Pod]:
        """Every pod that carries the job's name."""
        return self._by_job.get(key, _NOTHING).values()

    def starting(self, key: Key) -> int:
        """How many of the job's pods have not started yet."""
        return self._starting[key]

    def vanished_of(self, key: Key, job_uid: str) -> tuple[Vanished, ...]:
        """The job's pods that were seen and are gone."""
        gone = self._vanished.get(key, {}).values()
        return tuple(one for one in gone if one.pod.metadata.labels.job_uid == job_uid)

    def ask(self, key: Key, uids: Iterable[str]) -> None:
        """Remember that the server has confirmed the deletion of these pods."""
        until = self._clock() + ASKED_SECONDS
        waiting = {uid for uid in uids if uid in self._pods and not self._pods[uid].going}
        if waiting:
            self._asked.setdefault(key, {}).update(dict.fromkeys(waiting, until))

    def asked_of(self, key: Key) -> frozenset[str]:
        """UIDs of the job's pods that were asked to go and that the watch still shows as staying."""
        now = self._clock()
        return frozenset(uid for uid, until in self._asked.get(key, {}).items() if until > now)

    def jobs_on(self, node: str) -> Collection[Key]:
        """The jobs that have, or had, pods on a node."""
        return self._on_node.get(node, {}).keys()

    def holds_node(self, node: str) -> bool:
        """Whether a pod that has not ended is bound to a node."""
        return ("node", node) in self._held

    def holds_pool(self, pool: str) -> bool:
        """Whether a pod that has not ended is pinned to a node pool."""
        return ("pool", pool) in self._held

    def forget(self, key: Key, below_attempt: int | None = None) -> None:
        """Forget what vanished: of attempts before one, or everything."""
        gone = self._vanished.get(key)
        if gone is None:
            return
        for uid, one in list(gone.items()):
            if below_attempt is None or one.pod.attempt < below_attempt:
                del gone[uid]
                self._leave(one.pod.spec.node_name, key)
        if not gone:
            del self._vanished[key]

    def _removed(self, pod: Pod) -> Collection[Key]:
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        self._graveyard.bury(uid)
        if known is None:
            return self._recalled(pod)
        self._unlink(known)
        # The event carries the object as it was last; only a watch that lags behind our own answers knows less.
        self._mourn(_as_first_asked(known, pod) if version_of(pod) >= version_of(known) else known)
        return (key_of(known),)

    def _recalled(self, pod: Pod) -> Collection[Key]:
        """Take what a watch that lags behind a list still tells of a pod that is gone: it may say why."""
        key, uid = key_of(pod), pod.metadata.uid
        gone = self._vanished.get(key, {}).get(uid)
        if gone is None or version_of(pod) <= version_of(gone.pod):
            return ()
        self._leave(gone.pod.spec.node_name, key)
        self._join(pod.spec.node_name, key)
        self._vanished[key][uid] = Vanished(_as_first_asked(gone.pod, pod), gone.at)
        return (key,)

    def relisted(self, key: Key, job_uid: str, pods: Iterable[Pod], version: str) -> None:
        """Take a complete list of one job's pods, as of a resource version."""
        known = (pod for pod in self.of(key) if pod.metadata.labels.job_uid == job_uid)
        self._swap(known, {pod.metadata.uid: pod for pod in pods}, version)

    def _swap(self, known: Iterable[Pod], listed: dict[str, Pod], version: str) -> Collection[Key]:
        """Take a complete list in place of what is known of these pods."""
        woken: set[Key] = set()
        for pod in [pod for pod in known if pod.metadata.uid not in listed and version_of(pod) <= int(version)]:
            self._unlink(pod)
            self._graveyard.bury(pod.metadata.uid)
            self._mourn(pod)
            woken.add(key_of(pod))
        for pod in listed.values():
            woken.update(self.applied(pod))
        return woken

    def _mourn(self, pod: Pod) -> None:
        key = key_of(pod)
        self._vanished.setdefault(key, {})[pod.metadata.uid] = Vanished(pod, self._now())
        self._join(pod.spec.node_name, key)
        self._not_asked(key, pod.metadata.uid)

    def _link(self, pod: Pod) -> None:
        key = key_of(pod)
        self._pods[pod.metadata.uid] = pod
        self._by_job.setdefault(key, {})[pod.metadata.uid] = pod
        if not pod.started:
            self._starting[key] += 1
        self._held.update(_places(pod))
        self._join(pod.spec.node_name, key)

    def _unlink(self, pod: Pod) -> None:
        key = key_of(pod)
        del self._pods[pod.metadata.uid]
        if not pod.started:
            self._starting[key] -= 1
        for place in _places(pod):
            self._held[place] -= 1
            if not self._held[place]:
                del self._held[place]
        siblings = self._by_job[key]
        del siblings[pod.metadata.uid]
        if not siblings:
            del self._by_job[key], self._starting[key]
        self._leave(pod.spec.node_name, key)

    def _join(self, node: str, key: Key) -> None:
        if node:
            jobs = self._on_node.setdefault(node, {})
            jobs[key] = jobs.get(key, 0) + 1

    def _leave(self, node: str, key: Key) -> None:
        if not node:
            return
        jobs = self._on_node[node]
        jobs[key] -= 1
        if not jobs[key]:
            del jobs[key]
        if not jobs:
            del self._on_node[node]

    def _not_asked(self, key: Key, uid: str) -> None:
        waiting = self._asked.get(key)
        if waiting is not None:
            waiting.pop(uid, None)
            if not waiting:
                del self._asked[key]


class NodeStore:
    """Nodes by name; `observe` returns the names of those whose change may matter to a job."""

    def __init__(
        self, now: Callable[[], datetime], clock: Callable[[], float], pool_key: str = names.NODE_POOL
    ) -> None:
        """`now` is the wall clock in UTC; `clock` is monotonic, in seconds.

        `pool_key` is the node label whose values are node pools.
        """
        self._now = now
        self._graveyard = Graveyard(clock)
        self._pool_key = pool_key
        self._nodes: dict[str, Node] = {}
        self._lost: dict[str, datetime] = {}
        self.watched = True
        """Whether nodes may be watched at all."""
        self.lost: Final[Mapping[str, datetime]] = MappingProxyType(self._lost)
        """Nodes that the API server denies, and since when; one that comes back is no longer among them.

        The watch only makes a node unknown: it lags, and a younger one of that name may be there already.
        """
        self._listing: dict[str, Node] | None = None
        self.view: Final[Mapping[str, Node]] = MappingProxyType(self._nodes)
        """All nodes, read-only and always current."""
        self.pools: Final[dict[str, set[str]]] = {}
        """Names of the nodes of each node pool."""

    def observe(self, event: Event[Node]) -> Collection[str]:
        """Take an event of the watch."""
        match event:
            case Applied(node):
                if self._listing is not None:
                    self._listing[node.metadata.name] = node
                    return ()
                # Whoever asked for it may know this version, and the jobs on it have not heard.
                known = self._nodes.get(node.metadata.name)
                asked_for = known is not None and version_of(known) == version_of(node)
                return (node.metadata.name,) if asked_for else self.applied(node)
            case Deleted(node):
                self._graveyard.bury(node.metadata.uid)
                known = self._nodes.get(node.metadata.name)
                if known is not None and known.metadata.uid == node.metadata.uid:
                    self._dropped(node.metadata.name)
                return (node.metadata.name,)
            case Init():
                self._listing = {}
                return ()
            case InitDone():
                listed, self._listing = self._listing or {}, None
                gone = [name for name in self._nodes if name not in listed]
                for name in gone:
                    self._dropped(name)
                return [*gone, *(name for node in listed.values() for name in self.applied(node))]

    def denied(self, name: str) -> None:
        """Take the API server's word that there is no such node."""
        self._dropped(name)
        self._lost[name] = self._now()
        while len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]

    def _dropped(self, name: str) -> None:
        known = self._nodes.pop(name, None)
        if known is not None:
            self._graveyard.bury(known.metadata.uid)
            self._regroup(known, None)

    def applied(self, node: Node) -> Collection[str]:
        """Take a node as the watch shows it, or as the server answered our own request."""
        known = self._nodes.get(node.metadata.name)
        if node.metadata.uid in self._graveyard or (known is not None and version_of(node) <= version_of(known)):
            return ()
        self._nodes[node.metadata.name] = node
        self._regroup(known, node)
        self._lost.pop(node.metadata.name, None)
        same = (
            known is not None
            and known.metadata.uid == node.metadata.uid
            and known.metadata.labels == node.metadata.labels
            and known.spec == node.spec
            and known.status == node.status
        )
        return () if same else (node.metadata.name,)

    def _regroup(self, before: Node | None, after: Node | None) -> None:
        """Keep the node pools in step with a node that has changed."""
        old, new = (node.metadata.labels.get(self._pool_key) if node is not None else None for node in (before, after))
        if before is not None and old is not None and old != new:
            self.pools[old].discard(before.metadata.name)
            if not self.pools[old]:
                del self.pools[old]
        if after is not None and new is not None:
            self.pools.setdefault(new, set()).add(after.metadata.name)
