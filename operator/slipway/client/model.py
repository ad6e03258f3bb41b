"""A SliceJob as commands and callers read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from propcache.api import cached_property

from slipway.api import names
from slipway.api.places import Place
from slipway.api.status import Attempt, Condition, ConditionType, Phase, SliceJobStatus
from slipway.core.model.events import SeenEvent
from slipway.core.model.reading import read_status

_NOTEBOOK_COLUMNS: Final = 100
_NOT_YET: Final = "Slipway has not seen the job yet"


class Metadata(msgspec.Struct, rename="camel"):
    """Which job it is."""

    name: str
    uid: str
    resource_version: str = ""
    namespace: str = "default"
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Stored(msgspec.Struct):
    """The object as the API server stores it."""

    metadata: Metadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


@dataclass(frozen=True)
class JobState:
    """A SliceJob at one moment."""

    stored: Stored

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.stored.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return self.stored.metadata.namespace

    @property
    def uid(self) -> str:
        """UID of the job."""
        return self.stored.metadata.uid

    @property
    def operator_id(self) -> str:
        """Which operator serves the job, as its label says; empty for the one without an id."""
        return self.stored.metadata.labels.get(names.LABEL_OPERATOR_ID, "")

    @property
    def created(self) -> datetime | None:
        """When it was created."""
        return self.stored.metadata.creation_timestamp

    @cached_property
    def status(self) -> SliceJobStatus:
        """The status; what only another version of Slipway knows is left out."""
        return read_status(self.stored.status)[0]

    @property
    def phase(self) -> str:
        """The phase in one word; Pending where no operator has seen the job."""
        return self.status.phase or Phase.PENDING

    @property
    def over(self) -> bool:
        """Whether the job has ended, or cannot begin as it is written."""
        # An operator has yet to see a spec that was corrected.
        return self.status.final or (self.status.phase is Phase.INVALID and self.seen)

    @property
    def seen(self) -> bool:
        """Whether an operator has written a status for this generation of the spec."""
        return self.status.observed_generation == self.stored.metadata.generation

    @property
    def running(self) -> Condition | None:
        """The condition that says whether the job runs, or why it does not."""
        accepted = self.status.condition(ConditionType.ACCEPTED)
        if accepted is not None and accepted.status == "False":
            return accepted
        return self.status.condition(ConditionType.RUNNING)

    @property
    def reason(self) -> str:
        """Why it does not run, in one word; empty while it runs."""
        known = self.running
        return known.reason if known is not None and known.status != "True" else ""

    @property
    def message(self) -> str:
        """What it does or waits for, in a sentence."""
        if self.status.result is not None:
            return self.status.result.message
        known = self.running
        return known.message if known is not None else _NOT_YET

    @property
    def accelerator(self) -> str:
        """TPU type of a slice, or what GPUs a host has; empty for CPU jobs."""
        known = self.status.resolved.type if self.status.resolved else None
        asked = self.stored.spec.get("accelerator") or {}
        if known or self.hardware == "CPU":
            return known or ""
        if self.hardware == "GPU":
            return str(asked["gpu"].get("model") or "GPU")
        return asked.get("type") or " ".join(filter(None, (asked.get("generation"), asked.get("topology"))))

    @property
    def hardware(self) -> str:
        """What it runs on: TPU, GPU or CPU."""
        asked = self.stored.spec.get("accelerator")
        if not asked:
            return "CPU"
        if asked.get("gpu") is None:
            return "TPU"
        return "CPU" if asked["gpu"].get("count") == 0 else "GPU"

    @property
    def slices(self) -> int:
        """Slices of the current attempt, or those that the spec asks for first."""
        if self.status.slices is not None:
            return self.status.slices.granted
        return int(max(self.stored.spec.get("acceptableSlices") or (self.stored.spec.get("slices", 1),)))

    @property
    def hosts(self) -> int:
        """Hosts of one slice; 1 until the operator has resolved the accelerator."""
        return self.status.resolved.hosts if self.status.resolved else int(self.stored.spec.get("hosts") or 1)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the program; None while it is not over, or where no program decided the end."""
        if self.status.result is not None:
            return self.status.result.exit_code
        return None

    def _repr_mimebundle_(self, include: Sequence[str], exclude: Sequence[str]) -> dict[str, str]:
        """What a notebook shows at the end of a cell."""
        # It needs this module, and rich, which takes time to import.
        from slipway.client.pictures.live import picture

        shown = picture(self, {}, datetime.now(UTC), _NOTEBOOK_COLUMNS)
        return shown._repr_mimebundle_(include, exclude)

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return next(iter(self.status.attempts), None)


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
