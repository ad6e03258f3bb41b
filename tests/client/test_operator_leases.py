"""Which operator serves a namespace, as clients read it off the Leases."""

from datetime import UTC, datetime, timedelta

import pytest

from slipway.client.operator_leases import Operator, no_operator

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def operator(namespace: str, *served: str, alive: bool = True, seconds: int = 1) -> Operator:
    return Operator(namespace, f"{namespace}-0", NOW - timedelta(seconds=seconds), alive, served)


STEP = "; create the job in a namespace that is served, or start an operator for this one (--namespaces)"
TABLE: dict[str, tuple[tuple[Operator, ...] | None, str]] = {
    "one serves all namespaces": ((operator("slipway-system"),), ""),
    "one serves this one": ((operator("slipway-system", "team-a", "team-c"),), ""),
    "nobody may tell": (None, ""),
    "there is none": (
        (),
        "no operator runs: there is no Lease slipway-operator; install Slipway's chart",
    ),
    "it serves others": (
        (operator("slipway-system", "team-a", "team-b"),),
        "no operator serves namespace team-c: the one in slipway-system serves only team-a, team-b" + STEP,
    ),
    "two serve others": (
        (operator("a", "team-a"), operator("b", "team-b"), operator("d", "team-d", alive=False)),
        "no operator serves namespace team-c: the one in a serves only team-a; the one in b serves only team-b" + STEP,
    ),
    "it has stopped": (
        (operator("slipway-system", alive=False, seconds=60),),
        "no operator runs: Lease slipway-system/slipway-operator was last renewed 60 s ago by slipway-system-0; see "
        "kubectl get pods -n slipway-system",
    ),
    "only its own has stopped": (
        (operator("a", "team-a"), operator("c", "team-c", alive=False, seconds=60)),
        "no operator runs for namespace team-c: Lease c/slipway-operator was last renewed 60 s ago by c-0; see "
        "kubectl get pods -n c",
    ),
    "another has stopped": ((operator("a", alive=False), operator("c", "team-c")), ""),
}


@pytest.mark.parametrize(("found", "words"), TABLE.values(), ids=TABLE)
def test_a_namespace_without_an_operator_says_why(found: tuple[Operator, ...] | None, words: str) -> None:
    assert no_operator(found, "team-c", NOW) == words
