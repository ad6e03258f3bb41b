"""The page of the command line names every command and every exit code, and with the pages it leads to every option."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slipway.cli import common
from slipway.cli.main import COMMANDS, main
from tests.places import ROOT

PAGE = (ROOT / "docs/cli.md").read_text()
PAGES = "".join(
    (ROOT / f"docs/{page}.md").read_text() for page in ("cli", "images", "local", "local-cluster", "operator")
)
"""With those about groups of commands."""
CODES = [
    common.FAILED, common.USAGE, common.NOTHING_TO_TALK_TO, common.NOT_FOUND, common.FINISHED, common.TIMEOUT,
    common.INTERRUPTED,
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_on_the_page(command: str) -> None:
    assert re.search(rf"`slipway {command}[ `]", PAGE)


def test_the_exit_codes_are_on_the_page() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == [0, *CODES]


def options(command: click.Command, context: click.Context) -> Iterator[click.Option]:
    """The options of a command and of those below it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options(below, context)
    yield from (one for one in command.params if isinstance(one, click.Option))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_a_page(name: str) -> None:
    context = click.Context(main)
    command = main.get_command(context, name)
    assert command is not None
    missing = {
        one.opts[-1]
        for one in options(command, context)
        if not re.search(rf"(?<![\w-])(?:{'|'.join(one.opts)})(?![\w-])", PAGES)
    }
    assert missing == set()


@pytest.mark.parametrize("given", [2, 3])
def test_of_several_values_of_a_variable_that_wins_which_the_page_names_last(
    given: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "--copy-env")
    (tmp_path / "variables").write_text("A=--env-file")
    values = {"--copy-env": "A", "--env-file": str(tmp_path / "variables"), "-e": "A=-e"}
    section = PAGE.partition("## Flags in place of a manifest")[2]
    order = sorted(values, key=lambda option: section.index(f"`{option}"))[:given]
    flags = [word for option in order for word in (option, values[option])]
    done = CliRunner().invoke(main, ["render", "-n", "ml", "--image", "a:1", "-o", "json", *flags])
    assert json.loads(done.output)["spec"]["env"] == [{"name": "A", "value": order[-1]}]
