"""What holds for every kind that is watched."""

import msgspec
import pytest

from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.controller.seen.reflector import REMEMBERED_SECONDS, Reflector, Tombstones
from slipway.core.model.parts import ObjectMeta
from tests.controller.things import Time


class Thing(msgspec.Struct, frozen=True):
    """A kind of which nothing but its metadata matters."""

    metadata: ObjectMeta


Things = Reflector[Thing, tuple[str, str]]
KEY = ("ns", "a")


def thing(version: int, uid: str = "1", name: str = "a") -> Thing:
    return Thing(ObjectMeta(name, "ns", uid, str(version)))


@pytest.fixture
def things(time: Time) -> Things:
    return Reflector(time)


def version(things: Things) -> str | None:
    known = things.get(KEY)
    return known.metadata.resource_version if known is not None else None


def listed(things: Things, at: int, *found: Thing) -> set[tuple[str, str]]:
    for event in (Init(), *map(Applied, found)):
        assert not things.observe(event)
    return set(things.observe(InitDone(str(at))))


def test_the_newest_version_wins(things: Things) -> None:
    assert things.observe(Applied(thing(9))) == (KEY,)
    assert not things.applied(thing(8))
    assert things.applied(thing(10))
    assert version(things) == "10"


def test_what_is_gone_stays_gone_for_a_minute_and_no_longer(things: Things, time: Time) -> None:
    things.applied(thing(1))
    assert things.observe(Deleted(thing(2))) == (KEY,)
    assert not things.applied(thing(1))
    time.now += REMEMBERED_SECONDS
    assert things.applied(thing(3)) == (KEY,)


def test_the_end_of_an_earlier_object_of_the_name_leaves_its_successor_alone(things: Things) -> None:
    things.applied(thing(5, "2"))
    assert not things.observe(Deleted(thing(4, "1")))
    assert version(things) == "5"


def test_a_list_drops_what_it_lacks(things: Things) -> None:
    things.applied(thing(5))
    assert listed(things, 6) == {KEY}
    assert version(things) is None


def test_what_is_newer_than_a_list_stays(things: Things) -> None:
    assert listed(things, 6) == set()
    things.applied(thing(9))
    assert listed(things, 8) == set()
    assert version(things) == "9"


def test_an_answer_during_a_list_is_neither_lost_nor_outdated_by_it(things: Things) -> None:
    things.observe(Init())
    things.observe(Applied(thing(3)))
    things.applied(thing(9))
    assert not things.observe(InitDone("8"))
    assert version(things) == "9"


def test_a_list_that_was_broken_off_is_not_taken(things: Things) -> None:
    things.observe(Init())
    things.observe(Applied(thing(3, name="b")))
    assert listed(things, 4, thing(2)) == {KEY}
    assert len(things) == 1


def test_tombstones_do_not_heap_up(time: Time) -> None:
    tombstones = Tombstones(time)
    for number in range(1000):
        tombstones.add(str(number))
        time.now += 1
    assert len(tombstones) == REMEMBERED_SECONDS - 1
    time.now += REMEMBERED_SECONDS
    assert ("999" in tombstones, len(tombstones)) == (False, 0)
