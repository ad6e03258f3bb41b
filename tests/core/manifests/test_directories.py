"""The directories of a job: what its pods mount, what its program finds, and what is refused beside them."""

import json
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.names import RAY_CONTAINER, WORKSPACE_CONTAINER
from slipway.api.places import FIRST, HEAD
from slipway.api.profile import ProfileSpec
from slipway.api.workspace import WorkspaceVolume
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.containers import template_spec
from slipway.core.model.job import Settings
from slipway.core.model.site import NO_CHART, UNKNOWN_SITE, Choice, Profile, Site
from slipway.core.validation.acceptance import accept, pod_factory, resolve
from slipway.core.validation.reserved import reserved_keys
from slipway.core.validation.site import site_of
from tests.core.build import World, spec, world_at
from tests.core.manifests.test_pods import environment, make

ROOT = "/var/tmp/slicejob/workspace"
CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "shared"}}
HOST: dict[str, Any] = {"hostPath": {"path": "/srv/jobs"}}
RESULTS: dict[str, Any] = {
    "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
    "output": {"volume": "results", "path": "/out"},
}
PER_ATTEMPT = RESULTS | {"output": RESULTS["output"] | {"perAttempt": True}}


def asking(**fields: Any) -> dict[str, Any]:
    return {"workspace": CLAIM | fields}


def template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


def worker(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "worker", **fields}])


def container(pod: Any, name: str = "worker") -> Any:
    everyone = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    [found] = [one for one in everyone if one["name"] == name]
    return found


def orders(pod: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(container(pod, WORKSPACE_CONTAINER)["command"][-1])
    return found


def refused(settings: Settings | None = None, **fields: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        accept(World(**fields).job, settings or Settings())
    return caught.value


# What is mounted.


def test_only_the_job_s_own_directory_of_the_volume_is_mounted() -> None:  # F-34, F-35, F-36, F-37, F-38, F-41
    pod = make(**asking())
    assert pod["spec"]["volumes"] == [
        {"name": "slipway-workspace-root", "emptyDir": {"medium": "Memory"}},
        {"name": "slipway-workspace"} | CLAIM,
    ]
    assert container(pod)["volumeMounts"] == [
        {"name": "slipway-workspace-root", "mountPath": ROOT},
        {"name": "slipway-workspace", "mountPath": f"{ROOT}/train", "subPath": "train"},
    ]
    assert container(pod)["workingDir"] == f"{ROOT}/train"


def test_the_folders_that_jobs_share_are_read_only_and_come_first() -> None:  # F-35
    pod = make(**asking(startup=True, local=True, mountPath="/ws", subdir="mine"))
    assert container(pod)["volumeMounts"] == [
        {"name": "slipway-workspace-root", "mountPath": "/ws"},
        {"name": "slipway-workspace", "mountPath": "/ws/startup", "subPath": "startup", "readOnly": True},
        {"name": "slipway-workspace", "mountPath": "/ws/local", "subPath": "local", "readOnly": True},
        {"name": "slipway-workspace", "mountPath": "/ws/mine", "subPath": "mine"},
    ]
    assert container(pod)["workingDir"] == "/ws/mine"
    [order] = orders(pod)
    assert (order["make"], order["need"]) == ("mine", ["startup", "local"])


def test_a_folder_of_the_nodes_must_exist_on_each_of_them() -> None:
    [_, volume] = make(workspace=HOST)["spec"]["volumes"]
    assert volume == {"name": "slipway-workspace", "hostPath": {"path": "/srv/jobs", "type": "Directory"}}


def test_jobs_without_directories_are_as_they_were() -> None:  # K-07
    given = {
        "workingDir": "/app",
        "securityContext": {"runAsUser": 7},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": f"{ROOT}/v"}],
    }
    pod = make(**given)
    assert {name: container(pod).get(name, pod["spec"].get(name)) for name in given} == given
    assert "initContainers" not in pod["spec"]
    assert not {"USER", "HOME", "PYTHONPATH", "SLIPWAY_OUTPUT_DIR"} & environment(pod).keys()


def test_a_ray_head_has_the_directories_too_and_makes_them_before_ray_starts() -> None:
    pod = make(HEAD, **asking(), ray={"entrypoint": "python a.py"})
    assert [one["name"] for one in pod["spec"]["initContainers"]] == [WORKSPACE_CONTAINER, RAY_CONTAINER]
    ray = container(pod, RAY_CONTAINER)
    assert ray["workingDir"] == f"{ROOT}/train"
    assert {"name": "USER", "value": "slicejob"} in ray["env"]


def test_init_containers_of_the_template_find_the_directories_made() -> None:
    pod = make(**asking(), **template(initContainers=[{"name": "fetch", "image": "a"}]))
    assert [one["name"] for one in pod["spec"]["initContainers"]] == [WORKSPACE_CONTAINER, "fetch"]


# What the program finds.

VARIABLES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "F-45 K-05 defaults": ({}, {"USER": "slicejob", "HOME": "/tmp"}),
    "K-05 the job's own win": (
        {"env": [{"name": "USER", "value": "ann"}, {"name": "PYTHONPATH", "value": "/p"}]},
        {"USER": "ann", "HOME": "/tmp", "PYTHONPATH": "/p"},
    ),
    "K-05 so do the template's": (worker(env=[{"name": "HOME", "value": "/h"}]), {"USER": "slicejob", "HOME": "/h"}),
}


@pytest.mark.parametrize(("fields", "expected"), VARIABLES.values(), ids=VARIABLES)
def test_user_and_home_are_defaults(fields: dict[str, Any], expected: dict[str, str]) -> None:
    found = environment(make(**asking(pythonPaths=["a"] if "PYTHONPATH" in expected else []), **fields))
    assert {name: found[name] for name in ("USER", "HOME", "PYTHONPATH") if name in found} == expected


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["train/custom", "local/custom"], f"{ROOT}/train/custom:{ROOT}/local/custom"),
        ([], None),
        (["a/$(X)"], f"{ROOT}/a/$$(X)"),
    ],
    ids=["F-46 joined in order", "F-46 F-48 none", "nothing is expanded"],
)
def test_python_paths_are_below_the_workspace(paths: list[str], expected: str | None) -> None:
    assert environment(make(**asking(pythonPaths=paths))).get("PYTHONPATH") == expected


# The init container.


def test_the_init_container_needs_nothing_that_the_restricted_standard_forbids() -> None:
    found = container(make(**asking()), WORKSPACE_CONTAINER)
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert found["image"] == Settings().operator_image
    assert found["command"][:4] == ["python3", "-I", "-m", "slipway.workspace_check"]
    assert found["volumeMounts"] == [{"name": "slipway-workspace", "mountPath": "/volumes/workspace"}]
    assert found["resources"]["requests"] == found["resources"]["limits"]


USERS: dict[str, tuple[dict[str, Any], int | None]] = {
    "the image's": (asking(), None),
    "the pod's": (asking() | template(securityContext={"runAsUser": 12345}), 12345),
    "root by choice": (asking() | template(securityContext={"runAsUser": 0}), 0),
    "the container's": (RESULTS | {"securityContext": {"runAsUser": 7}}, 7),
    "the container's before the pod's": (
        RESULTS | template(securityContext={"runAsUser": 8}, containers=[{"name": "worker", "securityContext": {}}])
        | {"securityContext": {"runAsUser": 7}},
        7,
    ),
    "the template's container before all": (RESULTS | worker(securityContext={"runAsUser": 9}), 9),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "user"), USERS.values(), ids=USERS)
def test_directories_are_made_by_the_user_who_works_in_them(fields: dict[str, Any], user: int | None) -> None:
    pod = make(**fields)
    context = container(pod, WORKSPACE_CONTAINER)["securityContext"]
    assert (context.get("runAsUser"), context.get("runAsNonRoot", False)) == (user, user != 0)
    assert {one["mine"] for one in orders(pod)} == {user is not None}


def test_the_user_of_a_site_owns_its_workspaces() -> None:  # F-43
    user = {"runAsUser": 1000, "runAsGroup": 100, "fsGroup": 100}
    profile = Profile("a", spec=ProfileSpec.model_validate({"defaults": {"podSecurityContext": user}}))
    given, site = site_of(spec(**asking()), NO_CHART, Choice(profile))
    pod = make(site=site, **given.model_dump(by_alias=True, exclude_unset=True))
    assert pod["spec"]["securityContext"] == user
    assert container(pod, WORKSPACE_CONTAINER)["securityContext"]["runAsUser"] == 1000


@pytest.mark.parametrize("field", ["workspace", "output"])
def test_without_an_image_of_the_operator_such_jobs_are_refused(field: str) -> None:
    fields = asking() if field == "workspace" else RESULTS
    assert refused(Settings(operator_image=""), **fields).message == (
        f"spec.{field} needs the image of the operator, which makes the directories of the job on its nodes: start "
        "the operator with --image, or set SLIPWAY_IMAGE"
    )


# Where the workspaces are.


@pytest.mark.row("B-31")
def test_a_workspace_without_a_volume_is_refused_naming_the_ways_to_have_one() -> None:  # F-02
    error = refused(workspace={})
    assert error.reason == "InvalidSpec"
    for way in (
        "spec.workspace.persistentVolumeClaim",
        "spec.workspace.hostPath",
        "defaults.workspace of the SliceJobProfile",
    ):
        assert way in error.message


def test_the_volume_of_the_site_comes_after_the_job_s_own() -> None:  # F-01, F-02
    site = Site(workspace=WorkspaceVolume.model_validate(HOST), limits=())
    of_site = make(site=site, workspace={})["spec"]["volumes"][1]
    own = make(site=site, workspace=CLAIM)["spec"]["volumes"][1]
    assert ("hostPath" in of_site, "persistentVolumeClaim" in own) == (True, True)
    assert make(site=site)["spec"].get("volumes") is None


def test_clients_leave_the_volume_to_the_operator() -> None:
    assert accept(world_at(UNKNOWN_SITE, workspace={}).job, Settings()).resolved.hosts == 1


@pytest.mark.parametrize("name", ["startup", "local"])
def test_a_job_may_not_have_the_directory_that_all_jobs_read(name: str) -> None:  # F-40
    job = replace(World(**asking()).job, name=name)
    with pytest.raises(InvalidSpec) as caught:
        accept(job, Settings())
    assert "a job named local or startup cannot have the folder of its name" in caught.value.message
    assert accept(replace(World(**asking(subdir="other")).job, name=name), Settings())


@pytest.mark.row("B-25")
def test_no_workspace_leads_to_the_container_engine() -> None:  # F-44
    message = refused(workspace={"hostPath": {"path": "/var/run"}}).message
    assert message.startswith("spec.workspace.hostPath.path '/var/run' gives the pods the socket")


# What a workspace decides on.

RESERVED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "B-30 K-07 all of them, sorted": (
        {
            "workingDir": "/app",
            "securityContext": {"runAsUser": 7, "privileged": True},
            "volumeMounts": [{"name": "v", "mountPath": one} for one in (f"{ROOT}/a", "/free", ROOT)],
        },
        ("securityContext.runAsUser", f"volumeMounts[{ROOT}/a]", f"volumeMounts[{ROOT}]", "workingDir"),
    ),
    "in the template": (
        worker(workingDir="/app", securityContext={"runAsUser": 7}, volumeMounts=[{"mountPath": f"{ROOT}//x"}]),
        tuple(
            f"podTemplate.spec.containers[worker].{one}"
            for one in ("securityContext.runAsUser", f"volumeMounts[{ROOT}//x]", "workingDir")
        ),
    ),
    "neighbours are free": (
        {"volumeMounts": [{"name": "v", "mountPath": f"{ROOT}s"}], "securityContext": {"privileged": True}}, (),
    ),
    "the user of the whole pod is free": (template(securityContext={"runAsUser": 7}), ()),
    "so are sidecars": (template(containers=[{"name": "log", "workingDir": "/a"}]), ()),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "keys"), RESERVED.values(), ids=RESERVED)
@pytest.mark.row("B-30")
def test_what_a_workspace_decides_on_is_refused_beside_it(fields: dict[str, Any], keys: tuple[str, ...]) -> None:
    given = spec(**asking(), **fields)
    assert reserved_keys(given, template_spec(given)) == keys
    assert reserved_keys(spec(**fields), template_spec(given)) == ()
    if keys:
        error = refused(**asking(), **fields)
        assert error.reason == "ReservedField"
        assert error.message.startswith(", ".join(f"spec.{key}" for key in keys) + " cannot be set beside")
        assert "it gives the job its working directory" in error.message
    else:
        assert resolve(given, Settings())


def test_the_name_of_the_init_container_is_taken() -> None:
    clash = template(initContainers=[{"name": WORKSPACE_CONTAINER, "image": "a"}])
    assert refused(**asking(), **clash).reason == "ReservedField"
    assert resolve(spec(**clash), Settings())


# The output.


@pytest.mark.parametrize(
    ("fields", "attempt", "directory"),
    [(RESULTS, 3, "train"), (PER_ATTEMPT, 0, "train/0"), (PER_ATTEMPT, 3, "train/3")],
    ids=["N-37 one for the job", "one for the first attempt", "one for a later attempt"],
)
def test_a_job_has_an_output_directory_of_its_own(fields: dict[str, Any], attempt: int, directory: str) -> None:
    pod = make(attempt=attempt, **fields)
    assert container(pod)["volumeMounts"] == [{"name": "results", "mountPath": "/out", "subPath": directory}]
    assert environment(pod)["SLIPWAY_OUTPUT_DIR"] == "/out"
    [order] = orders(pod)
    assert (order["make"], order["field"], order["need"]) == (directory, "spec.output", [])
    mounts = container(pod, WORKSPACE_CONTAINER)["volumeMounts"]
    assert mounts == [{"name": "results", "mountPath": "/volumes/output"}]
    assert "workingDir" not in container(pod)


OUTPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "N-37 a volume that is none": (
        {"output": {"volume": "results", "path": "/out"}},
        "spec.output.volume: output.volume results is not the name of one of spec.volumes",
    ),
    "mounted twice": (
        RESULTS | {"volumeMounts": [{"name": "results", "mountPath": "/out"}]}, "spec.output.path: output.path is also",
    ),
    "in the workspace": (
        asking() | RESULTS | {"output": {"volume": "results", "path": f"{ROOT}/out"}},
        "spec.output.path: output.path is in workspace.mountPath",
    ),
    "a variable that only Slipway sets": (
        {"env": [{"name": "SLIPWAY_OUTPUT_DIR", "value": "/a"}]}, "spec.env[SLIPWAY_OUTPUT_DIR] is reserved",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_that_cannot_be_mounted_is_refused(fields: dict[str, Any], said: str) -> None:
    assert refused(**fields).message.startswith(said)


# Whatever the job.

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
FOLDERS = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True).filter(
    lambda one: one not in ("startup", "local")
)


@given(name=NAMES, subdir=st.none() | FOLDERS, attempt=st.integers(0, 99), per_attempt=st.booleans())
def test_no_job_mounts_more_than_its_own_directories_of_a_volume(
    name: str, subdir: str | None, attempt: int, per_attempt: bool
) -> None:  # F-37, F-41
    fields = asking(**({"subdir": subdir} if subdir else {})) | (PER_ATTEMPT if per_attempt else RESULTS)
    job = replace(World(**fields).job, name=name if name not in ("startup", "local") else "other")
    for mount in container(pod_factory(job, Settings()).pod(attempt, FIRST))["volumeMounts"]:
        assert "subPathExpr" not in mount
        if mount["name"] in ("slipway-workspace", "results"):
            first, *rest = PurePosixPath(mount["subPath"]).parts
            assert first == (subdir or job.name if mount["name"] == "slipway-workspace" else job.name)
            assert rest in ([], [str(attempt)])
