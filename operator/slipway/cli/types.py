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
from slipway.api.tpu_generations import GENERATIONS
from slipway.apiserver import paths
from slipway.cli.common import output_option, print_data, run, targeted
from slipway.client.api_errors import as_client_errors
from slipway.client.cluster_client import ClusterTarget
from slipway.client.pictures.console import console

_CHIPS_PER_HOST: Final = (1, 4, 8)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata


@click.command()
@click.option("--cluster", "of_cluster", is_flag=True, help="List the slices that the cluster has nodes of.")
@output_option("json", "yaml")
@targeted
def types(target: ClusterTarget, of_cluster: bool, output: str | None) -> None:
    """List TPU types: topology, hosts and chips of a slice; with --cluster the node pools that the cluster has."""
    rows = list(_of_cluster(run(_nodes(target))) if of_cluster else map(_row, _shapes()))
    if output:
        print_data(rows, output)
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("type", "topology", "hosts", "chipsPerHost", "label") + (("nodePools", "nodes") if of_cluster else ())
    for name in columns:
        shown.add_column(name.upper(), no_wrap=True)
    for row in rows:
        shown.add_row(*("" if row[name] is None else str(row[name]) for name in columns))
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
        with as_client_errors():
            listing = await client.api.list(paths.NODES, _Node, label_selector=names.NODE_ACCELERATOR)
        return tuple(listing.items)


_SAY_THE_SHAPE: Final = (names.NODE_ACCELERATOR, names.NODE_TOPOLOGY, names.NODE_CHIPS)
"""The labels of nodes that say of which shape their slice is."""


def _of_cluster(nodes: Iterable[_Node]) -> Iterator[dict[str, Any]]:
    """The slices that nodes are of, in the order of the catalogue; last what it does not know, by its labels."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for node in nodes:
        labels = node.metadata.labels
        label, topology, chips = (labels.get(name, "") for name in _SAY_THE_SHAPE)
        found.setdefault((label, topology, chips), Counter())[labels.get(names.NODE_POOL, node.metadata.name)] += 1
    shapes = {key: _shape(*key) for key in found}
    for key in sorted(found, key=lambda key: (_place(shapes[key]), key)):
        shape, there = shapes[key], found[key]
        yield _row(shape, there) if shape else _unknown_row(*key, there)


def _shape(label: str, topology: str, chips: str) -> Shape | None:
    with suppress(AcceleratorError):
        return resolve(label=label, topology=topology, chips_per_host=int(chips) if chips.isdecimal() else None)
    return None


_ORDER: Final = {generation.name: place for place, generation in enumerate(GENERATIONS)}


def _place(shape: Shape | None) -> tuple[int, int]:
    """Where a shape stands in the catalogue; generations and shapes that are not in it come behind."""
    return (len(_ORDER) + 1, 0) if shape is None else (_ORDER.get(shape.generation, len(_ORDER)), shape.chips)


def _row(shape: Shape, there: Counter[str] | None = None) -> dict[str, Any]:
    about = {
        "type": shape.type,
        "topology": shape.topology,
        "hosts": shape.hosts,
        "chipsPerHost": shape.chips_per_host,
        "label": shape.label,
    }
    return about | _counted(there or Counter())


def _unknown_row(label: str, topology: str, chips: str, there: Counter[str]) -> dict[str, Any]:
    per_host = int(chips) if chips.isdecimal() else None
    about = {"type": None, "topology": topology, "hosts": None, "chipsPerHost": per_host, "label": label}
    return about | _counted(there)


def _counted(there: Counter[str]) -> dict[str, int]:
    return {"nodePools": len(there), "nodes": there.total()}
