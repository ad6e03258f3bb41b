"""The commands of the page about jobs on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local_engine.engine import IMAGE, User
from tests.places import ROOT
from tests.waiting import START_SECONDS, until

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs/local.md").read_text()


def test_the_commands_of_the_page(user: User) -> None:
    script = "\n".join(re.findall(r"<!-- test -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=user.variables | {"PATH": path, "IMAGE": IMAGE},
        capture_output=True, text=True, timeout=START_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "host 1 of 2" in done.stdout
    assert "hello deleted" in done.stdout
    assert "docker run --rm" in done.stdout


def test_the_program_of_the_page(user: User) -> None:
    [program] = re.findall(r"<!-- test -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=user.variables | {"IMAGE": IMAGE},
        capture_output=True, text=True, timeout=START_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    phase, *lines = done.stdout.splitlines()
    assert phase == "Succeeded"
    assert sorted(lines) == ["host 0 from Python", "host 1 from Python"]
    until("the end of the job", lambda: not user.folder("from-python").exists())
