"""Pods as they are known: a `Reflector`, with what is found in it without a search."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from slipway.controller.seen.node_pools import OpenPools
from slipway.controller.seen.reflector import Identity, Reflector, number
from slipway.core.model.job import Key
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.snapshot import Vanished
from slipway.core.planner.lifecycle.fencing import end_unreported

Owner = tuple[Key, str]
"""Key and UID of the SliceJob whose labels a pod carries."""

ASKED_SECONDS: Final = 30.0
"""How long a confirmed deletion may take to show in the watch before it is requested again."""

UNCLAIMED_SECONDS: Final = 300.0
"""How long a pod that is gone is remembered for another SliceJob of its name."""

H = TypeVar("H", bound=Hashable)

_NOTHING: Final[Mapping[str, Pod]] = MappingProxyType({})


def key_of(pod: Pod) -> Key:
    """The job whose name the pod carries."""
    return pod.metadata.namespace, pod.metadata.labels.job_name


def owner_of(pod: Pod) -> Owner:
    """The job whose name and UID the pod carries."""
    return key_of(pod), pod.metadata.labels.job_uid


def _as_first_asked(known: Pod, pod: Pod) -> Pod:
    """The pod with the time at which its deletion was requested first.

    When a kubelet has stopped a pod it deletes it once more, without grace, and the API server dates the deletion
    anew: it would seem to have come after the container's end.
    """
    since, again = known.deletion_requested_at, pod.deletion_requested_at
    if since is None or again is None or since >= again:
        return pod
    first = known.metadata
    metadata = msgspec.structs.replace(
        pod.metadata,
        deletion_timestamp=first.deletion_timestamp,
        deletion_grace_period_seconds=first.deletion_grace_period_seconds,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _restarted(known: Pod, pod: Pod) -> bool:
    """Whether the worker container starts anew after it ran: its machine came back without its containers."""
    before = known.program
    if before is None or (before.running is None and before.terminated is None):
        return False
    if (after := pod.program) is None or after.terminated is not None:
        return False
    if after.running is None or before.running is None:
        return after.waiting is not None or after.running is not None
    first, again = before.running.started_at, after.running.started_at
    return first is not None and again is not None and first != again


def _removed_at(pod: Pod) -> datetime | None:
    """When a pod that is gone left the API: its deletion without grace, which kubelets request, is dated then."""
    metadata = pod.metadata
    return metadata.deletion_timestamp if metadata.deletion_grace_period_seconds == 0 else None


class PodStore(Reflector[Pod, Key]):
    """Pods by job, what became of those that vanished, and whose deletion is confirmed but not seen yet."""

    def __init__(
        self,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        needed: Callable[[Pod], bool | None],
        open_pools: OpenPools,
    ) -> None:
        """`now` dates disappearances; `clock` is monotonic, in seconds.

        `needed` says whether a decision may rest on a pod that is gone; None when only one on another job may.
        `open_pools` learn what pods are pinned to.
        """
        super().__init__(clock)
        self._now = now
        self._clock = clock
        self._needed = needed
        self._open_pools = open_pools
        self._by_job: dict[Key, dict[str, Pod]] = {}
        self._owners: Counter[Owner] = Counter()
        self._starting: Counter[Key] = Counter()
        self._vanished: dict[Key, dict[str, Vanished]] = {}
        self._unbound: dict[tuple[Key, str], str] = {}
        """UIDs of pods that vanished and had no node, by job and name: of each name the last one is enough."""
        self._unclaimed: dict[str, tuple[float, Key]] = {}
        self._deletions: dict[str, float] = {}
        self._over: dict[str, Counter[Key]] = {}
        """Nodes of pods that have ended or vanished, with the jobs of these pods."""
        self.busy: dict[str, Counter[Key]] = {}
        """Nodes that pods which have not ended are bound to, with the jobs of these pods."""
        self.pinned: dict[str, Counter[Key]] = {}
        """Node pools that pods which have not ended are pinned to, with the jobs of these pods."""

    def of(self, key: Key) -> Collection[Pod]:
        """Every pod that carries the job's name."""
        return self._by_job.get(key, _NOTHING).values()

    def owners(self) -> frozenset[Owner]:
        """Key and UID of the SliceJob of every pod there is."""
        return frozenset(self._owners)

    def starting(self, key: Key) -> int:
        """How many of the job's pods have not started yet."""
        return self._starting[key]

    def vanished_of(self, key: Key, job_uid: str) -> tuple[Vanished, ...]:
        """The job's pods that were seen and are gone."""
        gone = self._vanished.get(key, {}).values()
        return tuple(vanished for vanished in gone if vanished.pod.metadata.labels.job_uid == job_uid)

    def vanished_foreign(self, key: Key, job_uid: str) -> tuple[Vanished, ...]:
        """Pods of earlier jobs of the name that were seen and are gone, whose containers may run on."""
        self._expire()
        gone = self._vanished.get(key, {}).values()
        return tuple(
            vanished
            for vanished in gone
            if vanished.pod.metadata.labels.job_uid != job_uid and end_unreported(vanished.pod)
        )

    def expect_deletion(self, uids: Iterable[str]) -> None:
        """Remember that the server has confirmed the deletion of these pods."""
        until = self._clock() + ASKED_SECONDS
        staying = (uid for uid in uids if (pod := self.get(uid)) is not None and not pod.terminating)
        self._deletions.update(dict.fromkeys(staying, until))

    def pending_deletions(self, key: Key) -> frozenset[str]:
        """UIDs of the job's pods whose deletion is confirmed and that the watch still shows as staying."""
        now = self._clock()
        pending = self._deletions.keys() & self._by_job.get(key, _NOTHING).keys()
        return frozenset(uid for uid in pending if self._deletions[uid] > now)

    def bound_to(self, nodes: Collection[str], key: Key) -> Mapping[str, Collection[str]]:
        """By node: UIDs of the job's pods that are bound to it, or were when they vanished."""
        found: dict[str, list[str]] = {node: [] for node in nodes}
        vanished = (one.pod for one in self._vanished.get(key, {}).values())
        for pod in chain(self.of(key), vanished) if nodes else ():
            if pod.spec.node_name in found:
                found[pod.spec.node_name].append(pod.metadata.uid)
        return found

    def jobs_on(self, node: str) -> Collection[Key]:
        """The jobs that have, or had, pods on a node."""
        return dict.fromkeys((*self.busy.get(node, ()), *self._over.get(node, ()))).keys()

    def relisted(self, key: Key, job_uid: str, pods: Iterable[Pod], version: str) -> None:
        """Take a complete list of one job's pods, as of a resource version."""
        known = [pod for pod in self.of(key) if pod.metadata.labels.job_uid == job_uid]
        self.swap(known, pods, version)

    def forget_unneeded(self, key: Key) -> None:
        """Forget the job's pods that are gone and that no decision may rest on any more."""
        for uid, vanished in tuple(self._vanished.get(key, {}).items()):
            needed = self._needed(vanished.pod)
            if needed is False:
                self._forget(key, uid)
            elif needed is None:
                self._unclaimed.setdefault(uid, (self._clock() + UNCLAIMED_SECONDS, key))

    def _identity(self, pod: Pod) -> Identity:
        metadata = pod.metadata
        return Identity(metadata.uid, metadata.uid, number(metadata.resource_version), metadata.namespace)

    def _carried(self, known: Pod, seen: Pod) -> Pod:
        pod = _as_first_asked(known, seen)
        if known.restarted or _restarted(known, seen):
            pod = msgspec.structs.replace(pod, restarted=True)
        if known.ended_unasked:
            pod = msgspec.structs.replace(pod, ended_first=True)
        return pod

    def _changed(self, before: Pod | None, after: Pod) -> Collection[Key]:
        key, uid = key_of(after), after.metadata.uid
        if self._unclaimed:
            self._expire()
        if after.terminating:
            self._deletions.pop(uid, None)
        if before is None:
            self._forget(key, uid)
            self._link(after)
            return (key,)
        if _indexed(before) == _indexed(after):
            # Last, where a link would put it.
            siblings = self._by_job[key]
            del siblings[uid]
            siblings[uid] = after
        else:
            self._unlink(before)
            self._link(after)
        if (old := key_of(before)) != key:
            return (old, key)
        same = before.spec == after.spec and before.status == after.status and before.terminating == after.terminating
        return () if same else (key,)

    def _gone(self, known: Pod, last: Pod, event: Pod | None) -> Collection[Key]:
        self._expire()
        self._unlink(known)
        self._deletions.pop(known.metadata.uid, None)
        self._record_deleted(Vanished(last, self._now(), _removed_at(event) if event is not None else None))
        return (key_of(known),)

    def _late_update(self, seen: Pod, *, deleted: bool) -> Collection[Key]:
        """A watch that lags behind a list tells of a pod that is gone: it may say why."""
        key, uid = key_of(seen), seen.metadata.uid
        gone = self._vanished.get(key, {}).get(uid)
        if gone is None or self._identity(seen).version <= self._identity(gone.pod).version:
            return ()
        removed_at = _removed_at(seen) if deleted else gone.removed_at
        self._record_deleted(Vanished(self._carried(gone.pod, seen), gone.at, removed_at))
        return (key,)

    def _record_deleted(self, gone: Vanished) -> None:
        key, uid = key_of(gone.pod), gone.pod.metadata.uid
        needed = self._needed(gone.pod)
        self._forget(key, uid)
        if needed is False:
            return
        if needed is None:
            self._unclaimed[uid] = (self._clock() + UNCLAIMED_SECONDS, key)
        self._vanished.setdefault(key, {})[uid] = gone
        if not gone.pod.spec.node_name:
            if (earlier := self._unbound.get((key, gone.pod.metadata.name))) is not None:
                self._forget(key, earlier)
            self._unbound[key, gone.pod.metadata.name] = uid
        if node := gone.pod.spec.node_name:
            _more(self._over, node, key)

    def _expire(self) -> None:
        """Forget pods that are gone and that no job of their name has needed for minutes."""
        now = self._clock()
        while self._unclaimed:
            uid, (until, key) = next(iter(self._unclaimed.items()))
            if until > now:
                return
            del self._unclaimed[uid]
            gone = self._vanished.get(key, {}).get(uid)
            if gone is not None and not self._needed(gone.pod):
                self._forget(key, uid)

    def _forget(self, key: Key, uid: str) -> None:
        of_job = self._vanished.get(key)
        if of_job is None or (gone := of_job.pop(uid, None)) is None:
            return
        if not of_job:
            del self._vanished[key]
        self._unclaimed.pop(uid, None)
        if self._unbound.get((key, gone.pod.metadata.name)) == uid:
            del self._unbound[key, gone.pod.metadata.name]
        if node := gone.pod.spec.node_name:
            _fewer(self._over, node, key)

    def _link(self, pod: Pod) -> None:
        key = key_of(pod)
        self._by_job.setdefault(key, {})[pod.metadata.uid] = pod
        self._owners[owner_of(pod)] += 1
        self._starting[key] += not pod.started
        for holders, held in self._holds(pod):
            _more(holders, held, key)
        if pool := _pinned_to(pod):
            self._open_pools.hold(pool)

    def _unlink(self, pod: Pod) -> None:
        key = key_of(pod)
        _less(self._owners, owner_of(pod))
        self._starting[key] -= not pod.started
        for holders, held in self._holds(pod):
            _fewer(holders, held, key)
        if pool := _pinned_to(pod):
            self._open_pools.let_go(pool)
        siblings = self._by_job[key]
        del siblings[pod.metadata.uid]
        if not siblings:
            del self._by_job[key], self._starting[key]

    def _holds(self, pod: Pod) -> Iterator[tuple[dict[str, Counter[Key]], str]]:
        """The indexes in which the pod's job counts, each with the name of the node or node pool."""
        if node := pod.spec.node_name:
            yield (self.busy if pod.may_run else self._over), node
        if pool := _pinned_to(pod):
            yield self.pinned, pool


def _pinned_to(pod: Pod) -> str:
    """The node pool that a pod which has not ended is pinned to; empty where there is none."""
    return pod.metadata.labels.node_pool if pod.may_run else ""


def _indexed(pod: Pod) -> tuple[object, ...]:
    """All of a pod that `_link` looks at: most versions change none of it."""
    metadata = pod.metadata
    return metadata.namespace, metadata.labels, pod.spec.node_name, pod.started, pod.may_run


def _less(counts: Counter[H], what: H) -> None:
    """Count one less; what is not there any more leaves no trace."""
    counts[what] -= 1
    if not counts[what]:
        del counts[what]


def _more(holders: dict[str, Counter[Key]], what: str, key: Key) -> None:
    holders.setdefault(what, Counter())[key] += 1


def _fewer(holders: dict[str, Counter[Key]], what: str, key: Key) -> None:
    _less(holders[what], key)
    if not holders[what]:
        del holders[what]
