"""What the page about directories shows is accepted; its job runs in tests/e2e/test_workspace.py."""

import re
from typing import Any

import pytest
import yaml

from slipway.client.manifests.reading import check
from tests.kubectl import Kubectl
from tests.places import ROOT

PAGE = (ROOT / "docs/workspace.md").read_text()
FIELDS = ("workspace", "pythonModule", "output")


def example(mark: str, language: str) -> str:
    """The block of the page below a mark."""
    [found] = re.findall(rf"<!-- test: {mark} -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def shown() -> list[dict[str, Any]]:
    """Every manifest of the page; what is a part of a spec stands in the spec of the first."""
    first, *parts = (yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    return [first, *(first | {"spec": first["spec"] | part} for part in parts)]


@pytest.mark.parametrize("number", range(4))
def test_what_the_page_shows_is_valid(number: int) -> None:
    assert check(shown()[number]).hosts == 4


def test_the_api_server_takes_what_the_page_shows(kubectl: Kubectl) -> None:
    for body in shown():
        kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=body)


def test_every_field_is_on_the_page() -> None:
    [version] = yaml.safe_load((ROOT / "crds/slipway.dev_slicejobs.yaml").read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    named = {name for field in FIELDS for name in spec[field]["properties"]}
    assert {name for name in named if not re.search(rf"\b{name}\b", PAGE)} == set()
