"""Every name that a worker is told is the name of a worker, and exactly one Service knows it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api import names
from slipway.api.status import Coordinator
from slipway.core.manifests.accepted import effective
from slipway.core.manifests.peers import HOSTS_OF_A_SERVICE, Peers
from slipway.core.model.job import Settings
from slipway.core.model.parts import Body
from slipway.core.planner.contract.actions import Action, Check, CreateObjects, CreatePods, Plan
from slipway.core.planner.lifecycle.creation import FIRST_CREATES, MAX_CREATES
from slipway.core.validation.acceptance import pod_factory
from tests.core.build import World, actions_of

MANY = HOSTS_OF_A_SERVICE // 2 + 1
"""Hosts of a slice, of which two are too many for one Service."""


class Attempt:
    """What the newest attempt of a world consists of."""

    def __init__(self, world: World, begun: Plan) -> None:
        """`begun` is the decision that began it; the world goes on until all pods are created."""
        job, status = world.job, world.status
        assert job.spec is not None
        assert status.attempt is not None
        assert status.resolved is not None
        asked, hosts = effective(job.spec, status.resolved, job.site), status.resolved.hosts
        factory, places = pod_factory(job, Settings()), asked.runtime.places(job.granted, hosts)
        self.workers = [factory.pod(status.attempt, place) for place in places if not place.is_head]
        peers = Peers(job, status.attempt, job.granted, status.resolved)
        self.services = [one for one in asked.runtime.services(peers) if "head" not in _name(one)]
        self.maps = {
            _name(body): body.get("data", {})
            for decision in creations(world, begun)
            for one in actions_of(decision, CreateObjects)
            for body in one.bodies
        }

    def check(self) -> set[str]:
        """Hold all names against each other; returns those of the Services."""
        found = {f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in self.workers}
        for pod in self.workers:
            selecting = [one for one in self.services if _selects(one, pod)]
            assert list(map(_name, selecting)) == [pod["spec"]["subdomain"]]
            assert set(self._peers(pod)) <= found
            for variable in ("SLIPWAY_COORDINATOR_ADDRESS", "MASTER_ADDR"):
                host, _, rest = _value(pod, variable).partition(".ml.svc")
                assert host in found
                assert rest.partition(":")[2] in ("", "8081")
        return set(map(_name, self.services))

    def _peers(self, pod: Body) -> list[str]:
        told = _variable(pod, "TPU_WORKER_HOSTNAMES")
        reference = told.get("valueFrom", {}).get("configMapKeyRef")
        text = self.maps[reference["name"]][reference["key"]] if reference else told["value"]
        return str(text).split(",")


def creations(world: World, begun: Plan) -> Iterator[Plan]:
    """The decisions that create the pods of an attempt, from the one that began it on."""
    decision = begun
    while actions_of(decision, CreatePods):
        yield decision
        decision = world.step()


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _variable(pod: Body, name: str) -> Any:
    return next(one for one in pod["spec"]["containers"][0]["env"] if one["name"] == name)


def _value(pod: Body, name: str) -> str:
    return str(_variable(pod, name)["value"])


def _selects(service: Body, pod: Body) -> bool:
    return bool(service["spec"]["selector"].items() <= pod["metadata"]["labels"].items())


SHAPES: dict[str, tuple[int, int, set[str]]] = {
    "one host": (1, 1, {"train"}),
    "as many hosts as share a Service": (4, 16, {"train"}),
    "one slice, however large": (1, 256, {"train"}),
    "a slice for each Service": (2, 64, {"train-g0", "train-g1"}),
    "slices larger than a Service": (2, 100, {"train-g0", "train-g1"}),
    "several slices for each Service": (9, 16, {"train-g0", "train-g1", "train-g2"}),
    "slices that do not fill it": (3, 33, {"train-g0", "train-g1", "train-g2"}),
    "single hosts": (130, 1, {"train-g0", "train-g1", "train-g2"}),
}


@pytest.mark.parametrize(("slices", "hosts", "services"), SHAPES.values(), ids=SHAPES)
def test_the_hosts_of_a_job_have_as_many_services_as_they_need(slices: int, hosts: int, services: set[str]) -> None:
    world = World(slices=slices, hosts=hosts)
    begun = world.step()
    assert Attempt(world, begun).check() == services


@given(slices=st.integers(1, 12), hosts=st.integers(1, 70), ray=st.booleans())
def test_no_service_has_more_hosts_than_it_should(slices: int, hosts: int, ray: bool) -> None:
    fields: dict[str, Any] = {"ray": {"entrypoint": "python3 train.py"}} if ray else {}
    world = World(slices=slices, hosts=hosts, **fields)
    attempt = Attempt(world, world.step())
    attempt.check()
    sizes = Counter(pod["spec"]["subdomain"] for pod in attempt.workers)
    assert max(sizes.values()) <= max(HOSTS_OF_A_SERVICE, hosts)


def test_the_host_list_of_a_slice_is_created_with_its_first_pods_and_not_again() -> None:
    """So that the first pod of a large job waits for few of them."""
    world = World(slices=12, hosts=50)
    made: list[tuple[list[int], list[int]]] = []
    sizes: list[int] = []
    for decision in creations(world, world.step()):
        [pods] = actions_of(decision, CreatePods)
        lists = [_name(body) for one in actions_of(decision, CreateObjects) for body in one.bodies]
        made.append(([int(name.rpartition("-")[2]) for name in lists], sorted({place.slice for place in pods.places})))
        sizes.append(len(pods.places))
    assert sizes == [FIRST_CREATES, MAX_CREATES, 600 - FIRST_CREATES - MAX_CREATES]
    # Where a part ends within a slice, the slice has pods in both.
    assert made == [([0, 1], [0, 1]), ([*range(2, 12)], [*range(1, 12)]), ([], [11])]


def test_the_names_of_services_that_this_process_has_created_are_not_looked_at_again() -> None:
    checks: list[Check] = []

    class Watched(World):
        def _carry_out(self, action: Action) -> None:
            checks.extend([action] if isinstance(action, Check) else [])
            super()._carry_out(action)

    world = Watched(slices=9, hosts=16).run()
    assert [[_name(body) for body in one.bodies] for one in checks] == [["train-g1", "train-g2"]]
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.attempt == 1
    assert len([attempt for attempt, *_ in world.pods if attempt == 1]) == 9 * 16
    assert len(checks) == 1


def test_a_service_of_a_small_job_selects_what_it_always_has() -> None:
    world = World(slices=2, hosts=2)
    [service] = Attempt(world, world.step()).services
    assert service["spec"]["selector"] == {names.LABEL_JOB_UID: world.job.uid, names.LABEL_ROLE: "worker"}


def test_services_of_a_large_job_select_by_one_label() -> None:
    world = World(slices=2, hosts=64)
    selectors = [one["spec"]["selector"] for one in Attempt(world, world.step()).services]
    assert selectors == [{names.LABEL_SERVICE: "train-g0"}, {names.LABEL_SERVICE: "train-g1"}]


def fewer_slices(world: World) -> Plan:
    """One of two slices finds nodes, so that the next attempt has one."""
    world.begin()
    for handle in world.all_pods():
        if handle.key[1] == 0:
            handle.binds()
        else:
            handle.unschedulable()
    world.step(seconds=1)
    world.step(seconds=60)
    return restarted(world)


def failed(world: World) -> Plan:
    """A program fails, so that the next attempt has all slices again."""
    world.run()
    world.pod(0, 0).exits(1)
    return restarted(world)


def restarted(world: World) -> Plan:
    """Let the pods go; returns the decision that begins the next attempt."""
    before = world.status.attempt
    world.settle()
    world.obey()
    for _ in range(20):
        decision = world.step(seconds=5)
        if world.status.attempt != before:
            return decision
    raise AssertionError("no further attempt")


def test_later_attempts_keep_the_names_with_fewer_slices_and_with_all_again() -> None:
    world = World(slices=1, hosts=MANY, acceptableSlices=[1, 2])
    assert Attempt(world, world.step()).check() == {"train-g0", "train-g1"}
    begun = fewer_slices(world)
    assert world.job.granted == 1
    assert Attempt(world, begun).check() == {"train-g0"}
    begun = failed(world)
    assert world.job.granted == 2
    assert Attempt(world, begun).check() == {"train-g0", "train-g1"}


@pytest.mark.parametrize("address", ["0-0-0.train.ml.svc", "what a stranger wrote", ""])
def test_a_job_that_another_version_has_begun_keeps_its_one_service(address: str) -> None:
    world = World(slices=2, hosts=MANY)
    world.begin()
    assert world.status.coordinator is not None
    earlier = Coordinator(address=address, port=8081)
    world.status = world.status.model_copy(update={"coordinator": earlier})
    pod = pod_factory(world.job, Settings()).pod(0, next(iter(world.pods.values())).place)
    assert pod["spec"]["subdomain"] == "train"
    assert Attempt(world, failed(world)).check() == {"train"}
    assert world.status.coordinator == Coordinator(address="1-0-0.train.ml.svc", port=8081)


def test_a_job_that_an_earlier_version_gave_one_slice_keeps_its_one_service() -> None:
    world = World(slices=1, hosts=MANY, acceptableSlices=[1, 2])
    world.begin()
    fewer_slices(world)
    world.status = world.status.model_copy(update={"coordinator": None})
    assert Attempt(world, failed(world)).check() == {"train"}
