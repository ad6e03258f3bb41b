"""What the README shows is what happens: its tour runs as it stands there."""

import re
import shlex

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from slipway.devcluster import NativeProvider
from tests.places import ROOT
from tests.typing_in import type_in

README = (ROOT / "README.md").read_text()


@pytest.mark.stage("nodes")
@pytest.mark.thorough
def test_the_tour() -> None:
    blocks = re.findall(r"<!-- tour -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    # A person sees a host that has not said anything yet, and asks once more.
    asks = "slipway logs hello --slice 1 --host 0"
    commands = "\n".join(blocks)
    assert asks in commands
    commands = commands.replace(asks, f"until {asks} | grep .; do sleep 0.2; done")
    try:
        shown = type_in(commands, ROOT, 1500)
    finally:
        NativeProvider().down("tour")
    assert "host 0 of slice 1, rank 2 of 4" in shown
    assert re.search(r"hello +Running +Running +v5p-16 +2/2 +0 +0 +0 ", shown)
    assert re.search(r"hello +Succeeded +Succeeded +v5p-16 +2/2 +1 +0 +1 ", shown)
    assert "was lost: its node is gone" in shown


def test_what_it_says_of_a_cluster_that_one_has() -> None:
    [install] = re.findall(r"```sh\n(helm install .*)\n```", README)
    # That page's commands are run.
    assert install in (ROOT / "charts/slipway/README.md").read_text()
    [block] = re.findall(r"<!-- a cluster that you have -->\n```sh\n(.*?)```", README, re.DOTALL)
    commands = [shlex.split(line) for line in block.splitlines()]
    assert [command[1] for command in commands] == ["doctor", "run", "why"]
    for _, name, *arguments in commands:
        # It asks of no cluster what it would be asked to do.
        shown = CliRunner().invoke(
            main, ["render" if name == "run" else name, *arguments] + ["--help"] * (name != "run")
        )
        assert shown.exit_code == 0, shown.output


def test_every_folder_the_readme_names_exists() -> None:
    folders = re.findall(r"^\| ((?:`[^`]+`,? ?)+) \|", README, re.MULTILINE)
    named = [name for cell in folders for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
