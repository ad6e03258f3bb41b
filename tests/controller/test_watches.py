"""What is followed through refusals, and how silent it is."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from slipway.apiserver.errors import ApiError, Forbidden, NotFound
from slipway.apiserver.watch import Event, Init, InitDone
from slipway.controller.seen import watches
from slipway.controller.seen.watches import Source, silences

DENIED = Forbidden(403, "Forbidden", "you may not")
NO_CRD = NotFound(404, "NotFound", "there is no such resource")


class Over(Exception):
    """The answers are used up."""


class Answers:
    """A watcher whose lists end well, or with an error."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.answers = list(answers)
        self.heard = 0.0

    async def events(self) -> AsyncGenerator[Event[Any], None]:
        yield Init()
        if not self.answers:
            raise Over
        if (error := self.answers.pop(0)) is not None:
            raise error
        yield InitDone("1")
        raise DENIED


def source(kind: str, watcher: Any, told: list[Any], *tolerated: type[ApiError]) -> Source[Any]:
    def settled(one: Source[Any], error: ApiError | None) -> None:
        told.append((one.scope, one.refused, error))

    return Source(
        kind, watcher, "a", see=lambda event, scope: told.append((event, scope)), settled=settled, tolerated=tolerated
    )


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(watches.asyncio, "sleep", sleep)
    return pauses


async def test_what_may_not_be_read_is_listed_again_ever_more_rarely_until_it_may(slept: list[float]) -> None:
    told: list[Any] = []
    with pytest.raises(Over):
        await source("nodes", Answers(DENIED, DENIED, DENIED, DENIED, None, DENIED), told, Forbidden).run()
    settled = [one for one in told if len(one) == 3]
    assert settled == [("a", True, DENIED)] * 4 + [("a", False, None)] + [("a", True, DENIED)] * 2
    assert slept == [15.0, 30.0, 60.0, 60.0, 15.0, 30.0]
    assert (InitDone("1"), "a") in told


@pytest.mark.parametrize("error", [DENIED, NO_CRD], ids=["may not be read", "is not there"])
async def test_what_must_be_read_ends_with_the_refusal(error: ApiError, slept: list[float]) -> None:
    told: list[Any] = []
    with pytest.raises(type(error)):
        await source("pods", Answers(error), told).run()
    assert (told, slept) == ([(Init(), "a")], [])


def test_the_silence_of_a_kind_is_that_of_its_most_silent_watch_that_may_be_read() -> None:
    def heard(kind: str, at: float, *, refused: bool = False) -> Source[Any]:
        watcher = Answers()
        watcher.heard = at
        found = source(kind, cast(Any, watcher), [])
        found.refused = refused
        return found

    ones = [heard("pods", 95.0), heard("pods", 0.0), heard("nodes", 99.0), heard("nodes", 20.0, refused=True)]
    assert silences(ones, 50.0, lambda: 100.0) == {"pods": 50.0, "nodes": 1.0}
