"""The table of the fields of a pod: complete, consistent, and what the code goes by."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slipway.api.places import FIRST, HEAD
from slipway.core.model.parts import Body
from slipway.local.conversion.convert import problems
from slipway.local.conversion.field_forms import FORMS, NEEDED
from slipway.local.conversion.field_table import ANSWERS, PARENTS, TABLE, Answer
from slipway.local.conversion.unconvertible import UNKNOWN
from tests.local.pods import pod, with_spec

MEANINGLESS = [row.path for row in TABLE if row.answer is Answer.NOTHING]
REFUSED = [row.path for row in TABLE if row.answer is Answer.REFUSED]
CONVERTED = [row.path for row in TABLE if row.answer is Answer.CONVERTED]
BASE = with_spec(
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    command=["x"],
    volumeMounts=[{"name": "v", "mountPath": "/v"}],
)


def with_field(path: str, value: Any) -> Body:
    """A pod with a field, in the first item of each list on the way to it."""
    body = copy.deepcopy(BASE)
    at: Any = body
    [*folders, last] = path.split(".")
    for folder in folders:
        key = folder.removesuffix("[]")
        if folder.endswith("[]"):
            items = at.setdefault(key, [])
            if not items:
                items.append({})
            at = items[0]
        else:
            at = at.setdefault(key, {})
    at[last] = value
    return body


def test_each_field_is_there_once() -> None:
    assert len(ANSWERS) == len(TABLE)


def test_each_field_that_is_converted_has_a_form() -> None:
    leaves = {path.rpartition(".")[2] for path in CONVERTED if path not in PARENTS}
    assert sorted(leaves) == sorted(FORMS)
    assert NEEDED.keys() <= PARENTS


@pytest.mark.parametrize("path", MEANINGLESS)
def test_what_means_nothing_changes_nothing(path: str) -> None:
    name = path.rpartition(".")[2]
    assert [one for one in problems(with_field(path, "x")) if name in one.split(":")[0]] == []


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_refused(path: str) -> None:
    found = problems(with_field(path, {"some": "thing"}))
    assert any(ANSWERS[path].words in one for one in found)
    assert not any(ANSWERS[path].words in one for one in problems(with_field(path, None)))


OBJECTS = [path for path in sorted(PARENTS - {"metadata"}) if f"{path}[]" not in PARENTS]


@pytest.mark.parametrize("parent", OBJECTS)
def test_an_unknown_field_is_refused(parent: str) -> None:
    found = problems(with_field(f"{parent}.newField", "x"))
    assert any(one.endswith(f".newField: {UNKNOWN}") for one in found)


FORMLESS = {
    "a text for a list": ("spec.containers[].args", "abc", '.args "abc": a list of texts is needed'),
    "a number among texts": ("spec.containers[].command", ["a", 1], ".command a list: a list of texts is needed"),
    "a number for a text": ("spec.hostname", 1, "spec.hostname 1: a text is needed"),
    "a text for a flag": ("spec.hostPID", "yes", 'spec.hostPID "yes": true or false is needed'),
    "a flag for a number": ("spec.securityContext.runAsUser", True, "runAsUser true: a whole number from 0"),
    "a negative number": ("spec.securityContext.runAsUser", -1, "runAsUser -1: a whole number from 0 is needed"),
    "an object for a list": ("spec.hostAliases", {}, "spec.hostAliases an object: a list of objects is needed"),
    "a list for an object": ("spec.dnsConfig", [], "spec.dnsConfig a list: an object is needed"),
    "a label that is no text": ("metadata.labels", {"a": 1}, "metadata.labels an object: an object of texts"),
    "something missing": ("spec.volumes[].hostPath", {}, "spec.volumes[v].hostPath.path: it is missing"),
    "a nameless init container": (
        "spec.initContainers",
        [{"image": "x"}],
        "spec.initContainers[0].name: it is missing",
    ),
}


@pytest.mark.parametrize(("path", "value", "message"), FORMLESS.values(), ids=FORMLESS.keys())
def test_another_form(path: str, value: Any, message: str) -> None:
    [found] = problems(with_field(path, value))
    assert message in found


@pytest.mark.parametrize(("field", "value"), [("value", 12345), ("valueFrom", "s3cret")])
def test_a_variable_of_another_form_is_not_repeated(field: str, value: Any) -> None:  # E1-20
    [found] = [one for one in problems(with_field(f"spec.containers[].env[].{field}", value)) if f".{field}" in one]
    assert str(value) not in found


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-2, 2**40) | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=2) | some.dictionaries(some.sampled_from(sorted(FORMS)), inner, max_size=2)
    ),
    max_leaves=4,
)


SLIPWAYS_OWN = {"spec.containers", "spec.containers[]", "spec.containers[].name"}
FROM_A_TEMPLATE = sorted(path for path in {*ANSWERS, *PARENTS} - SLIPWAYS_OWN if path.startswith("spec."))


@given(some.sampled_from(FROM_A_TEMPLATE), JSON)
def test_whatever_stands_there_is_read_or_refused(path: str, value: Any) -> None:
    if path.endswith("[]"):
        path, value = path.removesuffix("[]"), [value]
    for message in problems(with_field(path, value)):
        assert ": " in message


def test_every_pod_of_the_planner_is_in_the_table() -> None:
    whole = pod(
        accelerator={"type": "v5p-16", "spot": True},
        hosts=None,
        slices=2,
        shmSize="1Gi",
        priorityClassName="high",
        serviceAccountName="me",
        imagePullSecrets=[{"name": "x"}],
        workspace={"hostPath": {"path": "/ws"}, "mountPath": "/mnt"},
    )
    assert problems(whole) == ()
    for place in (HEAD, FIRST):
        assert problems(pod(place, ray={"entrypoint": "x"})) == ()
