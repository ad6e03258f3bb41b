"""Every environment variable that Slipway reads is on the page of the part that reads it."""

import re

import pytest
from click import Option

from slipway.cli.operator import operator
from slipway.controller.main import EXIT_FAILED, EXIT_OK, EXIT_REFUSED
from slipway.controller.observability import health
from tests.places import ROOT

READ = {
    "operator.md": ("controller", "apiserver", "client"),
    "local-cluster.md": ("devcluster",),
    "local.md": ("local",),
}
MARKS_OUR_PROCESSES = "SLIPWAY_CLUSTER_DIR"
"""Is set by us for ourselves."""


def variables_of(room: str) -> set[str]:
    """The names of variables in the program text of a room."""
    text = "\n".join(file.read_text() for file in (ROOT / "operator/slipway" / room).rglob("*.py"))
    pattern = r"\"((?:SLIPWAY|XDG|DOCKER|KUBEBUILDER)_[A-Z_]+|COORD_PORT|KUBECONFIG)\""
    return set(re.findall(pattern, text)) - {MARKS_OUR_PROCESSES}


@pytest.mark.parametrize("page", READ)
def test_every_variable_is_on_its_page(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    read = set().union(*(variables_of(room) for room in READ[page]))
    assert len(read) >= 1
    assert {name for name in read if not re.search(rf"\b{name}\b", text)} == set()


def test_every_option_of_the_operator_is_on_its_page() -> None:
    text = (ROOT / "docs/operator.md").read_text()
    options = [one.opts[0] for one in operator.params if isinstance(one, Option)]
    assert [name for name in options if f"| `{name}` |" not in text] == []


def test_the_exit_codes_of_the_operator_are_on_its_page() -> None:
    text = (ROOT / "docs/operator.md").read_text()
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert codes == [EXIT_OK, EXIT_FAILED, EXIT_REFUSED]


def test_the_limits_of_the_liveness_probe_are_on_the_page() -> None:
    text = (ROOT / "docs/operator.md").read_text()
    limits = (health.MAX_SILENCE_SECONDS, health.MAX_WAIT_SECONDS, health.MAX_TURN_SECONDS, health.MAX_LAG_SECONDS)
    assert [seconds for seconds in limits if f" {seconds:.0f} s" not in text] == []
