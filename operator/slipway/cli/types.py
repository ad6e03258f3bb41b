"""`slipway types`: the TPU types there are, and which of them a cluster has."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import click
import msgspec
from rich.table import Table

from slipway.api import names
from slipway.api.accelerators import AcceleratorError, Shape, known_types, resolve
from slipway.cli.common import output_option, print_data, run, targeted
from slipway.client.answers import answered
from slipway.client.asynchronous import ClusterTarget
from slipway.client.pictures.output import console
from slipway.cluster import paths

_CHIPS_PER_HOST: Final = (1, 4, 8)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata


@click.command()
@click.option("--cluster", "of_cluster", is_flag=True, help="List only those that the cluster has nodes of.")
@output_option("json", "yaml")
@targeted
def types(target: ClusterTarget, of_cluster: bool, output: str | None) -> None:
    """List TPU types: topology, hosts and chips of a slice; with --cluster the node pools that the cluster has."""
    nodes = run(_nodes(target)) if of_cluster else ()
    pools = _pools(nodes)
    rows = [_row(shape, pools) for shape in _shapes() if not of_cluster or _key(shape) in pools]
    if output:
        print_data(rows, output)
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("type", "topology", "hosts", "chipsPerHost", "label") + (("nodePools", "nodes") if of_cluster else ())
    for name in columns:
        shown.add_column(name.upper(), no_wrap=True)
    for row in rows:
        shown.add_row(*(str(row[name]) for name in columns))
    console().print(shown)


def _shapes() -> Iterator[Shape]:
    """Every shape of the catalogue; a name with several has one for each number of chips of a host."""
    for name in known_types():
        try:
            yield resolve(name)
        except AcceleratorError:
            for chips in _CHIPS_PER_HOST:
                with suppress(AcceleratorError):
                    yield resolve(name, chips_per_host=chips)


async def _nodes(target: ClusterTarget) -> tuple[_Node, ...]:
    async with target.client() as client:
        with answered():
            listing = await client.api.list(paths.NODES, _Node, label_selector=names.NODE_ACCELERATOR)
        return tuple(listing.items)


Pools = dict[tuple[str, str], Counter[str]]


def _pools(nodes: Iterable[_Node]) -> Pools:
    """Nodes by label and topology, counted by node pool."""
    found: Pools = {}
    for node in nodes:
        labels = node.metadata.labels
        key = labels.get(names.NODE_ACCELERATOR, ""), labels.get(names.NODE_TOPOLOGY, "")
        found.setdefault(key, Counter())[labels.get(names.NODE_POOL, node.metadata.name)] += 1
    return found


def _key(shape: Shape) -> tuple[str, str]:
    return shape.label, shape.topology


def _row(shape: Shape, pools: Pools) -> dict[str, Any]:
    there = pools.get(_key(shape), Counter())
    return {
        "type": shape.type,
        "topology": shape.topology,
        "hosts": shape.hosts,
        "chipsPerHost": shape.chips_per_host,
        "label": shape.label,
        "nodePools": len(there),
        "nodes": there.total(),
    }
