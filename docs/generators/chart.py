"""What the chart's README and the schema of its values say about each value: the comments of values.yaml."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[2] / "charts/slipway"


@dataclass(frozen=True)
class Value:
    """A value with a comment of its own."""

    path: tuple[str, ...]
    comment: str
    default: Any

    @property
    def name(self) -> str:
        """The path as `--set` takes it."""
        return ".".join(self.path)


def values() -> list[Value]:
    """The values of the chart in the order of the file; what is below a value with a comment belongs to it."""
    text = (CHART / "values.yaml").read_text()
    return list(_values(yaml.compose(text, yaml.SafeLoader), text.splitlines(), ()))


def _values(node: yaml.Node | None, lines: Sequence[str], path: tuple[str, ...]) -> Iterator[Value]:
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        here = (*path, str(key.value))
        comment = _comment(lines[: key.start_mark.line])
        if comment:
            yield Value(here, comment, yaml.SafeLoader("").construct_document(value))
        else:
            yield from _values(value, lines, here)


def _comment(before: Sequence[str]) -> str:
    """The comment that ends these lines, as one line."""
    words: list[str] = []
    for line in reversed(before):
        if not line.lstrip().startswith("#"):
            break
        words.insert(0, line.strip("# "))
    return " ".join(words)


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the values with the comments as descriptions."""
    for value in values():
        node = schema
        for part in value.path:
            node = node["properties"][part]
        rest = {name: child for name, child in node.items() if name != "description"}
        node.clear()
        node |= {"description": value.comment} | rest
    return schema


def table() -> Iterator[str]:
    """The table of the chart's README."""
    yield "| value | default | meaning |"
    yield "|---|---|---|"
    yield from (f"| `{one.name}` | `{json.dumps(one.default)}` | {one.comment} |" for one in values())
