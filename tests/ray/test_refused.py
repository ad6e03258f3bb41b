"""The API server refuses what cannot be run as Ray, in words that name the field and what is allowed."""

from typing import Any

import pytest

from tests.kubectl import Kubectl

ENTRYPOINT = {"entrypoint": "python3 train.py"}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "B-65 no entrypoint": ({"ray": {}}, "no entrypoint: set spec.ray.entrypoint to the command to run"),
    "B-65 keepAlive false and no entrypoint": ({"ray": {"keepAlive": False}}, "no entrypoint: set spec.ray.entrypoint"),
    "B-65 entrypoint is blank": ({"ray": {"entrypoint": "  "}}, "entrypoint is empty: name the command to run"),
    "B-65 keepAlive with an entrypoint": (
        {"ray": ENTRYPOINT | {"keepAlive": True}},
        "entrypoint and keepAlive: true exclude each other",
    ),
    "entrypoint is a list": ({"ray": {"entrypoint": ["python3"]}}, "spec.ray.entrypoint"),
    "arguments for a kept cluster": ({"ray": {"keepAlive": True, "args": {"a": 1}}}, "args and runtimeEnv belong"),
    "runtime environment for a kept cluster": (
        {"ray": {"keepAlive": True, "runtimeEnv": {"pip": ["x"]}}},
        "args and runtimeEnv belong to an entrypoint",
    ),
    "args is a list": ({"ray": ENTRYPOINT | {"args": ["--a"]}}, "spec.ray.args"),
    "runtimeEnv in camelCase": ({"ray": ENTRYPOINT | {"runtimeEnv": {"envVars": {"A": "a"}}}}, "envVars"),
    "B-19 a number in env_vars": ({"ray": ENTRYPOINT | {"runtimeEnv": {"env_vars": {"A": 1}}}}, "env_vars"),
    "headWorkers 0": ({"ray": ENTRYPOINT | {"headWorkers": 0}}, "spec.ray.headWorkers"),
    "headResourceName is one of Ray's": (
        {"ray": ENTRYPOINT | {"headResourceName": "CPU"}},
        "headResourceName CPU is not a name for a Ray resource of its own",
    ),
    "a tolerated TPU node for the head": ({"ray": ENTRYPOINT | {"head": {"tolerations": []}}}, "tolerations"),
    "command beside ray": ({"ray": ENTRYPOINT, "command": ["python3"]}, "command means nothing beside ray"),
    "args beside ray": ({"ray": ENTRYPOINT, "args": ["a"]}, "args means nothing beside ray"),
    "host network beside ray": ({"ray": ENTRYPOINT, "hostNetwork": True}, "hostNetwork cannot be true beside ray"),
    "RAY_ADDRESS of the head": (
        {"ray": ENTRYPOINT | {"head": {"env": [{"name": "RAY_ADDRESS", "value": "x"}]}}},
        "RAY_ADDRESS, RAY_AUTH_MODE, RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH are reserved beside ray",
    ),
    "SLIPWAY_RANK of the head": (
        {"ray": ENTRYPOINT | {"head": {"env": [{"name": "SLIPWAY_RANK", "value": "x"}]}}},
        "environment name SLIPWAY_RANK is reserved",
    ),
    "RAY_ADDRESS": (
        {"ray": ENTRYPOINT, "env": [{"name": "RAY_ADDRESS", "value": "x"}]},
        "RAY_ADDRESS, RAY_AUTH_MODE, RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH are reserved beside ray",
    ),
    "K-04 RAY_AUTH_MODE": (
        {"ray": ENTRYPOINT, "env": [{"name": "RAY_AUTH_MODE", "value": "disabled"}]},
        "RAY_AUTH_MODE, RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH are reserved beside ray",
    ),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "everything": {
        "ray": {
            "entrypoint": "python3 train.py",
            "args": {"lr": 0.1, "deep": {"a": [1]}},
            "runtimeEnv": {"pip": {"packages": ["x"]}, "env_vars": {"A": "a"}, "config": {"setup_timeout_seconds": 9}},
            "head": {
                "resources": {"limits": {"memory": "8Gi"}},
                "nodeSelector": {"pool": "cpu"},
                "env": [{"name": "A"}],
            },
            "headResourceName": "lead",
            "headWorkers": 2,
        }
    },
    "a kept cluster": {"ray": {"keepAlive": True}},
    "RAY_ADDRESS without ray": {"env": [{"name": "RAY_ADDRESS", "value": "x"}]},
}


def job(changes: dict[str, Any]) -> dict[str, Any]:
    good = {"accelerator": {"type": "v5p-16"}, "slices": 2, "image": "acme/train:1"}
    spec = {key: value for key, value in (good | changes).items() if value is not None}
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": spec}


@pytest.mark.row("B-19", "B-65")
def test_it_refuses(kubectl: Kubectl) -> None:
    said = {name: kubectl.refuses(job(changes), "--dry-run=server") for name, (changes, _) in REFUSED.items()}
    assert {name: text for name, text in said.items() if REFUSED[name][1] not in text} == {}


def test_it_takes(kubectl: Kubectl) -> None:
    for changes in ACCEPTED.values():
        kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=job(changes))


def test_what_ray_runs_cannot_change(kubectl: Kubectl) -> None:
    kubectl.apply(job({"ray": ENTRYPOINT}))
    assert "ray cannot change after creation" in kubectl.refuses(job({"ray": {"entrypoint": "python3 other.py"}}))
