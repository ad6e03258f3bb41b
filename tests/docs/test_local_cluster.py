"""The operator that docs/local-cluster.md starts takes the jobs that it creates."""

import json
import re
import shlex

import pytest
import yaml

from slipway.api.profile import ProfileSpec
from slipway.api.slicejob import SliceJobSpec
from slipway.core.model.job import Settings
from slipway.core.model.site import CHART, Choice, Profile, Site
from slipway.core.validation.acceptance import accept
from slipway.core.validation.site import site_of
from tests.core.build import World
from tests.places import ROOT

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.yaml"))


def documented(page: str) -> ProfileSpec:
    """The limits that the page gives the operator."""
    [variable] = re.findall(r"SLIPWAY_SITE='[^']*'", (ROOT / page).read_text())
    return ProfileSpec.model_validate(json.loads(shlex.split(variable)[0].partition("=")[2]))


@pytest.mark.parametrize("page", ["docs/local-cluster.md", "examples/README.md"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_operator_of_the_page_takes_the_examples(page: str, example: str) -> None:
    spec = yaml.safe_load((ROOT / "examples" / example).read_text())["spec"]
    world = World(hosts=None, **spec)

    def sited(given: SliceJobSpec, _: object) -> tuple[SliceJobSpec, Site]:
        return site_of(given, Profile(CHART, spec=documented(page), for_all=True), Choice(None))

    world.sited = sited
    accept(world.job, Settings())
