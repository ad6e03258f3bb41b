"""What jobs that can run on several numbers of slices may ask their queue for, and when they give quota back for more.

These rules are judged by what Kueue has told, and by the status that was written, never by what the planner thinks.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from tests.simulation.cluster import Shape
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation, require
from tests.simulation.workloads import Json, asked, condition, given

PAUSE: Final = 3600.0
"""Seconds for which a job keeps quota at least that it got when it asked for more slices."""
BLUR: Final = 8.0
"""Seconds by which dates of the API and of the operator may be wrong against each other."""
STALE: Final = 180.0
"""Seconds for which a process may act on what Kueue has shown: its watch is cut, or its request carried out late."""
AT_ONCE: Final = 30.0
"""Seconds within which a leader that is alive has asked for fewer slices, where it need not wait."""
_SHORT: Final = ("insufficient unused quota for", "insufficient quota for")
NEVER_FITS: Final = "> maximum capacity ("


class Choices:
    """Watches over the Workloads of such jobs."""

    def __init__(self, timeline: Timeline, store: Store, shapes: Mapping[str, Shape]) -> None:
        """`shapes` are those of all jobs, by name."""
        self._timeline = timeline
        self._store = store
        self._shapes = shapes
        self._shown: list[tuple[float, int]] = []
        """Since when Kueue has shown for how many more pods there is quota that nobody waits for."""
        self._given_back: dict[str, float] = {}
        """When each job last gave quota back for more, by UID."""
        self._had: dict[str, int] = {}
        """Slices of each job when it had no Workload any more, by UID, until it has quota again."""
        self._wants_more: set[str] = set()
        """UIDs of jobs that gave quota back for more and have none yet."""
        self.away_until = 0.0
        """When Kueue last came back."""
        self.known_since: Callable[[str, int], float | None] = lambda uid, version: None
        """Since when the leader has been shown this version of an object; None if it has not, or nobody leads."""
        self.on_given_back: Callable[[], None] = lambda: None

    def created(self, uid: str, pods: int) -> None:
        """A Workload is created, which asks for the most slices."""
        shape = self._shape(uid)
        if shape is not None:
            require(pods == shape.pods, f"the Workload of {uid} is created for {pods} pods of {shape.pods}")

    def changed(self, who: str, uid: str, before: Json, after: Json) -> None:
        """A Workload asks for another number of pods."""
        shape = self._shape(uid)
        was, now = asked(before), asked(after)
        if shape is None or was == now:
            return
        slices = (now - shape.ray) // shape.hosts
        right = slices in (shape.choices or (shape.slices,)) and slices * shape.hosts + shape.ray == now
        require(right, f"{who} asks for {now} pods of {uid}, which can have {shape.choices} slices")
        if now > was:
            require(slices == shape.slices, f"{who} asks for {slices} slices of {uid}, which can have {shape.slices}")
        else:
            self._may_ask_for_fewer(who, uid, before, shape, slices)

    def _may_ask_for_fewer(self, who: str, uid: str, before: Json, shape: Shape, slices: int) -> None:
        """Fewer slices are asked for when there is no quota for more, in good time."""
        said = condition(before, "QuotaReserved")
        told = str(said.get("message", ""))
        short = said.get("status") == "False" and any(words in told for words in _SHORT)
        current = said.get("observedGeneration") == before["metadata"]["generation"]
        require(short and current, f"{who} asks for {slices} slices of {uid}, and Kueue has said {told!r}")
        if NEVER_FITS in told or self._had.get(uid, shape.slices + 1) <= slices:
            return
        job = self._job(uid)
        queued = job.get("status", {}).get("queuedTime") if job is not None else None
        if job is None or queued is None:
            return
        tried = sum(one * shape.hosts + shape.ray >= asked(before) for one in shape.choices)
        waited = (moment(self._timeline.now) - datetime.fromisoformat(queued)).total_seconds()
        early = tried * job["spec"]["retries"]["capacityRetrySeconds"] - waited - BLUR
        require(early <= 0, f"{who} asks for {slices} slices of {uid} {early:.0f} s too early")

    def may_give_back(self, who: str, uid: str, workload: Json) -> bool:
        """Whether a job may give its quota back and go on.

        Raises:
            Violation: when it could only ask for more, and may not just now.
        """
        shape, wants = self._shape(uid), asked(workload)
        if shape is None or not shape.choices:
            return False
        if given(workload) < wants:
            # It was admitted for fewer than it asks for by now.
            return True
        if wants >= shape.pods:
            return False
        since = self._timeline.now - self._given_back.get(uid, -PAUSE)
        require(since >= PAUSE - BLUR, f"{who} gives the quota of {uid} back {since:.0f} s after it did so before")
        slices = (wants - shape.ray) // shape.hosts
        more = (min(one for one in shape.choices if one > slices) - slices) * shape.hosts
        shown = self._unused_lately()
        require(shown >= more, f"{who} gives the quota of {uid} back for {more} pods more; Kueue has shown {shown}")
        self._given_back[uid] = self._timeline.now
        self._wants_more.add(uid)
        self.on_given_back()
        return True

    def shown(self, unused: int) -> None:
        """Kueue shows for how many more pods there is quota that nobody waits for."""
        self._shown.append((self._timeline.now, unused))

    def _unused_lately(self) -> int:
        """The most that a process may have been shown: what was true in the last minutes."""
        old = [unused for when, unused in self._shown if when < self._timeline.now - STALE][-1:]
        return max([*old, *(unused for when, unused in self._shown if when >= self._timeline.now - STALE)], default=0)

    def gone(self, uid: str) -> None:
        """A job has no Workload any more."""
        status = (self._job(uid) or {}).get("status", {})
        if "slices" in status:
            self._had[uid] = status["slices"]["granted"]

    def admitted(self, uid: str) -> None:
        """A job has quota."""
        self._had.pop(uid, None)
        self._wants_more.discard(uid)

    def refused(self, uid: str, workload: Json, lacking: int, *, never: bool) -> None:
        """Kueue lacks quota for so many of the pods of a job: where it need not wait, it asks for fewer at once."""
        shape = self._shape(uid)
        if shape is None:
            return
        room = asked(workload) - lacking
        fitting = max((one for one in shape.choices if one * shape.hosts + shape.ray <= room), default=0)
        as_before = uid in self._wants_more and fitting >= self._had.get(uid, shape.slices)
        if fitting and (never or as_before):
            self._timeline.after(AT_ONCE, lambda: self._has_asked(uid, workload))

    def _has_asked(self, uid: str, refused: Json) -> None:
        metadata = refused["metadata"]
        known, job = self._store.workloads.get(metadata["name"]), self._job(uid)
        same = known is not None and known["metadata"]["resourceVersion"] == metadata["resourceVersion"]
        if not same or job is None or not _goes_on(job):
            return
        since = self.known_since(metadata["uid"], int(metadata["resourceVersion"]))
        if since is None:
            return
        began = max(since, self.away_until)
        if self._timeline.now < began + AT_ONCE:
            self._timeline.at(began + AT_ONCE + 0.1, lambda: self._has_asked(uid, refused))
            return
        raise Violation(f"{uid} has not asked for fewer slices {self._timeline.now - began:.0f} s after it could")

    def _shape(self, uid: str) -> Shape | None:
        return self._shapes.get(self._store.job_names.get(uid, ""))

    def _job(self, uid: str) -> Json | None:
        name = self._store.job_names.get(uid, "")
        job = self._store.jobs.get(name)
        return job if job is not None and job["metadata"]["uid"] == uid else None


def _goes_on(job: Json) -> bool:
    stopped = job["spec"].get("suspend") or job["spec"].get("cancel") or "deletionTimestamp" in job["metadata"]
    return not stopped and "completionTime" not in job.get("status", {})
