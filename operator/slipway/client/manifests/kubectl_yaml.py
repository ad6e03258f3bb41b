"""YAML as kubectl reads it, and written for kubectl, which reads otherwise than PyYAML.

Both follow YAML 1.1, each with exceptions of its own. kubectl reads by sigs.k8s.io/yaml, that is by the rules of
go-yaml 2: `12:30` is text, `1e6` is a number, `y` is true. What looks like a date is text, for JSON has no dates, and
2.0 is the number 2.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

_BOOLS: Final = {True: ("y", "yes", "true", "on"), False: ("n", "no", "false", "off")}
_WORDS: Final[dict[str, Any]] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value
    for value, words in (
        *_BOOLS.items(),
        (math.nan, (".nan", ".NaN")),
        (math.inf, (".inf", ".Inf", "+.inf", "+.Inf")),
        (-math.inf, ("-.inf", "-.Inf")),
    )
    for lower in words
    for word in (lower, lower.capitalize(), lower.upper())
}
"""What is neither text nor a number."""
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,19}|0[oO]?[0-7]{1,22}|0[bB][01]{1,64}|0[xX][0-9a-fA-F]{1,16})")
_FRACTION: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OLD_OCTAL: Final = re.compile(r"^([-+]?)0(?=[0-7])")
_PLAIN: Final = "!plain"
"""Tag of what is written without quotes."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012  as the class above has them
        "<": yaml.SafeLoader.yaml_implicit_resolvers["<"],
        None: [(_PLAIN, re.compile(""))],
    }


def documents(text: str) -> Iterator[Any]:
    """What a file holds, one document after the other.

    Raises:
        YAMLError: when it is no YAML.
    """
    return yaml.load_all(text, _Loader)


class Dumper(yaml.SafeDumper):
    """Puts quotes around every text that kubectl, or PyYAML, would take for something else without them."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: tuple[bool, bool]) -> str:
        """What its reader would take a node for."""
        tag = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        is_text = kind is not yaml.ScalarNode or not implicit[0] or isinstance(_value(value), str)
        return _PLAIN if tag == self.DEFAULT_SCALAR_TAG and not is_text else tag


def _value(text: str) -> Any:
    """What a scalar without quotes says."""
    if text in _WORDS:
        return _WORDS[text]
    number = text.replace("_", "") if text[0] in "+-0123456789" else text
    if _WHOLE.fullmatch(number) and -(2**63) <= (whole := int(_OLD_OCTAL.sub(r"\g<1>0o", number), 0)) < 2**64:
        return whole
    if _FRACTION.fullmatch(number) and math.isfinite(fraction := float(number)):
        return int(fraction) if fraction.is_integer() else fraction
    return text


def _tagged(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """What a scalar says that its author calls a number or a boolean."""
    value = _value(node.value)
    if isinstance(value, str | None):
        problem = f"{node.value!r} is not what its tag {node.tag} says"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return value


_Loader.add_constructor(_PLAIN, lambda _, node: _value(node.value))
for _name in ("bool", "float", "int"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _tagged)
