"""What blocks a job, and the gate that its queue opens or closes: all that other rules read of a queue."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slipway.api.status import Phase
from slipway.core.manifests.additions import NO_ADDITIONS, PodAdditions
from slipway.core.planner.contract.freshness import EVER
from slipway.core.vocabulary.endings import Ending


@dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a job from beginning an attempt, or from creating the pods of one."""

    reason: str
    """One CamelCase word."""
    message: str
    phase: Phase | None = None
    """The phase that the job is in meanwhile; None where that depends on the attempt."""
    ending: Ending | None = None
    """How it ends an attempt that is under way; None when the attempt goes on."""
    since: datetime = EVER
    """When what holds the job came about, as far as it is dated."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a queue lets a job do; of a job without a queue the gate is open."""

    closed: Blocker | None = None
    """Why the job may have no pods although it could run; None where it may have some."""
    keeps_place: bool = False
    """Whether the queue keeps a job waiting whose present spec is accepted.

    Such a job is not checked by a dry run again, so that it keeps its place."""
    at_once: bool = False
    """Whether the next attempt skips the retry delay: the queue has just admitted the job, whose quota would idle."""
    slices: int | None = None
    """Largest number of slices that the job may have; None for what its spec says."""
    additions: tuple[PodAdditions, PodAdditions] = (NO_ADDITIONS, NO_ADDITIONS)
    """What is added to the workers and to the Ray head."""


OPEN: Final = Gate()
