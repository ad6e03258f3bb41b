"""What the hosts of a job write, read from their start on: kubelets rotate logs away while the job runs."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from slipway.api.places import Place
from slipway.client.errors import NotStarted, SlipwayError
from slipway.client.logs import STREAMS, Line, Note, Opening, Selection, follow
from slipway.sdk.jobs import Run

LAST_SECONDS: Final = 300.0
"""How long the last lines may take after the end of the job."""

log = logging.getLogger(__name__)


class Outputs:
    """What the hosts of the newest attempt have written so far."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._written: dict[Place, bytearray] = {}
        self._notes: list[str] = []
        self._over = asyncio.Event()
        self.attempt: int | None = None
        """The attempt whose lines these are."""

    @asynccontextmanager
    async def followed(self) -> AsyncGenerator[None, None]:
        """Follow the log of the job meanwhile."""
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            async with (
                self._run.client.within(self._run.namespace).client() as client,
                aclosing(follow(client, self._run.name, Selection(follow=True))) as items,
            ):
                async for item in items:
                    match item:
                        case Opening(_, places) if len(places) > STREAMS:
                            # Logs beyond that are read in turns, each of them every few seconds.
                            self._give_up(f"of {len(places)} hosts, more than {STREAMS}")
                            return
                        case Opening(attempt):
                            self.attempt, self._written, self._notes = attempt, {}, []
                        case Line():
                            self._written.setdefault(item.place, bytearray()).extend(item.raw)
                        case Note(message):
                            self._notes.append(message)
        except NotStarted:
            # The job ended before a host had started, and nothing was written.
            pass
        except Exception as error:
            self._give_up(str(error) if isinstance(error, SlipwayError) else repr(error))
        finally:
            self._over.set()

    def _give_up(self, why: str) -> None:
        self.attempt = None
        self._notes.append(f"its log could not be followed, and is read once after its end: {why}")

    async def settle(self) -> None:
        """Wait for the last lines of a job that is over, and say what may be missing."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self._over.wait()
        except TimeoutError:
            self._notes.append(f"its last lines did not come within {LAST_SECONDS:g} s")
        for note in self._notes:
            log.warning("%s: %s", self._run.place, note)

    def of(self, attempt: int, place: Place) -> str | None:
        """All that a host of an attempt wrote; None where nothing of it came. What is no UTF-8 is replaced."""
        if attempt != self.attempt or place not in self._written:
            return None
        return self._written[place].decode(errors="replace")
