"""Waiting for nodes: nothing is charged, fewer slices may do, and two jobs never block each other for ever."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from slipway.api.names import NODE_ACCELERATOR, NODE_CHIPS, NODE_TOPOLOGY
from slipway.api.places import worker
from slipway.api.status import Condition, HostState, Phase, SliceJobStatus
from slipway.core.manifests import environment
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import NodeStatus
from slipway.core.model.pod_parts import PodCondition
from slipway.core.planner.contract.actions import CreatePods, CreateServices, DeletePods, Plan, Refresh
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.validation.acceptance import pod_factory
from slipway.core.vocabulary.reasons import MISSING_OBJECTS, NAME_TAKEN, QUOTA_EXCEEDED, WAITING_FOR_OLD
from tests.core.build import START, World, a_node, actions_of, spec


def waiting(*, placed: int, slices: int = 4, hosts: int | None = 2, **fields: Any) -> World:
    """An attempt of which the first slices have nodes and run, and the others have none."""
    world = World(slices=slices, hosts=hosts, **fields).begin()
    for handle in world.all_pods():
        handle.runs() if handle.key[1] < placed else handle.unschedulable()
    world.step(seconds=6)
    return world


@pytest.mark.row("B-50", "E2-16", "E2-24")
def test_waiting_is_a_phase_with_the_schedulers_words_and_charges_nothing() -> None:
    world = waiting(placed=1)
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    available = world.condition("CapacityAvailable")
    assert available is not None
    assert (available.status, available.reason) == ("False", "Unschedulable")
    assert "6 of 8 pods cannot be scheduled: 0/4 nodes are available" in available.message
    assert world.status.hosts[0].reason == "Unschedulable"
    assert (world.status.failures, world.status.preemptions, world.status.uncharged) == (0, 0, 0)


def test_capacity_is_available_once_every_pod_has_a_node() -> None:
    world = World(slices=1, hosts=2).begin()
    seen = []
    for handle in world.all_pods():
        handle.binds()
        world.step(seconds=31)
        available = world.condition("CapacityAvailable")
        assert available is not None
        seen.append((available.status, available.reason))
    assert seen == [("False", "NotScheduledYet"), ("True", "Scheduled")]


def test_looks_in_vain_are_counted_and_written_every_ten_minutes() -> None:  # E2-52
    world = waiting(placed=0)
    writes, looks = [], []
    for _ in range(30):
        before = world.status
        world.step(seconds=60)
        writes.append(world.status != before)
        looks.append(world.status.capacity_waits)
    assert (sum(writes), looks[0], looks[-1]) == (3, 1, 31)


def test_a_gated_pod_is_queued() -> None:
    world = World().begin()
    world.pod(0, 0).has("PodScheduled", "SchedulingGated", status="False")
    world.step(seconds=6)
    assert world.status.phase is Phase.QUEUED


def test_the_wait_ends_the_job_when_it_has_taken_too_long() -> None:
    world = waiting(placed=1, timeouts={"scheduleSeconds": 600})
    world.step(seconds=600)
    assert world.status.phase is Phase.FAILED
    assert world.status.result is not None
    assert world.status.result.reason == "ScheduleTimeout"
    assert "0/4 nodes are available" in world.status.result.message
    assert (world.status.failures, world.status.uncharged) == (0, 1)


def test_a_full_quota_is_asked_again_only_after_a_while() -> None:
    world = World()
    world.rejection = Rejection("exceeded quota: pods", world.now, QUOTA_EXCEEDED)
    assert not actions_of(world.step(), CreatePods)
    world.step(seconds=6)
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    assert actions_of(world.step(seconds=60), CreatePods)


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        pytest.param("a pod", "QuotaExceeded", id="a pod is missing"),
        pytest.param("Services", "QuotaExceeded", id="the Services are missing"),
        pytest.param("", "Starting", id="all was created after all"),
    ],
)
def test_what_was_refused_holds_a_job_up_while_something_is_missing(lacking: str, reason: str) -> None:
    world = World(hosts=2, timeouts={"scheduleSeconds": 300}).begin()
    for handle in world.all_pods():
        handle.binds()
    if lacking == "a pod":
        del world.pods[0, 0, 1]
    world.served = None if lacking == "Services" else 0
    world.rejection = Rejection("exceeded quota q", world.now, QUOTA_EXCEEDED)
    world.step(seconds=6)
    assert world.condition("Running").reason == reason
    world.rejection = Rejection("exceeded quota q", world.now + timedelta(seconds=300), QUOTA_EXCEEDED)
    world.step(seconds=300)
    assert (world.status.phase == "Failed") is bool(lacking)


def test_what_an_earlier_job_of_this_name_has_left_is_waited_for_and_looked_at_again_soon() -> None:
    world = World()
    world.rejection = Rejection("Service train of an earlier job must go first", world.now, WAITING_FOR_OLD)
    assert not actions_of(world.step(), CreatePods)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("Starting", "WaitingForOldPods")
    assert [type(action) for action in world.step(seconds=1).actions] == [CreateServices, CreatePods]


def test_a_name_that_somebody_else_has_is_said_and_tried_again_later() -> None:
    world = World()
    world.rejection = Rejection("Service train is somebody else's", world.now, NAME_TAKEN)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("Starting", "NameTaken")
    assert running.message == "Service train is somebody else's"
    assert actions_of(world.step(seconds=60), CreatePods)


def test_a_service_account_that_is_missing_is_waited_for_and_nothing_is_charged() -> None:  # B-24
    world = World()
    world.rejection = Rejection("ServiceAccount trainer is missing; create it", world.now, MISSING_OBJECTS)
    world.step()
    assert not actions_of(world.step(seconds=1), CreatePods)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("Pending", "MissingObjects")
    assert actions_of(world.step(seconds=2), CreatePods)


def test_the_most_slices_are_asked_for_first() -> None:  # E2-19
    world = World(slices=1, hosts=1, acceptableSlices=[2, 8, 4])
    [created] = actions_of(world.step(), CreatePods)
    assert len(created.places) == 8
    assert world.status.slices is not None
    assert (world.status.slices.requested, world.status.slices.granted) == (8, 8)


@pytest.mark.parametrize(("placed", "granted"), [(0, 8), (1, 8), (2, 2), (3, 2), (4, 4), (7, 4)])
def test_the_most_that_fits_is_taken_after_a_look(placed: int, granted: int) -> None:  # E2-19, E2-20
    world = waiting(placed=placed, slices=1, acceptableSlices=[2, 8, 4])
    world.step(seconds=60)
    world.until_restarted()
    assert world.status.slices is not None
    assert (world.status.slices.requested, world.status.slices.granted) == (8, granted)
    assert world.status.uncharged == (1 if granted < 8 else 0)
    if granted < 8:
        assert len([key for key in world.pods if key[0] == 1]) == granted * 2
        env = {one["name"]: one.get("value") for one in _environment(world)}
        assert env["MEGASCALE_NUM_SLICES"] == str(granted)
        assert env["SLIPWAY_WORLD_SIZE"] == str(granted * 2)


@pytest.mark.parametrize(
    ("fields", "granted"),
    [({"hosts": 2}, 2), ({"hosts": None, "accelerator": {"type": "v4-16"}}, 4)],
    ids=["any node does", "each slice has a node pool"],
)
def test_nodes_that_hosts_of_all_slices_have_found_do_for_fewer(fields: dict[str, Any], granted: int) -> None:
    world = World(slices=1, acceptableSlices=[2, 4], **fields).begin()
    for handle in world.all_pods():
        handle.runs() if handle.key[2] == 0 else handle.unschedulable()
    world.step(seconds=6)
    world.step(seconds=60)
    world.until_restarted()
    assert world.status.slices is not None
    assert world.status.slices.granted == granted


def _environment(world: World) -> list[environment.Variable]:
    pod = pod_factory(world.job, Settings()).pod(1, worker(0, 0))
    env: list[environment.Variable] = pod["spec"]["containers"][0]["env"]
    return env


def test_the_attempt_after_a_shrunk_one_asks_for_the_most_again() -> None:
    world = waiting(placed=2, slices=1, acceptableSlices=[2, 4])
    world.step(seconds=60)
    world.until_restarted()
    world.run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.slices is not None
    assert world.status.slices.granted == 4


def test_after_a_pause_the_most_is_asked_for_again() -> None:
    world = waiting(placed=2, slices=1, acceptableSlices=[2, 4])
    world.step(seconds=60)
    assert world.status.attempts[0].reason == "FewerSlices"
    world.fields["suspend"] = True
    world.settle()
    world.obey()
    world.settle()
    world.fields["suspend"] = False
    world.settle()
    assert world.status.slices is not None
    assert (world.status.phase, world.status.slices.granted) == ("Starting", 4)


def older(world: World, **fields: Any) -> Job:
    """An older job that waits, and nodes of this world that are ready and have the labels a TPU job asks for."""
    job = replace(world.job, name="older", uid="older", created=START - timedelta(hours=1))
    labels = {NODE_ACCELERATOR: "tpu-v5p-slice", NODE_TOPOLOGY: "2x2x2", NODE_CHIPS: "4"}
    ready = NodeStatus((PodCondition("Ready", "True"),))
    for name, node in world.nodes.items():
        metadata = msgspec.structs.replace(node.metadata, labels=labels)
        world.nodes[name] = msgspec.structs.replace(node, metadata=metadata, status=ready)
    return replace(job, spec=spec(**(world.fields | fields)))


def test_a_younger_job_lets_go_of_what_an_older_one_needs() -> None:
    world = waiting(placed=1, slices=2)
    world.rivals = (older(world),)
    assert not actions_of(world.step(seconds=50), DeletePods)
    [deleted] = actions_of(world.step(seconds=10), DeletePods)
    assert deleted == DeletePods(0, (0, 1), 5)
    world.obey()
    world.settle()
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    assert not [key for key in world.pods if key[0] == 1]
    assert world.status.uncharged == 1
    assert not actions_of(world.step(seconds=61), CreatePods)
    world.step(seconds=60)
    assert [key for key in world.pods if key[0] == 1]


@pytest.mark.parametrize(
    ("mine", "older_asks"),
    [
        pytest.param({}, {"nodeSelector": {"disk": "sdd"}}, id="selects a label that no node has"),
        pytest.param(
            {"accelerator": {"type": "v5p-16"}, "hosts": None},
            {"accelerator": {"type": "v5p-16", "spot": True}, "hosts": None},
            id="needs spot nodes, and these are not",
        ),
        pytest.param(
            {"accelerator": {"type": "v5p-16"}, "hosts": None},
            {"accelerator": {"type": "v5p-16"}, "hosts": None, "slices": 100},
            id="needs more nodes than there are",
        ),
    ],
)
def test_a_job_keeps_its_nodes_when_the_older_one_could_not_use_them(mine: Any, older_asks: Any) -> None:
    world = waiting(placed=1, slices=2, **mine)
    world.rivals = (older(world, **older_asks),)
    for _ in range(5):
        assert not actions_of(world.step(seconds=60), DeletePods)


ON_TPUS = {"accelerator": {"type": "v5p-16"}, "hosts": None}
WITH_HEAD = ON_TPUS | {"ray": {"entrypoint": "python a.py"}}
NO_NODE_FOR_HEAD = (HostState(pod="older-0-head", reason="Unschedulable"),)


def lacking(*hosts: int, node: str | None = None) -> tuple[HostState, ...]:
    return tuple(
        HostState(slice=0, host=host, pod=f"older-0-0-{host}", node=node, reason="Unschedulable") for host in hosts
    )


@pytest.mark.parametrize("visible", [True, False], ids=["nodes are seen", "nodes cannot be seen"])
@pytest.mark.parametrize(
    ("mine", "hosts", "gives_way"),
    [
        pytest.param(ON_TPUS, NO_NODE_FOR_HEAD, False, id="lacks a node for its head only"),
        pytest.param(ON_TPUS, (*NO_NODE_FOR_HEAD, *lacking(1)), True, id="lacks one for a worker as well"),
        pytest.param(ON_TPUS, (*NO_NODE_FOR_HEAD, *lacking(1, node="a")), False, id="has nodes for all workers"),
        pytest.param(ON_TPUS, (*NO_NODE_FOR_HEAD, *lacking(*range(15), node="a")), True, id="may lack more"),
        pytest.param(WITH_HEAD, NO_NODE_FOR_HEAD, True, id="could have the node of this one's head"),
        pytest.param({}, NO_NODE_FOR_HEAD, True, id="could have the node of a worker without TPUs"),
    ],
)
def test_an_older_ray_job_that_lacks_a_node_for_its_head_gets_no_tpus(
    mine: dict[str, Any], hosts: tuple[HostState, ...], gives_way: bool, visible: bool
) -> None:
    world = waiting(placed=1, slices=2, **mine)
    if "ray" in mine:
        world.pod(-1, -1).binds("cpu")
    first = older(world, slices=1, **WITH_HEAD)
    if mine != ON_TPUS:
        world.nodes["cpu"] = msgspec.structs.replace(a_node("cpu"), status=NodeStatus((PodCondition("Ready", "True"),)))
        world.pod(0, 0).binds("cpu") if not mine else None
    world.rivals = (replace(first, status=world.status.model_copy(update={"hosts": hosts})),)
    world.nodes_watched = visible
    for _ in range(7):
        world.step(seconds=10)
    assert (world.status.attempts[0].reason == "CapacityReleased") is gives_way


@pytest.mark.parametrize(("hosts", "waits"), [(NO_NODE_FOR_HEAD, False), ((), True)], ids=["its head", "all"])
def test_nobody_with_tpus_stands_back_for_a_ray_job_that_lacks_a_node_for_its_head(
    hosts: tuple[HostState, ...], waits: bool
) -> None:
    """The hosts of a slice were divided, and the job tries other node pools."""
    world = World(slices=1, **ON_TPUS).begin()
    world.pod(0, 0).binds()
    world.pod(0, 1).unschedulable()
    world.nodes["node-0-1"] = a_node("node-0-1")
    first = older(world, **WITH_HEAD)
    world.rivals = (replace(first, status=world.status.model_copy(update={"hosts": hosts})),)
    world.step(seconds=6)
    world.step(seconds=61)
    world.obey()
    world.step(seconds=1)
    assert world.status.attempts[0].reason == "CapacityReleased"
    assert ("the older job ml/older goes first" in world.condition("Running").message) is waits


def test_a_younger_job_lets_go_where_nodes_cannot_be_seen() -> None:
    world = waiting(placed=1, slices=2)
    world.rivals = (older(world),)
    world.nodes_watched = False
    world.nodes.clear()
    world.step(seconds=61)
    assert world.status.attempts[0].reason == "CapacityReleased"


def test_the_longest_wait_counts_through_the_attempts_that_only_waited() -> None:
    world = waiting(placed=1, slices=2, timeouts={"scheduleSeconds": 600})
    world.rivals = (older(world),)
    while world.status.phase is not Phase.FAILED and world.now < START + timedelta(hours=1):
        world.step(seconds=10)
        world.obey()
        for handle in world.all_pods():
            if not handle.now.spec.node_name:
                handle.runs() if handle.key[1] == 0 else handle.unschedulable()
    assert world.now - START <= timedelta(seconds=640)
    assert world.status.result is not None
    assert world.status.result.reason == "ScheduleTimeout"


def test_attempts_that_only_waited_do_not_wash_out_the_history() -> None:
    world = World(slices=2, hosts=2).run()
    world.pod(0, 0).exits(1, message="ValueError: the bug")
    world.until_restarted()
    world.rivals = (older(world),)
    for _ in range(3000):
        for handle in world.all_pods():
            if handle.key[0] == world.status.attempt and not handle.now.terminating and not handle.now.spec.node_name:
                handle.binds() if handle.key[1] == 0 else handle.unschedulable()
        world.step(seconds=10)
        world.obey()
    assert world.status.uncharged > 5
    assert [one.reason for one in world.status.attempts if one.cause] == ["CapacityReleased", "ExitCode"]


def waits_for_quota(job: Job, namespace: str = "ml") -> Job:
    condition = Condition(type="CapacityAvailable", status="False", reason=QUOTA_EXCEEDED, last_transition_time=START)
    status = SliceJobStatus(phase=Phase.WAITING_FOR_CAPACITY, conditions=(condition,))
    return replace(job, status=status, namespace=namespace)


@pytest.mark.parametrize(("namespace", "released"), [("ml", True), ("other", False)])
def test_a_younger_job_releases_the_quota_that_an_older_one_waits_for(namespace: str, released: bool) -> None:
    world = World(slices=2, hosts=2).begin()
    for handle in world.all_pods():
        handle.unschedulable()
    del world.pods[(0, 1, 1)]
    world.rejection = Rejection("exceeded quota: pods", world.now, QUOTA_EXCEEDED)
    world.rivals = (waits_for_quota(older(world), namespace),)
    world.step(seconds=61)
    assert (world.status.attempts[0].reason == "CapacityReleased") is released


@pytest.mark.parametrize("contested", [True, False], ids=["the older job waits on", "it does not"])
def test_a_job_that_released_its_nodes_in_vain_stands_back_longer_each_time(contested: bool) -> None:
    """And much longer than it holds them again. Otherwise a third job would take the nodes each time."""
    world = World(slices=2, hosts=2, timeouts={"scheduleSeconds": 100000}).begin()
    held, stood_back = [], []
    for _ in range(3):
        for handle in world.all_pods():
            handle.runs() if handle.key[1] == 0 else handle.unschedulable()
        world.rivals = (older(world),)
        begun, attempt = world.now, world.status.attempt
        while world.status.attempts[0].end_time is None:
            world.step(seconds=10)
        held.append((world.now - begun).total_seconds())
        ended = world.now
        world.obey()
        world.rivals = world.rivals if contested else ()
        while world.status.attempt == attempt:
            world.step(seconds=10)
        stood_back.append((world.now - ended).total_seconds())
        world.settle()
    assert (held, stood_back) == ([60, 60, 120], [120, 240, 480] if contested else [120, 120, 120])


def test_a_job_stands_back_only_for_an_older_one_that_can_run() -> None:
    world = waiting(placed=1, slices=2)
    world.rivals = (older(world),)
    world.step(seconds=61)
    world.obey()
    world.rivals = (older(world, accelerator={"type": "v5p-16"}, hosts=None, slices=100),)
    world.step(seconds=121)
    assert world.status.attempt == 1


def test_who_stands_back_does_not_outwait_its_time_limit() -> None:
    world = waiting(placed=1, slices=2, timeouts={"scheduleSeconds": 100})
    world.rivals = (older(world),)
    world.step(seconds=61)
    world.obey()
    world.step(seconds=40)
    assert world.status.phase is Phase.FAILED or world.status.attempt == 1


def test_a_job_keeps_what_it_holds_while_no_older_one_waits() -> None:
    world = waiting(placed=1, slices=2)
    for _ in range(5):
        assert not actions_of(world.step(seconds=60), DeletePods)


def test_a_job_of_which_every_pod_waits_stays() -> None:
    world = waiting(placed=0, slices=2)
    world.rivals = (older(world),)
    for _ in range(5):
        assert not actions_of(world.step(seconds=60), DeletePods)


TPU = {"accelerator": {"type": "v5p-16"}, "slices": 2, "hosts": None}


def pinned(**fields: object) -> World:
    """Two slices that are pinned to node pools, of which the second has no room."""
    world = World(**(TPU | fields))
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    for handle in world.all_pods():
        handle.unschedulable("0/4 nodes are available: Insufficient google.com/tpu") if handle.key[1] else handle.runs()
    world.step(seconds=6)
    return world


def pools_of(decision: Plan) -> list[dict[int, str]]:
    return [dict(created.pools) for created in actions_of(decision, CreatePods)]


def test_where_slices_go_is_left_open_at_first_and_settled_by_their_pods() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a"}
    assert pools_of(world.step()) == [{}]
    world.settle()
    del world.pods[(0, 0, 1)], world.pods[(0, 1, 1)]
    assert pools_of(world.step()) == [{0: "a", 1: ""}]


def test_a_pool_that_only_looked_free_is_given_up_for_the_schedulers_choice() -> None:
    world = pinned()
    assert not actions_of(world.step(), DeletePods)
    world.step(seconds=10)
    first = world.status.attempts[-1]
    assert (first.reason, first.cause) == ("NodePoolTaken", "uncharged")
    assert (first.message or "").startswith("no room in b, though it looked free")
    assert "Insufficient google.com/tpu" in (first.message or "")
    world.obey()
    assert pools_of(world.step()) == [{0: "", 1: ""}]
    assert (world.status.attempt, world.status.failures, world.status.preemptions) == (1, 0, 0)


def test_a_shortage_of_that_kind_is_no_reason_to_take_fewer_slices() -> None:
    world = pinned(slices=1, acceptableSlices=[1, 2], retries={"capacityRetrySeconds": 1})
    for _ in range(3):
        world.step(seconds=1)
    assert world.status.attempts[0].end_time is None
    world.step(seconds=1)
    assert world.status.attempts[0].reason == "NodePoolTaken"


def test_a_job_that_has_no_time_to_be_wrong_is_not_pinned() -> None:
    assert pools_of(World(**TPU, timeouts={"scheduleSeconds": 59}).step()) == [{0: "", 1: ""}]
    assert pools_of(World(**TPU, timeouts={"scheduleSeconds": 60}).step()) == [{}]


def test_who_begins_an_attempt_makes_its_pods_at_once() -> None:
    world = World(**TPU)
    world.pods_as_of, world.answers = None, False
    decision = world.step()
    assert (decision.status.attempt, actions_of(decision, Refresh)) == (0, [])
    assert len(actions_of(decision, CreatePods)) == 1


def test_who_takes_over_lists_the_pods_before_it_makes_those_that_are_missing() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    del world.pods[(0, 0, 1)]
    world.begun_by_this_process = world.pods_as_of = None
    world.answers = False
    assert [type(action) for action in world.step().actions] == [Refresh]
    world.pods_as_of = world.now
    assert pools_of(world.step()) == [{0: "a", 1: "b"}]


def test_slices_that_wait_settle_it_for_who_takes_over() -> None:
    world = World(**TPU | {"slices": 3})
    world.free_pools = {0: "a"}
    world.begin()
    del world.pods[(0, 2, 0)], world.pods[(0, 2, 1)]
    world.begun_by_this_process = None
    world.pods_as_of = world.now
    assert pools_of(world.step()) == [{0: "a", 1: "", 2: ""}]


def test_what_is_settled_stays_when_pinning_ends() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    del world.pods[(0, 0, 1)]
    world.fields["timeouts"] = {"scheduleSeconds": 30}
    assert pools_of(world.step()) == [{0: "a", 1: "b"}]


def test_an_attempt_after_that_may_be_pinned_again() -> None:
    world = pinned()
    world.step(seconds=10)
    world.obey()
    world.settle()
    world.run()
    world.pod(0, 0).exits(1)
    world.settle()
    world.obey()
    assert pools_of(world.step()) == [{}]


def test_a_slice_that_gave_way_is_not_pinned() -> None:
    world = World(**TPU).begin()
    for handle in world.all_pods():
        handle.unschedulable() if handle.key[1] else handle.runs()
    world.rivals = (older(world, slices=1),)
    world.step(seconds=60)
    assert world.status.attempts[0].reason == "CapacityReleased"
    world.obey()
    world.settle()
    assert pools_of(world.step(seconds=121)) == [{0: "", 1: ""}]


def test_fewer_slices_stay_fewer_when_a_pool_is_taken() -> None:
    world = pinned(slices=1, acceptableSlices=[1, 2])
    world.step(seconds=10)
    assert world.status.attempts[0].reason == "NodePoolTaken"
    world.obey()
    world.settle()
    assert world.status.slices is not None
    assert world.status.slices.granted == 2


@pytest.mark.parametrize("field", ["suspend", "queue"])
def test_time_in_which_a_job_waits_for_no_nodes_is_not_counted(field: str) -> None:
    world = World(slices=1, hosts=None, accelerator={"type": "v5litepod-16"}, timeouts={"scheduleSeconds": 3600})
    world.begin()
    world.pod(0, 0).binds()
    world.pod(0, 2).unschedulable()
    for _ in range(4):
        world.step(seconds=30)
    world.settle()
    world.obey()
    assert world.attempt.reason == "CapacityReleased"
    if field == "queue":
        world.queue = "team"
    else:
        world.fields["suspend"] = True
    world.settle()
    assert world.status.phase in ("Queued", "Suspended")
    world.queue = None
    world.fields["suspend"] = False
    world.now += timedelta(days=2)
    world.settle()
    world.pod(0, 0).unschedulable()
    world.step(seconds=1)
    assert (world.status.attempt, world.attempt.end_time, world.status.result) == (1, None, None)
