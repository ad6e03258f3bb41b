"""Clusters that the tests of this room may break as they like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slipway.devcluster import ClusterSpec, NativeCluster, NativeProvider, Pool
from tests.devcluster.helpers import await_phase, create, node, pod

LONELY = "v5p-8-0-0"
ON_LONELY = {"kubernetes.io/hostname": LONELY}


@contextmanager
def running(name: str, *pools: Pool, grace: int | None = None) -> Iterator[NativeCluster]:
    provider = NativeProvider()
    try:
        yield provider.up(ClusterSpec(name=name, pools=list(pools), node_grace_seconds=grace))
    finally:
        provider.down(name)


@pytest.fixture(scope="package")
def own_cluster() -> Iterator[NativeCluster]:
    pools = [Pool(kind="simulated", type="v5p-16", count=2, spot=True), Pool(kind="simulated", type="cpu")]
    with running("t-simulated", *pools, grace=8) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def own_nodes() -> Iterator[NativeCluster]:
    pools = [Pool(kind="real", type=name, spot=name != "cpu") for name in ("v5p-16", "v5p-8", "cpu")]
    with running("t-real", *pools, grace=8) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def preempted(own_nodes: NativeCluster) -> str:
    """The UID of a node that was taken away first of all: pod garbage collection needs a minute to notice."""
    # The finalizer keeps the pod readable after pod garbage collection has marked and deleted it.
    create(own_nodes, pod("victim", tpus=4, nodeSelector=ON_LONELY, metadata={"finalizers": ["slipway.dev/test"]}))
    await_phase(own_nodes, "victim", "Running")
    before = node(own_nodes, LONELY)
    assert before is not None
    own_nodes.preempt(LONELY)
    assert node(own_nodes, LONELY) is None
    return str(before["metadata"]["uid"])
