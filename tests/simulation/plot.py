"""What a seed chooses before anything happens: the job, its people, and how badly things go."""

import random
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slipway.api.status import Cause
from tests.simulation.cluster import Shape
from tests.simulation.connection import Weather
from tests.simulation.grounds import PROGRESS, RAY, SIZES
from tests.simulation.logs import PATTERN

CODES: Final = {42: Cause.FAILURE, 43: Cause.PREEMPTION, 44: Cause.UNCHARGED}
SHAPES: Final[tuple[tuple[int, str | None], ...]] = ((1, None), (2, None), (3, None), (1, "v4-8"), (2, "v4-16"))
LARGE: Final = (32, 64, 128)
"""Hosts of a slice where sizes matter: mere progress of so many pods is gathered before it is looked at."""


@dataclass(slots=True)
class Plot:
    """A job, its people, and the weather."""

    spec: dict[str, Any]
    shape: Shape
    weather: Weather
    horizon: float
    harms: int
    clean_programs: float
    """Share of attempts whose program has no fault of its own."""
    requests: list[tuple[float, str]] = field(default_factory=list)
    """What people ask for, and when."""


def plot(rng: random.Random, grounds: frozenset[str] = frozenset()) -> Plot:
    """Choose a job and how badly things go."""
    hosts, tpu = rng.choice(SHAPES)
    slices = rng.choice((1, 1, 2, 2, 3))
    if SIZES in grounds:
        hosts, tpu, slices = rng.choice(LARGE), None, rng.choice((1, 2))
    retries: dict[str, Any] = {
        "maxFailures": rng.choice((0, 1, 2, 3, 3, 10)),
        "maxPreemptions": rng.choice((0, 1, 2, 5, 1000000, 1000000)),
        "gracePeriodSeconds": rng.choice((1, 2, 5, 5)),
    }
    codes: dict[int, Cause] = {}
    if rng.random() < 0.3:
        retries["onExitCodes"] = {"fail": [42], "preemption": [43], "ignore": [44]}
        codes = CODES
    if rng.random() < 0.2:
        retries["backoff"] = {"initialSeconds": rng.choice((1, 10)), "maxSeconds": 60}
    if rng.random() < 0.05:
        retries["enabled"] = False
    spec: dict[str, Any] = {
        "image": "busybox:1",
        "slices": slices,
        "retries": retries,
        "timeouts": {"startSeconds": rng.choice((60, 120, 300))},
        "terminationGracePeriodSeconds": rng.choice((2, 10, 30)),
    }
    spec |= {"accelerator": {"type": tpu, "spot": rng.random() < 0.5}} if tpu else {"hosts": hosts}
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = rng.randint(20, 600)
    if rng.random() < 0.1:
        spec["ttlSecondsAfterFinished"] = rng.choice((0, 30))
    if RAY in grounds:
        spec["ray"] = {"entrypoint": "python train.py"}
    if PROGRESS in grounds:
        spec["progress"] = {"pattern": PATTERN}
    horizon = rng.choice((60.0, 200.0, 600.0))
    return Plot(
        spec,
        Shape(slices, hosts, tpu, float(spec["timeouts"]["startSeconds"]), codes, "ray" in spec),
        _weather(rng),
        horizon,
        rng.choice((0, 1, 1, 2, 2, 3, 5)),
        rng.choice((0.2, 0.6, 0.9, 1.0)),
        _requests(rng, horizon),
    )


NEIGHBOURS: Final = ("tune", "eval", "serve", "probe")


def neighbours(rng: random.Random, first: Plot) -> dict[str, Plot]:
    """Other jobs, by name, that share the nodes of the first one: for CPUs, or for TPUs of one shape."""
    tpu = first.shape.tpu or rng.choice(("v4-8", "v4-16"))
    found: dict[str, Plot] = {}
    for name in NEIGHBOURS[: rng.randint(1, len(NEIGHBOURS))]:
        other = plot(rng)
        while other.shape.tpu not in (None, tpu):
            other = plot(rng)
        found[name] = other
    return found


def with_choice(rng: random.Random, one: Plot) -> Plot:
    """The same job, which can also run on other numbers of slices."""
    most = rng.choice((2, 2, 3))
    choices = tuple(sorted({most, *(count for count in range(1, most) if rng.random() < 0.7)}))
    retries = one.spec["retries"] | {"capacityRetrySeconds": rng.choice((2, 10, 60))}
    spec = one.spec | {"slices": 1, "acceptableSlices": list(choices), "retries": retries}
    shape = replace(one.shape, slices=most, choices=choices)
    # More slices are asked for when an attempt has ended.
    return replace(one, spec=spec, shape=shape, clean_programs=rng.choice((0.2, 0.6, 1.0)))


def stopped(rng: random.Random, one: Plot) -> Plot:
    """The same job with people who stop it for minutes or for good, and who allow it more retries."""
    spec = dict(one.spec)
    if rng.random() < 0.3:
        spec["activeDeadlineSeconds"] = rng.randint(20, 200)
    if rng.random() < 0.5:
        spec["ttlSecondsAfterFinished"] = rng.choice((0, 10, 30))
    when, luck = rng.choice((rng.uniform(0.0, 30.0), rng.uniform(0.0, one.horizon))), rng.random()
    asked: list[tuple[float, str]] = []
    if luck < 0.6:
        asked += [(when, "suspend"), (when + rng.uniform(40.0, 400.0), "resume")]
    elif luck < 0.8:
        asked.append((when, "cancel"))
    if rng.random() < 0.3:
        asked.append((rng.uniform(0.0, one.horizon), "retry more"))
    return replace(one, spec=spec, requests=asked)


def _weather(rng: random.Random) -> Weather:
    return Weather(
        refuse=rng.choice((0.0, 0.0, 0.02, 0.2)),
        lose=rng.choice((0.0, 0.0, 0.02, 0.15)),
        late=rng.choice((0.0, 0.0, 0.03)),
        crash=rng.choice((0.0, 0.0, 0.01, 0.05)),
        lag=rng.choice((0.05, 0.05, 1.0, 5.0)),
        cut=rng.choice((0.0, 0.0, 0.02, 0.1)),
        repeat=rng.choice((0.0, 0.0, 0.05)),
    )


def _requests(rng: random.Random, horizon: float) -> list[tuple[float, str]]:
    asked: list[tuple[float, str]] = []
    luck = rng.random()
    when = rng.uniform(0.0, horizon)
    if luck < 0.12:
        asked += [(when, "suspend"), (when + rng.uniform(0.1, 120.0), "resume")]
    elif luck < 0.18:
        asked.append((when, "cancel"))
    elif luck < 0.28:
        asked.append((when, rng.choice(("delete", "delete foreground"))))
        asked.append((when + rng.choice((0.05, 2.0, 60.0)), "apply"))
    return asked
