"""Which loop synchronous calls share."""

import subprocess
import sys

import pytest

from tests.waiting import ANSWER_SECONDS

FORKS = f"""
import os, signal, sys
from slipway.client import background_loop

async def answer():
    return 7

assert background_loop.run(answer()) == 7
if (child := os.fork()) == 0:
    signal.alarm({ANSWER_SECONDS})
    os._exit(background_loop.run(answer()))
assert background_loop.run(answer()) == 7
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    assert subprocess.run([sys.executable, "-c", FORKS], check=False, timeout=2 * ANSWER_SECONDS).returncode == 7


CALLS_AT_ONCE = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from slipway.client import background_loop

together, make = threading.Barrier(8), asyncio.new_event_loop

def slowly():
    threading.Event().wait(0.1)
    return make()

async def number():
    return id(asyncio.get_running_loop())

def call(_):
    together.wait()
    return background_loop.run(number())

asyncio.new_event_loop = slowly
with ThreadPoolExecutor(8) as threads:
    assert len(set(threads.map(call, range(8)))) == 1
"""


def test_threads_that_call_at_once_share_a_loop() -> None:
    subprocess.run([sys.executable, "-c", CALLS_AT_ONCE], check=True, timeout=ANSWER_SECONDS)


CALLBACK = """
import asyncio
from concurrent.futures import Future
from slipway.client import background_loop

async def seven():
    await asyncio.sleep(0)
    return 7

async def sevens():
    yield await seven()

def callback(_):
    try:
        said.set_result({call})
    except RuntimeError as error:
        said.set_exception(error)

said, first = Future(), background_loop.start(asyncio.sleep(0.5))
first.add_done_callback(callback)
try:
    said.result()
except RuntimeError as error:
    assert "was made in the callback of a future" in str(error)
else:
    raise SystemExit("it waited")
assert background_loop.run(seven()) == 7
"""


@pytest.mark.parametrize(
    "call",
    [
        "background_loop.run(seven())",
        "background_loop.result(background_loop.start(seven()))",
        "next(background_loop.iterate(sevens()))",
    ],
)
def test_a_call_that_waits_in_a_callback_is_refused_and_others_go_on(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLBACK.format(call=call)],
        stderr=subprocess.PIPE, text=True, timeout=ANSWER_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
