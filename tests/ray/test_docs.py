"""What the page about Ray shows is accepted; what it marks is run by the tests of the cluster."""

import re

import yaml

from tests.kubectl import Kubectl
from tests.places import ROOT
from tests.ray.page import PAGE, blocks


def test_what_the_page_shows_is_accepted(kubectl: Kubectl) -> None:
    shown = [yaml.safe_load(block) for block in blocks("yaml")]
    whole = [body for body in shown if "kind" in body]
    assert (len(whole), len(shown)) == (2, 3)
    # What is no manifest is a part of a spec.
    parts = (whole[1] | {"spec": whole[1]["spec"] | body} for body in shown if "kind" not in body)
    for body in (*whole, *parts):
        kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=body)


def test_every_field_the_page_names_of_ray_exists() -> None:
    named = set(re.findall(r"`ray\.(\w+)", PAGE)) - {"util"}
    known = yaml.safe_load((ROOT / "crds/slipway.dev_slicejobs.yaml").read_text())
    [version] = known["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["ray"]["properties"]
    assert named <= set(fields) | {"io"}
