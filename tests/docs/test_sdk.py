"""The page about Python names every word of a container."""

import re
from dataclasses import fields

from slipway import DockerConfig
from tests.places import ROOT

PAGE = (ROOT / "docs/sdk.md").read_text()


def test_every_field_of_a_container_is_on_the_page() -> None:
    assert [one.name for one in fields(DockerConfig) if not re.search(rf"\b{one.name}\b", PAGE)] == []
