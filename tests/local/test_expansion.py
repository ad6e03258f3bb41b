"""`$(NAME)` is replaced as Kubernetes replaces it."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slipway.local.conversion.expansion import UnknownVariable, expanded, fully_expanded

VARIABLES = {"A": "a", "EMPTY": "", "REF": "$(A)", "with space": "s"}

CASES = {
    "no reference": ("plain", "plain"),
    "a known one": ("$(A)", "a"),
    "two beside each other": ("$(A)$(A)", "aa"),
    "one in words": ("x-$(A)-y", "x-a-y"),
    "an empty value": ("<$(EMPTY)>", "<>"),
    "what is put in is not looked through again": ("$(REF)", "$(A)"),
    "an unknown one stays": ("$(NONE)", "$(NONE)"),
    "an escaped one": ("$$(A)", "$(A)"),
    "an escaped escape": ("$$$(A)", "$a"),
    "twice escaped": ("$$$$(A)", "$$(A)"),
    "escapes beside no reference": ("a$$b", "a$b"),
    "a lone dollar at the end": ("a$", "a$"),
    "a shell's variable": ("$A ${A}", "$A ${A}"),
    "never closed": ("$(A", "$(A"),
    "never closed, then an escape": ("$(A$$", "$(A$"),
    "no name": ("$()", "$()"),
    "a reference in a reference": ("$(A$(A))", "$(A$(A))"),
    "a name with a space": ("$(with space)", "s"),
    "a name over two lines": ("$(A\n)$(A)", "$(A\n)a"),
    "dollars before a word": ("$$$x", "$$x"),
}


@pytest.mark.parametrize(("text", "result"), CASES.values(), ids=CASES.keys())
def test_expansion(text: str, result: str) -> None:
    assert expanded(text, VARIABLES) == result


def as_the_kubelet(text: str, variables: dict[str, str]) -> str:
    """The kubelet's rules, letter by letter."""
    result, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            result, at = result + text[at], at + 1
        elif text[at + 1] == "$":
            result, at = result + "$", at + 2
        elif text[at + 1] == "(" and ")" in text[at:]:
            end = text.index(")", at)
            result, at = result + variables.get(text[at + 2 : end], text[at : end + 1]), end + 1
        else:
            result, at = result + text[at : at + 2], at + 2
    return result


@given(some.text(alphabet="$()AB \n", max_size=30))
def test_expansion_of_any_text(text: str) -> None:
    variables = {"A": "a$(B)$$", "B": "b", "": "nothing"}
    assert expanded(text, variables) == as_the_kubelet(text, variables)


@given(some.text(max_size=30))
def test_what_the_planner_keeps_literal_stays_so(text: str) -> None:  # E1-04, E1-08
    escaped = text.replace("$(", "$$(")
    if "$$" not in text and not text.endswith("$"):
        assert expanded(escaped, {"A": "a"}) == text


def test_where_a_variable_must_be_known() -> None:
    assert fully_expanded("$(A)/$$(NONE)", VARIABLES) == "a/$(NONE)"
    with pytest.raises(UnknownVariable) as caught:
        fully_expanded("$(A)/$(NONE)", VARIABLES)
    assert caught.value.args == ("NONE",)
