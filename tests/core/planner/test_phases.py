"""The phases change as the diagram in docs/status.md says, and every arrow of it happens."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, product
from random import Random

import pytest

from docs.generators.pages import CHANGES
from slipway.api.places import worker
from slipway.api.status import Phase, PhaseKind
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.vocabulary.reasons import GATED, MISSING_OBJECTS, POD_REJECTED, QUOTA_EXCEEDED, UNSCHEDULABLE
from tests.core.build import World, spec
from tests.core.planner.test_properties import HAPPENINGS, happen

HISTORIES = 600
STEPS = 25

Arrow = tuple[Phase | None, Phase | None]


def held_up(world: World, reason: str) -> None:
    for handle in world.all_pods():
        if not handle.now.spec.node_name and not handle.now.terminating:
            handle.has("PodScheduled", reason, status="False", message="0/4 nodes are available")


def refused(world: World, reason: str) -> None:
    world.rejection = Rejection("no", world.now, reason)


def accepted(world: World) -> None:
    world.rejection, world.read, world.foreign = None, None, ()


def of_an_earlier_job(world: World) -> None:
    other = World().begin()
    other.add_pod(0, worker(0, 0), uid="an earlier one")
    world.foreign = tuple(other.pods.values())


BEFORE: dict[str, Callable[[World], None]] = {
    "unschedulable": lambda world: held_up(world, UNSCHEDULABLE),
    "gated": lambda world: held_up(world, GATED),
    "quota": lambda world: refused(world, QUOTA_EXCEEDED),
    "rejected": lambda world: refused(world, POD_REJECTED),
    "missing": lambda world: refused(world, MISSING_OBJECTS),
    "misspelt": lambda world: setattr(world, "read", (spec(**world.fields), "spec.hosts: must be 1")),
    "corrected": accepted,
    "earlier job": of_an_earlier_job,
    "suspend": lambda world: world.fields.update(suspend=True),
    "resume": lambda world: world.fields.update(suspend=False),
    "cancel": lambda world: world.fields.update(cancel=True),
    "kubelets": World.obey,
}
"""What can happen to a job that has no pods yet, and to every other."""


def history(random: Random) -> Iterator[tuple[Phase | None, World]]:
    """A random history: after each decision, the phase before it and the world."""
    limits = {"maxFailures": random.randint(1, 4), "maxPreemptions": random.randint(1, 4)}
    world = World(hosts=2, retries=limits, activeDeadlineSeconds=random.choice((300, 10_000)))
    for _ in range(STEPS):
        before = world.status.phase
        if world.status.attempt is None or random.random() < 0.4:
            # Rarely cancelled, for that ends the history.
            BEFORE[random.choice([name for name in BEFORE if name != "cancel" or random.random() < 0.2])](world)
        else:
            happen(world, random.choice(HAPPENINGS), random.randint(0, 1))
        world.step(random.choice((0, 1, 5, 30, 90)))
        yield before, world


@cache
def seen() -> set[Arrow]:
    steps = chain.from_iterable(history(Random(seed)) for seed in range(HISTORIES))
    return {(before, world.status.phase) for before, world in steps if world.status.phase is not before}


def test_every_change_of_phase_is_documented() -> None:
    documented = set().union(*(product(change.before.phases, change.after.phases) for change in CHANGES))
    assert seen() - documented == set()


def test_every_documented_change_happens() -> None:
    never = [change for change in CHANGES if not seen() & set(product(change.before.phases, change.after.phases))]
    assert never == []


@pytest.mark.row("F-77")
def test_one_condition_becomes_true_however_a_job_ends() -> None:
    ends = set()
    for _, world in chain.from_iterable(history(Random(seed)) for seed in range(100)):
        phase, finished = world.status.phase, world.condition("Finished")
        if phase is not None and finished is not None:
            assert (finished.status, finished.reason) == (("True", phase) if phase.final else ("False", "NotFinished"))
            ends |= {phase} if phase.final else set()
    assert ends == {phase for phase in Phase if phase.final}


KINDS = {
    PhaseKind.WAITS: {Phase.PENDING, Phase.RESTARTING},
    PhaseKind.LACKS_NODES: {Phase.QUEUED, Phase.WAITING_FOR_CAPACITY},
    PhaseKind.STARTS: {Phase.STARTING},
    PhaseKind.RUNS: {Phase.RUNNING},
    PhaseKind.RESTS: {Phase.SUSPENDED},
    PhaseKind.REFUSED: {Phase.INVALID},
    PhaseKind.SUCCEEDED: {Phase.SUCCEEDED},
    PhaseKind.FAILED: {Phase.FAILED, Phase.PREEMPTED},
    PhaseKind.STOPPED: {Phase.CANCELLED},
}


def test_every_phase_has_the_kind_that_says_what_follows_from_it() -> None:
    assert {kind: {phase for phase in Phase if phase.kind is kind} for kind in PhaseKind} == KINDS
    assert set().union(*KINDS.values()) == set(Phase)
