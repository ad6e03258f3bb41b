"""A plugin of pytest that writes what it has collected to the file that $COLLECTED names, and runs nothing."""

import json
import os
from pathlib import Path

import pytest

from tests.stages import is_in_the_gate, stage_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before any is left out."""
    found = {
        item.nodeid: {
            "stage": stage_of(item),
            "gate": is_in_the_gate(item),
            "rows": [row for mark in item.iter_markers("row") for row in mark.args],
            "quarantine": [mark.args[0] for mark in item.iter_markers("quarantine")],
        }
        for item in items
    }
    Path(os.environ["COLLECTED"]).write_text(json.dumps(found))
    items.clear()
