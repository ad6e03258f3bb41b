"""A kind of object that is followed for as long as the operator runs, through times in which it may not be read."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

from slipway.apiserver.errors import ApiError, Forbidden
from slipway.apiserver.watch import Event, InitDone, Watcher

T = TypeVar("T")

PAUSES: Final = (15.0, 60.0)
"""The first and the longest pause before what may not be read is listed again, in seconds."""


class Source(Generic[T]):
    """One kind of object in one namespace, or in all."""

    def __init__(
        self,
        kind: str,
        watcher: Watcher[T],
        scope: str = "",
        *,
        see: Callable[[Event[T], str], None],
        settled: "Callable[[Source[T], ApiError | None], None]",
        tolerated: tuple[type[ApiError], ...] = (Forbidden,),
    ) -> None:
        """`kind` is the plural, as it is in paths; `scope` is the namespace, empty for all.

        `see` is told each event, with the scope. `settled` is told when a list is complete, and when the API server
        refuses for a reason that is `tolerated`: with that error.
        """
        self.kind = kind
        self.watcher = watcher
        self.scope = scope
        self.refused = False
        """Whether the API server does not show these objects, so that its silence means nothing."""
        self._see = see
        self._settled = settled
        self._tolerated = tolerated

    @property
    def name(self) -> str:
        """The kind, and the namespace if it is one."""
        return f"{self.kind} {self.scope}".strip()

    async def run(self) -> None:
        """Follow for ever.

        Raises:
            ApiError: when the API server refuses for a reason that is not tolerated.
        """
        pause, longest = PAUSES
        while True:
            try:
                async with aclosing(self.watcher.events()) as events:
                    async for event in events:
                        self._see(event, self.scope)
                        if isinstance(event, InitDone):
                            pause, self.refused = PAUSES[0], False
                            self._settled(self, None)
            except self._tolerated as error:
                self.refused = True
                self._settled(self, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)


def silences(sources: Iterable[Source[Any]], started: float, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds since the most silent watch of each kind gave a sign of life; one that never did counts from the start.

    What the API server refuses to show is left out.
    """
    found: dict[str, float] = {}
    for source in sources:
        if not source.refused:
            found[source.kind] = max(clock() - (source.watcher.heard or started), found.get(source.kind, 0.0))
    return found
