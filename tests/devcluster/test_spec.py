"""What people may ask for, and the nodes that follow."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from slipway.devcluster import ClusterSpec, LocalClusterError, Pool
from slipway.devcluster.spec import Kind, explain, parse_pool


def test_a_slice_is_a_node_pool_with_one_node_for_each_host() -> None:
    spec = ClusterSpec(pools=[Pool(kind="real", type="v5p-16", count=2, spot=True)])
    assert [(node.name, node.pool) for node in spec.nodes()] == [
        ("v5p-16-0-0", "v5p-16-0"),
        ("v5p-16-0-1", "v5p-16-0"),
        ("v5p-16-1-0", "v5p-16-1"),
        ("v5p-16-1-1", "v5p-16-1"),
    ]


def test_tpu_nodes_carry_the_labels_and_taints_of_gke() -> None:
    node = ClusterSpec(pools=[Pool(kind="real", type="v5p-16", spot=True)]).nodes()[0]
    assert node.tpus == 4
    labels = {key.partition("/")[2]: value for key, value in node.labels.items() if key.startswith("cloud.google")}
    assert labels == {
        "gke-nodepool": "v5p-16-0",
        "gke-tpu-accelerator": "tpu-v5p-slice",
        "gke-tpu-topology": "2x2x2",
        "gke-accelerator-count": "4",
        "gke-spot": "true",
    }
    assert node.taints == [
        {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
    ]


def test_only_a_simulated_node_is_told_its_architecture() -> None:
    kinds: tuple[Kind, ...] = ("real", "simulated")
    nodes = ClusterSpec(pools=[Pool(kind=kind) for kind in kinds]).nodes()
    assert [node.labels.get("kubernetes.io/arch", "the kubelet's") for node in nodes] == ["the kubelet's", "amd64"]


def test_cpu_nodes_have_neither_tpus_nor_taints() -> None:
    node = ClusterSpec(pools=[Pool(kind="simulated")]).nodes()[0]
    assert (node.name, node.tpus, node.taints) == ("cpu-0", 0, [])


def test_pools_of_one_type_count_on_so_that_no_name_repeats() -> None:
    pools = [Pool(kind="real", type="v4-16"), Pool(kind="simulated", type="v4-16", count=2), Pool(kind="real")]
    spec = ClusterSpec(pools=pools)
    names = [node.name for node in spec.nodes()]
    assert len(set(names)) == len(names) == 7
    assert [node.index for node in spec.nodes("real")] == [0, 1, 2]


def test_a_pool_is_read_from_count_and_type() -> None:
    assert parse_pool("3*v6e-16", "simulated") == Pool(kind="simulated", type="v6e-16", count=3)
    assert parse_pool("cpu", "real") == Pool(kind="real", type="cpu", count=1)
    chosen = Pool(kind="simulated", type="v6e-8", count=2, chips_per_host=4)
    assert parse_pool(" 2 * v6e-8 : chipsPerHost=4 ", "simulated") == chosen
    assert [node.tpus for node in ClusterSpec(pools=[chosen]).nodes()] == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("text", "offer"),
    [
        ("3*v6e-8", "Write 3*v6e-8-1 or 3*v6e-8-2."),
        ("v5litepod-8:chipsPerHost=2", "Write 1*v5litepod-8:chipsPerHost=8 or 1*v5litepod-8:chipsPerHost=4."),
        ("2*v5p-17", "Write 2*v5p-16 or 2*v5p-32."),
    ],
)
def test_a_refusal_offers_what_can_be_written(text: str, offer: str) -> None:
    with pytest.raises(LocalClusterError) as caught:
        parse_pool(text, "simulated")
    assert caught.value.hint == offer
    assert "; try" not in caught.value.message
    for written in offer.removeprefix("Write ").removesuffix(".").split(" or "):
        parse_pool(written, "simulated")


@pytest.mark.parametrize(
    "text", ["v5p-16*2", "*cpu", "2*", "-1*cpu", "two*cpu", "0*cpu", "1*v5p-17", "2*potato", "", "1*v6e-8:4"]
)
def test_what_names_no_pool_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(LocalClusterError) as caught:
        parse_pool(text, "real")
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) > 10


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-dash", "x" * 31, "../up", "a/b"])
def test_bad_cluster_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ClusterSpec(name=name)
    assert explain(caught.value).startswith(f"name: {name!r} is no name of a cluster; use at most 30 ")


def test_more_real_nodes_than_addresses_are_refused() -> None:
    with pytest.raises(ValidationError, match="101 real nodes are more than the 100"):
        ClusterSpec(pools=[Pool(kind="real", count=101)])


def test_large_clusters_renew_their_leases_less_often() -> None:
    assert ClusterSpec(pools=[Pool(kind="simulated", count=10)]).grace_seconds == 20
    assert ClusterSpec(pools=[Pool(kind="simulated", count=5000)]).grace_seconds == 240
