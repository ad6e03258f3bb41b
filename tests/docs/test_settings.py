"""Every environment variable that Slipway reads is on the page of the part that reads it."""

import re

import pytest
from click import Option

from slipway.cli.operator import operator
from tests.conftest import ROOT

READ = {
    "operator.md": ("shell", "cluster", "client"),
    "local-cluster.md": ("local_cluster",),
    "local.md": ("docker_engine",),
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
