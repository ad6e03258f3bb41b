"""Which Secrets a pod cannot start without."""

from typing import Any

import pytest

from slipway.controller.act.secret_check import required_secrets

KEY = {"name": "keys", "key": "token"}

PODS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({"containers": [{"name": "worker", "env": [{"name": "A", "value": "a"}]}]}, set()),
    "a variable": ({"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": KEY}}]}]}, {"keys"}),
    "an optional one": (
        {"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": KEY | {"optional": True}}}]}]},
        set(),
    ),
    "a variable of a field": (
        {"containers": [{"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]},
        set(),
    ),
    "all variables of one": ({"containers": [{"envFrom": [{"secretRef": {"name": "all"}}]}]}, {"all"}),
    "variables of a ConfigMap": ({"containers": [{"envFrom": [{"configMapRef": {"name": "all"}}]}]}, set()),
    "an init container": ({"initContainers": [{"envFrom": [{"secretRef": {"name": "all"}}]}]}, {"all"}),
    "a volume": ({"volumes": [{"name": "v", "secret": {"secretName": "files"}}]}, {"files"}),
    "an optional volume": ({"volumes": [{"name": "v", "secret": {"secretName": "files", "optional": True}}]}, set()),
    "a projected volume": (
        {
            "volumes": [
                {"name": "v", "projected": {"sources": [{"secret": {"name": "a"}}, {"configMap": {"name": "b"}}]}}
            ]
        },
        {"a"},
    ),
    "lists that are null": (
        {
            "initContainers": None,
            "containers": [{"env": None, "envFrom": None}, {"env": [{"name": "A", "valueFrom": None}]}],
            "volumes": [{"name": "v", "projected": {"sources": None}}, {"name": "w", "secret": None}],
        },
        set(),
    ),
    "a Secret to pull images with": ({"imagePullSecrets": [{"name": "registry"}], "containers": []}, set()),
}


@pytest.mark.parametrize(("spec", "names"), PODS.values(), ids=PODS)
def test_the_secrets_that_must_exist(spec: dict[str, Any], names: set[str]) -> None:  # B-24
    assert required_secrets({"kind": "Pod", "spec": spec}) == names
