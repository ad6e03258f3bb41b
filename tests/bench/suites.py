"""What is run: the smoke of the tests, the quick look, the whole."""

from collections.abc import Callable

from tests.bench.alone import Alone
from tests.bench.runner import Entry
from tests.bench.systems import Shape
from tests.bench.workloads import Churn, Create, Finish, Mix, Queued, Rest, Restart, Rolling, Steady, Takeover
from tests.waiting import START_SECONDS

CEILINGS = ("ceiling", "ceiling-service")
PEERS = ("jobset", "kuberay")
ALL = (*CEILINGS, "slipway", *PEERS)
WITHOUT_SERVICE = ("ceiling", "slipway", *PEERS)
OURS = ("ceiling", "slipway")
SYSTEMS = ("slipway", *PEERS)

H1, H4, H16, H64 = "v5litepod-4", "v5litepod-16", "v5litepod-64", "v5litepod-256"
"""TPU types by the number of their hosts."""


def smoke() -> list[Entry]:
    """Seconds: whether everything works, not how fast."""
    small = Shape(2, H4)
    return [
        Entry(Create("create 8", 1, small), OURS, 1),
        Entry(Finish("finish 8", small, START_SECONDS), OURS, 1),
        Entry(Restart("restart pod 8", "pod", small, START_SECONDS), OURS, 1),
    ]


def quick() -> list[Entry]:
    """Minutes: the main figures, roughly."""
    four_slices = Shape(4, H64)
    return [
        Entry(Create("create 64", 1, Shape(4, H16)), ALL, 2),
        Entry(Create("create 512", 1, Shape(8, H64)), ALL, 1),
        Entry(Create("burst 25x8", 25, Shape(2, H4)), ALL, 1),
        Entry(Restart("restart pod 256", "pod", four_slices), WITHOUT_SERVICE, 2),
        Entry(Finish("finish 256", four_slices), WITHOUT_SERVICE, 1),
        Entry(Steady("1000", 50, Shape(20, H1), 5.0), WITHOUT_SERVICE, 1),
    ]


def full() -> list[Entry]:
    """Hours on two cores: everything that is published."""
    four_slices = Shape(4, H64)
    return [
        Entry(Create("create 64", 1, Shape(4, H16)), ALL, 5),
        Entry(Create("create 512", 1, Shape(8, H64)), ALL, 5),
        Entry(Create("create 2048", 1, Shape(32, H64)), ALL, 3),
        Entry(Create("create 8192", 1, Shape(128, H64)), OURS, 1),
        Entry(Create("burst 100x8", 100, Shape(2, H4)), ALL, 3),
        Entry(Create("burst 500x8", 500, Shape(2, H4)), ALL, 1),
        Entry(Restart("restart pod 256", "pod", four_slices), WITHOUT_SERVICE, 5),
        Entry(Restart("restart node 256", "node", four_slices), WITHOUT_SERVICE, 3),
        Entry(Restart("restart slice 256", "slice", four_slices), WITHOUT_SERVICE, 3),
        Entry(Finish("finish 256", four_slices), WITHOUT_SERVICE, 3),
        Entry(Mix("mix 2048+100x8", Shape(32, H64), 100, Shape(2, H4), 60, 120.0), SYSTEMS, 1),
        Entry(Rolling("rolling 50x8", 50, Shape(2, H4), 0.1), ("slipway",), 3),
        Entry(Queued("queued 20x8", 20, Shape(2, H4), 5), SYSTEMS, 3),
        Entry(Queued("queued 200x8", 200, Shape(2, H4), 20), SYSTEMS, 1),
        Entry(Rest("idle 200 jobs, 1000 done", 1000, 200, Shape(1, H1), 60.0), ("slipway", "jobset"), 1),
        # Slices of one host, which need no affinity: with it the scheduler takes more than an hour for 16,000 pods.
        Entry(Steady("1000", 50, Shape(20, H1), 30.0), WITHOUT_SERVICE, 1),
        Entry(Steady("4000", 50, Shape(80, H1), 30.0), WITHOUT_SERVICE, 1),
        Entry(Steady("4000 of 500 jobs", 500, Shape(8, H1), 30.0), OURS, 1),
        Entry(Steady("10000", 50, Shape(200, H1), 30.0), OURS, 1),
        Entry(Takeover("takeover 10000", 50, Shape(200, H1)), ("slipway",), 1),
        Entry(Churn("idle after 10000 jobs", 10_000, Shape(1, H1)), ("slipway", "jobset"), 1),
        Entry(Steady("16000", 50, Shape(320, H1), 30.0), OURS, 1),
        Entry(Create("create 64", 1, Shape(4, H16)), WITHOUT_SERVICE, 3, "shipped"),
        Entry(Create("create 512", 1, Shape(8, H64)), WITHOUT_SERVICE, 3, "shipped"),
        Entry(Restart("restart pod 256", "pod", four_slices), WITHOUT_SERVICE, 3, "shipped"),
    ]


SUITES: dict[str, Callable[[], list[Entry]]] = {"smoke": smoke, "quick": quick, "full": full}

_SMALL, _LARGE = Shape(2, H4), Shape(32, H64)
ALONE: dict[str, tuple[Alone, ...]] = {
    "smoke": (Alone(1, _SMALL),),
    "quick": (Alone(50, _SMALL), Alone(500, _SMALL)),
    "full": (*(Alone(jobs, _SMALL) for jobs in (50, 100, 500, 2000)), Alone(1, _LARGE)),
}
"""What the operator does beside a model of a cluster."""
