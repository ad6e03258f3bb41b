"""Jobs in queues of Kueue: how many there is room for, and what people and Kueue do to them."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Final

from slipway.api import names
from tests.simulation.choices import Choices
from tests.simulation.cluster import Shape
from tests.simulation.kueue import Kueue
from tests.simulation.plot import Plot
from tests.simulation.requests import Server
from tests.simulation.store import NAMESPACE, Store
from tests.simulation.timeline import Timeline
from tests.simulation.user import User
from tests.simulation.workloads import LOCAL_QUEUES, PRIORITIES, Json, Workloads, given, holds, job_of

MOST_TROUBLES: Final = 8
STAYS: Final = 120.0
"""Longest time that most strangers' Workloads have their quota, in seconds."""
TRIED_AGAIN: Final = 120.0
"""Seconds within which what Kueue did not answer is tried again once it is back."""
HIGHEST: Final = 2000
"""A priority above those of all jobs."""
CHIPS: Final = 4
"""Of each host with TPUs, whatever its shape."""


def labels(rng: random.Random) -> dict[str, str]:
    """Queue and priority of a job."""
    chosen = {names.QUEUE_LABEL: rng.choice(LOCAL_QUEUES)}
    return chosen | ({names.QUEUE_PRIORITY_LABEL: rng.choice(list(PRIORITIES))} if rng.random() < 0.6 else {})


class Queues:
    """Kueue and everybody who has to do with it, in one history."""

    def __init__(
        self,
        timeline: Timeline,
        store: Store,
        server: Server,
        shapes: Mapping[str, Shape],
        rng: random.Random,
        say: Callable[..., None],
    ) -> None:
        """`shapes` are those of the jobs, by name."""
        self._timeline = timeline
        self._store = store
        self._rng = rng
        self._say = say
        self._strangers = 0
        self.calm = False
        self.workloads = Workloads(store, server)
        self.choices = self.workloads.choices = Choices(timeline, store, shapes)
        self.choices.on_given_back = self._snatch
        self.kueue = Kueue(timeline, store, self.workloads, rng, say)

    def plan(self, plots: Iterable[Plot], users: list[User], horizon: float) -> None:
        """Choose the quota, and what happens when."""
        rng = self._rng
        shapes = [one.shape for one in plots]
        sizes, least = [one.pods for one in shapes], max(one.fewest.pods for one in shapes)
        few = rng.randint(least, max(sizes))
        self.workloads.quota = rng.choice((few, max(sizes), max(sizes) + rng.randint(0, 3), sum(sizes)))
        if all(one.tpu and not one.ray for one in shapes):
            self.workloads.resource, self.workloads.each = names.TPU_RESOURCE, CHIPS
        self.workloads.boosts = rng.random() < 0.5
        self._say("quota for %d pods", self.workloads.quota)
        self.workloads.publish(0, 0, active=True)
        if choices := [one for one in shapes if one.choices]:
            # Who has to begin with fewer slices may ask for more later.
            room = rng.choice(choices).fewest.pods
            if rng.random() < 0.7 and room < self.workloads.quota:
                self._enter(self.workloads.quota - room, HIGHEST, horizon)
        self.kueue.slowest = rng.choice((0.05, 0.05, 1.0, 8.0))
        self.kueue.patience = rng.choice((None, None, 30.0, 90.0))
        harms: list[Callable[[], None]] = [
            self._stranger,
            self._stranger,
            self._stop,
            self._go_away,
            partial(self._to_workload, self._deactivate),
            partial(self._to_workload, self._delete),
            partial(self._to_workload, self._lose_nodes),
            lambda: rng.choice(users).label(labels(rng)),
        ]
        for _ in range(rng.randint(0, MOST_TROUBLES)):
            self._timeline.at(rng.uniform(0.0, horizon), partial(self._harm, rng.choice(harms)))

    def calm_down(self) -> None:
        """From here on there is quota for the jobs, and nobody takes it away."""
        self.calm, self.workloads.away, self.kueue.stopped = True, False, False
        self.kueue.patience, self.kueue.slowest = None, 0.05
        for workload in list(self._store.workloads.values()):
            if not job_of(workload):
                self._leave(workload["metadata"]["name"])
            elif not workload["spec"]["active"]:
                self._activate(workload["metadata"]["name"])
        self.kueue.look_soon()

    def collect(self, owners: set[str]) -> None:
        """The garbage collector deletes the Workloads of SliceJobs that are deleted or are being deleted."""
        for workload in list(self._store.workloads.values()):
            if job_of(workload) and job_of(workload) not in owners:
                self.workloads.delete(workload)

    def offered(self, uid: str) -> int | None:
        """For how many pods a job is admitted; None while it is not."""
        known = (one for one in self._of(uid) if holds(one, "Admitted"))
        return next(map(given, known), None)

    def holds_quota(self, uid: str) -> bool:
        """Whether a job has quota that it could give back: Kueue's webhooks answer."""
        reserved = (one for one in self._of(uid) if holds(one, "QuotaReserved") and not holds(one, "Finished"))
        return self._is_answered() and any(True for _ in reserved)

    def is_awaited(self, uid: str) -> bool:
        """Whether Kueue waits for the pods of an admitted job, and could be told that they run."""
        mine = (one for one in self._of(uid) if holds(one, "Admitted"))
        stays = (one for one in mine if not holds(one, "Evicted") and "deletionTimestamp" not in one["metadata"])
        return self._is_answered() and any(not holds(one, "PodsReady") for one in stays)

    def knows_or_answers(self, uid: str) -> bool:
        """Whether Kueue knows that a job has ended, or could be told."""
        return self._is_answered() or all(holds(one, "Finished") for one in self._of(uid))

    def _of(self, uid: str) -> Iterator[Json]:
        """The Workloads of a job."""
        return (one for one in self._store.workloads.values() if job_of(one) == uid)

    def _is_answered(self) -> bool:
        """Whether Kueue answers again for so long that an operator with the longest pause between tries has tried."""
        return not self.workloads.away and self._timeline.now >= self.choices.away_until + TRIED_AGAIN

    def left(self) -> list[str]:
        """Names of the Workloads of jobs."""
        return [name for name, one in self._store.workloads.items() if job_of(one)]

    def _harm(self, harm: Callable[[], None]) -> None:
        if not self.calm:
            harm()

    def _later(self, shortest: float, longest: float, act: Callable[[], None]) -> None:
        self._timeline.after(self._rng.uniform(shortest, longest), act)

    def _snatch(self) -> None:
        """Somebody may be faster than a job that gave its quota back for more."""
        if not self.calm and self._rng.random() < 0.6:
            self._stranger()

    def _stranger(self) -> None:
        """Somebody else's Workload wants a part of the quota for a while."""
        rng = self._rng
        count, priority = rng.randint(1, self.workloads.quota), rng.choice((0, 1000, HIGHEST))
        self._enter(count, priority, rng.choice((STAYS, 3 * STAYS)))

    def _enter(self, count: int, priority: int, longest: float) -> None:
        self._strangers += 1
        name = f"stranger-{self._strangers}"
        self._say("fault: %s wants %d with priority %d", name, count, priority)
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": self._store.new_uid("workload"),
            "creationTimestamp": self._store.stamp(),
        }
        spec = {"queueName": "tpu", "priority": priority, "active": True, "podSets": [{"name": "main", "count": count}]}
        self.workloads.put({"metadata": metadata, "spec": spec, "status": {}})
        self._later(1.0, longest, partial(self._leave, name))

    def _leave(self, name: str) -> None:
        workload = self._store.workloads.get(name)
        if workload is not None:
            self.workloads.delete(workload)

    def _to_workload(self, harm: Callable[[Json], None]) -> None:
        mine = [one for one in self._store.workloads.values() if job_of(one)]
        if mine:
            workload = self._rng.choice(mine)
            self._say("fault: %s hits %s", harm.__name__, workload["metadata"]["name"])
            harm(workload)

    def _deactivate(self, workload: Json) -> None:
        self._write(workload, active=False)
        self._later(0.5, 120.0, partial(self._activate, workload["metadata"]["name"]))

    def _activate(self, name: str) -> None:
        workload = self._store.workloads.get(name)
        if workload is not None and not workload["spec"]["active"]:
            self._write(workload, active=True)

    def _write(self, workload: Json, *, active: bool) -> None:
        changed = deepcopy(workload)
        changed["spec"]["active"] = active
        self.workloads.put(changed)

    def _delete(self, workload: Json) -> None:
        self.kueue.evicted.setdefault(job_of(workload), []).append("Deleted")
        self.workloads.delete(workload)

    def _lose_nodes(self, workload: Json) -> None:
        if holds(workload, "Admitted") and not holds(workload, "Evicted") and not holds(workload, "Finished"):
            said = "Workload was evicted as there was no replacement for unhealthy node(s): pool0-0"
            self.kueue.evict(workload, "NodeFailures", said)

    def _stop(self) -> None:
        self._say("fault: the queue is stopped")
        self.kueue.stopped = True

        def start() -> None:
            self.kueue.stopped = False
            self.kueue.look_soon()

        self.kueue.look_soon()
        self._later(1.0, 120.0, start)

    def _go_away(self) -> None:
        self._say("fault: Kueue is away")
        self.workloads.away = True

        def back() -> None:
            self.workloads.away, self.choices.away_until = False, self._timeline.now
            self.kueue.look_soon()

        self._later(1.0, 120.0, back)
