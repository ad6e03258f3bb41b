"""In which fields a job that is submitted is another than the one that is there."""

from typing import Any

import pytest

from slipway.client.manifests.differences import differences

Spec = dict[str, Any]
SPOT = {"type": "v5e-16", "spot": True}
FAST, ZONE = {"disk": "fast"}, {"zone": "a"}
TWO, THREE = [{"name": "A", "value": "2"}], [{"name": "A", "value": "3"}]

# What is wanted, what is stored, and what is another.
SPECS: dict[str, tuple[Spec, Spec, list[str]]] = {
    "nothing": ({}, {}, []),
    "another value": ({"slices": 2}, {"slices": 3}, ["slices"]),
    "another value within": ({"env": TWO}, {"env": THREE}, ["env"]),
    "a field more": ({"env": TWO}, {}, ["env"]),
    "a field less": ({}, {"env": TWO}, ["env"]),
    "a field less within": ({"accelerator": {"type": "v5e-16"}}, {"accelerator": SPOT}, ["accelerator"]),
    "several": ({"hosts": 2, "image": "a:1"}, {"image": "a:2", "shmSize": "1Gi"}, ["hosts", "image", "shmSize"]),
    "a default that only one of them names": ({"slices": 1}, {"retries": {"maxFailures": 10}}, []),
    "none, which is no value": ({"hosts": None}, {"env": []}, []),
    "it was cancelled": ({}, {"cancel": True, "cancelGracePeriodSeconds": 1}, []),
    "it was suspended": ({}, {"suspend": True}, []),
    "it was resumed": ({"suspend": True}, {"suspend": False}, []),
    "a queue filled in nodes": ({}, {"nodeSelector": ZONE, "tolerations": [{"key": "tpu"}]}, []),
    "a queue filled in more nodes": ({"nodeSelector": FAST}, {"nodeSelector": FAST | ZONE}, []),
    "a queue filled in labels": ({}, {"podTemplate": {"metadata": {"labels": ZONE}}}, []),
    "other nodes": ({"nodeSelector": FAST}, {"nodeSelector": ZONE}, ["nodeSelector"]),
    "the same of another version": ({"new": 1}, {"new": 1}, []),
    "another of another version": ({}, {"new": 1, "slices": 1}, ["new", "slices"]),
}


@pytest.mark.parametrize(("wanted", "stored", "expected"), SPECS.values(), ids=SPECS)
def test_the_fields_are_named_in_which_a_job_is_another(wanted: Spec, stored: Spec, expected: list[str]) -> None:
    assert differences(wanted, stored) == expected
