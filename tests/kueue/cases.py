"""What Kueue does with Workloads: the simulation's model and a real Kueue are held against the same cases."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

QUOTA: Final = 4
"""Pods for which there is quota; each Workload of a case asks for all of it."""


def given_back(conditions: list[dict[str, Any]], requeued: str, now: str) -> list[dict[str, Any]]:
    """The conditions of an evicted Workload with those by which it gives its quota back."""
    reason = next(one["reason"] for one in conditions if one["type"] == "Evicted")
    changed = {"QuotaReserved": ("False", "Pending"), "Admitted": ("False", "NoReservation")}
    changed["Requeued"] = (requeued, reason)
    return [one for one in conditions if one["type"] not in changed] + [
        {"type": kind, "status": status, "reason": why, "message": "", "lastTransitionTime": now}
        for kind, (status, why) in changed.items()
    ]


def is_so(condition: dict[str, Any], status: str, reason: str, words: str) -> bool:
    """Whether a condition has this status and reason, and these words in its message."""
    found = condition.get("status"), condition.get("reason")
    return found == (status, reason) and words in condition.get("message", "")


class Place(Protocol):
    """A Kueue with a queue and no jobs."""

    def submit(self, name: str, priority: int = 0) -> None:
        """Create a Workload."""

    def until(self, name: str, kind: str, status: str, reason: str, words: str = "") -> None:
        """Wait until a condition of a Workload has this status and reason, and these words in its message."""

    def holds(self, name: str, kind: str) -> bool:
        """Whether a condition of a Workload is True."""

    def message(self, name: str, kind: str) -> str:
        """The message of a condition."""

    def release(self, name: str, requeued: str) -> None:
        """Give the quota of an evicted Workload back as Slipway does."""

    def delete(self, name: str) -> None:
        """Delete a Workload."""

    def set_active(self, name: str, active: bool) -> None:
        """Set spec.active."""

    def stop(self) -> None:
        """Have the LocalQueue take nothing, and evict what it has."""

    def start(self) -> None:
        """Have it take Workloads again."""

    def impatient(self) -> AbstractContextManager[None]:
        """While it lasts, Kueue waits a few seconds for the pods of an admitted Workload."""


def a_workload_with_room_is_admitted_and_another_waits(place: Place) -> None:
    admitted(place, "train")
    place.submit("second")
    place.until("second", "QuotaReserved", "False", "Pending", words=f", {QUOTA} more needed")
    said = place.message("second", "QuotaReserved")
    assert "couldn't assign flavors to pod set slice: insufficient unused quota for pods in flavor" in said


def the_next_is_admitted_when_the_first_is_deleted(place: Place) -> None:
    admitted(place, "train")
    place.submit("second")
    place.until("second", "QuotaReserved", "False", "Pending")
    place.delete("train")
    place.until("second", "Admitted", "True", "Admitted")


def who_preempts_waits_until_the_quota_is_given_back(place: Place) -> None:
    admitted(place, "train")
    place.submit("urgent", priority=1000)
    place.until("train", "Evicted", "True", "Preempted")
    assert place.holds("train", "QuotaReserved")
    assert place.holds("train", "Admitted")
    # A preemption that fails is tried again, and until then Kueue says that.
    place.until("urgent", "QuotaReserved", "False", "Pending", words="Pending the preemption of 1 workload(s)")
    place.release("train", "True")
    place.until("urgent", "Admitted", "True", "Admitted")
    place.delete("urgent")
    place.until("train", "Admitted", "True", "Admitted")
    place.until("train", "Evicted", "False", "QuotaReserved")
    assert place.message("train", "Evicted").startswith("Previously: ")


def a_workload_that_is_deactivated_waits_until_it_is_active(place: Place) -> None:
    admitted(place, "train")
    place.set_active("train", active=False)
    evicted(place, "Deactivated")
    place.set_active("train", active=True)
    place.until("train", "Requeued", "True", "Reactivated")
    place.until("train", "Admitted", "True", "Admitted")


def a_queue_that_is_stopped_takes_its_workloads_back_when_it_is_started(place: Place) -> None:
    admitted(place, "train")
    place.stop()
    evicted(place, "LocalQueueStopped")
    place.start()
    place.until("train", "Requeued", "True", "LocalQueueRestarted")
    place.until("train", "Admitted", "True", "Admitted")


def who_starts_too_late_is_queued_again_after_a_while(place: Place) -> None:
    admitted(place, "train")
    with place.impatient():
        evicted(place, "PodsReadyTimeout")
        place.until("train", "Requeued", "True", "BackoffFinished")
        place.until("train", "Admitted", "True", "Admitted")


def admitted(place: Place, name: str) -> None:
    """Create a Workload for which there is quota."""
    place.submit(name)
    place.until(name, "QuotaReserved", "True", "QuotaReserved")
    place.until(name, "Admitted", "True", "Admitted")


def evicted(place: Place, reason: str) -> None:
    """Wait for the eviction, in which the Workload keeps its quota, and give that back."""
    place.until("train", "Evicted", "True", reason)
    assert place.holds("train", "QuotaReserved")
    place.release("train", "False")
    place.until("train", "Requeued", "False", reason)


CASES: Final[tuple[Callable[[Place], None], ...]] = (
    a_workload_with_room_is_admitted_and_another_waits,
    the_next_is_admitted_when_the_first_is_deleted,
    who_preempts_waits_until_the_quota_is_given_back,
    a_workload_that_is_deactivated_waits_until_it_is_active,
    a_queue_that_is_stopped_takes_its_workloads_back_when_it_is_started,
    who_starts_too_late_is_queued_again_after_a_while,
)
