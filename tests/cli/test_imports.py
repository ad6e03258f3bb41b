"""Help and the completion of commands import nothing that takes time."""

import os
import subprocess
import sys

import pytest

SLOW = ("aiohttp", "kubernetes", "pydantic", "rich", "yaml", "msgspec", "asyncio")


@pytest.mark.parametrize(
    ("arguments", "more"),
    [(["--help"], {}), ([], {"_SLIPWAY_COMPLETE": "bash_complete", "COMP_WORDS": "slipway de", "COMP_CWORD": "1"})],
    ids=["help", "completion"],
)
def test_nothing_slow_is_imported(arguments: list[str], more: dict[str, str]) -> None:
    program = "import sys; sys.argv[0] = 'slipway'; from slipway.cli.main import main\n"
    program += "try: main()\nfinally: print('IMPORTED', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=os.environ | more, capture_output=True, text=True, check=False
    )
    imported = done.stdout.rpartition("IMPORTED")[2].split()
    assert "click" in imported, done.stderr
    assert [name for name in SLOW if name in imported] == []
