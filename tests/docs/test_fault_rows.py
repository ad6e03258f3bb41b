"""Each bad input and fault that Slipway promises to survive has a test that is marked with it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT

ROWS = {f"B-{number:02}" for number in range(1, 69)}

NOT_BUILT_YET = {
    "B-11": "not built yet: aliases of one field",
}


def rows_of(file: Path) -> Iterator[str]:
    """The rows with which the tests of a file are marked."""
    for test in ast.walk(ast.parse(file.read_text())):
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.row":
                    yield from (ast.literal_eval(row) for row in mark.args)


def test_every_row_has_a_test_or_is_not_built_yet() -> None:
    here = ROOT / "tests/docs"
    proved = {row for file in (ROOT / "tests").rglob("test_*.py") if file.parent != here for row in rows_of(file)}
    assert ROWS - proved - NOT_BUILT_YET.keys() == set(), "no test is marked with these"
    assert NOT_BUILT_YET.keys() & proved == set(), "built: these lines can go"
