import asyncio

import pytest

from slipway.cluster.lanes import MAX_IN_FLIGHT, Lanes
from slipway.cluster.removal import _part_size, _parts


async def test_no_more_than_the_limit_is_under_way_whoever_asks() -> None:
    lanes, now, most = Lanes(), 0, 0

    async def work(_: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    await asyncio.gather(*(lanes.run(range(200), work) for _ in range(3)))
    assert most == MAX_IN_FLIGHT


async def test_a_small_job_does_not_wait_behind_a_huge_one() -> None:
    lanes = Lanes()
    order: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        order.append(name)

    huge = asyncio.create_task(lanes.run(["huge"] * 5000, work))
    await asyncio.sleep(0)
    await lanes.run(["small"] * 4, work)
    assert len(order) < 500
    await huge


async def test_after_a_failure_nothing_further_is_begun() -> None:
    begun: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item == 3:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Lanes().run(range(1000), work)
    assert len(begun) <= 2 * MAX_IN_FLIGHT


async def test_nothing_to_do_is_done_at_once() -> None:
    async def work(_: int) -> None:
        raise AssertionError

    await Lanes().run([], work)


def test_a_slice_is_deleted_by_one_request_and_a_large_one_by_several() -> None:
    whole = "slipway.dev/job-uid=u,slipway.dev/attempt=1,slipway.dev/slice=2"
    assert list(_parts("u", (1, 2), list(range(8)), 8)) == [whole]
    assert list(_parts("u", (1, 2), [0, 1, 2, 3, 4], 2)) == [
        f"{whole},slipway.dev/host in (0,1)",
        f"{whole},slipway.dev/host in (2,3)",
        f"{whole},slipway.dev/host notin (0,1,2,3)",
    ]


@pytest.mark.parametrize(
    ("pods", "size"), [(1, 8), (256, 8), (257, 9), (8192, 256)], ids=["one", "all lanes busy", "one more", "huge"]
)
def test_deletions_are_spread_over_the_lanes(pods: int, size: int) -> None:
    assert _part_size(pods) == size
