"""Grounds: how often they are met, that they are repeated exactly, and seeds that broke a rule there once."""

from collections import Counter
from typing import Final

import pytest

from tests.simulation.grounds import (
    CLOCKS,
    KUBELETS,
    QUOTA,
    RAY,
    SLOW_LISTS,
    STANDBY,
    STRANGERS,
    VERSIONS,
    WEIGHTS,
    grounds,
)
from tests.simulation.run import run_seed, told

MET: Final = (
    (STANDBY, 20083, "a standby takes over and misses a pod that its watch has not shown yet"),
    (STANDBY, 22266, "the same, with one host"),
    (STANDBY, 22497, "the same, while the program crashes"),
    (STANDBY, 2400013409, "a standby takes over whose watch has shown pods that have not run yet, and nothing since"),
    (SLOW_LISTS, 273, "a pod that was preempted before all ran is gone when the slow list is answered"),
    (SLOW_LISTS, 3977, "a pod bound in the second in which the last Node of that name was denied is no lost one"),
    (CLOCKS, 640081954, "a phase that nobody could read for a minute, and then its writer dies"),
    (KUBELETS, 2500000055, "a peer is stopped before its pod was deleted, by its kubelet's clock"),
    (KUBELETS, 2500000120, "a host fails before every host ran, by its kubelet's clock"),
    (VERSIONS, 64, "an older version cannot read a phase, and keeps the record of attempts"),
    (VERSIONS, 94, "the same after one attempt"),
    (STRANGERS, 234, "somebody writes a word that nobody knows, and the record of attempts stays"),
    (RAY, 106, "the operator was down before all pods and Services were there"),
    (QUOTA, 1, "jobs that hold nodes wait for a quota that others have used up, and the youngest lets go"),
)
"""Ground, seed and what happened when it was met first."""


@pytest.mark.parametrize(("ground", "seed"), [one[:2] for one in MET], ids=[f"{a}: {c} ({b})" for a, b, c in MET])
def test_the_operator_holds_on_every_ground(ground: str, seed: int) -> None:
    assert run_seed(seed, (ground,)) is None


def test_each_ground_is_met_as_often_as_its_weight_says() -> None:
    met = Counter(name for seed in range(10_000) for name in grounds(seed))
    assert {name: met[name] / 10_000 for name in WEIGHTS} == pytest.approx(WEIGHTS, abs=0.01)


@pytest.mark.parametrize("ground", WEIGHTS)
def test_a_history_on_a_ground_is_the_same_again(ground: str) -> None:
    assert told(3, only=(ground,)) == told(3, only=(ground,))
