"""Which loop synchronous calls share."""

import subprocess
import sys

from tests.waiting import PATIENCE

FORKS = f"""
import os, signal, sys
from slipway.client import portal

async def answer():
    return 7

assert portal.run(answer()) == 7
if (child := os.fork()) == 0:
    signal.alarm({PATIENCE})
    os._exit(portal.run(answer()))
assert portal.run(answer()) == 7
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    assert subprocess.run([sys.executable, "-c", FORKS], check=False, timeout=2 * PATIENCE).returncode == 7


CALLS_AT_ONCE = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from slipway.client import portal

together, make = threading.Barrier(8), asyncio.new_event_loop

def slowly():
    threading.Event().wait(0.1)
    return make()

async def number():
    return id(asyncio.get_running_loop())

def call(_):
    together.wait()
    return portal.run(number())

asyncio.new_event_loop = slowly
with ThreadPoolExecutor(8) as threads:
    assert len(set(threads.map(call, range(8)))) == 1
"""


def test_threads_that_call_at_once_share_a_loop() -> None:
    subprocess.run([sys.executable, "-c", CALLS_AT_ONCE], check=True, timeout=PATIENCE)
