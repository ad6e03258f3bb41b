"""What `slipway run` says at Ctrl-C, by what is known of the job."""

import time

import pytest

from tests.cli.api_server import JOBS, ApiServer
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

FLAGS = ("--image", "a:1", "--name", "train", "--", "true")
CREATION = f"POST {JOBS}"
FOLLOWED = f"GET {JOBS}/train"
WORDS = {
    "it was created": (
        (), True, "slicejob train goes on by itself. Follow it with `slipway logs train -f` or `slipway wait train`, "
        "end it with `slipway cancel train`.",
    ),
    "there was no answer": (
        (), False, "slicejob train may exist or not: there was no answer to its creation yet. Find out with `slipway "
        "describe train`, end it with `slipway cancel train`.",
    ),
    "it was created, and is to be cancelled": (("--cancel-on-interrupt",), True, "slicejob train was cancelled"),
    "there was no answer, and it is to be cancelled": (
        ("--cancel-on-interrupt",), False, "slicejob train does not exist, so there is nothing to cancel",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "answered", "words"), WORDS.values(), ids=WORDS)
def test_ctrl_c_tells_what_is_known_of_the_job(
    api_server: ApiServer, options: tuple[str, ...], answered: bool, words: str
) -> None:
    api_server.takes_jobs = answered
    with Terminal("run", *options, *FLAGS) as terminal:
        asked(api_server, FOLLOWED if answered else CREATION)
        terminal.interrupt()
        assert terminal.end() == 130
        assert f"{words}\n" in terminal.written
    assert any(one.startswith("PATCH") for one in api_server.asked) == (answered and bool(options))


def asked(api_server: ApiServer, request: str) -> None:
    """Wait until the server is asked for that."""
    end = time.monotonic() + PATIENCE
    while request not in api_server.asked:
        assert time.monotonic() < end, api_server.asked
        time.sleep(0.02)
