"""Deletes the pods that the planner names, by UID: another pod of the same name stays."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import WRITE_SECONDS, ApiConnection
from slipway.apiserver.errors import Conflict, NotFound, SlipwayClusterError
from slipway.controller.act.executor import BoundedExecutor
from slipway.controller.act.owned_objects import delete_config_map
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.pods import ASKED_SECONDS
from slipway.core.model.job import Job, Key
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.planner.contract.actions import DeleteHostLists, DeleteJob, DeletePods, ForceDeletePod

log = logging.getLogger(__name__)

Slice = tuple[int, int]
"""(attempt, slice index)."""

MIN_DELETES: Final = 8
"""Pods that are worth a request of their own.

The server looks for them among all pods of the namespace first, and then deletes them one by one.
"""

CONCURRENT_DELETES: Final = 32
"""Deletions under way at once; more collections are in each other's way, for each is listed first."""

MOST_BY_NAME: Final = 32
"""Pods that are deleted by name instead, nearly all at once."""

FIRST_SECONDS: Final = 0.25
"""If there are more, they wait no longer than this for the deletion of the first one."""

_NOT_ENDED: Final = ("status.phase!=Succeeded", "status.phase!=Failed")


class PodDeleter:
    """Carries out the deletions of a plan."""

    def __init__(self, api: ApiConnection, cache: Cache) -> None:
        self._api = api
        self._cache = cache
        self._executor = BoundedExecutor(CONCURRENT_DELETES)

    async def carry_out(
        self, action: DeletePods | ForceDeletePod | DeleteHostLists | DeleteJob, job: Job
    ) -> float | None:
        """Delete what the planner says; returns seconds until what was asked should have gone.

        Raises:
            Conflict: when the job itself is to be deleted, and has changed.
        """
        match action:
            case DeletePods():
                await self.delete_pods(action, job)
                return ASKED_SECONDS + 1.0
            case ForceDeletePod():
                await self.force_delete_pod(action, job)
            case DeleteHostLists():
                await self._executor.run(action.names, lambda name: delete_config_map(self._api, name, job))
            case DeleteJob():
                await self.delete_job(job)
        return None

    async def delete_pods(self, action: DeletePods, job: Job) -> None:
        """Delete few pods by name, and many by collection: small slices share a request, a large one takes several.

        The API server looks for a collection among all pods of the namespace, and deletes its pods one by one. So the
        first of many pods is deleted by name, too. Collections of all slices follow in any case: they find workers that
        the cache does not know, and pods that have changed since they were seen.
        """
        log.info("deleting pods of attempt %d", action.attempt, extra=log_fields(job))
        pods = self._known(action, job)
        staying = [pod for pod in pods if not pod.terminating and not pod.ended]
        if len(staying) > MOST_BY_NAME:
            deleted = await self._delete_by_name(staying[:1], action, job, FIRST_SECONDS)
        else:
            deleted = await self._delete_by_name(staying, action, job, WRITE_SECONDS)
        left = [pod for pod in pods if pod.metadata.name not in deleted]
        fields = (*(() if action.ended_too else _NOT_ENDED), *(f"metadata.name!={name}" for name in sorted(deleted)))
        collections = _collections(job.uid, action, left)
        await self._executor.run(collections, lambda labels: self._delete_collection(action, job, labels, fields))
        for pod in left:
            # No selector finds a pod whose labels somebody edited.
            if pod.is_mislabelled and not pod.terminating and (action.ended_too or pod.may_run):
                with suppress(NotFound, Conflict):
                    await self._delete_seen(pod, action, job)

    def _known(self, action: DeletePods, job: Job) -> list[Pod]:
        """The pods to delete that are in the cache, in the order of their places."""

        def is_meant(pod: Pod) -> bool:
            if pod.metadata.labels.job_uid != job.uid or not run.is_current(pod):
                return False
            return action.head if pod.is_head else pod.place.slice in slices and pod.place not in action.except_places

        slices, run = set(action.slices), Roster(action.attempt)
        return sorted(filter(is_meant, self._cache.pods.of(job.key)), key=lambda pod: pod.place)

    async def _delete_by_name(self, pods: Sequence[Pod], action: DeletePods, job: Job, seconds: float) -> set[str]:
        """Delete these pods for so many seconds, the first before all others, for they would be in its way.

        Returns:
            The names of those that are deleted. Errors are not raised: the collections that follow match the others.
        """
        deleted: set[str] = set()

        async def delete(pod: Pod) -> None:
            with suppress(NotFound, Conflict):
                await self._delete_seen(pod, action, job)
                deleted.add(pod.metadata.name)

        try:
            async with asyncio.timeout(seconds):
                for part in (pods[:1], pods[1:]):
                    await self._executor.run(part, delete)
        except TimeoutError:
            self._cache.deletion_unanswered(job, action.attempt)
        except SlipwayClusterError as error:
            log.warning("pods are not deleted by name: %s", error, extra=log_fields(job))
        return deleted

    async def _delete_seen(self, pod: Pod, action: DeletePods, job: Job) -> None:
        """Delete a pod by name, unless it has changed since it was seen: somebody may have deleted it, or it has ended.

        Raises:
            NotFound: when it is gone.
            Conflict: when another pod has the name, or it has changed.
        """
        metadata = pod.metadata
        await self._delete(
            job, action.attempt, metadata.name, metadata.uid, action.grace_seconds, metadata.resource_version
        )

    async def _delete_collection(self, action: DeletePods, job: Job, labels: str, fields: Sequence[str]) -> None:
        unanswered = partial(self._cache.deletion_unanswered, job, action.attempt)
        try:
            gone = await self._api.delete_collection(
                paths.pods(job.namespace),
                Pod,
                label_selector=labels,
                field_selector=",".join(fields),
                grace_seconds=action.grace_seconds,
                on_retry=unanswered,
            )
        except SlipwayClusterError:
            unanswered()
            raise
        for pod in gone:
            if pod.terminating or not pod.undisturbed:
                # Somebody else deleted it, or it has terminated: the watch may not show that before it is gone.
                self._cache.pods.applied(pod)
        self._cache.pods.expect_deletion(pod.metadata.uid for pod in gone)
        self._cache.deleted(job, action.attempt, (pod.metadata.uid for pod in gone if not pod.terminating))

    async def _delete(
        self, job: Job, attempt: int, name: str, uid: str, grace_seconds: int | None, version: str | None = None
    ) -> None:
        """Delete one pod by its name, and remember that Slipway did, or that nobody can know.

        Raises:
            NotFound: when it is gone.
            Conflict: when another pod has the name, or it has changed since that version.
        """
        unanswered = partial(self._cache.deletion_unanswered, job, attempt)
        path = f"{paths.pods(job.namespace)}/{name}"
        try:
            await self._api.delete(path, uid=uid, version=version, grace_seconds=grace_seconds, on_retry=unanswered)
        except (NotFound, Conflict):
            raise
        except SlipwayClusterError:
            unanswered()
            raise
        self._cache.pods.expect_deletion((uid,))
        self._cache.deleted(job, attempt, (uid,))

    async def delete_orphans(self, key: Key, job_uid: str) -> None:
        """Delete every pod of a job that is gone; the garbage collector does only twenty a second.

        Pods without their owner reference were orphaned on purpose when the job was deleted; they stay. So do those
        that another operator has made.
        """
        pods = [pod for pod in self._cache.pods.of(key) if pod.metadata.labels.job_uid == job_uid]
        if pods and not any(owner.uid == job_uid for pod in pods for owner in pod.metadata.owner_references):
            return
        ours = self._cache.settings.operator_id
        made_here = f"{names.LABEL_OPERATOR_ID}={ours}" if ours else f"!{names.LABEL_OPERATOR_ID}"

        async def delete(selector: str) -> None:
            await self._api.delete_collection(paths.pods(key[0]), Pod, label_selector=f"{selector},{made_here}")

        if len(pods) > MIN_DELETES:
            hosts = _by_slice(pod for pod in pods if not pod.is_head)
            heads = [pod for pod in pods if pod.is_head]
            await self._executor.run((*_of_heads(job_uid, heads), *selectors(job_uid, hosts, {})), delete)
        # Few pods, and whatever the cache did not know of.
        await delete(f"{names.LABEL_JOB_UID}={job_uid}")

    async def force_delete_pod(self, action: ForceDeletePod, job: Job) -> None:
        """Remove a pod without its kubelet's word, if a live look shows that its machine is gone."""
        if not await self._machine_gone(action):
            return
        log.warning("removing pod %s: its node %s is gone", action.name, action.node, extra=log_fields(job))
        with suppress(NotFound, Conflict):
            await self._delete(job, job.status.attempt or 0, action.name, action.uid, 0)

    async def _machine_gone(self, action: ForceDeletePod) -> bool:
        """The cache may be behind, and a machine that still writes must not lose its pod."""
        try:
            node = await self._api.get(paths.node(action.node), Node)
        except NotFound:
            return True
        silent = node.ready is None or node.ready.status != "True"
        return node.taint(names.TAINT_OUT_OF_SERVICE) is not None or (action.silence_will_do and silent)

    async def delete_job(self, job: Job) -> None:
        """Delete this very SliceJob, as it was decided on.

        Raises:
            Conflict: when it has changed since, and may have another ttlSecondsAfterFinished or none.
        """
        log.info("deleting the SliceJob: ttlSecondsAfterFinished have passed", extra=log_fields(job))
        path = paths.job(*job.key)
        with suppress(NotFound):
            await self._api.delete(path, uid=job.uid, version=job.resource_version, propagation="Background")


def _part_size(pods: int) -> int:
    """Most pods to delete by one request, so that all requests are under way at once."""
    return max(MIN_DELETES, math.ceil(pods / CONCURRENT_DELETES))


def _collections(job_uid: str, action: DeletePods, known: Sequence[Pod]) -> tuple[str, ...]:
    """Label selectors that together match the pods to delete, workers too that are not known."""
    heads = [pod for pod in known if pod.is_head]
    hosts: dict[Slice, list[int]] = {(action.attempt, index): [] for index in action.slices}
    hosts |= _by_slice(pod for pod in known if not pod.is_head)
    except_places: dict[Slice, list[int]] = {}
    for place in action.except_places:
        except_places.setdefault((action.attempt, place.slice), []).append(place.host)
    return (*_of_heads(job_uid, heads), *selectors(job_uid, hosts, except_places))


def selectors(
    job_uid: str, hosts: Mapping[Slice, Sequence[int]], except_places: Mapping[Slice, Sequence[int]]
) -> Iterator[str]:
    """Label selectors that together match the pods of these slices, and about equally many each.

    Args:
        job_uid: UID of the job.
        hosts: by attempt and slice, the hosts whose pods are known; pods that are not known are matched as well.
        except_places: hosts whose pods are not to be matched.
    """
    size = _part_size(sum(map(len, hosts.values())))
    gathered: dict[int, list[int]] = {}
    counts: Counter[int] = Counter()
    for part, known in hosts.items():
        attempt, index = part
        if part in except_places or len(known) > size:
            yield from _of_slice(_attempt(job_uid, attempt), index, known, size, except_places.get(part, ()))
            continue
        if counts[attempt] + len(known) > size:
            yield _of_slices(_attempt(job_uid, attempt), gathered.pop(attempt))
            counts[attempt] = 0
        gathered.setdefault(attempt, []).append(index)
        counts[attempt] += len(known)
    for attempt, slices in gathered.items():
        yield _of_slices(_attempt(job_uid, attempt), slices)


def _by_slice(workers: Iterable[Pod]) -> dict[Slice, list[int]]:
    hosts: dict[Slice, list[int]] = {}
    for pod in workers:
        hosts.setdefault((pod.attempt, pod.place.slice), []).append(pod.place.host)
    return hosts


def _of_heads(job_uid: str, heads: Iterable[Pod]) -> Iterator[str]:
    return (f"{_attempt(job_uid, pod.attempt)},{names.LABEL_ROLE}={names.ROLE_HEAD}" for pod in heads)


def _attempt(job_uid: str, attempt: int) -> str:
    return f"{names.LABEL_JOB_UID}={job_uid},{names.LABEL_ATTEMPT}={attempt}"


def _of_slices(attempt: str, slices: Sequence[int]) -> str:
    return f"{attempt},{names.LABEL_SLICE} in ({_listed(slices)})"


def _of_slice(attempt: str, index: int, hosts: Sequence[int], size: int, except_places: Sequence[int]) -> Iterator[str]:
    """Selectors for the pods of one slice, each for at most `size` of those that are known."""
    whole = f"{attempt},{names.LABEL_SLICE}={index}"
    rest = max(0, len(hosts) - 1) // size * size
    for first in range(0, rest, size):
        yield f"{whole},{names.LABEL_HOST} in ({_listed(hosts[first : first + size])})"
    # Also whatever the cache does not know of.
    others = (*hosts[:rest], *except_places)
    yield f"{whole},{names.LABEL_HOST} notin ({_listed(others)})" if others else whole


def _listed(hosts: Iterable[int]) -> str:
    return ",".join(map(str, hosts))
