"""The kustomize base is the chart without Helm, and applying it again changes nothing."""

import json
import subprocess

import pytest

from tests.chart.conftest import Helm
from tests.chart.kustomize import BASE, RENDERED, to_yaml
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.timeout(1800)


def test_the_base_is_up_to_date(helm: Helm) -> None:
    assert RENDERED.read_text() == to_yaml(helm), "run `make kustomize`"


def on_base(kubectl: Kubectl, *arguments: str) -> str:
    """Run kubectl on the base, whose objects name their namespaces."""
    command = [kubectl.program, "--kubeconfig", str(kubectl.kubeconfig), *arguments, "-k", str(BASE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.row("B-61")
@pytest.mark.thorough
def test_applying_the_base_again_changes_nothing(kubectl: Kubectl) -> None:
    def versions() -> list[tuple[str, str, str]]:
        # Where controllers write a status, only the generation says whether the spec has changed.
        found = (
            one["metadata"] | {"kind": one["kind"]}
            for one in json.loads(on_base(kubectl, "get", "-o", "json"))["items"]
        )
        return [(one["kind"], one["name"], one.get("generation", one["resourceVersion"])) for one in found]

    apply = ("apply", "--server-side", "--force-conflicts")
    try:
        on_base(kubectl, *apply)
        first = versions()
        for _ in range(3):
            on_base(kubectl, *apply)
        assert [(now, before) for now, before in zip(versions(), first, strict=True) if now != before] == []
    finally:
        selector = "--selector=app.kubernetes.io/instance=slipway"
        on_base(kubectl, "delete", selector)
        kubectl("delete", "namespace", "slipway-system", "--wait=false")
