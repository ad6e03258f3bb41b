import asyncio

import pytest

from slipway.controller.act.delete_pods import Slice, _part_size, selectors
from slipway.controller.act.executor import BoundedExecutor
from tests.waiting import ANSWER_SECONDS, passing

MOST = 32


async def test_no_more_than_the_limit_and_one_request_of_each_run_are_under_way() -> None:
    lanes, now, most = BoundedExecutor(MOST), 0, 0

    async def work(_: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await passing(0.001)
        now -= 1

    await lanes.run(range(1000), work)
    assert most == MOST
    await asyncio.gather(*(lanes.run(range(1000), work) for _ in range(3)))
    assert most == MOST + 3


async def test_the_first_request_of_a_job_waits_for_no_other_job() -> None:
    lanes, go = BoundedExecutor(MOST), asyncio.Event()
    done: list[str] = []

    async def work(name: str) -> None:
        if name == "endless":
            await go.wait()
        done.append(name)

    endless = [asyncio.create_task(lanes.run(["endless"] * 1000, work)) for _ in range(3)]
    await passing(0.01)
    async with asyncio.timeout(ANSWER_SECONDS):
        await lanes.run(["small"] * 4, work)
    assert done == ["small"] * 4
    go.set()
    await asyncio.gather(*endless)


async def test_a_small_job_does_not_wait_behind_a_huge_one() -> None:
    lanes = BoundedExecutor(MOST)
    order: list[str] = []

    async def work(name: str) -> None:
        await passing(0)
        order.append(name)

    huge = asyncio.create_task(lanes.run(["huge"] * 5000, work))
    await passing(0)
    await lanes.run(["small"] * 4, work)
    assert len(order) < 500
    await huge


async def test_a_small_job_waits_for_one_request_of_each_huge_one() -> None:
    lanes = BoundedExecutor(MOST)
    order: list[str] = []
    full = asyncio.Event()

    async def work(name: str) -> None:
        order.append(name)
        if len(order) == 2 * MOST:
            full.set()
        await passing(0)

    huge = [asyncio.create_task(lanes.run(["huge"] * 1000, work)) for _ in range(5)]
    await full.wait()
    before = len(order)
    await lanes.run(["small"], work)
    assert order.index("small") - before <= MOST + len(huge)
    await asyncio.gather(*huge)


async def test_who_is_cancelled_in_line_takes_no_request_from_the_others() -> None:
    lanes, go = BoundedExecutor(2), asyncio.Event()
    done: list[str] = []

    async def work(name: str) -> None:
        await go.wait()
        done.append(name)

    first = asyncio.create_task(lanes.run(["first"] * 2, work))
    second = asyncio.create_task(lanes.run(["second"] * 2, work))
    await passing(0.01)
    cancelled, last = (asyncio.create_task(lanes.run([name] * 4, work)) for name in ("cancelled", "last"))
    await passing(0.01)
    cancelled.cancel()
    go.set()
    await asyncio.gather(first, second, last)
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert sorted(done) == ["first"] * 2 + ["last"] * 4 + ["second"] * 2
    assert lanes._free == 2


async def test_after_a_failure_nothing_further_is_begun() -> None:
    begun: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        await passing(0)
        if item == 3:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await BoundedExecutor(MOST).run(range(1000), work)
    assert len(begun) <= 2 * MOST


async def test_nothing_to_do_is_done_at_once() -> None:
    async def work(_: int) -> None:
        raise AssertionError

    await BoundedExecutor(MOST).run([], work)


JOB = "slipway.dev/job-uid=u,slipway.dev/attempt="
SLICES: list[tuple[str, dict[Slice, list[int]], dict[Slice, list[int]], list[str]]] = [
    ("one", {(1, 2): [*range(8)]}, {}, [f"{JOB}1,slipway.dev/slice in (2)"]),
    (
        "a large one",
        {(1, 2): [*range(17)]},
        {},
        [
            f"{JOB}1,slipway.dev/slice=2,slipway.dev/host in (0,1,2,3,4,5,6,7)",
            f"{JOB}1,slipway.dev/slice=2,slipway.dev/host in (8,9,10,11,12,13,14,15)",
            f"{JOB}1,slipway.dev/slice=2,slipway.dev/host notin (0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15)",
        ],
    ),
    (
        "small ones, of two attempts",
        {(0, 7): [0, 1], **{(1, one): [0, 1, 2] for one in range(5)}},
        {},
        [
            f"{JOB}1,slipway.dev/slice in (0,1)",
            f"{JOB}1,slipway.dev/slice in (2,3)",
            f"{JOB}0,slipway.dev/slice in (7)",
            f"{JOB}1,slipway.dev/slice in (4)",
        ],
    ),
    (
        "one of which a pod is kept",
        {(0, 0): [1, 2], (0, 1): [0]},
        {(0, 0): [0]},
        [f"{JOB}0,slipway.dev/slice=0,slipway.dev/host notin (0)", f"{JOB}0,slipway.dev/slice in (1)"],
    ),
    ("one of which no pod is known", {(0, 3): []}, {}, [f"{JOB}0,slipway.dev/slice in (3)"]),
]


@pytest.mark.parametrize(("hosts", "kept", "expected"), [case[1:] for case in SLICES], ids=[case[0] for case in SLICES])
def test_slices_are_deleted_by_requests_of_about_equal_size(
    hosts: dict[Slice, list[int]], kept: dict[Slice, list[int]], expected: list[str]
) -> None:
    assert list(selectors("u", hosts, kept)) == expected


@pytest.mark.parametrize(
    ("pods", "size"), [(1, 8), (256, 8), (257, 9), (8192, 256)], ids=["one", "as many as can be", "one more", "huge"]
)
def test_the_pods_of_a_job_are_divided_among_the_deletions_that_may_be_under_way(pods: int, size: int) -> None:
    assert _part_size(pods) == size
