"""All that `slipway describe` shows of one job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from slipway.api.places import Place
from slipway.api.status import Attempt
from slipway.client.model import JobState
from slipway.core.model.events import SeenEvent


class Event(SeenEvent, rename="camel", kw_only=True):
    """An Event about a job or one of its pods."""

    message: str = ""
    type: str = ""
    involved_object: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class ProfileOfJob:
    """The SliceJobProfile of a job, and which version of it the newest attempt began with."""

    name: str
    generation: int | None = None
    """Its generation; None where it cannot be read."""
    problem: str = ""
    """Why it cannot be read."""
    attempt: int | None = None
    """Number of the newest attempt, if there is one."""
    began: int | None = None
    """The generation with which that attempt began; None where it began without the profile."""

    @property
    def words(self) -> str:
        """In one line."""
        said = [self.problem or f"generation {self.generation}"]
        if self.attempt is not None and self.began != self.generation:
            began = f"with generation {self.began}" if self.began is not None else "without it"
            said.append(f"attempt {self.attempt} began {began}")
        return f"{self.name} ({'; '.join(said)})"


@dataclass(frozen=True)
class Description:
    """All that is known of one job at one moment."""

    job: JobState
    """The job: spec, status, phase."""
    attempts: tuple[Attempt, ...]
    """Oldest first."""
    hosts: Mapping[Place, str]
    """The state of each host of the current attempt that has a pod, in a word."""
    events: tuple[Event, ...]
    """Oldest first."""
    profile: ProfileOfJob | None = None
    """None for a job that names none in a namespace without a profile named default."""
    out_of_reach: str = ""
    """Why what runs the job cannot be asked, so that no host is known; empty where it was asked."""
    position: str = ""
    """Where the job stands in its queue, in words; empty where it does not wait, or nobody tells."""
    hidden: tuple[str, ...] = ()
    """Why hosts or Events are not among it, in the API server's words, where the caller may not list them."""
