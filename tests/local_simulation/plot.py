"""What a seed chooses before anything happens: the jobs, their people, and how badly things go."""

import random
from dataclasses import dataclass, field
from typing import Any, Final

from slipway.api.status import Cause
from tests.local_simulation.connection import Weather
from tests.simulation.cluster import Shape
from tests.simulation.plot import CODES

JOB = "train"
RIVAL = "rival"
SCRATCH_WORKER: Final[dict[str, Any]] = {
    "name": "worker",
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
SCRATCH_VOLUMES: Final = [{"name": "scratch", "emptyDir": {}}]
READ_ONLY: Final = {"securityContext": {"readOnlyRootFilesystem": True}}


@dataclass(slots=True)
class Plot:
    """A job and its people."""

    spec: dict[str, Any]
    shape: Shape
    clean_programs: float
    requests: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True)
class Setting:
    """The jobs of a history, its machine, and how badly things go."""

    plots: dict[str, Plot]
    gpus: int
    weather: Weather
    horizon: float
    harms: int
    kills: int
    threads: int
    jammed: float
    slow_removals: float
    kills_first: bool


def setting(rng: random.Random) -> Setting:
    horizon = rng.choice((60.0, 200.0, 600.0))
    gpus = rng.choice((0, 0, 1, 2, 4))
    plots = {JOB: _plot(rng, gpus, horizon)}
    if rng.random() < 0.4:
        plots[RIVAL] = _plot(rng, gpus, horizon)
    return Setting(
        plots,
        gpus,
        _weather(rng),
        horizon,
        harms=rng.choice((0, 1, 1, 2, 3, 5)),
        kills=rng.choice((0, 0, 1, 2, 4)),
        threads=rng.choice((2, 16)),
        jammed=rng.choice((0.0, 0.0, 0.0, 0.2)),
        slow_removals=rng.choice((0.0, 0.0, 0.5)),
        kills_first=rng.random() < 0.2,
    )


def _plot(rng: random.Random, gpus: int, horizon: float) -> Plot:
    hosts, slices = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 1, 1, 2))
    retries: dict[str, Any] = {
        "maxFailures": rng.choice((0, 1, 2, 3, 3, 10)),
        "maxPreemptions": rng.choice((0, 1, 2, 5, 1000000, 1000000)),
        "gracePeriodSeconds": rng.choice((1, 2, 5, 5)),
    }
    codes: dict[int, Cause] = {}
    if rng.random() < 0.2:
        retries["onExitCodes"] = {"fail": [42], "preemption": [43], "ignore": [44]}
        codes = CODES
    if rng.random() < 0.2:
        retries["backoff"] = {"initialSeconds": rng.choice((1, 10)), "maxSeconds": 60}
    spec: dict[str, Any] = {
        "image": "busybox:1",
        "slices": slices,
        "hosts": hosts,
        "retries": retries,
        "terminationGracePeriodSeconds": rng.choice((2, 10, 30)),
    }
    each = gpus // (slices * hosts)
    if each and rng.random() < 0.8:
        spec["accelerator"] = {"gpu": {"vendor": "nvidia", "count": rng.randint(1, each)}}
    if rng.random() < 0.2:
        worker = SCRATCH_WORKER | (READ_ONLY if rng.random() < 0.5 else {})
        spec["podTemplate"] = {"spec": {"volumes": SCRATCH_VOLUMES, "containers": [worker]}}
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = rng.randint(20, 600)
    if rng.random() < 0.1:
        spec["ttlSecondsAfterFinished"] = rng.choice((0, 30))
    clean = rng.choice((0.2, 0.6, 0.9, 1.0))
    return Plot(spec, Shape(slices, hosts, None, 30.0, codes), clean, _requests(rng, horizon))


def _weather(rng: random.Random) -> Weather:
    return Weather(
        slow=rng.choice((0.0, 0.0, 0.05, 0.2)),
        unasked=rng.choice((0.0, 0.0, 0.0, 0.02)),
        unanswered=rng.choice((0.0, 0.0, 0.0, 0.03)),
        refused=rng.choice((0.0, 0.0, 0.0, 0.03)),
        lag=rng.choice((0.0, 0.0, 0.1, 2.0)),
        late=rng.choice((0.0, 0.5)),
    )


def _requests(rng: random.Random, horizon: float) -> list[tuple[float, str]]:
    asked: list[tuple[float, str]] = []
    luck, when = rng.random(), rng.uniform(0.0, horizon)
    if luck < 0.15:
        asked += [(when, "suspend"), (when + rng.uniform(0.1, 120.0), "resume")]
    elif luck < 0.25:
        asked.append((when, "cancel"))
    elif luck < 0.4:
        asked += [(when, "delete"), (when + rng.choice((0.05, 2.0, 60.0)), "apply")]
    elif luck < 0.5:
        asked.append((when, "more retries"))
    return asked
