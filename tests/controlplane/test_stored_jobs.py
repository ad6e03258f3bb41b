"""Jobs that were stored before a rule of the CRD was there: by an older CRD, or under a higher bound on their pods."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from slipway.api.crd import custom_resource_definitions
from slipway.api.names import MULTIKUEUE
from slipway.devcluster import NativeCluster
from tests.clusters import kubectl_for
from tests.controlplane.test_crd import env, gpu, job
from tests.kubectl import Kubectl, api_of, refusal
from tests.waiting import until

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
    "a part of a byte of memory": CPU | {"resources": {"limits": {"memory": "512m"}}},
    "a part of a byte of shared memory": CPU | {"shmSize": "512m"},
}

KIND, PLURAL, GROUP = "StoredJob", "storedjobs", "stored.slipway.dev"
"""A kind of this test's own, so that no other test meets SliceJobs without rules."""
PATH = f"/apis/{GROUP}/v1alpha1/namespaces/default/{PLURAL}"
NEVER_BEGAN = "never-began"


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


@pytest.fixture(scope="module")
def under_rules(control_plane: NativeCluster) -> Iterator[Kubectl]:
    """The jobs, stored under a CRD without any rule, and then all the rules."""
    kubectl = kubectl_for(control_plane, "default")
    install(kubectl, rules=False)
    try:
        kubectl.apply(*map(stored, BROKEN), stored("too many pods", NEVER_BEGAN))
        install(kubectl, rules=True)
        yield kubectl
    finally:
        kubectl("delete", "crd", f"{PLURAL}.{GROUP}", "--wait=false")


def install(kubectl: Kubectl, *, rules: bool) -> None:
    kubectl.apply(definition(rules=rules))
    kubectl.until_established(PLURAL)
    # The API server notices another schema after a moment.
    until("the schema", lambda: bool(created(kubectl, "an empty command")) == rules)


def created(kubectl: Kubectl, case: str) -> str:
    """What the API server says to a new job that breaks a rule; nothing where it would be stored."""
    return refusal(lambda: api_of(kubectl.kubeconfig).create(PATH, stored(case, "another"), dryRun="All"))


def patched(kubectl: Kubectl, name: str, body: dict[str, Any], subresource: str = "") -> str:
    """What the API server says to a change of a stored job; nothing where it has stored it."""
    change = (f"{PATH}/{name}{subresource}", json.dumps(body), "application/merge-patch+json")
    return refusal(lambda: api_of(kubectl.kubeconfig).patch(*change))


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "a status is written": ({"status": {"phase": "Running", "attempt": 0}}, "/status"),
    "the metadata changes": ({"metadata": {"labels": {"a": "b"}}}, ""),
    "what may change at any time changes": ({"spec": {"ttlSecondsAfterFinished": 60}}, ""),
    "it is suspended": ({"spec": {"suspend": True}}, ""),
    "it goes on": ({"spec": {"suspend": False}}, ""),
    "it is cancelled": ({"spec": {"cancel": True}}, ""),
}
"""What becomes of a job, in this order."""


def test_a_stored_job_that_breaks_a_rule_runs_on_and_can_be_stopped(under_rules: Kubectl) -> None:
    said = [created(under_rules, case) for case in BROKEN]
    assert [case for case, words in zip(BROKEN, said, strict=True) if not words] == []
    rules = definition(rules=True)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    words = [words_of(rule) for rule in rules["x-kubernetes-validations"]]
    assert [one for one in words if one not in " ".join(said)] == [], "no job breaks it"
    for change, (body, subresource) in CHANGES.items():
        refused = {case: patched(under_rules, name_of(case), body, subresource) for case in BROKEN}
        assert {case: words for case, words in refused.items() if words} == {}, change


def words_of(rule: dict[str, str]) -> str:
    """What is said when a rule is broken, or the end of it where the beginning is computed."""
    return rule.get("message") or re.findall("'([^']*)'", rule["messageExpression"])[-1]


def test_what_is_new_in_a_stored_job_is_under_the_rules(under_rules: Kubectl) -> None:
    assert patched(under_rules, NEVER_BEGAN, {"status": {"phase": "Invalid"}}, "/status") == ""
    for fields, said in ({"slices": 6}, "hosts x slices is above"), ({"command": [""]}, "command[0] is empty"):
        assert said in patched(under_rules, NEVER_BEGAN, {"spec": fields})
