"""A SliceJob as commands and callers read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from propcache.api import cached_property

from slipway.api import names
from slipway.api.status import Attempt, Condition, ConditionType, Phase, PhaseKind, SliceJobStatus
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
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the job."""
        return self.stored.metadata.annotations

    @property
    def terminating(self) -> bool:
        """Whether a caller has deleted the job, and the API server still has it."""
        return self.stored.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Whether the condition Ready is true: of a Ray cluster that stays, whether it takes calls."""
        ready = self.status.condition(ConditionType.READY)
        return ready is not None and ready.status == "True"

    @property
    def keeps_ray(self) -> bool:
        """Whether the job is a Ray cluster that stays."""
        return bool((self.stored.spec.get("ray") or {}).get("keepAlive"))

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
    def spec_judged(self) -> bool:
        """Whether an operator has accepted or refused this generation of the spec; true of every job that has begun."""
        if self.status.final or self.status.attempt is not None:
            return True
        accepted = self.status.condition(ConditionType.ACCEPTED)
        return accepted is not None and accepted.observed_generation == self.stored.metadata.generation

    @property
    def refusal(self) -> str:
        """Why the operator refuses the spec, in a sentence; empty where the operator accepts it."""
        if self.status.phase is not Phase.INVALID:
            return ""
        accepted = self.status.condition(ConditionType.ACCEPTED)
        return accepted.message if accepted is not None else ""

    @property
    def waits_for_capacity(self) -> bool:
        """Whether there are too few nodes for the job."""
        return Phase(self.phase).kind is PhaseKind.LACKS_NODES

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
        condition = self.running
        return condition.reason if condition is not None and condition.status != "True" else ""

    @property
    def message(self) -> str:
        """What it does or waits for, in a sentence."""
        if self.status.result is not None:
            return self.status.result.message
        condition = self.running
        return condition.message if condition is not None else _NOT_YET

    @property
    def story(self) -> str:
        """The phase and what the job does or waits for, in a sentence; empty while no operator has written it."""
        running = self.status.condition(ConditionType.RUNNING)
        return f"{self.status.phase}: {running.message}" if running is not None and running.message else ""

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

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return next(iter(self.status.attempts), None)

    @property
    def running_attempt(self) -> int | None:
        """Number of the attempt of which every host runs."""
        newest = self.attempt
        return newest.number if newest is not None and self.status.phase is Phase.RUNNING else None

    def recorded(self, number: int) -> Attempt | None:
        """That attempt; None where the status does not hold it any more."""
        return next((attempt for attempt in self.status.attempts if attempt.number == number), None)

    def ended(self, number: int) -> bool:
        """Whether that attempt is over; its cause may be open."""
        attempt = self.recorded(number)
        return attempt is None or attempt.end_time is not None

    def charged(self, number: int) -> bool:
        """Whether the operator has written why that attempt ended."""
        attempt = self.recorded(number)
        return attempt is None or attempt.cause is not None

    def _repr_mimebundle_(self, include: Sequence[str], exclude: Sequence[str]) -> dict[str, str]:
        """What a notebook shows at the end of a cell."""
        # It needs this module, and rich, which takes time to import.
        from slipway.client.pictures.live import picture

        shown = picture(self, {}, datetime.now(UTC), _NOTEBOOK_COLUMNS)
        return shown._repr_mimebundle_(include, exclude)
