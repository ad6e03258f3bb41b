"""What must hold after every write of a status, as on a cluster, with what is different on one machine."""

from dataclasses import dataclass, field
from typing import Any

from slipway.api.status import Attempt
from tests.simulation.invariants import Invariants


@dataclass(slots=True)
class LocalInvariants(Invariants):
    """The invariants of the simulated cluster; the history of attempts is in the job's own file."""

    pages: dict[str, set[int]] = field(default_factory=dict)
    """The attempts in each job's history, by UID."""

    def status_written(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.pages[after["metadata"]["uid"]] = {one["number"] for one in after["local"]["history"]}
        # Slots do without super().
        Invariants.status_written(self, who, before, after)

    def _kept(self, uid: str) -> set[int]:
        return self.pages.get(uid, set())

    def _misled(self, uid: str, who: str, number: int) -> bool:
        return False

    def _removed_unreported(self, uid: str, attempt: Attempt) -> bool:
        return False
