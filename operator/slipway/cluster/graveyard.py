"""Remembers for a minute what is gone, so that a late answer cannot bring it back to life."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

REMEMBERED_SECONDS: Final = 60.0
"""Longer than any request of ours may take."""


class Graveyard:
    """UIDs of objects that are gone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._buried: OrderedDict[str, float] = OrderedDict()

    def bury(self, uid: str) -> None:
        """Remember that it is gone."""
        now = self._clock()
        self._buried[uid] = now
        while self._buried:
            oldest, at = next(iter(self._buried.items()))
            if at > now - REMEMBERED_SECONDS:
                break
            del self._buried[oldest]

    def __contains__(self, uid: str) -> bool:
        return uid in self._buried
