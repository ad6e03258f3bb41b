"""SliceJobProfiles on a real API server: what a platform team sets once, and what becomes of the jobs under it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.test_operator import TPU
from tests.kubectl import Kubectl
from tests.running import Jobs

IMAGE, OTHER = "slipway.local/busybox:1", "slipway.local/busybox:2"


def profile(name: str = "default", limits: dict[str, Any] | None = None, **defaults: Any) -> dict[str, Any]:
    spec = {"defaults": defaults, "limits": limits or {}}
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": name}, "spec": spec}


# Of each: the spec of a profile, and what the API server says.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # F-07, B-33: what belongs to a job alone is named, sorted.
    "reserved keys": (
        {"defaults": {"name": "a", "command": ["a"], "suspend": True}},
        'unknown field "spec.defaults.command", unknown field "spec.defaults.name", '
        'unknown field "spec.defaults.suspend"',
    ),
    "image is a number": ({"defaults": {"image": 7}}, "spec.defaults.image"),  # B-35
    "image is blank": ({"defaults": {"image": " "}}, "image is empty"),
    "shmSize is no size": ({"defaults": {"shmSize": "2x"}}, "2x is not a size"),  # B-26
    "a variable's name": ({"defaults": {"env": [{"name": "A B", "value": "1"}]}}, "spec.defaults.env[0].name"),
    "accelerator": ({"defaults": {"accelerator": {"spot": True}}}, "give either type"),
    "maxSlices 0": ({"limits": {"maxSlices": 0}}, "spec.limits.maxSlices"),
    "a relative folder": ({"limits": {"hostPaths": ["data"]}}, "spec.limits.hostPaths[0]"),
    "an unknown limit": ({"limits": {"gpus": 1}}, 'unknown field "spec.limits.gpus"'),
    "another word than Refuse and Ignore": ({"reservedKeys": "ignore"}, "spec.reservedKeys: Unsupported value"),
    "backoff that begins above its end": (
        {"defaults": {"retries": {"backoff": {"initialSeconds": 20, "maxSeconds": 10}}}},
        "initialSeconds is greater than maxSeconds",
    ),
    "backoff that begins above the end that is not said": (
        {"defaults": {"retries": {"backoff": {"initialSeconds": 301}}}},
        "initialSeconds is greater than maxSeconds",
    ),
    "a writable data set of an image": (
        {"dataSets": {"heart": {"mri": {"image": {"reference": "acme/mri:1"}, "mode": "rw"}}}},
        "a data set from an image is read-only: leave mode out",
    ),
    "no spec": ({}, "spec: Required value"),
}


@pytest.mark.parametrize(("spec", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.row("B-26", "B-33")
def test_the_api_server_refuses_a_senseless_profile(kubectl: Kubectl, spec: dict[str, Any], said: str) -> None:
    body = {name: value for name, value in (profile() | {"spec": spec}).items() if value}
    assert said in kubectl("create", "-f", "-", stdin=body, check=False).stderr


# What says less than all that a rule looks at.
TAKEN: dict[str, dict[str, Any]] = {
    "where backoff begins": {"defaults": {"retries": {"backoff": {"initialSeconds": 10}}}},
    "where backoff begins, at its end": {"defaults": {"retries": {"backoff": {"initialSeconds": 300}}}},
    "where backoff ends": {"defaults": {"retries": {"backoff": {"maxSeconds": 600}}}},
    "backoff of nothing": {"defaults": {"retries": {"backoff": {}}}},
    "a data set of an image": {"dataSets": {"heart": {"mri": {"image": {"reference": "acme/mri:1"}}}}},
    "a data set of a claim": {"dataSets": {"heart": {"mri": {"persistentVolumeClaim": {"claimName": "mri"}}}}},
    "a TPU": {"defaults": {"accelerator": {"type": "v5p-8"}}},
    "a model of GPUs": {"defaults": {"accelerator": {"gpu": {"model": "nvidia-l4"}}}},
    "one exit code": {"defaults": {"retries": {"onExitCodes": {"ignore": [3]}}}},
}


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN)
def test_the_api_server_stores_a_profile_as_it_is_written(kubectl: Kubectl, spec: dict[str, Any]) -> None:
    kubectl.apply(profile() | {"spec": spec})
    assert kubectl.get("sjp", "default")["spec"] == spec


def test_a_variable_that_slipway_sets_is_no_error_in_a_profile(kubectl: Kubectl) -> None:  # K-04
    kubectl.apply(profile(env=[{"name": "TPU_WORKER_ID", "value": "7"}]))


def test_a_job_of_three_lines_gets_the_rest_from_its_profile(jobs: Jobs) -> None:
    jobs.kubectl.apply(
        profile(
            image=IMAGE,
            env=[{"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "TPU_WORKER_ID", "value": "7"}],
            podSecurityContext={"runAsUser": 12345, "fsGroup": 12345},
            retries={"maxFailures": 1},
            terminationGracePeriodSeconds=7,
        )
    )
    jobs.apply(**TPU, image=None, env=[{"name": "MINE", "value": "1"}])
    status = jobs.until("Running")
    (pod, *_) = jobs.pods()
    (worker,) = pod["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in worker["env"]}
    assert worker["image"] == IMAGE
    assert (variables["NCCL_DEBUG"], variables["MINE"]) == ("WARN", "1")
    assert variables["TPU_WORKER_ID"] != "7"
    assert pod["spec"]["securityContext"] == {"runAsUser": 12345, "fsGroup": 12345}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 7
    source = "SliceJobProfile default"
    assert {"field": "spec.image", "value": IMAGE, "source": source} in status["resolved"]["defaults"]
    assert {"field": "spec.env[NCCL_DEBUG]", "source": source} in status["resolved"]["defaults"]
    assert status["attempts"][0]["defaults"]["profile"] == "default"
    # The job itself stays as its author wrote it, so that GitOps finds no difference.
    assert "retries" not in jobs.kubectl.get("sj", "train")["spec"]
    jobs.kubectl.patch("pod", pod["metadata"]["name"], FAILED, status=True)
    result = jobs.until("Failed")["result"]
    assert "retries.maxFailures 1" in result["message"] or "maxFailures" in result["message"]


FAILED = '{"status": {"phase": "Failed", "reason": "", "containerStatuses": null}}'


def test_a_profile_that_is_missing_is_a_condition_until_it_is_there(jobs: Jobs) -> None:
    jobs.apply(**TPU, profile="train")
    jobs.until("Invalid")
    accepted = jobs.condition("Accepted")
    assert accepted["reason"] == "ProfileNotFound"
    assert "has no SliceJobProfile of that name (there: none)" in accepted["message"]
    assert jobs.pods() == []
    jobs.kubectl.apply(profile("train"))
    jobs.until("Running")


def test_without_an_image_anywhere_a_job_is_invalid(jobs: Jobs) -> None:  # F-22
    jobs.apply(image=None)
    jobs.until("Invalid")
    assert "no image: set spec.image" in jobs.condition("Accepted")["message"]
    jobs.kubectl.apply(profile(image=IMAGE))
    jobs.until("Running")


def test_a_changed_profile_touches_no_running_attempt_and_the_next_one_takes_it(jobs: Jobs) -> None:
    jobs.kubectl.apply(profile(image=IMAGE))
    jobs.apply(**TPU, image=None)
    jobs.until("Running")
    before = {pod["metadata"]["uid"] for pod in jobs.pods()}
    jobs.kubectl.apply(profile(image=OTHER))
    jobs.kubectl.apply(profile("another", image=OTHER))
    jobs.apply("later", image=None)
    jobs.until("Running", "later")
    assert {pod["metadata"]["uid"] for pod in jobs.pods()} == before
    name = jobs.pods()[0]["metadata"]["name"]
    jobs.kubectl.patch("pod", name, FAILED, status=True)
    jobs.until_true("attempt 1", lambda: jobs.pods(attempt=1))
    images = {one["image"] for pod in jobs.pods(attempt=1) for one in pod["spec"]["containers"]}
    assert images == {OTHER}
    newer, older = (attempt["defaults"]["generation"] for attempt in jobs.status()["attempts"])
    assert (newer, older) == (2, 1)


def test_a_limit_is_a_condition_that_names_profile_and_rule(jobs: Jobs) -> None:
    # One that runs may hear of the job before it hears of the profile.
    jobs.operator.stop()
    jobs.kubectl.apply(profile(limits={"maxSlices": 1}))
    jobs.operator.start()
    jobs.apply(**TPU)
    jobs.until("Invalid")
    accepted = jobs.condition("Accepted")
    assert accepted["reason"] == "ForbiddenBySite"
    assert accepted["message"] == (
        "spec.slices 2 is not allowed here (SliceJobProfile default, limits.maxSlices): at most 1"
    )
    jobs.kubectl.apply(profile(limits={"maxSlices": 2}))
    jobs.until("Running")


@pytest.mark.row("B-34")
def test_fields_that_a_workspace_decides_on_are_refused_until_the_profile_has_them_ignored(
    own_jobs: Callable[..., Jobs],
) -> None:
    """K-06, F-49"""
    jobs = own_jobs(image=IMAGE)
    claim = {"persistentVolumeClaim": {"claimName": "jobs"}}
    jobs.apply(**TPU, workspace=claim, workingDir="/app", securityContext={"runAsUser": 7, "runAsGroup": 7})
    jobs.until("Invalid")
    assert jobs.condition("Accepted")["reason"] == "ReservedField"
    jobs.kubectl.apply(profile() | {"spec": {"reservedKeys": "Ignore"}})
    worker = jobs.until_true("pods", jobs.pods)[0]["spec"]["containers"][0]
    assert worker["workingDir"] == "/var/tmp/slicejob/workspace/train"
    assert worker["securityContext"] == {"runAsGroup": 7}
    jobs.until_true("a warning", lambda: "ReservedFieldsIgnored" in jobs.events())


def test_an_operator_that_takes_over_knows_profiles_before_it_decides(jobs: Jobs) -> None:
    jobs.kubectl.apply(profile(image=IMAGE))
    jobs.apply(**TPU, image=None)
    jobs.until("Running")
    before = {pod["metadata"]["uid"] for pod in jobs.pods()}
    jobs.operator.kill()
    jobs.kubectl.apply(profile(image=OTHER))
    jobs.operator.start_again()
    jobs.apply("later", image=None)
    jobs.until("Running", "later")
    assert {pod["metadata"]["uid"] for pod in jobs.pods()} == before
    assert jobs.status()["attempt"] == 0
