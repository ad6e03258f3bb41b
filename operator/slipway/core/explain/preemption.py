"""Whom the scheduler would preempt for a job: whose priority keeps it out, and from which priority on nobody's does.

The scheduler preempts pods of one node at a time. A slice that has a node pool to itself cannot start in one where pods
of another slice remain, so no priority gets it into the node pool of another SliceJob.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slipway.api import names
from slipway.core.explain.candidates import Candidate, Kind, Request
from slipway.core.explain.wording import listed
from slipway.core.vocabulary.reasons import HELD, TOO_LOW

HIGHEST: Final = 1_000_000_000
"""The highest value of a PriorityClass that is not Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The priority of a job's pods, as the API server gave it to them."""

    priority: int = 0
    preempts: bool = True
    """False when their PriorityClass has `preemptionPolicy: Never`."""

    def kept_out(self, least: int) -> bool:
        """Whether this job can preempt no pod of that priority or a lower one; never so where nobody has a priority."""
        return self.priority <= least and bool(self.priority or least)

    def words(self, least: int | None) -> tuple[str, str]:
        """Reason, and why the scheduler does not preempt others up to that priority; None where no priority matters."""
        if least is not None and not self.preempts:
            return HELD, "the job's PriorityClass has preemptionPolicy Never, so the scheduler preempts nobody for it"
        if least is not None and self.kept_out(least):
            return (
                TOO_LOW,
                f"this job's priority is {self.priority}, and the scheduler preempts only pods of a lower one",
            )
        return HELD, ""

    def raised(self, enough: int, whose: Sequence[str]) -> str:
        """What to do so that the scheduler preempts others, which it does above that priority."""
        policy = "" if self.preempts else " and whose preemptionPolicy is not Never"
        return (
            f"recreate the job with a priorityClassName whose value is above {enough}{policy}: the scheduler may then "
            f"preempt {listed(whose)}"
        )


ORDINARY: Final = Standing()
"""Of pods without a PriorityClass."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What the priority of a job must be above for the scheduler to make room for it."""

    least: int
    """At or below it there is no room for all slices."""
    enough: int
    """Above it there is."""
    open: tuple[Candidate, ...]
    """Sites that nobody has."""
    held: tuple[Candidate, ...]
    """Sites that the scheduler would choose among above it."""

    @property
    def whose(self) -> list[str]:
        """Who has those."""
        return list(dict.fromkeys(holder.title for site in self.held for holder in site.holders))


def bar(request: Request, sites: Iterable[Candidate], slices: int) -> Bar | None:
    """The bar for a job; None where its priority does not matter."""
    matching = [site for site in sites if not site.has(Kind.SHAPE, Kind.LABEL)]
    free = tuple(site for site in matching if not site.obstacles)
    held = sorted((site for site in matching if _takeable(request, site)), key=_rank)
    missing = slices - len(free)
    if not 0 < missing <= len(held):
        return None
    least = _rank(held[missing - 1])
    if not request.pool_hosts:
        return Bar(least, least, free, tuple(site for site in held if _rank(site) <= least))
    # The first pod of a slice may preempt others in a node pool that has no room for the rest of it.
    if any(site.obstacles and not _takeable(request, site) and not _of_job(site) for site in matching):
        return None
    return Bar(least, _rank(held[-1]), free, tuple(held))


def _takeable(request: Request, site: Candidate) -> bool:
    """Whether nothing is in the way but others whom the scheduler could preempt."""
    only_held = bool(site.obstacles) and len(site.holders) == len(site.obstacles)
    return only_held and not (request.pool_hosts and _of_job(site))


def _of_job(site: Candidate) -> bool:
    return any(holder.kind == names.KIND for holder in site.holders)


def _rank(site: Candidate) -> int:
    return max(holder.priority for holder in site.holders)
