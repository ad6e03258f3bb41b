"""What an Event tells about when, and how often, it happened."""

from dataclasses import dataclass
from datetime import datetime

import msgspec


class Series(msgspec.Struct, rename="camel"):
    """How an Event was repeated, where its reporter counts so: the scheduler does."""

    count: int = 1
    last_observed_time: datetime | None = None


class SeenEvent(msgspec.Struct, rename="camel", kw_only=True):
    """An Event as core/v1 writes it."""

    reason: str = ""
    message: str | None = None
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: Series | None = None

    @property
    def time(self) -> datetime | None:
        """When it happened last."""
        repeated = self.series.last_observed_time if self.series is not None else None
        return repeated or self.last_timestamp or self.event_time or self.first_timestamp

    @property
    def times(self) -> int:
        """How often it has happened."""
        return (self.series.count if self.series is not None else self.count) or 1


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An Event of a pod."""

    reason: str
    message: str
    time: datetime | None = None
    """When it was last repeated."""


@dataclass(frozen=True, slots=True)
class PodEvents:
    """The Events of a pod as they were read, the oldest first."""

    read_at: datetime
    events: tuple[PodEvent, ...] = ()
