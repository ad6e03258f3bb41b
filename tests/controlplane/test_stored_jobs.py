"""Jobs that were stored before a rule of the CRD was there: by an older CRD, or under a higher bound on their pods."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from slipway.api.crd import custom_resource_definitions
from slipway.api.names import MULTIKUEUE
from tests.conftest import Kubectl
from tests.waiting import PATIENCE

from .test_crd import env, gpu, job

RAY: Final = {"ray": {"entrypoint": "a"}}
MODULE: Final = {"pythonModule": {"module": "a"}}
OUTPUT: Final = {"output": {"volume": "a", "path": "/ws/out"}}
CPU: Final = {"accelerator": None}
PRESERVED: Final = {"podTemplate": {"spec": {"dnsPolicy": "Default"}}}
"""With a field that the schema does not know, the API server takes no spec for unchanged."""

# Of each rule of the spec: a job that breaks it.
BROKEN: dict[str, dict[str, Any]] = {
    "hosts of TPU slices": {"hosts": 2},
    "hosts of TPU slices with a node each": {"oneHostPerNode": True},
    "slices that are not acceptable": {"slices": 3, "acceptableSlices": [1, 2]},
    "acceptable slices of MultiKueue": {"slices": None, "acceptableSlices": [1], "managedBy": MULTIKUEUE},
    "an empty command": {"command": [""]},
    "too many pods": CPU | {"hosts": 4096, "slices": 5},
    "GPUs beside TPUs": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
    "two numbers of GPUs": gpu() | {"resources": {"limits": {"nvidia.com/gpu": 3}}},
    "command of a Ray job": RAY | {"command": ["a"]},
    "args of a Ray job": RAY | {"args": ["a"]},
    "a Ray job in the network of the nodes": RAY | {"hostNetwork": True},
    "headWorkers without a name": gpu() | {"ray": RAY["ray"] | {"headWorkers": 2}},
    "a variable of Ray's": RAY | {"env": env("RAY_ADDRESS")},
    "command of a module": MODULE | {"command": ["a"]},
    "args of a module": MODULE | {"args": ["a"]},
    "a module of a Ray job": MODULE | RAY,
    "output without its volume": OUTPUT | {"volumes": [{"name": "b", "emptyDir": {}}]},
    "output in a mount": OUTPUT | {"volumeMounts": [{"name": "b", "mountPath": "/ws/out"}]},
    "output in the workspace": OUTPUT | {"workspace": {"mountPath": "/ws"}},
}

KIND, PLURAL, GROUP = "StoredJob", "storedjobs", "stored.slipway.dev"
"""A kind of this test's own, so that no other test meets SliceJobs without rules."""


def definition(*, rules: bool) -> dict[str, Any]:
    """The CRD of SliceJobs under another name."""
    found = custom_resource_definitions()["slicejobs"]
    names = {"kind": KIND, "plural": PLURAL, "singular": KIND.lower()}
    body = found | {"metadata": {"name": f"{PLURAL}.{GROUP}"}}
    body["spec"] = found["spec"] | {"group": GROUP, "names": names}
    return body if rules else without_rules(body)


def without_rules(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [without_rules(value) for value in node] if isinstance(node, list) else node


def name_of(case: str) -> str:
    return re.sub("[^a-z]+", "-", case.lower())


def stored(case: str, name: str = "") -> dict[str, Any]:
    return job(name or name_of(case), **PRESERVED, **BROKEN[case]) | {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND}


@pytest.fixture
def under_rules(kubectl: Kubectl) -> Iterator[Kubectl]:
    """The jobs, stored under a CRD without any rule, and then all the rules."""
    install(kubectl, rules=False)
    try:
        kubectl.apply(*map(stored, BROKEN))
        install(kubectl, rules=True)
        yield kubectl
    finally:
        kubectl("delete", "crd", f"{PLURAL}.{GROUP}", "--wait=false")


def install(kubectl: Kubectl, *, rules: bool) -> None:
    kubectl.apply(definition(rules=rules))
    kubectl.until_established(PLURAL)
    bad = stored("an empty command", "another")
    end = time.monotonic() + PATIENCE
    # The API server notices another schema after a moment.
    while (kubectl("create", "--dry-run=server", "-f", "-", stdin=bad, check=False).returncode != 0) != rules:
        assert time.monotonic() < end
        time.sleep(0.2)


CHANGES: dict[str, tuple[str, ...]] = {
    "a status is written": ("--subresource=status", "-p", '{"status": {"phase": "Running", "attempt": 0}}'),
    "the metadata changes": ("-p", '{"metadata": {"labels": {"a": "b"}}}'),
    "what may change at any time changes": ("-p", '{"spec": {"ttlSecondsAfterFinished": 60}}'),
    "it is suspended": ("-p", '{"spec": {"suspend": true}}'),
    "it goes on": ("-p", '{"spec": {"suspend": false}}'),
    "it is cancelled": ("-p", '{"spec": {"cancel": true}}'),
}
"""What becomes of a job, in this order."""


def test_a_stored_job_that_breaks_a_rule_runs_on_and_can_be_stopped(under_rules: Kubectl) -> None:
    said = [under_rules.refuses(stored(case, "another"), "--dry-run=server") for case in BROKEN]
    rules = definition(rules=True)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    words = [words_of(rule) for rule in rules["x-kubernetes-validations"]]
    assert [one for one in words if one not in " ".join(said)] == [], "no job breaks it"
    for change, arguments in CHANGES.items():
        patch = ("patch", PLURAL, "--type=merge", *arguments)
        done = {case: under_rules(*patch, name_of(case), check=False) for case in BROKEN}
        assert {case: one.stderr for case, one in done.items() if one.returncode != 0} == {}, change


def words_of(rule: dict[str, str]) -> str:
    """What is said when a rule is broken, or the end of it where the beginning is computed."""
    return rule.get("message") or re.findall("'([^']*)'", rule["messageExpression"])[-1]


def test_what_is_new_in_a_stored_job_is_under_the_rules(under_rules: Kubectl) -> None:
    never_began = ("--subresource=status", "-p", '{"status": {"phase": "Invalid"}}')
    under_rules("patch", PLURAL, "too-many-pods", "--type=merge", *never_began)
    for fields, said in ({"slices": 6}, "hosts x slices is above"), ({"command": [""]}, "command[0] is empty"):
        change = ("--type=merge", "-p", json.dumps({"spec": fields}))
        assert said in under_rules("patch", PLURAL, "too-many-pods", *change, check=False).stderr
