"""Kueue's controller: it admits Workloads within a quota in the order of their creation, and evicts them."""

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Final

from tests.simulation.choices import NEVER_FITS
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation
from tests.simulation.workloads import CLUSTER_QUEUE, FLAVOR, Json, Workloads, asked, condition, given, holds, job_of

TIMEOUT: Final = "PodsReadyTimeout"
STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"
TOO_OFTEN: Final = "DeactivatedDueToRequeuingLimitExceeded"
BACKOFF_LIMIT: Final = 2
"""After so many starts that took too long a Workload is deactivated."""


class Kueue:
    """One ClusterQueue with quota for pods, and the LocalQueues that lead to it."""

    def __init__(
        self, timeline: Timeline, store: Store, workloads: Workloads, rng: random.Random, say: Callable[..., None]
    ) -> None:
        self._timeline = timeline
        self._store = store
        self._workloads = workloads
        self._rng = rng
        self._say = say
        self._due = False
        self._to_publish = False
        self._assumed: dict[str, int] = {}
        """Pods of Workloads that are admitted by a decision that is not written yet, by UID."""
        self._since: dict[str, float] = {}
        """Since when each Workload waits for its pods, by UID."""
        self._forgotten: set[str] = set()
        """UIDs of Workloads whose quota Kueue gives out again although they are admitted."""
        self._starts: dict[str, int] = {}
        """How often the pods of a Workload were not ready in time, by UID."""
        self.evicted: dict[str, list[str]] = {}
        """Reasons of the evictions of each job, by its UID."""
        self.slowest = 0.05
        """Longest time until it looks at what has changed, in seconds."""
        self.patience: float | None = None
        """How long it waits for the pods of an admitted Workload, in seconds; None for ever."""
        self.stopped = False
        """Whether the queue takes nothing, and lets go of what it has."""
        workloads.on_write = self._heard

    def look_soon(self) -> None:
        """Look at everything, in a moment."""
        if not self._due:
            self._due = True
            self._timeline.after(self._rng.uniform(0.005, self.slowest), self._look)

    def evict(self, workload: Json, reason: str, message: str) -> None:
        """Have a Workload let go of its quota; it keeps that until it says that nothing runs any more."""
        changed = deepcopy(workload)
        self._say("kueue: evicts %s: %s", workload["metadata"]["name"], reason)
        self._set(changed, "Evicted", "True", reason, message)
        if reason == "Preempted":
            self._set(changed, "Preempted", "True", "InClusterQueue", message)
        if reason == TIMEOUT:
            wait = self._rng.uniform(1.0, 60.0)
            changed["status"]["requeueState"] = {
                "count": self._starts.get(workload["metadata"]["uid"], 0),
                "requeueAt": moment(self._timeline.now + wait).isoformat(timespec="seconds").replace("+00:00", "Z"),
            }
            self._timeline.after(wait + 1.0, self.look_soon)
        if job := job_of(workload):
            self.evicted.setdefault(job, []).append(reason)
        self._workloads.put(changed)

    def _heard(self, workload: Json) -> None:
        """A Workload was written; who takes the conditions away and leaves the admission confuses the cache."""
        uid, reserved = workload["metadata"]["uid"], holds(workload, "QuotaReserved")
        if workload["status"].get("admission") is not None and not reserved:
            self._forgotten.add(uid)
        elif not reserved:
            self._forgotten.discard(uid)
        if condition(workload, "PodsReady").get("reason") == "WaitForRecovery":
            self._since.setdefault(uid, self._timeline.now)
        elif holds(workload, "PodsReady"):
            self._since.pop(uid, None)
        self.look_soon()
        self._publish_soon()

    def _publish_soon(self) -> None:
        if not self._to_publish:
            self._to_publish = True
            self._timeline.after(self._rng.uniform(0.005, self.slowest), self._publish)

    def _publish(self) -> None:
        """Show in the status of the queues what is used and who waits."""
        self._to_publish = False
        if self._workloads.away:
            return
        there = [one for one in self._store.workloads.values() if self._queued(one)]
        pending = sum(not (self.stopped and job_of(one)) for one in there)
        self._workloads.publish(self._used(), pending, active=not self.stopped)

    def _look(self) -> None:
        self._due = False
        if self._workloads.away:
            return
        self._publish_soon()
        for name in list(self._store.workloads):
            self._tend(self._store.workloads[name])
        waiting = [one for one in self._store.workloads.values() if self._queued(one)]
        for workload in sorted(waiting, key=_place):
            if self._consider(workload):
                return

    def _tend(self, workload: Json) -> None:
        """Evict what may not go on, and queue again what may."""
        active = workload["spec"].get("active", True)
        if holds(workload, "Finished"):
            return
        if not holds(workload, "QuotaReserved"):
            self._requeue(workload)
        elif holds(workload, "Evicted"):
            return
        elif not active:
            self.evict(workload, DEACTIVATED, "The workload is deactivated")
        elif self.stopped and job_of(workload):
            self.evict(workload, STOPPED, "The LocalQueue is stopped")
        else:
            self._wait_for_pods(workload)

    def _wait_for_pods(self, workload: Json) -> None:
        uid = workload["metadata"]["uid"]
        since = self._since.get(uid)
        if self.patience is None or since is None or not job_of(workload):
            return
        if self._timeline.now < since + self.patience:
            self._timeline.after(since + self.patience + 0.1 - self._timeline.now, self.look_soon)
            return
        self._starts[uid] = self._starts.get(uid, 0) + 1
        if self._starts[uid] <= BACKOFF_LIMIT:
            self.evict(workload, TIMEOUT, f"Exceeded the PodsReady timeout slicejob/{workload['metadata']['name']}")
            return
        self._starts.pop(uid)
        changed = workload | {"spec": workload["spec"] | {"active": False}}
        self.evict(
            changed, TOO_OFTEN, "The workload is deactivated: exceeding the maximum number of re-queuing retries"
        )

    def _requeue(self, workload: Json) -> None:
        requeued, active = condition(workload, "Requeued"), workload["spec"].get("active", True)
        if requeued.get("status") != "False" or not active:
            return
        reason, due = requeued["reason"], workload["status"].get("requeueState", {}).get("requeueAt", "")
        if reason == TIMEOUT and moment(self._timeline.now).isoformat() < due.replace("Z", ""):
            self._timeline.after(1.0, self.look_soon)
        elif reason == TIMEOUT:
            self._queue_again(workload, "BackoffFinished")
        elif reason == DEACTIVATED:
            self._queue_again(workload, "Reactivated")
        elif reason == STOPPED and not self.stopped:
            self._queue_again(workload, "LocalQueueRestarted")

    def _queue_again(self, workload: Json, reason: str) -> None:
        changed = deepcopy(workload)
        self._set(changed, "Requeued", "True", reason, "The workload is queued again")
        self._workloads.put(changed)

    def _queued(self, workload: Json) -> bool:
        requeued = condition(workload, "Requeued").get("status", "True") == "True"
        out = holds(workload, "Finished") or not workload["spec"].get("active", True)
        assumed = workload["metadata"]["uid"] in self._assumed
        return requeued and not out and not assumed and not holds(workload, "QuotaReserved")

    def _consider(self, workload: Json) -> bool:
        """Admit a Workload, or say why not; returns whether it waits for those it preempts, and all others with it."""
        needs, name = asked(workload), workload["metadata"]["name"]
        # `workload` was read before others were admitted in this pass, which may have changed it.
        workload = self._store.workloads.get(name, workload)
        queue = workload["spec"]["queueName"]
        lacking = self._used() + needs - self._workloads.quota
        count = 0
        if self.stopped and job_of(workload):
            self._hold(workload, "Inadmissible", f"LocalQueue {queue} is inactive")
        elif lacking <= 0 or workload["status"].get("admission") is not None:
            # With an admission it is taken for admitted, whatever is used meanwhile.
            self._decide(workload)
        elif needs > self._workloads.quota:
            self._lack(workload, self._too_large(workload), needs - self._workloads.quota)
        else:
            said = (
                f"couldn't assign flavors to pod set slice: insufficient unused quota for {self._workloads.resource} "
            )
            said += f"in flavor {FLAVOR}, {lacking * self._workloads.each} more needed"
            if (count := self._preempt(workload, lacking)) > 0:
                self._hold(workload, "Pending", f"{said}. Pending the preemption of {count} workload(s)")
            else:
                self._lack(workload, said, lacking)
        return count > 0

    def _too_large(self, workload: Json) -> str:
        """What is said of a Workload for which there will never be enough."""
        each, last = self._workloads.each, workload["spec"]["podSets"][-1]
        before = asked(workload) - last["count"]
        return (
            f"couldn't assign flavors to pod set {last['name']}: insufficient quota for {self._workloads.resource} "
            f"in flavor {FLAVOR}, previously considered podsets requests ({before * each}) + current podset request "
            f"({last['count'] * each}) {NEVER_FITS}{self._workloads.quota * each})"
        )

    def _lack(self, workload: Json, said: str, lacking: int) -> None:
        """Say that there is no quota for so many of the pods."""
        if self._hold(workload, "Pending", said) and self._workloads.choices is not None:
            known = self._store.workloads[workload["metadata"]["name"]]
            self._workloads.choices.refused(job_of(known), known, lacking, never=NEVER_FITS in said)

    def _used(self) -> int:
        reserved = (one for one in self._store.workloads.values() if holds(one, "QuotaReserved"))
        known = (one for one in reserved if one["metadata"]["uid"] not in self._forgotten)
        return sum(given(one) for one in known if not holds(one, "Finished")) + sum(self._assumed.values())

    def _preempt(self, workload: Json, lacking: int) -> int:
        """Evict those of lower priority, the youngest first, if that is enough; returns how many."""
        lower = [
            one
            for one in self._store.workloads.values()
            if holds(one, "QuotaReserved") and not holds(one, "Finished")
            if one["spec"].get("priority", 0) < workload["spec"].get("priority", 0)
        ]
        if sum(map(given, lower)) < lacking:
            return 0
        count = 0
        for victim in sorted(lower, key=_place, reverse=True):
            if lacking <= 0:
                break
            lacking -= given(victim)
            count += 1
            if not holds(victim, "Evicted"):
                self.evict(victim, "Preempted", "Preempted to accommodate a workload due to prioritization")
        return count

    def _decide(self, workload: Json) -> None:
        """Give a Workload the quota that it asks for now; that is written later, whatever it asks for by then."""
        metadata, pod_sets = workload["metadata"], workload["spec"]["podSets"]
        if self._rng.random() < 0.5:
            self._admit(workload, pod_sets)
            return
        self._assumed[metadata["uid"]] = asked(workload)

        def write() -> None:
            del self._assumed[metadata["uid"]]
            known = self._store.workloads.get(metadata["name"])
            if known is not None and known["metadata"]["uid"] == metadata["uid"] and not self._workloads.away:
                self._admit(known, pod_sets)
            self.look_soon()

        self._timeline.after(self._rng.uniform(0.005, self.slowest), write)

    def _admit(self, workload: Json, pod_sets: list[Json]) -> None:
        changed = deepcopy(workload)
        metadata, said = workload["metadata"], f"Quota reserved in ClusterQueue {CLUSTER_QUEUE}"
        self._say("kueue: admits %s (%d of %d used)", metadata["name"], self._used(), self._workloads.quota)
        changed["status"]["admission"] = {
            "clusterQueue": CLUSTER_QUEUE,
            "podSetAssignments": [
                {
                    "name": one["name"],
                    "flavors": {self._workloads.resource: FLAVOR},
                    "resourceUsage": {self._workloads.resource: str(one["count"] * self._workloads.each)},
                    "count": one["count"],
                }
                for one in pod_sets
            ],
        }
        self._set(changed, "QuotaReserved", "True", "QuotaReserved", said)
        self._set(changed, "Admitted", "True", "Admitted", "The workload is admitted")
        for kind in ("Evicted", "Preempted"):
            if holds(workload, kind):
                before = condition(workload, kind)["message"]
                self._set(changed, kind, "False", "QuotaReserved", f"Previously: {before}")
        self._since[metadata["uid"]] = self._timeline.now
        self._workloads.put(changed)
        if self._workloads.choices is not None:
            self._workloads.choices.admitted(job_of(workload))
        if not job_of(workload):
            self._workloads.check_quota()
        elif not metadata.get("ownerReferences"):
            raise Violation(f"{metadata['name']} has no owner")

    def _hold(self, workload: Json, reason: str, message: str) -> bool:
        """Say why a Workload is not admitted; returns whether that is news."""
        known, generation = condition(workload, "QuotaReserved"), workload["metadata"]["generation"]
        if (known.get("reason"), known.get("message"), known.get("observedGeneration")) == (
            reason,
            message,
            generation,
        ):
            return False
        changed = deepcopy(workload)
        self._set(changed, "QuotaReserved", "False", reason, message)
        self._workloads.put(changed)
        return True

    def _set(self, workload: Json, kind: str, status: str, reason: str, message: str) -> None:
        before = condition(workload, kind)
        since = before["lastTransitionTime"] if before.get("status") == status else self._store.stamp()
        one = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        others = [other for other in workload["status"].get("conditions", ()) if other["type"] != kind]
        workload["status"]["conditions"] = [*others, one | {"observedGeneration": workload["metadata"]["generation"]}]


def _place(workload: Json) -> tuple[int, str, str]:
    """The place in the queue: by priority, then by the second of creation."""
    metadata = workload["metadata"]
    return -workload["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["uid"]
