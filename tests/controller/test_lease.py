"""Leadership against a server that keeps one Lease and its versions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from slipway.apiserver.connection import ApiConnection
from slipway.controller import lease as lease_module
from slipway.controller.lease import DEFAULT_TIMES, Lease, LeaseTimes, LostLeadership
from tests.apiserver.replay import Replay, open_access, replaying
from tests.controller.things import Time
from tests.waiting import ANSWER_SECONDS, holds, passing

QUICK = LeaseTimes(duration=8, deadline=7.0, retry=0.005)
"""For tests that move the clock by hand."""

Claim = Callable[..., Lease]


class LeaseServer:
    """Stores one Lease with optimistic locking."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.asked: list[str] = []
        self.hanging: list[str] = []
        self.delay = 0.0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.method)
        await passing(self.delay)
        if request.method in self.hanging:
            self.hanging.remove(request.method)
            await passing(60)
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

    def change(self) -> None:
        """A version that the holder has not heard of, as after a lost answer."""
        assert self.stored is not None
        self.version += 1
        self.stored["metadata"]["resourceVersion"] = str(self.version)

    @property
    def holder(self) -> str | None:
        return None if self.stored is None else self.stored["spec"]["holderIdentity"]


@pytest.fixture
def server(replay: Replay) -> LeaseServer:
    replay.otherwise = server = LeaseServer()
    return server


@pytest.fixture
def claim(server: LeaseServer, api: ApiConnection, time: Time) -> Claim:
    def make(identity: str, times: LeaseTimes = QUICK) -> Lease:
        return Lease(api, "ns", "slipway", identity, now=lambda: NOW, clock=time, times=times)

    return make


async def soon(work: Awaitable[None]) -> None:
    async with asyncio.timeout(30):
        await work


async def asked_more(server: LeaseServer, times: int) -> None:
    """Wait until the server was asked that many more times. A question follows the answer to the one before."""
    goal = len(server.asked) + times
    await holds(lambda: len(server.asked) >= goal, seconds=30)


async def is_waiting(work: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(0.05):
            await work
    except TimeoutError:
        return True
    return False


async def test_nobody_leads_before_having_the_lease(claim: Claim) -> None:
    with pytest.raises(LostLeadership):
        claim("a").check()


async def test_the_first_one_takes_a_lease_that_does_not_exist(claim: Claim, server: LeaseServer) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    lease.check()
    assert server.holder == "a"


async def test_a_lease_names_the_namespaces_that_its_holder_serves(
    server: LeaseServer, api: ApiConnection, time: Time
) -> None:
    def annotations() -> Any:
        assert server.stored is not None
        return server.stored["metadata"]["annotations"]

    some = Lease(api, "ns", "slipway", "a", now=lambda: NOW, clock=time, served=("team-a", "team-b"))
    await soon(some.acquire())
    assert annotations() == {"slipway.dev/namespaces": "team-a,team-b"}
    await some.release()
    await soon(Lease(api, "ns", "slipway", "b", now=lambda: NOW, clock=time).acquire())
    assert annotations() == {}


ELSEWHERE = (
    "standing by for a, which holds Lease ns/slipway and serves {}, where this process is to serve {}: unless an "
    "upgrade replaces that one, install one of the two releases in another namespace, or give it an operatorId"
)
STANDING_BY: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    "the same": (("team-a", "team-b"), ("team-b", "team-a"), "INFO", "standing by for a"),
    "all of them, both": ((), (), "INFO", "standing by for a"),
    "others": (("team-a",), ("team-b", "team-c"), "WARNING", ELSEWHERE.format("team-a", "team-b, team-c")),
    "all, the holder": ((), ("team-b",), "WARNING", ELSEWHERE.format("all namespaces", "team-b")),
    "all, the one that stands by": (("team-a",), (), "WARNING", ELSEWHERE.format("team-a", "all namespaces")),
}


@pytest.mark.parametrize(("theirs", "ours", "level", "said"), STANDING_BY.values(), ids=STANDING_BY)
async def test_a_process_that_stands_by_says_once_when_the_holder_serves_other_namespaces(
    server: LeaseServer,
    api: ApiConnection,
    time: Time,
    caplog: pytest.LogCaptureFixture,
    theirs: tuple[str, ...],
    ours: tuple[str, ...],
    level: str,
    said: str,
) -> None:
    caplog.set_level("INFO", logger=lease_module.__name__)
    first = Lease(api, "ns", "slipway", "a", now=lambda: NOW, clock=time, served=theirs)
    await soon(first.acquire())
    caplog.clear()
    second = Lease(api, "ns", "slipway", "b", now=lambda: NOW, clock=time, served=ours, times=QUICK)
    task = asyncio.create_task(second.acquire())
    await asked_more(server, 5)
    task.cancel()
    assert [(one.levelname, one.message) for one in caplog.records] == [(level, said)]


async def test_another_waits_while_the_holder_renews(claim: Claim, time: Time) -> None:
    first, second = claim("a"), claim("b")
    await soon(first.acquire())
    for _ in range(3):
        assert await is_waiting(second.acquire())
        time.now += QUICK.duration - 1
        await soon(first.acquire())
    assert not second.held


async def test_another_takes_over_when_the_holder_has_been_silent_for_its_duration(
    claim: Claim, server: LeaseServer, time: Time
) -> None:
    await soon(claim("a").acquire())
    second = claim("b")
    waiting = asyncio.create_task(second.acquire())
    await asked_more(server, 2)
    assert server.holder == "a"
    time.now += QUICK.duration
    await soon(waiting)
    assert server.holder == "b"
    assert server.stored is not None
    assert server.stored["spec"]["leaseTransitions"] == 1


async def test_the_holder_stops_itself_well_before_another_may_take_over(claim: Claim, time: Time) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    time.now += QUICK.deadline - 0.1
    lease.check()
    time.now += 0.1
    with pytest.raises(LostLeadership):
        lease.check()


async def test_renewing_moves_the_deadline(claim: Claim, server: LeaseServer, time: Time) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    keeping = asyncio.create_task(lease.keep())
    for _ in range(4):
        time.now += QUICK.deadline / 2
        await asked_more(server, 2)
        lease.check()
    keeping.cancel()


async def test_a_server_that_is_down_costs_leadership_only_at_the_deadline(
    claim: Claim, server: LeaseServer, time: Time
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    server.down = True
    assert await is_waiting(lease.keep())
    time.now += QUICK.deadline
    with pytest.raises(LostLeadership):
        await soon(lease.keep())


async def test_a_holder_that_finds_another_in_its_place_stops_at_once(claim: Claim, server: LeaseServer) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    assert server.stored is not None
    server.stored["spec"]["holderIdentity"] = "b"
    server.change()
    with pytest.raises(LostLeadership, match="b has Lease ns/slipway now"):
        await soon(lease.keep())
    assert not lease.held


async def test_a_released_lease_is_taken_at_once(claim: Claim, server: LeaseServer) -> None:
    first, second = claim("a"), claim("b")
    await soon(first.acquire())
    await first.release()
    assert not first.held
    await soon(second.acquire())
    assert server.holder == "b"


async def one_leads_and_one_waits(claim: Claim, server: LeaseServer) -> tuple[Lease, "asyncio.Task[None]"]:
    first = claim("a")
    await soon(first.acquire())
    waiting = asyncio.create_task(claim("b").acquire())
    await asked_more(server, 2)
    return first, waiting


async def test_a_lease_that_was_deleted_is_taken_only_when_its_holder_writes_no_more(
    claim: Claim, server: LeaseServer, time: Time
) -> None:
    first, waiting = await one_leads_and_one_waits(claim, server)
    time.now += QUICK.deadline - 1
    await soon(first.acquire())
    server.stored = None
    await asked_more(server, 2)
    time.now += QUICK.deadline - 0.1
    await asked_more(server, 2)
    assert (first.held, server.stored) == (True, None)
    time.now += QUICK.duration - QUICK.deadline + 0.1
    await soon(waiting)
    assert (first.held, server.holder) == (False, "b")


async def test_who_was_slower_waits_for_the_one_that_was_faster_though_its_lease_is_deleted(
    claim: Claim, server: LeaseServer, time: Time
) -> None:
    times = LeaseTimes(60, 50.0, QUICK.retry)
    await soon(claim("a", times).acquire())
    taken, server.stored, server.delay = server.stored, None, 0.1
    waiting = asyncio.create_task(claim("b", DEFAULT_TIMES).acquire())
    await holds(lambda: server.asked[-1] == "POST", seconds=30)
    server.stored = taken
    # Deleted long before its next look.
    await passing(DEFAULT_TIMES.retry / 2)
    server.stored, server.delay = None, 0.0
    server.asked.clear()
    await asked_more(server, 2)
    time.now += times.duration - 1
    await asked_more(server, 2)
    assert set(server.asked) == {"GET"}
    time.now += 1
    await soon(waiting)
    assert server.holder == "b"


async def test_the_holder_makes_a_lease_that_was_deleted_anew_and_leads_on(
    claim: Claim, server: LeaseServer, time: Time
) -> None:
    first, waiting = await one_leads_and_one_waits(claim, server)
    first._seen = ("0", time.now)  # It stood by for another before.
    server.stored = None
    await asked_more(server, 2)
    keeping = asyncio.create_task(first.keep())
    await holds(lambda: server.holder == "a", seconds=30)
    await asked_more(server, 4)
    assert not keeping.done()
    keeping.cancel()
    waiting.cancel()


async def test_a_refused_lease_is_warned_of_once_and_awaited_until_it_can_be_read(
    claim: Claim, server: LeaseServer, caplog: pytest.LogCaptureFixture
) -> None:
    await soon(claim("a").acquire())
    server.down = True
    standby = claim("b")
    waiting = asyncio.create_task(standby.acquire())
    await asked_more(server, 3)
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warnings == ["Lease ns/slipway cannot be taken: down"]
    assert standby.awaited() == "Lease ns/slipway"
    server.down = False
    await holds(lambda: not standby.awaited(), seconds=30)
    waiting.cancel()


async def test_only_one_of_two_that_claim_together_wins(claim: Claim) -> None:
    leases = [claim(name) for name in "abcd"]
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(one.acquire()) for one in leases]
        await asyncio.wait(claims, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        await passing(0.05)
        assert sum(one.held for one in leases) == 1
        for waiting in claims:
            waiting.cancel()


async def test_a_renewal_is_one_write_without_a_read(claim: Claim, server: LeaseServer) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    server.asked.clear()
    keeping = asyncio.create_task(lease.keep())
    await asked_more(server, 3)
    assert set(server.asked) == {"PUT"}
    keeping.cancel()


async def test_a_renewal_after_a_lost_answer_reads_and_goes_on(claim: Claim, server: LeaseServer, time: Time) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    server.change()
    time.now += QUICK.deadline - 1
    server.asked.clear()
    keeping = asyncio.create_task(lease.keep())
    await asked_more(server, 4)
    keeping.cancel()
    assert server.asked[:3] == ["PUT", "GET", "PUT"]
    time.now += QUICK.deadline - 1
    lease.check()


@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_a_request_that_is_never_answered_does_not_cost_the_lease(
    server: LeaseServer, replay: Replay, method: str
) -> None:
    async with leasing(replay.url, "a", LeaseTimes(duration=12, deadline=6.0, retry=0.05)) as lease:
        await soon(lease.acquire())
        if method == "GET":
            server.change()
        server.hanging.append(method)
        keeping = asyncio.create_task(lease.keep())
        await holds(lambda: not server.hanging, seconds=30)
        await asked_more(server, 2)
        assert not keeping.done()
        assert lease.held
        keeping.cancel()


async def test_a_server_that_never_answers_ends_leadership_at_the_deadline(server: LeaseServer, replay: Replay) -> None:
    async with leasing(replay.url, "a", LeaseTimes(duration=4, deadline=3.0, retry=0.05)) as lease:
        await soon(lease.acquire())
        server.delay = 60.0
        with pytest.raises(LostLeadership):
            await soon(lease.keep())


async def test_a_lease_whose_last_renewal_was_not_answered_is_released_all_the_same(
    claim: Claim, server: LeaseServer
) -> None:
    lease = claim("a")
    await soon(lease.acquire())
    server.change()
    await lease.release()
    assert server.holder == ""


@st.composite
def any_times(draw: st.DrawFn) -> LeaseTimes:
    """Every combination that a process takes."""
    duration = draw(st.integers(2, 3600))
    deadline = draw(st.floats(0.5, min(duration - 1, 0.9 * duration)))
    return LeaseTimes(duration, deadline, draw(st.floats(0.01, min(deadline / 3, 10))))


@given(
    leaders=any_times(),
    standbys=any_times(),
    sent=st.floats(0, 100),
    way=st.floats(0, 60),
    look=st.floats(0, 60),
    begins=st.floats(0, 1, exclude_max=True),
    drift=st.floats(-0.01, 0.01),
    deleted=st.booleans(),
)
def test_the_old_leaders_last_write_ends_before_another_may_lead(
    leaders: LeaseTimes,
    standbys: LeaseTimes,
    sent: float,
    way: float,
    look: float,
    begins: float,
    drift: float,
    deleted: bool,
) -> None:
    """Whatever the times of the two, which may be of different releases.

    The standby's clock runs faster or slower than the leader's by up to one in a hundred.
    """
    time = Time(sent)
    old, new = (
        Lease(None, "ns", "l", name, now=lambda: NOW, clock=time, times=times)
        for name, times in (("a", leaders), ("b", standbys))
    )
    old._renewed = sent
    time.now = sent + begins * leaders.deadline
    with suppress(LostLeadership):
        ends = time.now + old.check()
        assert ends <= sent + leaders.deadline + 1e-6
        time.now = seen = sent + way + look
        record = lease_module._Record(
            lease_module._Meta("7"), lease_module._Spec("a", lease_duration_seconds=leaders.duration)
        )
        assert new._other_holder(record) == "a"
        if deleted:
            assert new._deleted_holder() is not None
        time.now = seen + (ends + 0.9 - seen) * (1 + drift)
        assert time.now < seen or (new._deleted_holder() if deleted else new._other_holder(record)) is not None


NOT_TOGETHER = {
    "no second between the deadline and the end": (
        (8, 7.5, 1),
        "a renew deadline of 7.5 s is too long for a Lease duration of 8 s: at most 7 s,",
    ),
    "less than a tenth between them": (
        (100, 95, 1),
        "a renew deadline of 95 s is too long for a Lease duration of 100 s: at most 90 s,",
    ),
    "a look that comes late": (
        (120, 100, 11),
        "a retry period of 11 s is too long for a renew deadline of 100 s: at most 10 s,",
    ),
    "no time for three tries": (
        (15, 10, 4),
        "a retry period of 4 s is too long for a renew deadline of 10 s: at most 3.333 s,",
    ),
}


@pytest.mark.parametrize(("numbers", "said"), NOT_TOGETHER.values(), ids=NOT_TOGETHER)
def test_times_that_prove_nothing_are_refused(numbers: tuple[int, float, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LeaseTimes(*numbers)


@given(any_times())
def test_after_two_renewals_that_hang_a_third_begins_before_the_deadline(times: LeaseTimes) -> None:
    began, turns = 0.0, []
    for _ in range(3):
        # The leader pauses, unless the request before has hung for longer than the pause.
        began += times.retry if not turns else max(times.retry, times.request)
        turns.append(began)
    assert turns[-1] <= times.deadline


async def test_a_standby_leads_after_the_leaders_sudden_death() -> None:
    """Measured with the times that are shipped: the leader's process is killed right after a renewal."""
    async with (
        replaying() as replay,
        leasing(replay.url, "old") as old,
        leasing(replay.url, "new") as new,
    ):
        replay.otherwise = server = LeaseServer()
        await old.acquire()
        keeping = asyncio.create_task(old.keep())
        standing_by = asyncio.create_task(new.acquire())
        await holds(lambda: server.version >= 2, seconds=ANSWER_SECONDS)
        renewed = monotonic()
        await passing(DEFAULT_TIMES.retry / 2)
        keeping.cancel()
        died, late = monotonic(), 0.0
        slept = died - renewed
        while not new.held:
            assert not (old.held and new.held)
            turn = monotonic()
            await passing(0.01)
            # What a busy machine adds is no wait of the standby's.
            late += max(0.0, monotonic() - turn - 0.05)
        took = monotonic() - died
        await standing_by
    assert not old.held
    soonest = DEFAULT_TIMES.duration - DEFAULT_TIMES.retry / 2 - slept
    assert soonest <= took <= DEFAULT_TIMES.duration + DEFAULT_TIMES.retry + 1.0 + late


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def leasing(url: str, identity: str, times: LeaseTimes = DEFAULT_TIMES) -> AsyncIterator[Lease]:
    """A Lease of its own connection, on the real clock."""
    async with ApiConnection(open_access(url)) as api:
        yield Lease(api, "ns", "slipway", identity, now=lambda: NOW, clock=monotonic, times=times)
