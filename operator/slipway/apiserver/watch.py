"""An informer: a list, then a watch that is begun again for ever. Its events have kube-rs' names.

    Init, Applied …, InitDone          a list begins, its objects, and the version it is of
    Applied, Deleted                   a change

A store that keeps what came between Init and InitDone, and drops everything else at InitDone, loses nothing that
vanished while the watch was cut. After a cut the watch goes on from the last version seen; only when the server has
forgotten that version (410), or a line cannot be read, everything is listed again.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import (
    NO_RESOURCE,
    UNREADABLE,
    ApiError,
    Forbidden,
    Garbled,
    Gone,
    SlipwayClusterError,
    Status,
    from_status,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0
_PROOF_OF_HEALTH: Final = 5.0
"""Seconds a watch must live, without any event, for its end to be the server's habit and not a fault."""


@dataclass(frozen=True, slots=True)
class Init:
    """Everything is listed anew: what is not named before InitDone does not exist."""


@dataclass(frozen=True, slots=True)
class InitDone:
    """The list is complete, as of this resource version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Applied(Generic[T]):
    """The object exists and looks like this."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """The object is gone and looked like this in the end."""

    object: T


Event = Init | InitDone | Applied[T] | Deleted[T]


class _Added(msgspec.Struct, Generic[T], tag="ADDED", tag_field="type"):
    object: T


class _Modified(msgspec.Struct, Generic[T], tag="MODIFIED", tag_field="type"):
    object: T


class _Removed(msgspec.Struct, Generic[T], tag="DELETED", tag_field="type"):
    object: T


class _Versioned(msgspec.Struct, rename="camel"):
    resource_version: str


class _Mark(msgspec.Struct):
    metadata: _Versioned


class _Bookmark(msgspec.Struct, tag="BOOKMARK", tag_field="type"):
    object: _Mark


class _Error(msgspec.Struct, tag="ERROR", tag_field="type"):
    object: Status


class Watcher(Generic[T]):
    """Follows one resource in one namespace, or in all."""

    def __init__(
        self,
        api: ApiConnection,
        path: str,
        kind: type[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        first_pause: float = FIRST_PAUSE,
        late_refusals: bool = False,
        seconds: int | None = None,
    ) -> None:
        """`kind` has `metadata.resource_version`; `first_pause` is in seconds and doubles with each failure.

        The server ends each watch after `seconds`, so that a connection that has gone silent is noticed by then.
        With `late_refusals`, later refusals are raised as that of the first list is, and `events` may be called again.
        """
        self._api = api
        self._path = path
        self._kind = kind
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._first_pause = first_pause
        self._late_refusals = late_refusals
        self._seconds = seconds
        union: Any = _Added[kind] | _Modified[kind] | _Removed[kind] | _Bookmark | _Error  # type: ignore[valid-type]
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(union)
        self._version: str | None = None
        self._failures = 0
        self._short_lives = 0
        """Lists in a row whose watch did not live long enough to prove anything."""
        self.heard = 0.0
        """Loop time of the last sign of life from the server; 0 before the first."""

    async def events(self) -> AsyncGenerator[Event[T], None]:
        """Follow the resource for ever.

        Raises:
            Forbidden: when the very first list is refused; with `late_refusals` also when a later request is.
            NoSuchPath, NotFound: when the very first list says that there is no such resource; a later one likewise.
        """
        while True:
            began = self._now()
            try:
                if self._version is None:
                    async with aclosing(self._list()) as found:
                        async for event in found:
                            yield event
                    began = self._now()
                # Closed here, and with it its connection, when nobody reads on.
                async with aclosing(self._watch()) as changes:
                    async for event in changes:
                        yield event
                if self.heard > began or self._now() - began > _PROOF_OF_HEALTH:
                    continue
                log.info("watch of %s ended as soon as it began", self._path)
            except (Gone, Garbled) as error:
                log.info("%s is listed again: %s", self._path, error)
                # A list costs the server most: what a short watch showed in between does not shorten the pause.
                proven = self._version is not None and self._now() - began > _PROOF_OF_HEALTH
                self._short_lives = 0 if proven else self._short_lives + 1
                self._failures = max(0 if proven else self._failures, self._short_lives - 1)
                self._version = None
            except SlipwayClusterError as error:
                if isinstance(error, (Forbidden, *NO_RESOURCE)) and (self._late_refusals or not self.heard):
                    # Whoever comes back needs a list, which says that the objects can be read again.
                    self._version = None
                    raise
                log.warning("watch of %s is taken up again: %s", self._path, error)
                await self._pause(error)
                continue
            await self._pause(None)

    async def _list(self) -> AsyncGenerator[Event[T], None]:
        version = ""
        yield Init()
        async for page in self._api.pages(self._path, self._kind, **self._selectors):
            self._alive()
            version = version or page.metadata.resource_version
            for item in page.items or ():
                yield Applied(item)
        yield InitDone(version)
        self._version = version

    async def _watch(self) -> AsyncGenerator[Event[T], None]:
        version = self._version or ""
        watch = self._api.watch(self._path, resource_version=version, seconds=self._seconds, **self._selectors)
        async with aclosing(watch) as lines:
            async for line in lines:
                message = self._read(line)
                match message:
                    case _Bookmark():
                        self._version = message.object.metadata.resource_version
                        continue
                    case _Error():
                        raise from_status(message.object)
                    case _Removed():
                        yield Deleted(message.object)
                    case _:
                        yield Applied(message.object)
                # Only now has the reader taken it: a version is never skipped over.
                self._version = message.object.metadata.resource_version

    def _read(self, line: bytes) -> Any:
        try:
            message = self._decoder.decode(line)
        except UNREADABLE as error:
            raise Garbled(f"unreadable watch event: {error}") from error
        if not isinstance(message, _Error):
            self._alive()
            self._failures = 0
        return message

    def _alive(self) -> None:
        self.heard = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _pause(self, error: SlipwayClusterError | None) -> None:
        wait = min(self._first_pause * 2**self._failures, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
        self._failures = min(self._failures + 1, 16)
        asked = error.retry_after if isinstance(error, ApiError) else None
        await asyncio.sleep(max(wait, asked or 0.0))
