"""The logs of a job: the attempts that are wanted, one after the other."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext, suppress
from typing import Final

from pydantic import ValidationError

from slipway.api.places import Place
from slipway.api.status import MAX_ATTEMPTS, Attempt
from slipway.client.errors import ClusterError, LogsPurged, NotStarted
from slipway.client.logs import merging
from slipway.client.logs.host_log import STREAMS, HostLog, JobReading
from slipway.client.logs.interface import LogClient
from slipway.client.logs.items import Batch, Item, Line, Note, Opening, Separator
from slipway.client.logs.job_watch import JobWatch
from slipway.client.logs.selection import Selection, most_slices
from slipway.client.logs.status_tail import kept_lines, root_place

_EVERYTHING: Final = Selection()
_NAMED: Final = 4
"""Hosts that a note names, of more it gives the number."""
_SORTED: Final = 256
"""Lines of a batch that are sorted by time."""


async def follow(client: LogClient, name: str, selection: Selection = _EVERYTHING) -> AsyncGenerator[Item, None]:
    """The lines of a job that are wanted, and what is to be said about them.

    The lines of a host come in the order of its log. Another host's never come within one, unless it is longer than
    256 KiB and comes in pieces.

    Raises:
        ValueError: when the job has no such slice, host, role, attempt or stream; nothing is asked about its pods then.
        NotFound: when there is no such job.
        NotStarted: when nothing has started, and nothing is to be waited for.
        LogsPurged: when nothing is left of the logs of the only attempt that is wanted.
    """
    async with aclosing(follow_batches(client, name, selection)) as batches:
        async for batch in batches:
            for item in batch:
                yield item


async def follow_batches(
    client: LogClient, name: str, selection: Selection = _EVERYTHING
) -> AsyncGenerator[Batch, None]:
    """The same in batches: what came in one piece. See `follow`."""
    job = await client.get(name)
    selection.check(job)
    watch, source = JobWatch(job), client.log_source(job)
    selection.check_source(source)
    if job.status.attempt is not None:
        await watch.list(source)
    old = frozenset(name for name, pod in watch.pods.items() if pod.started)
    async with watch.watching(client, source) if selection.follow else nullcontext():
        logs = _JobLogs(client, JobReading(watch, source, selection, old=old))
        async with aclosing(logs.followed() if selection.follow else logs.now()) as batches:
            async for batch in batches:
                yield batch


class _JobLogs:
    """Reads the attempts of a job."""

    def __init__(self, client: LogClient, reading: JobReading) -> None:
        self._client = client
        self._reading, self._watch, self._selection = reading, reading.watch, reading.selection
        self._words = f"SliceJob {reading.watch.job.name}"

    async def now(self) -> AsyncGenerator[Batch, None]:
        """What can be read at once."""
        if self._watch.job.status.attempt is None:
            raise NotStarted(self._not_started())
        numbers = await self._numbers() if self._selection.history else []
        if self._selection.failed and not numbers:
            yield [Note(f"no host has ended an attempt of {self._words}")]
        for at, number in enumerate(numbers):
            if at:
                yield [self._separator(numbers[at - 1])]
            async with aclosing(self._past(number, alone=len(numbers) == 1)) as batches:
                async for batch in batches:
                    yield batch

    async def followed(self) -> AsyncGenerator[Batch, None]:
        """What is there, and what comes until the job has ended."""
        wanted, number, shown = self._selection.attempt, self._first(), False
        while await self._begun(number):
            self._selection.check(self._watch.job)
            over, printed, shown = self._watch.over(number), False, True
            if over:
                await self._watch.list_over(self._reading.source, number)
            alone = over and self._watch.job.over and wanted != "all"
            async with aclosing(self._past(number, alone=alone) if over else self._live(number)) as batches:
                async for batch in batches:
                    printed = printed or isinstance(batch[-1], Line)
                    yield batch
            following = None if isinstance(wanted, int) else await self._following(number)
            if following is None:
                break
            if printed or self._ended_by_host(number):
                yield [self._separator(number)]
            number = following
        if self._watch.deleted:
            yield [Note(f"{self._words} was deleted")]
        elif not shown:
            raise NotStarted(self._not_started())

    async def _past(self, number: int, *, alone: bool) -> AsyncGenerator[Batch, None]:
        """The logs of an attempt as far as there are any; `alone` makes it an error that there are none."""
        places, following = self._places(number), self._selection.follow
        if self._selection.failed and not places:
            yield [Note(f"the host that ended attempt {number} of {self._words} is none of those that are wanted")]
            return
        yield [Opening(number, places)]
        pods = {place: self._watch.pod(number, place) for place in places}
        readable = [place for place, pod in pods.items() if pod is not None and pod.started]
        gone = [place for place, pod in pods.items() if pod is None and self._watch.over(number)]
        kept = {
            place: kept_lines(self._watch.job.name, self._reading.record(number), place, self._selection)
            for place in gone
        }
        if alone and not readable and not any(kept.values()):
            waiting = len(gone) < len(places)
            raise NotStarted(self._not_started(number)) if waiting else LogsPurged(self._purged(number))
        if lost := [place for place in gone if not kept[place]]:
            yield [Note(f"the pods of {_named(lost)} in attempt {number} are gone, and their logs with them")]
        if late := [place for place in places if place not in readable and place not in gone]:
            yield [Note(f"{_named(late)} of attempt {number} {'has' if len(late) == 1 else 'have'} not started")]
        for lines in filter(None, kept.values()):
            yield lines
        logs = [HostLog(self._reading, number, place, crowded=len(readable) > STREAMS) for place in readable]
        sources = [log.followed() if following else log.now() for log in logs]
        async with aclosing(self._merged(sources)) as batches:
            async for batch in batches:
                yield batch

    async def _merged(self, sources: Sequence[AsyncGenerator[Batch, None]]) -> AsyncGenerator[Batch, None]:
        if not self._selection.by_time:
            async with aclosing(merging.in_order(sources)) as batches:
                async for batch in batches:
                    yield batch
            return
        sorted_items: Batch = []
        async with aclosing(merging.by_key(sources, _moment)) as items:
            async for item in items:
                sorted_items.append(item)
                if len(sorted_items) == _SORTED:
                    yield sorted_items
                    sorted_items = []
        if sorted_items:
            yield sorted_items

    async def _live(self, number: int) -> AsyncGenerator[Batch, None]:
        """What the hosts of an attempt write until it has ended."""
        places = self._places(number)
        yield [Opening(number, places)]
        crowded = len(places) > STREAMS
        sources = [HostLog(self._reading, number, place, crowded=crowded).followed() for place in places]
        async with aclosing(merging.as_they_come(sources)) as batches:
            async for batch in batches:
                yield batch

    def _places(self, number: int) -> tuple[Place, ...]:
        job, slices = self._watch.job, self._watch.job.slices
        root = root_place(job.name, self._reading.record(number))
        if number != job.status.attempt:
            slices = self._slices_of_past(number, root)
        places = self._selection.places(job, slices)
        if self._selection.failed:
            return tuple(place for place in places if place == root)
        return places

    def _slices_of_past(self, number: int, root: Place | None) -> int:
        """Slices that an earlier attempt had; its pods may be gone, some of them or all."""
        job = self._watch.job
        there = {place.slice for place in self._watch.attempts().get(number, ()) if not place.is_head}
        # Attempts have different numbers of slices only with acceptableSlices, and no record tells them.
        if not there or not job.stored.spec.get("acceptableSlices"):
            return most_slices(job)
        return max(*there, root.slice if root is not None and not root.is_head else 0) + 1

    async def _numbers(self) -> list[int]:
        """The attempts that are wanted of a job that is not followed, oldest first."""
        status, wanted = self._watch.job.status, self._selection.attempt
        if wanted is not None and len(status.attempts) == MAX_ATTEMPTS:
            await self._read_history()
        known = self._known()
        if self._selection.failed:
            failed = [number for number in known if self._ended_by_host(number) and wanted in (None, "all", number)]
            return failed if wanted == "all" else failed[-1:]
        if isinstance(wanted, int):
            return [wanted]
        return known if wanted == "all" else known[-1:]

    async def _read_history(self) -> None:
        """Attempts that the status holds no more; who may not read them does without."""
        with suppress(ClusterError):
            for stored in await self._client.history(self._watch.job.name):
                with suppress(ValidationError):
                    record = Attempt.model_validate(stored)
                    self._reading.older[record.number] = record

    def _known(self) -> list[int]:
        status = self._watch.job.status
        current = {status.attempt} if status.attempt is not None else set()
        return sorted(
            self._reading.older.keys()
            | {attempt.number for attempt in status.attempts}
            | current
            | self._watch.attempts().keys()
        )

    def _first(self) -> int:
        wanted = self._selection.attempt
        if isinstance(wanted, int):
            return wanted
        known = self._known() or [0]
        return known[0] if wanted == "all" else known[-1]

    async def _begun(self, number: int) -> bool:
        """Wait for an attempt; False when it will never begin."""
        while True:
            if (current := self._watch.job.status.attempt) is not None and current >= number:
                return True
            if self._watch.deleted or self._watch.job.over:
                return False
            await self._watch.changed()

    async def _following(self, number: int) -> int | None:
        """Wait for the attempt after this one; None when there will be none."""
        while True:
            if later := [one for one in self._known() if one > number]:
                return later[0]
            if self._watch.deleted or self._watch.job.over:
                return None
            await self._watch.changed()

    def _ended_by_host(self, number: int) -> bool:
        return root_place(self._watch.job.name, self._reading.record(number)) is not None

    def _separator(self, number: int) -> Separator:
        record = self._reading.record(number)
        why = ": ".join(filter(None, (record.cause, record.message))) if record is not None else ""
        return Separator(number, f"attempt {number} ended: {why or 'why is not recorded any more'}")

    def _not_started(self, number: int | None = None) -> str:
        job = self._watch.job
        which = f"no host of attempt {number} has started" if number is not None else "no attempt has begun"
        earlier = [attempt for attempt in self._watch.attempts() if number is not None and attempt < number]
        hint = f". The logs of attempt {max(earlier)} are still there" if earlier else ""
        return f"{self._words} is {job.phase}, {which}: {job.message}{hint}"

    def _purged(self, number: int) -> str:
        return f"nothing is left of the logs of attempt {number} of {self._words}: its pods are gone"


def _moment(item: Item) -> int:
    """Notes come before the lines that they are about."""
    return item.nanoseconds if isinstance(item, Line) else 0


def _named(places: Sequence[Place]) -> str:
    if len(places) > _NAMED:
        return f"{len(places)} hosts"
    return ", ".join(place.words for place in places)
