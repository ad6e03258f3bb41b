"""Which node pools are open, kept from change to change: a large cluster has thousands, and most are taken."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain


class OpenPools(Collection[str]):
    """Node pools that no pod which has not ended is pinned to, and that are promised to no slice.

    Those that were let go last come first, because their nodes have images already; then those that were not let go
    since they appeared.
    """

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._holds: Counter[str] = Counter()
        self._untouched: dict[str, None] = {}
        self._let_go: dict[str, None] = {}

    def __contains__(self, pool: object) -> bool:
        return pool in self._let_go or pool in self._untouched

    def __iter__(self) -> Iterator[str]:
        return chain(reversed(self._let_go), self._untouched)

    def __len__(self) -> int:
        return len(self._let_go) + len(self._untouched)

    def appeared(self, pool: str) -> None:
        """The pool has its first node."""
        self._there.add(pool)
        if pool not in self._holds:
            self._untouched[pool] = None

    def gone(self, pool: str) -> None:
        """The pool has lost its last node."""
        self._there.discard(pool)
        self._close(pool)

    def hold(self, pool: str) -> None:
        """Somebody has the pool, perhaps one more."""
        self._holds[pool] += 1
        self._close(pool)

    def let_go(self, pool: str) -> None:
        """One of those who hold the pool does so no longer."""
        self._holds[pool] -= 1
        if not self._holds[pool]:
            del self._holds[pool]
            if pool in self._there:
                self._let_go[pool] = None

    def _close(self, pool: str) -> None:
        self._untouched.pop(pool, None)
        self._let_go.pop(pool, None)
