"""Nodes that a slice takes together: those of a node pool with TPUs, or one node."""

from collections.abc import Iterable
from typing import Any, Final

from slipway.api import names
from slipway.core.model.nodes import Node, name_of

SHAPE: Final = (names.NODE_ACCELERATOR, names.NODE_TOPOLOGY, names.NODE_CHIPS)
"""Labels by which the nodes of a slice are of one shape."""
Shape = tuple[str | None, ...]
"""The values of these labels, None of one that is not there or not asked for."""


class NodeGroup:
    """The nodes with TPUs of a node pool, or one node where slices have one host, as they are at a moment."""

    __slots__ = ("members", "name", "nodes", "remembered", "shape")

    def __init__(self, name: str, nodes: tuple[Node, ...]) -> None:
        """`nodes` are in the order of their names."""
        self.name = name
        self.nodes = nodes
        self.members = tuple(map(name_of, nodes))
        """The names of the nodes."""
        self.shape = shape_of(nodes[0])
        self.remembered: dict[str, Any] = {}
        """What `explain.candidates` has found of it, by what a request asks."""


def shape_of(node: Node) -> Shape:
    """The values of its labels `SHAPE`."""
    return tuple(map(node.metadata.labels.get, SHAPE))


def group_of(pool: str, nodes: Iterable[Node]) -> NodeGroup | None:
    """Those nodes of a node pool that have TPUs; None where none has."""
    tpus = tuple(sorted((node for node in nodes if names.NODE_ACCELERATOR in node.metadata.labels), key=name_of))
    return NodeGroup(pool, tpus) if tpus else None


def grouped(nodes: Iterable[Node], pool_key: str) -> list[NodeGroup]:
    """The node pools with TPUs, in the order of their names; a node label of that key says which is whose."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if (pool := node.metadata.labels.get(pool_key)) is not None:
            found.setdefault(pool, []).append(node)
    groups = (group_of(pool, members) for pool, members in sorted(found.items()))
    return [group for group in groups if group is not None]
