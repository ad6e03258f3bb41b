import asyncio
import logging
import socket
import sys
import time
from functools import partial
from typing import Any

import aiohttp
import pytest

from slipway.controller.clock import Clock
from slipway.controller.observability.health import LoopLag, Probes, Unhealthy, check
from slipway.controller.observability.log_format import Lines
from tests.waiting import passing, pause

GOOD: dict[str, Any] = {
    "oldest_wait": 0.5,
    "longest_turn": 1.0,
    "silence": 10.0,
    "loop_lag": 0.0,
    "leader": True,
    "nodes_watched": True,
}


def test_good_figures_are_shown() -> None:
    assert check(**GOOD)["oldestWait"] == "0.500"


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ({"oldest_wait": 61}, "a job has been waiting for its turn for 61 s; 60 s is the limit"),
        ({"longest_turn": 301}, "one look at a job"),
        ({"silence": 151}, "the API server has been silent for 151 s"),
        ({"loop_lag": 11}, "the event loop was held up"),
    ],
)
def test_a_figure_beyond_its_limit_is_named(figure: dict[str, float], words: str) -> None:
    with pytest.raises(Unhealthy, match=words):
        check(**GOOD | figure)


def test_who_stands_by_lets_jobs_wait() -> None:
    check(**GOOD | {"oldest_wait": 1e6, "leader": False})


async def test_a_loop_that_is_held_up_is_noticed() -> None:
    lag = LoopLag()
    measuring = asyncio.create_task(lag.run())
    await passing(0.9)
    # Longer than from one beat to the next, so one is late whenever this begins.
    pause(1.3)
    await passing(0.01)
    measuring.cancel()
    assert lag.worst > 0.15


def test_the_clock_does_not_follow_a_wall_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= (clock.now() - before).total_seconds() < 60
    assert abs(clock.at(clock.now()) - clock.monotonic()) < 60


def test_a_log_line_says_when_how_serious_which_job_and_what() -> None:
    record = logging.LogRecord("slipway", logging.INFO, "", 0, "says %s", ("it",), None)
    record.created = 0.0
    assert Lines().format(record) == "1970-01-01T00:00:00.000Z INFO - says it"
    record.job = "ns/train"
    assert Lines().format(record) == "1970-01-01T00:00:00.000Z INFO ns/train says it"


def test_nobody_can_forge_a_line_of_the_log() -> None:
    said = ("evil\n2026-01-01T00:00:00.000Z INFO ns/other Succeeded\x1b[2J\r\u2028\u202e",)
    record = logging.LogRecord("slipway", logging.INFO, "", 0, "pod said %s", said, None)
    line = Lines().format(record)
    assert len(line.splitlines()) == 1
    assert line.endswith(r"evil\n2026-01-01T00:00:00.000Z INFO ns/other Succeeded\x1b[2J\r\u2028\u202e")


def test_a_traceback_keeps_its_lines_and_escapes_the_rest() -> None:
    try:
        raise ValueError("\x1b[31mred\n2026-01-01T00:00:00.000Z INFO ns/other Succeeded")
    except ValueError:
        record = logging.LogRecord("slipway", logging.ERROR, "", 0, "a mistake", (), sys.exc_info())
    lines = Lines().format(record).splitlines()
    assert len(lines) > 2
    assert lines[-2:] == [r"  ValueError: \x1b[31mred", "  2026-01-01T00:00:00.000Z INFO ns/other Succeeded"]


async def asked(port: int, path: str, address: str = "127.0.0.1") -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{port}{path}") as response:
        return response.status, await response.json()


def has_ipv6() -> bool:
    """Whether this machine has an address of that family, if only its own."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def test_probes_are_answered_at_addresses_of_each_family_that_the_machine_has(unused_tcp_port: int) -> None:
    async with Probes().serving(unused_tcp_port):
        for address in ("127.0.0.1", "[::1]") if has_ipv6() else ("127.0.0.1",):
            assert (await asked(unused_tcp_port, "/healthz", address))[0] == 200


async def test_a_process_that_waits_is_healthy_and_not_ready(unused_tcp_port: int) -> None:
    probes = Probes()
    async with probes.serving(unused_tcp_port):
        waits = {"waitingFor": "the API server"}
        assert await asked(unused_tcp_port, "/healthz") == (200, waits)
        assert await asked(unused_tcp_port, "/readyz") == (503, waits)
        probes.figures = partial(check, **GOOD)
        assert (await asked(unused_tcp_port, "/readyz"))[0] == 200
        probes.awaited = lambda: "Lease ns/slipway"
        assert await asked(unused_tcp_port, "/readyz") == (503, {"waitingFor": "Lease ns/slipway"})
        assert (await asked(unused_tcp_port, "/healthz"))[0] == 200
        probes.figures = partial(check, **GOOD | {"loop_lag": 11.0})
        status, said = await asked(unused_tcp_port, "/healthz")
        assert (status, "held up" in said["error"]) == (500, True)
