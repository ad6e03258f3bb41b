"""What is generated from the models is as the models say."""

import json
import re
from typing import Any

import pytest

from slipway.api import crd
from tests.places import ROOT


@pytest.mark.parametrize("plural", crd.custom_resource_definitions())
@pytest.mark.parametrize("folder", ["crds", "charts/slipway/files", "deploy/kustomize"])
def test_the_generated_crds_are_up_to_date(folder: str, plural: str) -> None:
    assert (ROOT / folder / f"slipway.dev_{plural}.yaml").read_text() == crd.to_yaml(plural), "run `make generate`"


def test_no_default_is_null_and_every_field_is_described() -> None:
    def walk(path: str, node: dict[str, object]) -> None:
        assert node.get("default", 0) is not None, path
        for name, child in (node.get("properties") or {}).items():  # type: ignore[attr-defined]
            assert child.get("description"), f"{path}.{name} has no description"
            walk(f"{path}.{name}", child)

    for part in ("spec", "status"):
        walk(part, crd.openapi_schema()["properties"][part])
    walk("profile", crd.profile_schema()["properties"]["spec"])


def test_rules_of_a_profile_look_first_whether_a_field_is_there() -> None:
    """In a profile no default stands for it."""

    def walk(path: str, node: dict[str, Any]) -> None:
        optional = node.get("properties", {}).keys() - node.get("required", ())
        for rule in node.get("x-kubernetes-validations", ()):
            read = set(re.findall(r"self\.(\w+)", rule["rule"])) & optional
            assert [name for name in read if f"has(self.{name})" not in rule["rule"]] == [], (path, rule["rule"])
        for name, child in node.get("properties", {}).items():
            walk(f"{path}.{name}", child)
        for kind in ("items", "additionalProperties"):
            if isinstance(node.get(kind), dict):
                walk(f"{path}[]", node[kind])

    walk("profile", crd.profile_schema())


CHANGE = r"(Immutable|Can change (at any time|while the phase is Suspended|to true only))\."
SAID = {
    "retries.backoff.maxSeconds": "Longest delay in seconds. Default 300. Can change at any time.",
    "accelerator.spot": "tolerate their taint. Default false. Immutable.",
    "slices": "every slice runs. Default 1. Immutable.",
    "env.name": "Variable name. Immutable.",
    "podTemplate.metadata.labels": "belong to Slipway. Can change while the phase is Suspended.",
    "cancel": "keep the SliceJob. Default false. Can change to true only.",
}


def test_every_field_says_its_default_and_when_it_may_change() -> None:
    found = {}

    def walk(path: str, node: dict[str, Any]) -> None:
        for name, child in (node.get("properties") or node.get("items", {}).get("properties") or {}).items():
            place = f"{path}.{name}".removeprefix(".")
            found[place] = child["description"]
            assert len(re.findall(CHANGE, child["description"])) == 1, place
            if not isinstance(child.get("default", {}), dict):
                assert child["description"].count(f"Default {json.dumps(child['default'])}.") == 1, place
            walk(place, child)

    walk("", crd.openapi_schema()["properties"]["spec"])
    assert {path: words for path, words in SAID.items() if not found[path].endswith(words)} == {}


def test_the_rule_about_change_compares_and_names_every_field_that_is_said_to_be_immutable() -> None:
    fields = crd.openapi_schema()["properties"]["spec"]["properties"]
    rule = next(one for one in crd.transition_rules() if one["fieldPath"] == ".spec")
    bound = {name for name, node in fields.items() if re.search(r"(Immutable|is Suspended)\.", node["description"])}
    assert set(re.findall(r"self\.spec\.(\w+) ==", rule["rule"])) == bound
    assert set(re.findall(r"'(\w+), '", rule["messageExpression"])) == bound


def test_the_operator_folder_is_no_package() -> None:
    # A package of that name would hide Python's own module `operator`.
    assert not (ROOT / "operator/__init__.py").exists()
