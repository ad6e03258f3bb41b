"""Leadership against a server that keeps one Lease and its versions."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from slipway.cluster.connection import ApiConnection
from slipway.cluster.lease import DEADLINE_SECONDS, DURATION_SECONDS, Lease, LostLeadership
from tests.cluster.replay import Replay
from tests.cluster.things import Time


class LeaseServer:
    """Stores one Lease with optimistic locking."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.json_response({"message": "down"}, status=403)
        if request.method == "GET":
            return web.json_response(self.stored or {"reason": "NotFound"}, status=200 if self.stored else 404)
        body = await request.json()
        if request.method == "POST" and self.stored is not None:
            return web.json_response({"reason": "AlreadyExists"}, status=409)
        if request.method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version):
            return web.json_response({"reason": "Conflict"}, status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.stored = body
        return web.json_response(body)

    @property
    def holder(self) -> str | None:
        return None if self.stored is None else self.stored["spec"]["holderIdentity"]


@pytest.fixture
def server(replay: Replay) -> LeaseServer:
    replay.otherwise = server = LeaseServer()
    return server


@pytest.fixture
def claim(server: LeaseServer, api: ApiConnection, time: Time) -> Callable[[str], Lease]:
    def make(identity: str) -> Lease:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return Lease(api, "ns", "slipway", identity, now=lambda: now, clock=time, retry_seconds=0.005)

    return make


async def soon(work: Awaitable[None]) -> None:
    async with asyncio.timeout(2):
        await work


async def is_waiting(work: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(0.05):
            await work
    except TimeoutError:
        return True
    return False


async def test_nobody_leads_before_having_the_lease(claim: Callable[[str], Lease]) -> None:
    with pytest.raises(LostLeadership):
        claim("a").check()


async def test_the_first_one_takes_a_lease_that_does_not_exist(
    claim: Callable[[str], Lease], server: LeaseServer
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    lease.check()
    assert server.holder == "a"


async def test_another_waits_while_the_holder_renews(claim: Callable[[str], Lease], time: Time) -> None:
    first, second = claim("a"), claim("b")
    await soon(first.acquire())
    for _ in range(3):
        assert await is_waiting(second.acquire())
        time.now += DURATION_SECONDS - 1
        await soon(first.acquire())
    assert not second.held


async def test_another_takes_over_when_the_holder_has_been_silent_for_its_duration(
    claim: Callable[[str], Lease], server: LeaseServer, time: Time
) -> None:
    await soon(claim("a").acquire())
    second = claim("b")
    assert await is_waiting(second.acquire())
    time.now += DURATION_SECONDS
    await soon(second.acquire())
    assert server.holder == "b"
    assert server.stored is not None
    assert server.stored["spec"]["leaseTransitions"] == 1


async def test_the_holder_stops_itself_well_before_another_may_take_over(
    claim: Callable[[str], Lease], time: Time
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    time.now += DEADLINE_SECONDS - 0.1
    lease.check()
    time.now += 0.1
    with pytest.raises(LostLeadership):
        lease.check()
    assert DEADLINE_SECONDS < DURATION_SECONDS


async def test_renewing_moves_the_deadline(claim: Callable[[str], Lease], time: Time) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    keeping = asyncio.create_task(lease.keep())
    for _ in range(4):
        time.now += DEADLINE_SECONDS / 2
        await asyncio.sleep(0.05)
        lease.check()
    keeping.cancel()


async def test_a_server_that_is_down_costs_leadership_only_at_the_deadline(
    claim: Callable[[str], Lease], server: LeaseServer, time: Time
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    server.down = True
    assert await is_waiting(lease.keep())
    time.now += DEADLINE_SECONDS
    with pytest.raises(LostLeadership):
        await soon(lease.keep())


async def test_a_holder_that_finds_another_in_its_place_stops_at_once(
    claim: Callable[[str], Lease], server: LeaseServer
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    assert server.stored is not None
    server.stored["spec"]["holderIdentity"] = "b"
    with pytest.raises(LostLeadership, match="b has Lease ns/slipway now"):
        await soon(lease.keep())
    assert not lease.held


async def test_a_released_lease_is_taken_at_once(claim: Callable[[str], Lease], server: LeaseServer) -> None:
    first, second = claim("a"), claim("b")
    await soon(first.acquire())
    await first.release()
    assert not first.held
    await soon(second.acquire())
    assert server.holder == "b"


async def test_only_one_of_two_that_claim_together_wins(claim: Callable[[str], Lease]) -> None:
    leases = [claim(name) for name in "abcd"]
    await asyncio.gather(*(is_waiting(one.acquire()) for one in leases))
    assert sum(one.held for one in leases) == 1
