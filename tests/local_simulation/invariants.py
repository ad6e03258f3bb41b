"""What must hold after every write of a status, as on a cluster, with what is different on one machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slipway.api.places import Place
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, ConditionType, SliceJobStatus
from tests.simulation.invariants import Invariants
from tests.simulation.truth import Violation


@dataclass(slots=True)
class LocalInvariants(Invariants):
    """The invariants of the simulated cluster; the history of attempts is in the job's own file."""

    pages: dict[str, set[int]] = field(default_factory=dict)
    """The attempts in each job's history, by UID."""

    removed_unseen: Callable[[str, str, int], bool] = lambda uid, who, attempt: False
    """Whether who writes was not told of the end of a container that somebody removed."""

    taken_for_done: Callable[[str, int], set[Place]] = lambda uid, attempt: set()
    """Hosts whose exit 0 nobody can tell from a success."""

    outages: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=dict)
    """When supervisors did not see the engine, by the job's UID."""

    runs: Callable[[str, str], list[str]] = lambda who, uid: []
    """Containers of a job that run, and of which the process knows."""

    def job_written(self, body: dict[str, Any]) -> None:
        """Somebody has written the file of a job."""
        uid, local = body["metadata"]["uid"], body["local"]
        self.pages[uid] = {one["number"] for one in local["history"]}
        pairs = ([datetime.fromisoformat(one) for one in pair] for pair in local.get("outages", ()))
        self.outages[uid] = [(since, until) for since, until in pairs]

    def _charge(self, uid: str, who: str, attempt: Attempt, spec: SliceJobSpec) -> None:
        self.cluster.truth.judge = who  # type: ignore[attr-defined]
        Invariants._charge(self, uid, who, attempt, spec)

    def _suspended(self, who: str, uid: str, new: SliceJobStatus) -> None:
        """Where condition Suspended is True no container may run that the process knows of."""
        one = new.condition(ConditionType.SUSPENDED)
        if one is not None and one.status == "True" and (left := self.runs(who, uid)):
            raise Violation(f"it is suspended and holds nothing, is said, and {left} run")

    def _image(self, uid: str, attempt: Attempt, spec: SliceJobSpec) -> None:
        """Images are there before a local job is stored: no attempt waits for one."""

    def _done(self, uid: str, attempt: int) -> set[Place]:
        return Invariants._done(self, uid, attempt) | self.taken_for_done(uid, attempt)

    def _kept(self, uid: str) -> set[int]:
        return self.pages.get(uid, set())

    def _misled(self, uid: str, who: str, number: int) -> bool:
        """Whether a container was removed of which the process saw no end: that may have been the first."""
        return self.removed_unseen(uid, who, number)

    def _chips(self, who: str, uid: str, created: datetime, old: SliceJobStatus, new: SliceJobStatus) -> None:
        """The modelled machine does not tell which containers hold its chips; only the time is checked."""

    def _removed_unreported(self, uid: str, attempt: Attempt) -> bool:
        return False
