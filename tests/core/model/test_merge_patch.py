import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipway.core.model.merge_patch import apply_merge_patch, merge_patch

SCALARS = st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=3)
NAMES = st.sampled_from("abcd")
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(OBJECTS, OBJECTS)
def test_the_patch_turns_one_object_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert text(apply_merge_patch(before, merge_patch(before, after))) == text(after)


@given(OBJECTS)
def test_nothing_is_patched_between_equals(value: dict[str, Any]) -> None:
    assert merge_patch(value, json.loads(text(value))) == {}


@given(OBJECTS, OBJECTS)
def test_what_stays_is_not_in_the_patch(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)
    for name in before.keys() & after.keys():
        assert (name in patch) == (text(before[name]) != text(after[name]))


def test_a_field_that_goes_becomes_null_and_a_list_is_whole() -> None:
    before = {"phase": "Running", "slices": {"ready": 1, "requested": 2}, "hosts": [1, 2]}
    after = {"slices": {"ready": 2, "requested": 2}, "hosts": [2]}
    assert merge_patch(before, after) == {"phase": None, "slices": {"ready": 2}, "hosts": [2]}
