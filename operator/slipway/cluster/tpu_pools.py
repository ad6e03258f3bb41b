"""The node pools with TPUs, kept from change to change: of thousands few change at a time."""

from collections.abc import Collection, Iterator, Mapping

from slipway.core.model.node_groups import NodeGroup, group_of
from slipway.core.model.nodes import Node


class TpuPools:
    """The node pools with TPUs, in the order of their names, each with its nodes; always current.

    A node pool that has changed is put together again when somebody looks.
    """

    def __init__(self, nodes: Mapping[str, Node], pools: Mapping[str, Collection[str]]) -> None:
        """`nodes` has every node by its name, `pools` the names of the nodes of every node pool; both are current."""
        self._nodes = nodes
        self._pools = pools
        self._known: dict[str, NodeGroup] = {}
        self._changed: set[str] = set()

    def changed(self, pool: str) -> None:
        """A node of the pool has come, changed or gone."""
        self._known.pop(pool, None)
        if pool in self._pools:
            self._changed.add(pool)
        else:
            self._changed.discard(pool)

    def __iter__(self) -> Iterator[NodeGroup]:
        for pool in self._changed:
            group = group_of(pool, map(self._nodes.__getitem__, self._pools[pool]))
            if group is not None:
                self._known[pool] = group
        self._changed.clear()
        return map(self._known.__getitem__, sorted(self._known))
