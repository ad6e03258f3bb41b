"""One behaviour each; time moves only where a test moves it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.controller.workqueue import WorkQueue
from tests.controller.things import Time
from tests.waiting import passing


@pytest.fixture
def queue(time: Time) -> WorkQueue[str]:
    return WorkQueue(time)


def test_an_added_key_is_handed_out_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert (queue.take(), queue.take()) == ("a", None)


def test_keys_come_in_the_order_in_which_they_became_due(queue: WorkQueue[str], time: Time) -> None:
    queue.add_at("late", time.now - 1)
    queue.add_at("later", time.now)
    queue.add_at("earliest", time.now - 2)
    assert [queue.take() for _ in range(3)] == ["earliest", "late", "later"]


def test_a_key_is_not_handed_out_before_its_time(queue: WorkQueue[str], time: Time) -> None:
    queue.add_at("a", time.now + 10)
    assert queue.take() is None
    time.now += 10
    assert queue.take() == "a"


def test_the_earlier_of_two_times_wins_whichever_came_first(queue: WorkQueue[str], time: Time) -> None:
    queue.add_at("a", time.now + 10)
    queue.add_at("a", time.now + 5)
    queue.add_at("a", time.now + 20)
    time.now += 5
    assert queue.take() == "a"
    queue.done("a")
    time.now += 100
    assert queue.take() is None


def test_a_running_key_is_held_until_it_is_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"


def test_of_what_is_held_the_earliest_time_wins(queue: WorkQueue[str], time: Time) -> None:
    queue.add("a")
    queue.take()
    queue.add_at("a", time.now + 60)
    queue.add_at("a", time.now + 1)
    queue.done("a")
    time.now += 1
    assert queue.take() == "a"


def test_a_key_that_is_done_without_news_does_not_come_again(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.take()
    queue.done("a")
    assert queue.take() is None


def test_the_age_is_that_of_the_key_that_has_been_due_longest(queue: WorkQueue[str], time: Time) -> None:
    assert queue.oldest_age() == 0
    queue.add("a")
    time.now += 3
    queue.add("b")
    queue.add_at("c", time.now + 100)
    assert queue.oldest_age() == 3
    queue.take()
    time.now += 1
    assert (queue.oldest_age(), queue.longest_turn()) == (1, 1)


def test_a_long_queue_that_is_worked_on_has_no_age(queue: WorkQueue[str], time: Time) -> None:
    for key in "abcd":
        queue.add(key)
    for _ in range(3):
        time.now += 50
        queue.take()
    time.now += 1
    assert queue.oldest_age() == 1


def test_the_backlog_is_what_is_due_and_not_taken(queue: WorkQueue[str], time: Time) -> None:
    assert queue.backlog() == (0, 0.0)
    for key, due in (("taken", -9), ("first", -5), ("second", -2), ("later", 10)):
        queue.add_at(key, time.now + due)
    queue.take()
    assert queue.backlog() == (2, 5.0)


def test_times_that_were_overtaken_do_not_pile_up(queue: WorkQueue[str], time: Time) -> None:
    for _ in range(10_000):
        queue.add_at("a", time.now + 3600)
        queue.add("a")
        assert queue.take() == "a"
        queue.done("a")
    assert len(queue._heap) < 200


async def test_a_waiting_worker_is_woken_when_a_key_becomes_due() -> None:
    queue: WorkQueue[str] = WorkQueue(asyncio.get_running_loop().time)
    queue.add_at("a", asyncio.get_running_loop().time() + 0.02)
    assert await asyncio.wait_for(queue.get(), 30) == "a"


async def test_a_waiting_worker_is_woken_by_an_earlier_key() -> None:
    clock = asyncio.get_running_loop().time
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_at("late", clock() + 60)
    waiting = asyncio.create_task(queue.get())
    await passing(0)
    queue.add("now")
    assert await asyncio.wait_for(waiting, 30) == "now"


async def test_several_workers_share_what_is_due() -> None:
    queue: WorkQueue[int] = WorkQueue(asyncio.get_running_loop().time)
    workers = [asyncio.create_task(queue.get()) for _ in range(5)]
    await passing(0)
    for key in range(5):
        queue.add(key)
    assert sorted(await asyncio.wait_for(asyncio.gather(*workers), 30)) == list(range(5))


async def test_a_worker_cancelled_just_after_its_call_passes_the_call_on() -> None:
    queue: WorkQueue[str] = WorkQueue(asyncio.get_running_loop().time)
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await passing(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 30) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.fixture
def shared(time: Time) -> WorkQueue[str]:
    """Two keys of each group, which is their first letter, run at once."""
    return WorkQueue(time, group=lambda key: key[0], most=2)


def test_a_group_that_is_slow_leaves_workers_for_the_others(shared: WorkQueue[str]) -> None:
    for key in ("a1", "a2", "a3", "a4", "b1"):
        shared.add(key)
    assert [shared.take() for _ in range(4)] == ["a1", "a2", "b1", None]
    assert shared.oldest_age() == 0


def test_keys_that_were_passed_over_come_in_their_order(shared: WorkQueue[str], time: Time) -> None:
    for number, key in enumerate(("a1", "a2", "a3", "a4")):
        shared.add_at(key, time.now - 9 + number)
    assert [shared.take() for _ in range(3)] == ["a1", "a2", None]
    shared.add_at("a4", time.now - 10)
    assert shared.backlog() == (2, 10.0)
    for done, following in (("a1", "a4"), ("a2", "a3")):
        shared.done(done)
        assert (shared.take(), shared.take()) == (following, None)


def test_a_key_that_was_passed_over_twice_takes_no_others_place(shared: WorkQueue[str], time: Time) -> None:
    now = time.now
    for key in ("a1", "a2"):
        shared.add_at(key, now - 9)
        assert shared.take() == key
    for key, when in (("again", now - 2), ("a4", now - 3), ("a5", now - 1)):
        shared.add_at(key, when)
    assert shared.take() is None, "all three are passed over"
    shared.add_at("again", now - 4)
    shared.done("a1")
    assert (shared.take(), shared.take()) == ("again", None)
    shared.add_at("again", now - 2)
    shared.done("again")
    assert (shared.take(), shared.take()) == ("a4", None), "it is passed over once more, with the same time"
    shared.done("a2")
    shared.done("a4")
    assert {shared.take(), shared.take()} == {"again", "a5"}


async def test_a_worker_is_woken_for_a_key_that_was_passed_over() -> None:
    queue: WorkQueue[str] = WorkQueue(asyncio.get_running_loop().time, group=lambda key: key[0], most=1)
    queue.add("a1")
    queue.add("a2")
    assert await queue.get() == "a1"
    waiting = asyncio.create_task(queue.get())
    await passing(0)
    queue.done("a1")
    assert await asyncio.wait_for(waiting, 30) == "a2"


KEYS = st.integers(0, 7)
TIMES = st.floats(-5, 20) | st.sampled_from((-1.0, 0.0, 1.0))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, TIMES),
        st.tuples(st.just("take"), KEYS, st.just(0.0)),
        st.tuples(st.just("done"), KEYS, st.just(0.0)),
        st.tuples(st.just("wait"), KEYS, TIMES.filter(lambda number: number >= 0)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 2))
def test_no_key_is_ever_queued_twice_run_twice_or_lost(steps: list[tuple[str, int, float]], most: int) -> None:
    """And while a key is due whose group has a free place, one is handed out; without `most` each is its own group."""
    time = Time()
    queue: WorkQueue[int] = WorkQueue(time, group=lambda key: key % 2, most=most) if most else WorkQueue(time)
    due: dict[int, float] = {}
    running: set[int] = set()
    for what, key, number in steps:
        match what:
            case "add":
                queue.add_at(key, time.now + number)
                due[key] = min(due.get(key, 1e9), time.now + number)
            case "take":
                taken = queue.take()
                busy = {group for group in (0, 1) if most and sum(one % 2 == group for one in running) >= most}
                ready = {one for one, when in due.items() if one not in running and when <= time.now}
                ready = {one for one in ready if one % 2 not in busy}
                assert (taken in ready) if ready else (taken is None)
                if taken is not None:
                    assert due[taken] == min(due[one] for one in ready)
                    del due[taken]
                    running.add(taken)
            case "done":
                if key in running:
                    queue.done(key)
                    running.discard(key)
            case "wait":
                time.now += number
    for key in running:
        queue.done(key)
    time.now += 1000
    rest = []
    while (taken := queue.take()) is not None:
        rest.append(taken)
        queue.done(taken)
    assert sorted(rest) == sorted(due)
