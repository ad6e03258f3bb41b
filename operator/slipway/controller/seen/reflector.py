"""The objects of one kind as the watch shows them: the newest version of each, and which ones were deleted.

    observe(Init, Applied, Deleted, InitDone)      the watch, in the words of `watch.py`
    applied(object), removed(object)               the answers of the API server to our own requests
    swap(known, listed, version)                   a list of a part

The watch lags; an answer does not. Resource versions order them: all objects of a kind share one counter.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from slipway.apiserver.watch import Applied, Deleted, Event, Init, InitDone
from slipway.core.model.parts import ObjectMeta

T = TypeVar("T")
N = TypeVar("N")

REMEMBERED_SECONDS: Final = 60.0
"""How long a UID that is gone stays gone; longer than any request of ours may take."""


class Identity(NamedTuple):
    """Which object it is, and how new."""

    key: Hashable
    """What replaces an object of the same key is the object from then on."""
    uid: str
    version: int
    namespace: str


def number(version: str) -> int:
    """A resource version as a number; 0 when it is none."""
    return int(version) if version.isdigit() else 0


class Tombstones:
    """UIDs of objects that are gone, each for a minute: until then a late answer does not bring the object back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._added: OrderedDict[str, float] = OrderedDict()

    def add(self, uid: str) -> None:
        """Remember that it is gone."""
        self._expire()
        self._added[uid] = self._clock()
        self._added.move_to_end(uid)

    def __contains__(self, uid: str) -> bool:
        if not self._added:
            return False
        self._expire()
        return uid in self._added

    def __len__(self) -> int:
        self._expire()
        return len(self._added)

    def _expire(self) -> None:
        before = self._clock() - REMEMBERED_SECONDS
        while self._added and next(iter(self._added.values())) <= before:
            self._added.popitem(last=False)


class Reflector(Generic[T, N]):
    """Objects of one kind, by key. The newest version wins, what is gone stays gone, a list replaces what it covers.

    Every method that takes news returns whom it is for (`N`), nobody when it changes nothing for them. A kind that
    needs no index of its own is `Reflector[Kind, tuple[str, str]](clock)`: the news are for the object's key.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._objects: dict[Hashable, T] = {}
        self._tombstones = Tombstones(clock)
        self._listing: dict[str, list[T]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Hashable) -> T | None:
        """The object as it was last seen."""
        return self._objects.get(key)

    def all(self) -> Collection[T]:
        """Every object as it was last seen."""
        return self._objects.values()

    def observe(self, event: Event[T], scope: str = "") -> Collection[N]:
        """Take an event of the watch of one namespace, or of all when `scope` is empty."""
        match event:
            case Applied(seen):
                if scope not in self._listing:
                    return self._watched(seen)
                self._listing[scope].append(seen)
            case Deleted(seen):
                return self.removed(seen)
            case Init():
                self._listing[scope] = []
            case InitDone(version):
                known = (one for one in self._objects.values() if not scope or self._identity(one).namespace == scope)
                return self.swap(known, self._listing.pop(scope, []), version)
        return ()

    def applied(self, seen: T) -> Collection[N]:
        """Take an object as the watch shows it, or as the server answered one of our own requests."""
        it = self._identity(seen)
        if it.uid in self._tombstones:
            return self._late_update(seen, deleted=False)
        known = self._objects.get(it.key)
        if known is not None:
            before = self._identity(known)
            if it.version <= before.version:
                return ()
            if it.uid != before.uid:
                self._tombstones.add(before.uid)
            seen = self._carried(known, seen)
        self._objects[it.key] = seen
        return self._changed(known, seen)

    def removed(self, seen: T) -> Collection[N]:
        """Take an object that is gone, as it was in the end."""
        key, uid, version, _ = self._identity(seen)
        self._tombstones.add(uid)
        known = self._objects.get(key)
        if known is None or self._identity(known).uid != uid:
            return self._late_update(seen, deleted=True)
        del self._objects[key]
        # The event carries the object as it was last; only a watch that lags behind our own answers knows less.
        last = self._carried(known, seen) if version >= self._identity(known).version else known
        return self._gone(known, last, seen)

    def swap(self, known: Iterable[T], listed: Iterable[T], version: str) -> Collection[N]:
        """Take a complete list, as of a resource version, in place of what is known of these objects.

        What is newer than the list stays: it is no proof against what was created after it.
        """
        listed = tuple(listed)
        there = {self._identity(one).key for one in listed}
        found: dict[N, None] = {}
        for one in tuple(known):
            if (it := self._identity(one)).key not in there and it.version <= number(version):
                found.update(dict.fromkeys(self._drop(one)))
        for one in listed:
            found.update(dict.fromkeys(self.applied(one)))
        return found.keys()

    def _drop(self, known: T) -> Collection[N]:
        """An object is gone, and nothing tells how it was in the end."""
        key, uid, _, _ = self._identity(known)
        del self._objects[key]
        self._tombstones.add(uid)
        return self._gone(known, known, None)

    def _identity(self, one: T) -> Identity:
        it: ObjectMeta = cast(Any, one).metadata
        return Identity((it.namespace, it.name), it.uid, number(it.resource_version), it.namespace)

    def _watched(self, seen: T) -> Collection[N]:
        """The watch shows an object."""
        return self.applied(seen)

    def _carried(self, known: T, seen: T) -> T:
        """A newer version with what only the known one tells."""
        return seen

    def _changed(self, before: T | None, after: T) -> Collection[N]:
        """An object is new, or newer; an index follows here."""
        return (cast(N, self._identity(after).key),)

    def _gone(self, known: T, last: T, event: T | None) -> Collection[N]:
        """An object is gone and was `last` like this; `event` is what the API server said of that, if it did."""
        return (cast(N, self._identity(known).key),)

    def _late_update(self, seen: T, *, deleted: bool) -> Collection[N]:
        """A watch that lags tells of what is gone, or was never known."""
        return ()
