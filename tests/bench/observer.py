"""The one observer of all systems: a raw watch of pods, and when each of them was first seen in each state."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.watch import Applied, Deleted, Init, Watcher

POLL_SECONDS = 0.05
"""How often it is asked whether a wait is over; moments are taken when events arrive, not here."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}
    deletion_timestamp: datetime | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Thing(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: dict[str, Any] = {}


@dataclass(slots=True)
class Seen:
    """One pod; moments are monotonic seconds, None while they have not come."""

    name: str
    uid: str
    labels: dict[str, str]
    created: float
    node: str = ""
    running: float | None = None
    deleting: float | None = None
    ended: float | None = None
    gone: float | None = None

    @property
    def terminating(self) -> float | None:
        """When it was told to go, or was gone without a word."""
        return self.deleting or self.gone

    @property
    def stopped(self) -> float | None:
        """When it could not hold its chips any more."""
        return min((one for one in (self.ended, self.gone) if one is not None), default=None)


class Observer:
    """Follows the pods of one system, and its own objects where their end is of interest."""

    def __init__(self, api: ApiConnection, pods: str, selector: str) -> None:
        """`pods` is the path of the pods' collection."""
        self._pods = Watcher(api, pods, _Pod, label_selector=selector)
        self._api = api
        self._tasks: list[asyncio.Task[None]] = []
        self._listed = asyncio.Event()
        self.seen: dict[str, Seen] = {}
        self.lists = 0
        """How often everything was listed: more than once means that moments may have been missed."""

    async def __aenter__(self) -> "Observer":
        self._tasks.append(asyncio.create_task(self._follow()))
        await self._listed.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def follow_objects(self, path: str, is_done: Callable[[dict[str, Any]], bool]) -> dict[str, float]:
        """Note when objects of a collection are done by their status; returns the moments by name, as they come."""
        done: dict[str, float] = {}

        async def follow() -> None:
            async for event in Watcher(self._api, path, _Thing).events():
                if isinstance(event, Applied) and is_done(event.object.status):
                    done.setdefault(event.object.metadata.name, time.monotonic())

        self._tasks.append(asyncio.create_task(follow()))
        return done

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is seen; False when the time is over."""
        end = time.monotonic() + seconds
        while not holds():
            for task in self._tasks:
                if task.done():
                    task.result()
            if time.monotonic() > end:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def alive(self) -> list[Seen]:
        """Pods that exist."""
        return [one for one in self.seen.values() if one.gone is None]

    async def _follow(self) -> None:
        async for event in self._pods.events():
            now = time.monotonic()
            match event:
                case Applied(pod):
                    self._applied(pod, now)
                case Deleted(pod):
                    self._applied(pod, now)
                    self.seen[pod.metadata.uid].gone = now
                case Init():
                    self.lists += 1
                case _:
                    self._listed.set()

    def _applied(self, pod: _Pod, now: float) -> None:
        meta = pod.metadata
        one = self.seen.setdefault(meta.uid, Seen(meta.name, meta.uid, meta.labels, now))
        one.node = pod.spec.node_name
        phase = pod.status.phase
        if phase == "Running" and one.running is None:
            one.running = now
        if phase in ("Succeeded", "Failed") and one.ended is None:
            one.ended = now
        if meta.deletion_timestamp is not None and one.deleting is None:
            one.deleting = now


def last(moments: Iterable[float | None]) -> float | None:
    """The last of some moments; None unless all have come."""
    known = list(moments)
    return None if not known or any(one is None for one in known) else max(one for one in known if one is not None)


def first(moments: Iterable[float | None]) -> float | None:
    """The first of the moments that have come."""
    return min((one for one in moments if one is not None), default=None)
