"""`slipway types`: the catalogue, and what a cluster has nodes of."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.api import names
from slipway.cli.main import main
from tests.cli.api_server import ApiServer


def pool(name: str, nodes: int, label: str, topology: str, chips: str | None) -> list[dict[str, Any]]:
    """The nodes of a node pool, labelled as GKE labels them."""
    labels = {names.NODE_ACCELERATOR: label, names.NODE_TOPOLOGY: topology, names.NODE_POOL: name}
    labels |= {} if chips is None else {names.NODE_CHIPS: chips}
    return [{"metadata": {"name": f"{name}-{number}", "labels": labels}} for number in range(nodes)]


POOLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "one host of 8 chips": ((1, "tpu-v6e-slice", "2x4", "8"), {"type": "v6e-8", "hosts": 1, "chipsPerHost": 8}),
    "two hosts of 4 chips": ((2, "tpu-v6e-slice", "2x4", "4"), {"type": "v6e-8", "hosts": 2, "chipsPerHost": 4}),
    "a topology that no bare name stands for": (
        (128, "tpu-v5p-slice", "4x8x16", "4"),
        {"type": "v5p-1024", "hosts": 128, "chipsPerHost": 4},
    ),
    "a legacy label": ((1, "tpu-v5-lite-device", "2x2", "4"), {"type": "v5litepod-4", "hosts": 1, "chipsPerHost": 4}),
    "a generation to come": ((4, "tpu9x", "4x4", "4"), {"type": "tpu9x-16", "hosts": 4, "chipsPerHost": 4}),
    "a label of no known form": ((4, "tpu-v9-slice", "4x4", "4"), {"type": None, "hosts": None, "chipsPerHost": 4}),
    "a topology that cannot be": ((3, "tpu-v5p-slice", "3x1x1", "1"), {"type": None, "hosts": None, "chipsPerHost": 1}),
    "no chips of a host, one possible": (
        (4, "tpu-v6e-slice", "4x4", None),
        {"type": "v6e-16", "hosts": 4, "chipsPerHost": 4},
    ),
    "no chips of a host, several possible": (
        (1, "tpu-v6e-slice", "2x4", None),
        {"type": None, "hosts": None, "chipsPerHost": None},
    ),
}


@pytest.mark.parametrize(("nodes", "shown"), POOLS.values(), ids=POOLS)
def test_the_slices_of_a_cluster_are_those_of_its_node_pools(
    api_server: ApiServer, nodes: tuple[Any, ...], shown: dict[str, Any]
) -> None:
    api_server.nodes = pool("a", *nodes) + pool("b", *nodes)
    done = CliRunner().invoke(main, ["types", "--cluster", "-o", "json"])
    count, label, topology, _ = nodes
    counted = {"nodePools": 2, "nodes": 2 * count}
    assert json.loads(done.stdout) == [shown | {"label": label, "topology": topology} | counted]
    assert f"{topology} " in CliRunner().invoke(main, ["types", "--cluster"]).stdout


def test_the_slices_of_a_cluster_are_listed_in_the_order_of_the_catalogue(api_server: ApiServer) -> None:
    for label, topology in (
        ("tpu-v9-slice", "4x4"), ("tpu9x", "4x4"), ("tpu-v6e-slice", "4x4"), ("tpu-v6e-slice", "2x2"),
        ("tpu-v4-podslice", "2x2x1"),
    ):  # fmt: skip
        api_server.nodes += pool(f"{label}-{topology}", 1, label, topology, "4")
    rows = json.loads(CliRunner().invoke(main, ["types", "--cluster", "-o", "json"]).stdout)
    assert [row["type"] for row in rows] == ["v4-8", "v6e-4", "v6e-16", "tpu9x-16", None]
