"""Nodes as they are known: a `Reflector`, and which node pool has which."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, TypeVar, cast

from slipway.api import names
from slipway.apiserver.watch import Event, InitDone
from slipway.controller.seen.node_pools import OpenPools, TpuPools
from slipway.controller.seen.reflector import Identity, Reflector, number
from slipway.core.model.nodes import Node
from slipway.core.planner.contract.snapshot import LostNode

T = TypeVar("T")

MAX_LOST: Final = 10_000
"""Nodes remembered as gone; an older one is simply read again when a pod still names it."""


class NodeStore(Reflector[Node, str]):
    """Nodes by name, and by node pool; the news are names of nodes whose change may matter to a job."""

    def __init__(
        self, now: Callable[[], datetime], clock: Callable[[], float], pool_key: str = names.NODE_POOL
    ) -> None:
        """`now` is the wall clock in UTC; `clock` is monotonic, in seconds.

        `pool_key` is the node label whose values are node pools.
        """
        super().__init__(clock)
        self._now = now
        self._pool_key = pool_key
        self._lost: dict[str, LostNode] = {}
        self._left: dict[str, Node] = {}
        """The last known state of nodes that are unknown by now."""
        self._troubled: dict[str, datetime] = {}
        self._in_trouble: dict[str, None] = {}
        """Those of them whose trouble lasts."""
        self._untold: dict[str, None] = {}
        """Nodes of which a look has shown what no event and no list has told the other jobs yet."""
        self.watched = True
        """Whether nodes may be watched at all."""
        self.lost: Final[Mapping[str, LostNode]] = MappingProxyType(self._lost)
        """Nodes that the API server denies, and since when; one that comes back is no longer among them.

        The watch only makes a node unknown: it lags, and a younger one of that name may be there already.
        """
        self.troubled: Final[Mapping[str, datetime]] = MappingProxyType(self._troubled)
        """Since when the machine of each Node was last not ready or gone, whatever has come in its place."""
        self.view: Final = cast(Mapping[str, Node], MappingProxyType(self._objects))
        """All nodes, read-only and always current."""
        self.pools: Final[dict[str, set[str]]] = {}
        """Names of the nodes of each node pool."""
        self.open_pools: Final = OpenPools()
        """The node pools that no pod is pinned to and that are promised to no slice."""
        self.tpu_pools: Final = TpuPools(self.view, self.pools)
        """The node pools with TPUs, each with its nodes."""

    def observe(self, event: Event[Node], scope: str = "") -> Collection[str]:
        """Take an event of the watch; a list also tells what looks have shown since the last event of these nodes."""
        news = super().observe(event, scope)
        if isinstance(event, InitDone):
            news = dict.fromkeys((*news, *self._untold)).keys()
        for name in news:
            self._untold.pop(name, None)
        return news

    def found(self, seen: Node) -> None:
        """Take a node as a look for one job has found it."""
        self._to_be_told(self.applied(seen))

    def denied(self, name: str, uid: str, pods: Iterable[str] = ()) -> bool:
        """Take the API server's word that there is no such node.

        Args:
            name: of the node.
            uid: by which the node was known when the API server was asked; empty when it was not known.
            pods: UIDs of pods that were seen to be bound to it before that.

        Returns:
            Whether that still holds: a younger node of the name may have been seen meanwhile.
        """
        node = self.get(name)
        if node is not None and node.metadata.uid != uid:
            return False
        if node is not None:
            self._to_be_told(self._drop(node))
        left = self._left.get(name)
        created = left.metadata.creation_timestamp if left is not None else None
        before = self._lost.get(name)
        bound = frozenset(pods) | (before.pods if before is not None else frozenset())
        self._lost[name] = LostNode(self._now(), left is not None and left.silent, created, bound)
        _bound(self._lost)
        return True

    def uid_of(self, name: str) -> str:
        """By which a node is known; empty when it is not."""
        node = self.get(name)
        return node.metadata.uid if node is not None else ""

    def _to_be_told(self, names_of_nodes: Iterable[str]) -> None:
        self._untold.update(dict.fromkeys(names_of_nodes))
        _bound(self._untold)

    def _identity(self, node: Node) -> Identity:
        metadata = node.metadata
        return Identity(metadata.name, metadata.uid, number(metadata.resource_version), "")

    def _watched(self, seen: Node) -> Collection[str]:
        # A read for one job may have shown this version already, and the other jobs on the node have not heard.
        node = self.get(seen.metadata.name)
        if node is not None and node.metadata.resource_version == seen.metadata.resource_version:
            return (seen.metadata.name,)
        return self.applied(seen)

    def _changed(self, before: Node | None, after: Node) -> Collection[str]:
        self._regroup(before, after)
        if before is not None and before.metadata.uid != after.metadata.uid:
            self._note_trouble(before, gone=True)
        self._note_trouble(after)
        self._lost.pop(after.metadata.name, None)
        self._left.pop(after.metadata.name, None)
        same = (
            before is not None
            and before.metadata.uid == after.metadata.uid
            and before.metadata.labels == after.metadata.labels
            and before.spec == after.spec
            and before.status == after.status
        )
        return () if same else (after.metadata.name,)

    def _gone(self, known: Node, last: Node, event: Node | None) -> Collection[str]:
        self._regroup(known, None)
        self._note_trouble(last, gone=True)
        self._left[known.metadata.name] = last
        _bound(self._left)
        return (known.metadata.name,)

    def _late_update(self, seen: Node, *, deleted: bool) -> Collection[str]:
        # A read for one job may have shown that it is gone, and the other jobs on it have not heard.
        return (seen.metadata.name,) if deleted else ()

    def _note_trouble(self, node: Node, *, gone: bool = False) -> None:
        """Date the beginning of a machine's trouble, which lasts until a Node of its name is ready again.

        A kubelet that comes back says first that it is not ready, be it with a new Node: that is the end of the trouble
        and no other one.
        """
        name, ready = node.metadata.name, node.ready
        is_ready = ready is not None and ready.status == "True"
        if is_ready and not gone:
            self._in_trouble.pop(name, None)
            return
        since = ready.last_transition_time if ready is not None and not is_ready else None
        if since is None and gone:
            since = self._now()
        if since is not None and name not in self._in_trouble:
            self._troubled[name], self._in_trouble[name] = since, None
            _bound(self._troubled)
            _bound(self._in_trouble)

    def _regroup(self, before: Node | None, after: Node | None) -> None:
        """Keep the node pools in step with a node that has changed."""
        old, new = (node.metadata.labels.get(self._pool_key) if node is not None else None for node in (before, after))
        if before is not None and old is not None and old != new:
            self.pools[old].discard(before.metadata.name)
            if not self.pools[old]:
                del self.pools[old]
                self.open_pools.gone(old)
        if after is not None and new is not None:
            if new not in self.pools:
                self.pools[new] = set()
                self.open_pools.appeared(new)
            self.pools[new].add(after.metadata.name)
        for pool in (old, new):
            if pool is not None:
                self.tpu_pools.changed(pool)


def _bound(names_of_nodes: dict[str, T]) -> None:
    """Forget the oldest ones."""
    while len(names_of_nodes) > MAX_LOST:
        del names_of_nodes[next(iter(names_of_nodes))]
