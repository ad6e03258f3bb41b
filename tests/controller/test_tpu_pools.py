"""What is in the way of a slice, as it is remembered from look to look: what a look at all nodes anew finds."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.api import names
from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.controller.seen.cache import Cache
from slipway.core.explain.candidates import Ground, Request, survey, vacant
from slipway.core.manifests.placement import Needs
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node
from tests.controller.things import Time, node, pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHAPES = ({}, {names.NODE_ACCELERATOR: "v5e", names.NODE_TOPOLOGY: "2x4"}, {names.NODE_ACCELERATOR: "v5p"})
POOLS = ({}, {names.NODE_POOL: ""}, {names.NODE_POOL: "a"}, {names.NODE_POOL: "b"})
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
NODES = st.integers(0, 3)
CHANGES = st.one_of(
    st.tuples(
        st.just("changed"),
        NODES,
        st.fixed_dictionaries(
            {
                "shape": st.sampled_from(SHAPES),
                "pool": st.sampled_from(POOLS),
                "zone": st.sampled_from(({}, {"zone": "x"})),
                "taints": st.sampled_from(([], [TAINT])),
                "unschedulable": st.booleans(),
                "ready": st.sampled_from(("True", "False")),
            }
        ),
    ),
    st.tuples(st.just("gone"), NODES),
    st.tuples(st.just("listed")),
    st.tuples(st.just("held"), NODES),
    st.tuples(st.just("looked"), st.integers(0, 2**6 - 1)),
)


def request(number: int) -> Request:
    """One of 64, more than are remembered."""
    spot, tolerates, zone, two, small, whole = (bool(number & 1 << bit) for bit in range(6))
    shape = SHAPES[1 + spot]
    needs = Needs(
        selector=shape | ({"zone": "x"} if zone else {}),
        tolerations=[{"key": "team", "operator": "Exists"}] if tolerates else [],
        sizes={"cpu": Decimal(1 if small else 100)},
    )
    hosts = (1 + two) * whole
    return Request("mine", True, needs, hosts, own_rules=False)


class World:
    """A cache, and what it was told."""

    def __init__(self) -> None:
        self.cache = Cache(Settings(whole_cluster=True), lambda: NOW, Time())
        self.version = 0

    def changed(self, number: int, now: dict[str, Any]) -> None:
        self.version += 1
        labels = now["shape"] | now["pool"] | now["zone"]
        known = {key: now[key] for key in ("taints", "unschedulable", "ready")}
        shown = node(f"n{number}", self.version, labels=labels, **known)
        size = msgspec.structs.replace(shown.status, allocatable={"cpu": "8"})
        self.cache.nodes.observe(Applied(msgspec.structs.replace(shown, status=size)))

    def gone(self, number: int) -> None:
        if (known := self.cache.nodes.get(f"n{number}")) is not None:
            self.cache.nodes.observe(Deleted(known))

    def listed(self) -> None:
        """The watch begins anew, and what it lists are the nodes of an even number."""
        self.version += 1
        there = [one for one in self.cache.nodes.view.values() if int(one.metadata.name[1:]) % 2 == 0]
        for event in (Init(), *map(Applied, there), InitDone(str(self.version))):
            self.cache.nodes.observe(event)

    def held(self, number: int) -> None:
        """A pod of a job runs on a node."""
        self.version += 1
        self.cache.pods.observe(
            Applied(pod(f"other-0-0-{number}", self.version, job="other", node=f"n{number}", runs=True))
        )

    def looked(self, number: int) -> None:
        asked, nodes = request(number), self.cache.nodes
        tenants = self.cache._tenants
        remembered = Ground(nodes.view.values(), tenants, NOW, names.NODE_POOL, nodes.tpu_pools)
        fresh = [msgspec.convert(msgspec.to_builtins(one), Node) for one in nodes.view.values()]
        anew = Ground(fresh, tenants, NOW, names.NODE_POOL)
        assert survey(asked, remembered) == survey(asked, anew)
        open_sites = [site for site in survey(asked, anew) if not site.obstacles]
        assert vacant(asked, remembered) == open_sites


@settings(max_examples=300, deadline=None)
@given(st.lists(CHANGES, max_size=60))
def test_what_is_remembered_is_what_a_look_at_all_nodes_finds(changes: list[tuple[Any, ...]]) -> None:
    world = World()
    for what, *of in (*changes, *(("looked", number) for number in range(64))):
        getattr(world, what)(*of)
