"""Directories, modules and studies on a real API server: what its rules refuse, and what its pods may have."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from slipway.api.places import FIRST
from slipway.api.workspace import DataSets
from slipway.core.model.job import Settings
from slipway.core.model.site import Site
from slipway.core.validation.acceptance import pod_factory
from tests.api.test_workspace import CLAIM, HOST
from tests.api.test_workspace import REFUSED as IN_THE_MODELS
from tests.controlplane.test_crd import job
from tests.core.build import World, world_at
from tests.kubectl import Kubectl
from tests.running import Jobs

MODULE: dict[str, Any] = {"pythonModule": {"module": "train.main"}}
RESULTS: dict[str, Any] = {"volumes": [{"name": "results", "emptyDir": {}}]}


def output(path: str = "/out", volume: str = "results") -> dict[str, Any]:
    return {"output": {"volume": volume, "path": path}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "B-06 F-31 command and pythonModule": (
        MODULE | {"command": ["a"]},
        "spec.pythonModule: Invalid value: command and pythonModule exclude each other",
    ),
    "args and pythonModule": (MODULE | {"args": ["a"]}, "args and pythonModule exclude each other"),
    "ray and pythonModule": (MODULE | {"ray": {"entrypoint": "a"}}, "pythonModule means nothing beside ray"),
    "an option without a value": (
        {"pythonModule": {"module": "a", "args": [{"name": "--b"}]}},
        "spec.pythonModule.args[0].value: Required value",
    ),
    "an unknown field of a workspace": ({"workspace": HOST | {"subDir": "a"}}, "subDir"),
    "N-37 a volume that is none": (
        RESULTS | output(volume="other"), "output.volume other is not the name of one of spec.volumes",
    ),
    "a path that is mounted": (
        RESULTS | output() | {"volumeMounts": [{"name": "results", "mountPath": "/out"}]}, "output.path is also",
    ),
    "a path in the workspace": (
        RESULTS | output("/ws/out") | {"workspace": CLAIM | {"mountPath": "/ws"}},
        "output.path is in workspace.mountPath",
    ),
    "a variable that only Slipway sets": (
        {"env": [{"name": "SLIPWAY_OUTPUT_DIR", "value": "/a"}]}, "SLIPWAY_OUTPUT_DIR is reserved",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
@pytest.mark.row("B-06", "N-37")
def test_contradictions_are_refused_by_the_api_server(kubectl_ro: Kubectl, mistake: str) -> None:
    changes, said = REFUSED[mistake]
    done = kubectl_ro("create", "--dry-run=server", "-f", "-", stdin=job(**changes), check=False)
    assert done.returncode != 0, "accepted"
    assert said in done.stderr


@pytest.mark.parametrize("mistake", IN_THE_MODELS)
@pytest.mark.row("B-32", "B-35", "B-37")
def test_what_the_models_refuse_the_api_server_refuses(kubectl_ro: Kubectl, mistake: str) -> None:
    changes, said = IN_THE_MODELS[mistake]
    done = kubectl_ro("create", "--dry-run=server", "-f", "-", stdin=job(**changes), check=False)
    assert done.returncode != 0, "accepted"
    # The same words where the rule is one of words; the schema has its own for types and for what is missing.
    in_words = said if said.startswith(("is ", "give ", "path ", "study ", "subdir ")) else "spec."
    assert in_words in done.stderr


@pytest.mark.parametrize("name", ["startup", "local"])
def test_a_job_may_not_have_the_folder_that_all_jobs_read(kubectl_ro: Kubectl, name: str) -> None:  # F-40
    words = "a job named local or startup cannot have the folder of its name"
    assert words in kubectl_ro.refuses(job(name, workspace=CLAIM), "--dry-run=server")
    for good in (job(name), job(name, workspace=CLAIM | {"subdir": "other"}), job("locally", workspace=CLAIM)):
        kubectl_ro("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=good)


ARGUMENTS = [{"name": "--n", "value": 3}, {"name": "--none", "value": None}, {"name": "--t", "value": "007"}]


def test_arguments_are_stored_as_they_are_written(kubectl: Kubectl) -> None:  # F-29
    body = job(pythonModule={"module": "a", "args": ARGUMENTS}, workspace=CLAIM)
    for create in (("create",), ("apply", "--server-side")):
        kubectl(*create, "-f", "-", stdin=body)
        stored = kubectl.get("sj", "train")["spec"]
        assert stored["pythonModule"]["args"] == ARGUMENTS
        assert stored["workspace"]["mountPath"] == "/var/tmp/slicejob/workspace"
        kubectl("delete", "sj", "train")


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "workspace": ({"workspace": CLAIM}, {"workspace": CLAIM | {"subdir": "b"}}),
    "study": ({"study": "a"}, {"study": "b"}),
    "output": (RESULTS | output(), RESULTS | output("/b")),
    "pythonModule": (
        {"pythonModule": {"module": "a", "args": ARGUMENTS}},
        {"pythonModule": {"module": "a", "args": [ARGUMENTS[0] | {"value": "3"}, *ARGUMENTS[1:]]}},
    ),
}


@pytest.mark.parametrize("field", CHANGES)
def test_none_of_them_changes_after_creation(kubectl: Kubectl, field: str) -> None:
    before, after = CHANGES[field]
    kubectl.apply(job(**before))
    assert f"{field} cannot change after creation" in kubectl.refuses(job(**after))
    kubectl.apply(job(**before))


CSI = {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": True, "volumeAttributes": {"bucketName": "data"}}
VOLUMES: dict[str, dict[str, Any]] = {
    "a CSI volume": {"csi": CSI},
    "an image": {"image": {"reference": "registry.local/weights:1", "pullPolicy": "IfNotPresent"}},
    "an ephemeral claim": {
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        }
    },
}


def as_stored(kubectl: Kubectl, world: World, settings: Settings | None = None) -> Any:
    """The pod of a job as the API server would store it."""
    body = pod_factory(replace(world.job, namespace=kubectl.namespace), settings or Settings()).pod(0, FIRST)
    done = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=body)
    return json.loads(done.stdout)["spec"]


@pytest.mark.parametrize("source", VOLUMES.values(), ids=VOLUMES)
def test_volumes_of_any_kind_reach_the_pods(kubectl: Kubectl, source: dict[str, Any]) -> None:
    mounted = {"name": "v", "mountPath": "/v", "readOnly": True}
    fields = {"volumes": [{"name": "v", **source}], "volumeMounts": [mounted]}
    kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=job(**fields))
    found = as_stored(kubectl, World(**fields))
    [(kind, wanted)] = source.items()
    assert found["volumes"][0][kind].items() >= (wanted if kind != "ephemeral" else {}).items()
    assert mounted in found["containers"][0]["volumeMounts"]


def test_the_api_server_takes_pods_with_directories(kubectl: Kubectl) -> None:
    """In a namespace that enforces the Pod Security Standard `restricted`."""
    kubectl("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted")
    site = Site(
        data_sets=TypeAdapter(DataSets).validate_python(
            {"heart": {"mri": CLAIM, "scans": {"csi": CSI}, "weights": {"image": {"reference": "a/b:1"}}}}
        ),
    )
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    claim = {"volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}]}
    # An inline CSI volume is taken only of a driver that says so.
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {
            "name": CSI["driver"],
            "labels": {"security.kubernetes.io/csi-ephemeral-volume-profile": "restricted"},
        },
        "spec": {"volumeLifecycleModes": ["Ephemeral"]},
    }
    kubectl.apply(driver)
    fields: dict[str, Any] = {
        "workspace": CLAIM | {"startup": True},
        "study": "heart",
        "securityContext": own,
        "podSecurityContext": {"runAsUser": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    found = as_stored(kubectl, world_at(site, **fields, **claim, **output()))
    assert [one["name"] for one in found["initContainers"]] == ["slipway-workspace"]
    assert found["securityContext"]["runAsUser"] == 1000
    assert {one["mountPath"] for one in found["containers"][0]["volumeMounts"]} >= {
        "/var/tmp/slicejob/workspace/train", "/data/heart/scans", "/data/heart/weights", "/out",
    }  # fmt: skip


def test_an_operator_that_cannot_make_directories_says_so(jobs: Jobs) -> None:
    jobs.apply(workspace=CLAIM, command=["true"])
    jobs.until("Invalid")
    accepted = jobs.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "start the operator with --image, or set SLIPWAY_IMAGE" in accepted["message"]


@pytest.mark.row("B-37")
def test_an_unknown_study_is_said_in_the_status(jobs: Jobs) -> None:
    jobs.apply(study="brain", command=["true"])
    jobs.until("Invalid")
    assert jobs.condition("Accepted")["message"] == "spec.study 'brain' is not known: this site has no studies"


def test_an_output_without_any_volume_is_said_in_the_status(jobs: Jobs) -> None:
    # The API server takes it, because the volumes may be those of the profile.
    jobs.apply(**output(), command=["true"])
    jobs.until("Invalid")
    assert "output.volume results is not the name of one of spec.volumes" in jobs.condition("Accepted")["message"]
    jobs.kubectl("delete", "sj", "train")
    defaults = {"defaults": {"volumes": [{"name": "results", "emptyDir": {}}]}}
    profile = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": "default"}}
    jobs.kubectl.apply(profile | {"spec": defaults})
    jobs.apply("later", **output(), command=["true"])
    jobs.until("Invalid", "later")
    message = jobs.condition("Accepted", "later")["message"]
    assert "spec.output needs the image of the operator" in message
