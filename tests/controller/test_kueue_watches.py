"""What is followed of Kueue on a real API server: its kinds may be refused, late, of another version, and away."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pytest

from slipway.apiserver import connection, watch
from slipway.apiserver.access import load_access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import from_response
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller.clock import Clock
from slipway.controller.seen import kueue_watches as queues_module
from slipway.controller.seen import watches
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.kueue_watches import Queues
from slipway.core.model.cluster_queue import ClusterQueue, LocalQueue
from slipway.core.model.job import Key, Settings
from slipway.core.model.workload import Kueue
from slipway.devcluster import NativeCluster
from tests.chart.rights import access
from tests.clusters import kubectl_for
from tests.controller.kueue_crds import GROUP, KINDS, NEWER, OLDER, crd, kueue_crds
from tests.controller.things import job_json
from tests.kubectl import Kubectl
from tests.stages import thorough_but
from tests.waiting import ANSWER_SECONDS
from tests.waiting import holds as until


@pytest.fixture
def crds(control_plane: NativeCluster) -> Iterator[Kubectl]:
    """Kueue's kinds, and what changes them."""
    admin = kubectl_for(control_plane, "default")
    with kueue_crds(admin):
        yield admin


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again now and then is tried again soon; so is a watch that may not be read any more."""
    monkeypatch.setattr(queues_module, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(queues_module, "UNKNOWN_SECONDS", 0.2)
    monkeypatch.setattr(watches, "PAUSES", (0.2, 0.2))
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(connection, "WATCH_SECONDS", 1)


class Seen:
    """The queues of a namespace with a job in one of them, and one in none."""

    def __init__(self, api: ApiConnection, namespace: str) -> None:
        self.api, self.key = api, (namespace, "train")
        self.cache = Cache(Settings(), Clock().now, Clock().monotonic)
        self.woken: set[Key] = set()
        self.told = Kueue()
        """What the job was decided on with when it was last looked at."""
        self.versions: set[str] = set()
        """The versions that it was ever decided on with."""
        self.queues = Queues(api, self.cache, (namespace,), self._wake, asyncio.Event())
        for name, labels in (("train", {"kueue.x-k8s.io/queue-name": "tpu"}), ("alone", {})):
            body = job_json(name=name, uid=name)
            body["metadata"] |= {"namespace": namespace, "labels": labels}
            self.cache.jobs.upsert(body)

    def _wake(self, keys: Collection[Key]) -> None:
        self.woken.update(keys)
        if self.key in keys:
            self.told = self.cache.kueue.of(self.key, "tpu")
            self.versions.add(self.told.version)

    async def until_told(self, holds: Callable[[Kueue], Any]) -> None:
        """Wait until the job is looked at when something holds; the one in no queue never is."""
        await until(lambda: self.key in self.woken and holds(self.told), seconds=ANSWER_SECONDS)
        assert self.woken == {self.key}

    def watched(self) -> set[str]:
        return {one.kind for one in self.queues.sources if not one.refused}


@asynccontextmanager
async def following(kubeconfig: Path, namespace: str) -> AsyncIterator[Seen]:
    async with ApiConnection(await load_access(kubeconfig)) as api:
        seen = Seen(api, namespace)
        task = asyncio.create_task(seen.queues.run())
        try:
            yield seen
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def seen(crds: Kubectl, kubectl: Kubectl) -> AsyncIterator[Seen]:
    """Of an operator that may read everything."""
    async with following(kubectl.kubeconfig, kubectl.namespace) as found:
        await found.until_told(lambda kueue: kueue.version == NEWER)
        yield found


@pytest.mark.parametrize("refused", thorough_but({"workloads"}, ["workloads", "resourceflavors"]))
async def test_a_kind_that_may_not_be_read_is_a_problem_of_jobs_in_queues_until_it_may(
    control_plane: NativeCluster, crds: Kubectl, kubectl: Kubectl, tmp_path: Path, refused: str
) -> None:
    role = kubectl.namespace
    kubectl("create", "serviceaccount", "operator")
    kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={role}:operator")
    allow(kubectl, role, KINDS.keys() - {refused})
    own = access(control_plane, kubectl.namespace, "operator", tmp_path / "kubeconfig")
    async with following(own, kubectl.namespace) as seen:
        # At first the API server may not know the role, and refuse all kinds.
        await seen.until_told(
            lambda kueue: (
                f'cannot list resource "{refused}"' in kueue.problem and seen.watched() == KINDS.keys() - {refused}
            )
        )
        assert (seen.told.version, seen.told.unseen) == (NEWER, refused == "workloads")
        await asyncio.to_thread(allow, kubectl, role, KINDS)
        await seen.until_told(lambda kueue: not kueue.problem and seen.watched() == KINDS.keys())
        # So it is when the right is taken away from an operator that runs.
        await asyncio.to_thread(allow, kubectl, role, KINDS.keys() - {refused})
        await seen.until_told(
            lambda kueue: (
                f'cannot list resource "{refused}"' in kueue.problem and seen.watched() == KINDS.keys() - {refused}
            )
        )


def allow(kubectl: Kubectl, role: str, plurals: Collection[str]) -> None:
    """Let the operator read kinds, and no others."""
    rules = [{"apiGroups": [GROUP], "resources": list(plurals), "verbs": ["get", "list", "watch"]}]
    api = "rbac.authorization.k8s.io/v1"
    kubectl.apply({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules})


async def test_kinds_that_go_and_come_back_are_followed_again(seen: Seen, crds: Kubectl) -> None:
    await asyncio.to_thread(crds, "delete", "crd", f"clusterqueues.{GROUP}")
    await seen.until_told(lambda kueue: not kueue.version)
    await asyncio.to_thread(crds.apply, crd("clusterqueues"))
    await seen.until_told(lambda kueue: kueue.version == NEWER and seen.watched() == KINDS.keys())


async def test_a_load_balancer_that_has_no_api_server_for_a_while_takes_no_queue_away(
    seen: Seen, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl.apply(workload(NEWER))
    await seen.until_told(lambda kueue: kueue.workload)
    seen.versions.clear()
    refused: list[str] = []

    async def not_found(request: Any) -> NoReturn:
        refused.append(request.url)
        raise from_response(404, b"404 page not found")

    async def no_watch(path: str, **_: Any) -> AsyncGenerator[bytes, None]:
        await not_found(SimpleNamespace(url=path))
        yield b""

    with monkeypatch.context() as away:
        away.setattr(seen.api, "_once", not_found)
        away.setattr(seen.api, "watch", no_watch)
        await until(lambda: refused.count(f"{seen.api.server}/apis") > 2, seconds=ANSWER_SECONDS)
    kubectl("delete", "workloads", "slicejob-train")
    await seen.until_told(lambda kueue: not kueue.workload)
    assert seen.versions == {NEWER}


async def test_a_version_that_is_served_no_longer_is_followed_in_a_later_one(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    admin = kubectl_for(control_plane, "default")
    with kueue_crds(admin, OLDER):
        kubectl.apply(workload(OLDER))
        async with following(kubectl.kubeconfig, kubectl.namespace) as seen:
            await seen.until_told(lambda kueue: kueue.version == OLDER and kueue.workload)
            later = [crd(plural, OLDER, NEWER, unserved=OLDER) for plural in KINDS]
            await asyncio.to_thread(admin.apply, *later)
            await seen.until_told(
                lambda kueue: kueue.version == NEWER and kueue.workload and seen.watched() == KINDS.keys()
            )


NO_WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}},
}


@pytest.mark.thorough
async def test_jobs_in_queues_are_told_of_a_first_list_that_does_not_come_and_when_it_comes(
    control_plane: NativeCluster, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workloads are stored in another version, and nobody converts them while Kueue is away."""
    monkeypatch.setattr(queues_module, "SYNC_SECONDS", 0.5)
    admin = kubectl_for(control_plane, "default")
    with kueue_crds(admin, OLDER, NEWER, conversion=NO_WEBHOOK):
        kubectl("create", "-f", "-", stdin=workload(OLDER))
        async with following(kubectl.kubeconfig, kubectl.namespace) as seen:
            await seen.until_told(lambda kueue: "has not listed workloads" in kueue.problem)
            assert (seen.told.version, seen.told.unseen, seen.told.workload) == (NEWER, True, None)
            await asyncio.to_thread(admin.apply, crd("workloads", OLDER, NEWER))
            await seen.until_told(lambda kueue: not kueue.problem and kueue.workload)
            assert not seen.told.unseen


def workload(version: str) -> dict[str, Any]:
    """That of the job in a queue."""
    labels = {"slipway.dev/job-name": "train", "slipway.dev/job-uid": "train"}
    return {"apiVersion": version, "kind": "Workload", "metadata": {"name": "slicejob-train", "labels": labels}}


@pytest.mark.parametrize(
    ("listed", "looked_at"), [(False, {("ns", "train"), ("ns", "over")}), (True, {("ns", "train")})],
    ids=["at first those that are over as well", "later those that are not over"],
)  # fmt: skip
async def test_without_kueue_jobs_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, listed: bool, looked_at: set[Key]
) -> None:
    cache, woken = Cache(Settings(), Clock().now, Clock().monotonic), list[Key]()
    cache.kueue.listed, cache.kueue.version = listed, NEWER if listed else ""
    for name, status in (("train", {}), ("over", {"phase": "Succeeded"})):
        body = job_json(name=name, uid=name, status=status)
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "tpu"}
        cache.jobs.upsert(body)
    rounds = asyncio.Semaphore(0)

    async def no_version(*_: Any) -> str:
        rounds.release()
        return ""

    monkeypatch.setattr(queues_module, "served_version", no_version)
    monkeypatch.setattr(queues_module, "AGAIN_SECONDS", 0.0)
    api: Any = None
    following = asyncio.create_task(Queues(api, cache, ("",), woken.extend, asyncio.Event()).run())
    for _ in range(5):
        await rounds.acquire()
    following.cancel()
    assert (len(woken), set(woken)) == (len(looked_at), looked_at)


NEWS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "a LocalQueue": ("local_queues", {"name": "tpu", "namespace": "ns"}, {"train"}),
    "a LocalQueue of another namespace": ("local_queues", {"name": "tpu", "namespace": "other"}, set()),
    "a ClusterQueue, which LocalQueues of any namespace may lead to": (
        "cluster_queues",
        {"name": "tpu"},
        {"train", "elsewhere"},
    ),
}


@pytest.mark.parametrize(("store", "about", "looked_at"), NEWS.values(), ids=NEWS.keys())
@pytest.mark.parametrize("kind", [Applied, Deleted])
def test_the_jobs_that_are_looked_at_for_news_of(
    store: str, about: dict[str, Any], looked_at: set[str], kind: type[Any]
) -> None:
    cache, woken = Cache(Settings(), Clock().now, Clock().monotonic), list[Key]()
    for name, queue, status in (
        ("train", "tpu", {}),
        ("elsewhere", "gpu", {}),
        ("over", "tpu", {"phase": "Succeeded"}),
        ("alone", None, {}),
    ):
        body = job_json(name=name, uid=name, status=status)
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue is not None else {}
        cache.jobs.upsert(body)
    api: Any = None
    queues, known = Queues(api, cache, ("",), woken.extend, asyncio.Event()), getattr(cache.kueue, store)
    seen = {"local_queues": LocalQueue, "cluster_queues": ClusterQueue}[store]
    one = msgspec.convert({"metadata": about | {"uid": "1", "resourceVersion": "1"}}, seen)
    if kind is Deleted:
        known.applied(one)
    queues._see(known, kind(one), "")
    assert set(woken) == {("ns", name) for name in looked_at}
