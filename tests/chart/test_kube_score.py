"""kube-score finds nothing in what the chart renders but what is meant."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.conftest import Helm
from tests.chart.kustomize import BASE
from tests.chart.test_chart import VALUES
from tests.go_modules import program

# The first one may have to build kube-score, and Helm.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.thorough]

VERSION: Final = "1.20.0"
PERFECT: Final = 10

MEANT: Final = {
    "container-image-pull-policy": "A tag of a release never changes, and a node without the registry restarts pods.",
    "deployment-has-host-podantiaffinity": "The topology spread constraints do that, over zones as well.",
    "container-resource-requests-equal-limits": "The memory grows with the cluster, and is not to be taken ahead.",
    "container-cpu-requests-equal-limits": "As memory.",
    "container-memory-requests-equal-limits": "As memory.",
    "container-ephemeral-storage-request-equals-limit": "As memory.",
    "pod-probes": "The pod of `helm test` ends by itself; no probe of a Deployment is found fault with.",
}
"""Checks that find fault with the default values, and why that is meant."""

CHOSEN: Final = {
    "no resources": {"container-resources", "container-ephemeral-storage-request-and-limit"},
    "no NetworkPolicy": {"pod-networkpolicy"},
    "paused": {"deployment-replicas", "deployment-has-poddisruptionbudget"},
}
"""Checks that find fault with values that ask for it."""


def found(objects: Iterable[Any]) -> set[str]:
    """The checks, optional ones as well, that find fault with any of the objects."""
    score = program("kube-score", VERSION, "github.com/zegl/kube-score/cmd/kube-score")
    arguments = ["--kubernetes-version=v1.34", "--all-default-optional", "--output-format=json", "-"]
    done = subprocess.run(
        [score, "score", *arguments], input=yaml.safe_dump_all(objects), capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("["), done.stderr
    checks = [(one["object_name"], check) for one in json.loads(done.stdout) for check in one["checks"]]
    assert checks
    failed = [(name, check["check"]["id"]) for name, check in checks if _fails(check)]
    assert [name for name, check in failed if check == "pod-probes" and "-test" not in name] == []
    return {check for _, check in failed}


def _fails(check: Any) -> bool:
    return not check["skipped"] and check["grade"] < PERFECT


@pytest.mark.parametrize("name", VALUES)
def test_it_finds_nothing_in_the_chart_but_what_is_meant(helm: Helm, name: str) -> None:
    assert found(helm.template(VALUES[name])) - MEANT.keys() - CHOSEN.get(name, set()) == set()


def test_it_finds_nothing_in_the_kustomize_base_but_what_is_meant() -> None:
    names = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert found(_read(BASE / name for name in names)) - MEANT.keys() == set()


def _read(paths: Iterable[Path]) -> list[Any]:
    return [body for path in paths for body in yaml.safe_load_all(path.read_text())]


def test_it_does_find_what_is_wrong(helm: Helm) -> None:
    objects = helm.template()
    [deployment] = [body for body in objects if body["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["securityContext"] = {"privileged": True}
    container["image"] = "slipway"
    assert {"container-security-context-privileged", "container-image-tag"} <= found(objects)
