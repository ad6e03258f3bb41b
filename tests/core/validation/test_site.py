"""What a site sets: defaults by job > profile > chart > built in, and limits that nobody widens."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slipway.api.places import FIRST
from slipway.api.profile import Defaults, ProfileSpec
from slipway.api.slicejob import DEFAULTABLE, SliceJobSpec
from slipway.api.status import AppliedDefaults, Attempt, DefaultValue, SliceJobStatus
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.containers import template_spec
from slipway.core.manifests.images import mirrored, pulled
from slipway.core.model.job import Settings
from slipway.core.model.site import CHART, NO_CHART, Choice, Profile, Site
from slipway.core.validation.acceptance import accept, changed_since, pod_factory, resolve, template_hash
from slipway.core.validation.limits import forbidden
from slipway.core.validation.reserved import reserved_keys
from slipway.core.validation.site import site_of
from slipway.core.validation.warnings import notices
from tests.core.build import World, spec

BY_PROFILE = "SliceJobProfile team"


def profile_spec(defaults: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> ProfileSpec:
    return ProfileSpec.model_validate({"defaults": defaults or {}, "limits": limits or {}})


def sited(
    job: dict[str, Any], profile: ProfileSpec | None = None, chart: ProfileSpec | None = None
) -> tuple[SliceJobSpec, Site]:
    known = Profile("team", 3, profile) if profile is not None else None
    values = Profile(CHART, spec=chart or ProfileSpec(), for_all=True)
    return site_of(SliceJobSpec.model_validate(job), values, Choice(known))


VALUES: dict[str, tuple[Any, Any, Any]] = {
    "accelerator": ({"type": "v5p-8"}, {"type": "v5p-16"}, {"type": "v5p-32"}),
    "image": ("job:1", "profile:1", "chart:1"),
    "imagePullPolicy": ("Always", "Never", "IfNotPresent"),
    "imagePullSecrets": ([{"name": "job"}], [{"name": "profile"}], [{"name": "chart"}]),
    "envFrom": ([{"prefix": "a"}], [{"prefix": "b"}], [{"prefix": "c"}]),
    "workingDir": ("/job", "/profile", "/chart"),
    "resources": ({"limits": {"cpu": 1}}, {"limits": {"memory": 2}}, {"requests": {"cpu": 3}}),
    "volumes": ([{"name": "job"}], [{"name": "profile"}], [{"name": "chart"}]),
    "volumeMounts": (
        [{"name": "a", "mountPath": "/a"}],
        [{"name": "b", "mountPath": "/b"}],
        [{"name": "c", "mountPath": "/c"}],
    ),
    "shmSize": ("1Gi", "2Gi", 3),
    "securityContext": ({"runAsUser": 1}, {"runAsGroup": 2}, {"runAsNonRoot": True}),
    "podSecurityContext": ({"fsGroup": 1}, {"runAsUser": 2}, {"runAsUser": 3}),
    "output": (
        {"volume": "a", "path": "/job"},
        {"volume": "a", "path": "/profile"},
        {"volume": "a", "path": "/chart"},
    ),
    "hostNetwork": (True, False, True),
    "serviceAccountName": ("job", "profile", "chart"),
    "nodeSelector": ({"a": "job"}, {"b": "profile"}, {"c": "chart"}),
    "tolerations": ([{"key": "job"}], [{"key": "profile"}], []),
    "priorityClassName": ("job", "profile", "chart"),
    "terminationGracePeriodSeconds": (1, 2, 3),
    "cancelGracePeriodSeconds": (1, 2, 3),
    "coordinator": ({"port": 1}, {"port": 2}, {"port": 3}),
    "retries": ({"maxFailures": 1}, {"maxPreemptions": 2}, {"enabled": False}),
    "timeouts": ({"startSeconds": 0}, {"scheduleSeconds": 2}, {"startSeconds": 3}),
    "activeDeadlineSeconds": (1, 2, 3),
    "ttlSecondsAfterFinished": (0, 2, 3),
}
"""Of each field that a profile may default: a value of the job, of the profile and of the chart."""


def test_every_defaultable_field_is_tried() -> None:
    assert VALUES.keys() | {"env"} == DEFAULTABLE


@pytest.mark.parametrize("field", VALUES)
@given(said=some.tuples(some.booleans(), some.booleans(), some.booleans()))
def test_the_strongest_level_that_says_anything_wins_as_a_whole(field: str, said: tuple[bool, bool, bool]) -> None:
    # F-50: all combinations of job > profile > chart > built in.
    by_job, by_profile, by_chart = (
        {field: value} if says else {} for value, says in zip(VALUES[field], said, strict=True)
    )
    found, site = sited(by_job, profile_spec(by_profile), profile_spec(by_chart))
    winner = next((one for one in (by_job, by_profile, by_chart) if one), {})
    expected = SliceJobSpec.model_validate(winner)
    assert found.model_dump() == expected.model_dump()
    source = None if by_job else BY_PROFILE if by_profile else CHART if by_chart else None
    assert [one.source for one in site.values] == ([source] if source else [])


NAMES = some.lists(some.sampled_from(["A", "B", "C", "TPU_WORKER_ID"]), unique=True)


@given(NAMES, NAMES, NAMES)
def test_variables_are_merged_by_name_and_those_that_slipway_sets_lose(
    job: list[str], profile: list[str], chart: list[str]
) -> None:
    # F-10, F-47, K-04
    job = [name for name in job if name != "TPU_WORKER_ID"]
    found, site = sited(
        {"env": [{"name": name, "value": "job"} for name in job]},
        profile_spec({"env": [{"name": name, "value": "profile"} for name in profile]}),
        profile_spec({"env": [{"name": name, "value": "chart"} for name in chart]}),
    )
    levels = {"chart": chart, "profile": profile, "job": job}
    expected = {name: level for level, names in levels.items() for name in names if name != "TPU_WORKER_ID"}
    assert {one.name: one.value for one in found.env} == expected
    # What is stronger comes later, because $(NAME) can only refer to variables before it.
    order = [list(levels).index(one.value or "") for one in found.env]
    assert order == sorted(order)
    assert all(one.value is None for one in site.values), "the status names variables and never shows them"


def test_variables_that_slipway_sets_for_ray_lose_too() -> None:
    profile = profile_spec({"env": [{"name": "RAY_ADDRESS", "value": "a"}]})
    assert sited({"ray": {"entrypoint": "a"}}, profile)[0].env == ()
    assert [one.name for one in sited({}, profile)[0].env] == ["RAY_ADDRESS"]


@pytest.mark.parametrize("level", ["profile", "chart"])
def test_ray_never_gets_the_network_of_the_nodes_from_a_site(level: str) -> None:
    layers = {level: profile_spec({"hostNetwork": True, "image": "a"})}
    found, site = sited({"ray": {"entrypoint": "a"}}, **layers)
    assert (found.host_network, [one.field for one in site.values]) == (None, ["spec.image"])
    assert sited({}, **layers)[0].host_network


def test_where_the_values_come_from_is_told() -> None:  # E1-20
    defaults = {
        "image": "train:1",
        "env": [{"name": "TOKEN", "value": "s3cret"}],
        "volumes": [{"name": "scratch", "csi": {"driver": "d", "volumeAttributes": {"password": "s3cret"}}}],
        "nodeSelector": {"pool": "a"},
    }
    _, site = sited({}, profile_spec(defaults), profile_spec({"priorityClassName": "batch"}))
    assert set(site.values) == {
        DefaultValue(field="spec.image", value="train:1", source=BY_PROFILE),
        DefaultValue(field="spec.env[TOKEN]", source=BY_PROFILE),
        DefaultValue(field="spec.volumes", value="scratch", source=BY_PROFILE),
        DefaultValue(field="spec.nodeSelector", value='{"pool": "a"}', source=BY_PROFILE),
        DefaultValue(field="spec.priorityClassName", value="batch", source=CHART),
    }


RESERVED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "K-06 F-49 B-34 all of them, sorted": (
        {
            "workingDir": "/app",
            "securityContext": {"runAsUser": 7, "runAsGroup": 8},
            "volumeMounts": [{"name": "v", "mountPath": one} for one in ("/ws/a", "/free")],
            "podTemplate": {
                "spec": {
                    "containers": [
                        {
                            "name": "worker",
                            "workingDir": "/app",
                            "tty": True,
                            "securityContext": {"runAsUser": 7},
                            "volumeMounts": [{"name": "v", "mountPath": one} for one in ("/ws", "/other")],
                        },
                        {"name": "log", "workingDir": "/a"},
                    ]
                }
            },
        },
        (
            "podTemplate.spec.containers[worker].securityContext.runAsUser",
            "podTemplate.spec.containers[worker].volumeMounts[/ws]",
            "podTemplate.spec.containers[worker].workingDir",
            "securityContext.runAsUser",
            "volumeMounts[/ws/a]",
            "workingDir",
        ),
    ),
    "one of them": ({"workingDir": "/app"}, ("workingDir",)),
    "none of them": ({"volumeMounts": [{"name": "v", "mountPath": "/free"}]}, ()),
}
IGNORING = ProfileSpec.model_validate({"reservedKeys": "Ignore"})
REFUSING = ProfileSpec.model_validate({"reservedKeys": "Refuse"})
WORKSPACE: dict[str, Any] = {
    "workspace": {"mountPath": "/ws", "persistentVolumeClaim": {"claimName": "a"}},
    "volumes": [{"name": "v", "emptyDir": {}}],
}


@pytest.mark.parametrize(("fields", "keys"), RESERVED.values(), ids=RESERVED)
@pytest.mark.row("B-34")
def test_fields_that_a_workspace_decides_on_are_ignored_where_the_site_says_so(
    fields: dict[str, Any], keys: tuple[str, ...]
) -> None:
    found, site = sited(WORKSPACE | fields, IGNORING)
    assert site.ignored == keys
    assert reserved_keys(found, template_spec(found)) == ()
    assert [one.reason for one in notices(found, site)] == ["ReservedFieldsIgnored"] * bool(keys)
    assert all(one.warning and ", ".join(f"spec.{key}" for key in keys) in one.message for one in notices(found, site))


def test_what_stands_beside_an_ignored_field_stays() -> None:
    fields, _ = RESERVED["K-06 F-49 B-34 all of them, sorted"]
    found, _ = sited(WORKSPACE | fields, IGNORING)
    assert found.model_dump(by_alias=True)["securityContext"] == {"runAsGroup": 8}
    assert [one.mount_path for one in found.volume_mounts] == ["/free"]
    worker, log = template_spec(found)["containers"]
    assert worker == {
        "name": "worker",
        "tty": True,
        "securityContext": {},
        "volumeMounts": [{"name": "v", "mountPath": "/other"}],
    }
    assert log == {"name": "log", "workingDir": "/a"}


LAYERS: dict[str, tuple[ProfileSpec | None, ProfileSpec | None, bool]] = {
    "nobody says anything": (None, None, False),
    "the profile": (IGNORING, None, True),
    "the chart": (None, IGNORING, True),
    "the chart, under a profile that says nothing": (ProfileSpec(), IGNORING, True),
    "the profile against the chart": (REFUSING, IGNORING, False),
    "the chart against the profile": (IGNORING, REFUSING, True),
}


@pytest.mark.parametrize(("profile", "chart", "ignored"), LAYERS.values(), ids=LAYERS)
def test_the_profile_decides_before_the_chart_what_becomes_of_such_fields(
    profile: ProfileSpec | None, chart: ProfileSpec | None, ignored: bool
) -> None:
    job = WORKSPACE | {"workingDir": "/app", "image": "a"}
    found, _ = sited(job, profile, chart)
    world = World(**job)
    world.sited = lambda given, _: sited(given.model_dump(by_alias=True, exclude_unset=True), profile, chart)
    assert (found.working_dir is None) is ignored
    if ignored:
        assert accept(world.job, Settings()).spec.working_dir is None
        assert accept(world.job, Settings()).resolved.template_hash == template_hash(world.job.written or spec())
    else:
        with pytest.raises(InvalidSpec, match=r"spec\.workingDir cannot be set beside spec\.workspace"):
            accept(world.job, Settings())


def test_a_default_of_the_site_that_a_workspace_decides_on_is_never_ignored() -> None:  # K-06
    profile = ProfileSpec.model_validate({"reservedKeys": "Ignore", "defaults": {"workingDir": "/site"}})
    found, site = sited(WORKSPACE | {"workingDir": "/app"}, profile)
    assert (found.working_dir, site.ignored) == ("/site", ("workingDir",))
    assert reserved_keys(found, template_spec(found)) == ("workingDir",)


def test_without_a_workspace_nothing_is_ignored() -> None:
    found, site = sited({"workingDir": "/app"}, IGNORING)
    assert (found.working_dir, site.ignored) == ("/app", ())


def test_a_pod_template_that_cannot_be_read_is_left_to_its_own_refusal() -> None:
    broken = {"podTemplate": {"spec": {"containers": [{"name": "worker", "volumeMounts": "none"}]}}}
    found, site = sited(WORKSPACE | broken | {"workingDir": "/app"}, IGNORING)
    assert (found.working_dir, site.ignored) == ("/app", ())


def test_without_a_site_nothing_is_added() -> None:
    given_spec = spec(slices=2)
    found, site = site_of(given_spec, NO_CHART)
    assert found is given_spec
    assert (site.applied, site.values) == (None, ())


def test_the_same_defaults_have_the_same_hash_whatever_the_limits() -> None:
    one = sited({}, profile_spec({"image": "a"}, {"maxSlices": 2}))[1].applied
    two = sited({}, profile_spec({"image": "a"}))[1].applied
    other = sited({}, profile_spec({"image": "b"}))[1].applied
    assert one is not None
    assert one == two == AppliedDefaults(profile="team", generation=3, hash=one.hash)
    assert other is not None
    assert other.hash != one.hash


def test_a_changed_default_is_no_change_of_the_spec() -> None:
    world = World(image=None)
    one, two = (profile_spec({"env": [{"name": name}], "image": "a"}) for name in "AB")
    world.sited = lambda given, _: site_of(given, NO_CHART, Choice(Profile("team", 1, one)))
    resolved = accept(world.job, Settings()).resolved
    world.status = world.status.model_copy(update={"resolved": resolved})
    world.sited = lambda given, _: site_of(given, NO_CHART, Choice(Profile("team", 2, two)))
    assert not changed_since(world.job, accept(world.job, Settings()).resolved)


@pytest.mark.parametrize(
    ("image", "expected"),
    {
        "python:3": "docker.io/library/python:3",
        "acme/train": "docker.io/acme/train",
        "docker.io/acme/train@sha256:1": "docker.io/acme/train@sha256:1",
        "localhost/a": "localhost/a",
        "registry:5000/a/b:1": "registry:5000/a/b:1",
    }.items(),
)
def test_an_image_without_a_registry_is_pulled_from_docker_hub(image: str, expected: str) -> None:
    assert pulled(image, {}) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    {
        "python:3": "mirror.example.com/hub/library/python:3",
        "ghcr.io/acme/train": "ghcr.io/acme/train",
    }.items(),
)
def test_images_of_a_mirrored_registry_are_pulled_from_the_mirror(image: str, expected: str) -> None:
    assert mirrored(image, {"docker.io": "mirror.example.com/hub"}) == expected


def test_all_containers_of_the_pods_are_pulled_from_the_mirror() -> None:
    world = World(
        podTemplate={"spec": {"initContainers": [{"name": "fetch", "image": "curl:1"}]}},
        volumes=[{"name": "tools", "image": {"reference": "tools:1"}}, {"name": "scratch", "emptyDir": {}}],
    )
    mirrors = profile_spec({"registryMirrors": {"docker.io": "mirror.example.com"}})
    world.sited = lambda given, _: site_of(given, NO_CHART, Choice(Profile("team", 1, mirrors)))
    found = pod_factory(world.job, Settings()).pod(0, FIRST)["spec"]
    images = [one["image"] for kind in ("initContainers", "containers") for one in found[kind]]
    assert images == ["mirror.example.com/library/curl:1", "mirror.example.com/library/busybox:1"]
    assert found["volumes"] == [
        {"name": "tools", "image": {"reference": "mirror.example.com/library/tools:1"}},
        {"name": "scratch", "emptyDir": {}},
    ]


def template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


def container(**context: Any) -> dict[str, Any]:
    return template(containers=[{"name": "side", "image": "side:1", "securityContext": context}])


APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
RAY = {"entrypoint": "python train.py"}
NODE = {"name": "node", "hostPath": {"path": "/data/sets"}}
NO_HOST_PATH: dict[str, Any] = {"name": "scratch", "emptyDir": {}, "hostPath": None}
PORT_OF_NODE = template(containers=[{"name": "a", "image": "side:1", "ports": [{"containerPort": 1, "hostPort": 1}]}])
# Each: limits, a job that they allow, a job that they refuse, and the beginning of what is said.
LIMITED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "types": (
        {"acceleratorTypes": ["v5litepod-*", "v5p-8"]},
        {"accelerator": {"type": "v5e-16"}},
        {"accelerator": {"type": "v5p-16"}},
        "spec.accelerator v5p-16 is not allowed here",
    ),
    "slices": ({"maxSlices": 2}, {"slices": 2}, {"slices": 3}, "spec.slices 3"),
    "the most slices": (
        {"maxSlices": 2}, {"acceptableSlices": [1, 2]}, {"acceptableSlices": [1, 4]}, "spec.acceptableSlices 4",
    ),
    "hosts": ({"maxHosts": 4}, {"slices": 2, "hosts": 2}, {"slices": 2, "hosts": 3}, "spec.slices 2 x 3 hosts"),
    "E1-06 hostPath": (
        {"hostPaths": ["/data/"]}, {"volumes": [NODE]}, {"volumes": [{"name": "a", "hostPath": {"path": "/database"}}]},
        "spec.volumes[0].hostPath.path /database",
    ),
    "hostPath that leads elsewhere": (
        {"hostPaths": ["/data"]}, {"volumes": [NODE]},
        {"volumes": [{"name": "a", "hostPath": {"path": "/data/../etc"}}]},
        "spec.volumes[0].hostPath.path /data/../etc",
    ),
    "the very hostPath of a limit with a final slash": (
        {"hostPaths": ["/data/"]}, {"volumes": [{"name": "a", "hostPath": {"path": "/data"}}]},
        {"volumes": [{"name": "a", "hostPath": {"path": "/dat"}}]}, "spec.volumes[0].hostPath.path /dat",
    ),
    "hostPath with two dots in a name": (
        {"hostPaths": ["/data"]}, {"volumes": [{"name": "a", "hostPath": {"path": "/data/a..b"}}]},
        {"volumes": [{"name": "a", "hostPath": {"path": "/sets/a..b"}}]},
        "spec.volumes[0].hostPath.path /sets/a..b",
    ),
    "B-21 hostPath in the template": (
        {"hostPaths": []}, {}, template(volumes=[NODE]), "spec.podTemplate.spec.volumes[0].hostPath.path /data/sets",
    ),
    "hostPath of a workspace": (
        {"hostPaths": ["/data"]}, {"workspace": {"hostPath": {"path": "/data/jobs"}}},
        {"workspace": {"hostPath": {"path": "/etc"}}}, "spec.workspace.hostPath.path /etc",
    ),
    "hostNetwork": ({"hostNetwork": False}, {"hostNetwork": False}, {"hostNetwork": True}, "spec.hostNetwork true"),
    "hostNetwork in the template": (
        {"hostNetwork": False}, {}, template(hostNetwork=True), "spec.podTemplate.spec.hostNetwork true",
    ),
    "a port of the node": (
        {"hostPorts": False}, {"hostNetwork": True}, PORT_OF_NODE,
        "spec.podTemplate.spec.containers[0].ports.hostPort 1",
    ),
    "a port of the node where nothing is said of single ports": (
        {"hostNetwork": False}, {}, PORT_OF_NODE, "spec.podTemplate.spec.containers[0].ports.hostPort 1",
    ),
    "all ports of the node where single ones are allowed": (
        {"hostNetwork": False, "hostPorts": True}, PORT_OF_NODE, {"hostNetwork": True}, "spec.hostNetwork true",
    ),
    "a port of the node for a sidecar": (
        {"hostPorts": False}, {},
        template(initContainers=[{"name": "a", "image": "a:1", "ports": [{"containerPort": 1, "hostPort": 1}]}]),
        "spec.podTemplate.spec.initContainers[0].ports.hostPort 1",
    ),
    "hostPID": ({"hostProcesses": False}, {}, template(hostPID=True), "spec.podTemplate.spec.hostPID true"),
    "hostIPC": ({"hostProcesses": False}, {}, template(hostIPC=True), "spec.podTemplate.spec.hostIPC true"),
    "privileged": (
        {"privileged": False}, {"securityContext": {"privileged": False, "capabilities": {"add": ["CHOWN"]}}},
        {"securityContext": {"privileged": True}}, "spec.securityContext.privileged true",
    ),
    "privileged sidecar": (
        {"privileged": False}, container(runAsUser=1), container(privileged=True),
        "spec.podTemplate.spec.containers[0].securityContext.privileged true",
    ),
    "capabilities": (
        {"privileged": False}, {}, container(capabilities={"add": ["CHOWN", "SYS_ADMIN"]}),
        "spec.podTemplate.spec.containers[0].securityContext.capabilities.add SYS_ADMIN",
    ),
    "unmasked /proc": (
        {"privileged": False}, {}, container(procMount="Unmasked"),
        "spec.podTemplate.spec.containers[0].securityContext.procMount Unmasked",
    ),
    "no seccomp profile": (
        {"privileged": False}, {}, {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "spec.podSecurityContext.seccompProfile.type Unconfined",
    ),
    "unsafe sysctl": (
        {"privileged": False}, {"podSecurityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
        template(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "spec.podTemplate.spec.securityContext.sysctls kernel.msgmax",
    ),
    "Windows host process": (
        {"privileged": False}, {}, {"podSecurityContext": {"windowsOptions": {"hostProcess": True}}},
        "spec.podSecurityContext.windowsOptions.hostProcess true",
    ),
    "another SELinux type": (
        {"privileged": False}, container(seLinuxOptions={"type": "container_init_t", "level": "s0"}),
        container(seLinuxOptions={"type": "spc_t"}),
        "spec.podTemplate.spec.containers[0].securityContext.seLinuxOptions spc_t",
    ),
    "no AppArmor profile by annotation": (
        {"privileged": False}, {},
        {"podTemplate": {"metadata": {"annotations": {f"{APPARMOR}worker": "unconfined"}}}},
        f"spec.podTemplate.metadata.annotations[{APPARMOR}worker] unconfined",
    ),
    "GPUs in Kubernetes' own words": (
        {"acceleratorTypes": ["v5p-8"]}, {"resources": {"limits": {"cpu": 1}}},
        {"resources": {"limits": {"nvidia.com/gpu": 8}}}, "spec.resources.limits nvidia.com/gpu",
    ),
    "GPUs of a Ray head": (
        {"acceleratorTypes": ["v5p-8"]}, {"ray": RAY | {"head": {"resources": {"limits": {"cpu": 1}}}}},
        {"ray": RAY | {"head": {"resources": {"limits": {"nvidia.com/gpu": 8}}}}},
        "spec.ray.head.resources.limits nvidia.com/gpu",
    ),
    "GPUs of a Ray head beside TPUs": (
        {"acceleratorTypes": ["v5p-8"]}, {"accelerator": {"type": "v5p-8"}, "ray": RAY},
        {
            "accelerator": {"type": "v5p-8"},
            "ray": RAY | {"head": {"resources": {"requests": {"amd.com/gpu": "1"}, "limits": {"amd.com/gpu": "1"}}}},
        },
        "spec.ray.head.resources.limits amd.com/gpu",
    ),
    "TPUs in Kubernetes' own words": (
        {"acceleratorTypes": ["nvidia.com/gpu"]}, {"resources": {"limits": {"nvidia.com/gpu": 8}}},
        {"resources": {"limits": {"google.com/tpu": 4}}}, "spec.resources.limits google.com/tpu",
    ),
    "claims of devices": (
        {"acceleratorTypes": []}, {}, template(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
        "spec.podTemplate.spec.resourceClaims of devices",
    ),
    "token of the default service account": (
        {"serviceAccounts": ["train"]}, {}, template(automountServiceAccountToken=True),
        "the token of service account default",
    ),
    "projected token of the default service account": (
        {"serviceAccounts": ["train"]}, {},
        {"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        "the token of service account default",
    ),
    "another port of a registry": (
        {"registries": ["registry.local"]}, {"image": "registry.local/a:1"}, {"image": "registry.local:8443/a:1"},
        "spec.image registry.local:8443/a:1",
    ),
    "a host in capitals": (
        {"registries": ["docker.io"]}, {"image": "acme/a:1"}, {"image": "ACME/a:1"}, "spec.image ACME/a:1",
    ),
    "service account": (
        {"serviceAccounts": ["default", "train-*"]}, {"serviceAccountName": "train-a"}, {"serviceAccountName": "admin"},
        "spec.serviceAccountName admin",
    ),
    "service account in the template": (
        {"serviceAccounts": ["default"]}, {}, template(serviceAccount="admin"),
        "spec.podTemplate.spec.serviceAccount admin",
    ),
    "priority class": (
        {"priorityClasses": ["batch"]}, {"priorityClassName": "batch"}, {"priorityClassName": "urgent"},
        "spec.priorityClassName urgent",
    ),
    "registry": (
        {"registries": ["docker.io/library", "ghcr.io/acme/"]}, {"image": "ghcr.io/acme/a:1"},
        {"image": "ghcr.io/acmes/a:1"}, "spec.image ghcr.io/acmes/a:1",
    ),
    "registry of a volume": (
        {"registries": ["docker.io/library"]}, {},
        {"volumes": [{"name": "a", "image": {"reference": "ghcr.io/acme/tools:1"}}]},
        "spec.volumes[0].image.reference ghcr.io/acme/tools:1",
    ),
    "registry of a sidecar": (
        {"registries": ["docker.io/library/busybox"]}, {}, container(runAsUser=1),
        "spec.podTemplate.spec.containers[0].image side:1",
    ),
    "hostPath beside one that is null": (
        {"hostPaths": ["/data"]}, {"volumes": [NO_HOST_PATH, NODE]},
        {"volumes": [NO_HOST_PATH, {"name": "a", "hostPath": {"path": "/etc"}}]},
        "spec.volumes[1].hostPath.path /etc",
    ),
    "hostPath beside volumes of the template that are null": (
        {"hostPaths": []}, template(volumes=None), template(volumes=None) | {"volumes": [NODE]},
        "spec.volumes[0].hostPath.path /data/sets",
    ),
    "privileged beside init containers that are null": (
        {"privileged": False}, template(initContainers=None),
        template(initContainers=None) | {"securityContext": {"privileged": True}},
        "spec.securityContext.privileged true",
    ),
    "registry beside an image that is null": (
        {"registries": ["docker.io/library"]}, template(containers=[{"name": "worker", "image": None}]),
        template(containers=[{"name": "worker", "image": None}]) | {"image": "ghcr.io/acme/a:1"},
        "spec.image ghcr.io/acme/a:1",
    ),
    "service account beside one that is null": (
        {"serviceAccounts": ["default"]}, template(serviceAccountName=None),
        template(serviceAccountName=None) | {"serviceAccountName": "admin"}, "spec.serviceAccountName admin",
    ),
    "priority class beside one that is null": (
        {"priorityClasses": ["batch"]}, template(priorityClassName=None),
        template(priorityClassName=None) | {"priorityClassName": "urgent"}, "spec.priorityClassName urgent",
    ),
}  # fmt: skip


def refusal(job: dict[str, Any], site: Site) -> str | None:
    world = World(**job | ({"hosts": None} if "accelerator" in job else {}))
    world.sited = lambda given, _: (given, site)
    try:
        accept(world.job, Settings())
    except InvalidSpec as problem:
        return problem.message if problem.reason == "ForbiddenBySite" else None
    return None


OPEN = {
    "hostPaths": ["/"],
    "hostNetwork": True,
    "hostProcesses": True,
    "privileged": True,
    "serviceAccounts": ["*"],
    "priorityClasses": ["*"],
}


@pytest.mark.parametrize("by", ["chart", "profile"])
@pytest.mark.parametrize(("limits", "allowed", "refused", "said"), LIMITED.values(), ids=LIMITED)
def test_what_a_limit_allows_and_refuses(
    by: str, limits: dict[str, Any], allowed: dict[str, Any], refused: dict[str, Any], said: str
) -> None:
    chart = profile_spec(limits=OPEN | (limits if by == "chart" else {}))
    profile = profile_spec(limits=limits if by == "profile" else {})
    _, site = sited({}, profile, chart)
    assert refusal(allowed, site) is None
    words = refusal(refused, site) or "nothing"
    assert words.startswith(said)
    assert f"({CHART}, site.limits." in words if by == "chart" else f"({BY_PROFILE}, limits." in words


LENT_BY_DEFAULT = {
    "hostPath": {"volumes": [NODE]},
    "hostPID": template(hostPID=True),
    "hostIPC": template(hostIPC=True),
    "privileged": {"securityContext": {"privileged": True}},
    "service account": {"serviceAccountName": "admin"},
    "system priority": {"priorityClassName": "system-cluster-critical"},
    "the network of the node": {"hostNetwork": True},
    "the network of the node by the template": template(hostNetwork=True),
    "a port of the node": PORT_OF_NODE,
    "the network of the node, and a count of no GPUs": {"hostNetwork": True, "accelerator": {"gpu": {"count": 0}}},
    "the network of the node, and none of its GPUs": {
        "hostNetwork": True, "resources": {"limits": {"nvidia.com/gpu": 0}},
    },
}  # fmt: skip


@pytest.mark.parametrize("job", LENT_BY_DEFAULT.values(), ids=LENT_BY_DEFAULT)
def test_what_no_job_gets_unless_the_site_allows_it(job: dict[str, Any]) -> None:
    _, closed = sited({})
    assert "is not allowed here" in (refusal(job, closed) or "")
    # A profile cannot allow what the chart does not.
    _, widened = sited({}, profile_spec(limits=OPEN))
    assert refusal(job, widened) == refusal(job, closed)
    _, opened = sited({}, None, profile_spec(limits=OPEN))
    assert refusal(job, opened) is None


ENDED = {"number": 0, "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:01:00Z"}


def test_a_job_gets_no_network_of_the_node_by_a_change_of_its_template() -> None:
    before = World()
    before.sited = lambda given, _: (given, sited({})[1])
    resolved = accept(before.job, Settings()).resolved
    changed = World(**PORT_OF_NODE)
    changed.sited = before.sited
    changed.status = SliceJobStatus(attempt=0, attempts=(Attempt.model_validate(ENDED),), resolved=resolved)
    with pytest.raises(InvalidSpec, match=r"ports\.hostPort 1 is not allowed here"):
        accept(changed.job, Settings())


@pytest.mark.parametrize("had_it", [True, False])
def test_a_job_gets_no_network_of_the_node_by_a_later_default(had_it: bool) -> None:
    given, by_default = sited({"hosts": 1}, profile_spec({"hostNetwork": True}))
    world = World()
    resolved = accept(world.job, Settings()).resolved
    world.sited = lambda spec, _: (spec.model_copy(update={"host_network": True}), by_default)
    defaults = tuple(by_default.values) if had_it else ()
    resolved = resolved.model_copy(update={"defaults": defaults})
    world.status = SliceJobStatus(attempt=0, attempts=(Attempt.model_validate(ENDED),), resolved=resolved)
    assert given.host_network
    if had_it:
        assert accept(world.job, Settings()).forbidden is None
        return
    with pytest.raises(InvalidSpec, match=r"spec\.hostNetwork true is not allowed here"):
        accept(world.job, Settings())


@pytest.mark.parametrize("job", [{"serviceAccountName": "default"}, {"priorityClassName": "batch"}])
def test_what_every_job_gets_unless_the_site_forbids_it(job: dict[str, Any]) -> None:
    assert refusal(job, sited({})[1]) is None


ON_ACCELERATORS: dict[str, dict[str, Any]] = {
    "TPUs": {"accelerator": {"type": "v5p-8"}},
    "GPUs": {"accelerator": {"gpu": {"vendor": "nvidia", "count": 8}}},
    "GPUs in Kubernetes' own words": {"resources": {"limits": {"nvidia.com/gpu": 8}}},
}


@pytest.mark.parametrize("job", ON_ACCELERATORS.values(), ids=ON_ACCELERATORS)
def test_jobs_on_accelerators_have_the_network_of_the_node_unless_the_site_forbids_it(job: dict[str, Any]) -> None:
    for wish in {"hostNetwork": True}, PORT_OF_NODE:
        assert refusal(job | wish, sited({})[1]) is None
        closed = sited({}, None, profile_spec(limits={"hostNetwork": False}))[1]
        assert "is not allowed here" in (refusal(job | wish, closed) or "")


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("wish", [{"hostNetwork": True}, PORT_OF_NODE], ids=["all of it", "a port"])
def test_a_job_that_was_accepted_keeps_the_network_of_the_node(wish: dict[str, Any], begun: bool) -> None:
    world = World(**wish)
    world.sited = lambda given, _: (given, sited({})[1])
    past = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    accepted = {"type": "Accepted", "status": "True", "reason": "SpecValid", "observedGeneration": 1} | past
    status = {"attempt": 0, "attempts": [ENDED]} if begun else {"conditions": [accepted]}
    world.status = SliceJobStatus.model_validate(status)
    assert accept(world.job, Settings()).forbidden is None
    # What the site itself forbids binds it as any other limit does.
    world.sited = lambda given, _: (given, sited({}, None, profile_spec(limits={"hostNetwork": False}))[1])
    with pytest.raises(InvalidSpec, match="is not allowed here"):
        accept(world.job, Settings())


@given(some.sampled_from(sorted(LIMITED)), some.booleans(), some.booleans())
def test_limits_of_chart_and_profile_intersect(name: str, in_chart: bool, in_profile: bool) -> None:
    limits, _, refused, _ = LIMITED[name]
    chart, profile = (limits if said else {} for said in (in_chart, in_profile))
    _, site = sited({}, profile_spec(limits=profile), profile_spec(limits=OPEN | chart))
    assert (refusal(refused, site) is not None) == (in_chart or in_profile)


@pytest.mark.parametrize(
    ("resource", "named", "refused"),
    [
        pytest.param("nvidia.com/a100", {}, True, id="GPUs under another name"),
        pytest.param("example.com/a100", {"nvidia": "example.com/a100"}, True, id="GPUs that the site has named"),
        pytest.param("example.com/a100", {}, False, id="what nobody has named"),
        pytest.param("nvidia.com/mlnxnics", {}, False, id="network cards"),
    ],
)
def test_which_resources_are_accelerators(resource: str, named: dict[str, str], refused: bool) -> None:
    given = {"accelerator": None, "resources": {"limits": {resource: 1}}}
    limits = {"limits": {"acceleratorTypes": ["v5p-8"]}, "gpus": {"resources": named}}
    found, site = sited(given, ProfileSpec.model_validate(limits))
    words = f"spec.resources.limits {resource} is not allowed"
    assert (words in (forbidden(found, {}, site, None, 1) or "")) == refused


@pytest.mark.parametrize(
    ("accelerator", "said"),
    [
        pytest.param({"type": "v5p-8"}, None, id="TPUs"),
        pytest.param({"gpu": {"vendor": "amd", "count": 1}}, "headWorkers needs", id="GPUs"),
    ],
)
def test_head_workers_are_an_amount_of_what_the_tpus_of_a_profile_offer(
    accelerator: dict[str, Any], said: str | None
) -> None:
    found, site = sited({"ray": RAY | {"headWorkers": 4}}, profile_spec({"accelerator": accelerator}))
    if said is None:
        assert resolve(found, Settings(), site.gpus).type == "v5p-8"
        return
    with pytest.raises(InvalidSpec, match=said):
        resolve(found, Settings(), site.gpus)


def test_a_default_of_the_profile_is_held_to_the_limits_too() -> None:
    found, site = sited({}, profile_spec({"serviceAccountName": "admin"}))
    assert "spec.serviceAccountName admin" in (forbidden(found, {}, site, None, 1) or "")


def gpus_of(job: dict[str, Any], **layers: dict[str, Any]) -> tuple[str | None, int | None]:
    """Resource and number of the GPUs of a job under a profile and a chart."""
    specs = {name: ProfileSpec.model_validate(layer) for name, layer in layers.items()}
    world = World(**job)
    world.sited = lambda given, _: site_of(
        given,
        Profile(CHART, spec=specs.get("chart", ProfileSpec()), for_all=True),
        Choice(Profile("team", 1, specs["profile"]) if "profile" in specs else None),
    )
    resolved = accept(world.job, Settings()).resolved
    return resolved.gpu_resource, resolved.gpus_per_host


TWO_BY_DEFAULT = {"defaults": {"accelerator": {"gpu": {"vendor": "amd", "count": 2}}}}
EIGHT = {"gpus": {"resources": {"nvidia": "nvidia.com/gpu"}, "perNode": 8}}
GPUS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str | None, int | None]]] = {
    "the site's default": ({}, {"profile": TWO_BY_DEFAULT}, ("amd.com/gpu", 2)),
    "the job's own": (
        {"accelerator": {"gpu": {"vendor": "nvidia", "count": 1}}}, {"profile": TWO_BY_DEFAULT}, ("nvidia.com/gpu", 1),
    ),
    "B-28 none in spite of the site's default": (
        {"accelerator": {"gpu": {"count": 0}}}, {"profile": TWO_BY_DEFAULT}, (None, None),
    ),
    "F-53 none in spite of the site's default in Kubernetes' words": (
        {"accelerator": {"gpu": {"count": 0}}},
        {"profile": {"defaults": {"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 4}}}}},
        (None, None),
    ),
    "E1-11 all of a node": ({"accelerator": {"gpu": {}}}, {"profile": EIGHT}, ("nvidia.com/gpu", 8)),
    "N-31 the site's only vendor": ({"accelerator": {"gpu": {"count": 2}}}, {"chart": EIGHT}, ("nvidia.com/gpu", 2)),
    "the profile before the chart": (
        {"accelerator": {"gpu": {}}},
        {"chart": EIGHT, "profile": {"gpus": {"resources": {"intel": "gpu.intel.com/xe"}, "perNode": 1}}},
        ("gpu.intel.com/xe", 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("job", "layers", "expected"), GPUS.values(), ids=GPUS)
@pytest.mark.row("B-28")
def test_the_gpus_of_a_job_under_its_site(  # F-53
    job: dict[str, Any], layers: dict[str, Any], expected: tuple[str | None, int | None]
) -> None:
    assert gpus_of(job, **layers) == expected


@pytest.mark.parametrize(
    ("profile", "job", "said"),
    {
        "a data set": (
            {"dataSets": {"heart": {"mri": {"hostPath": {"path": "/srv/mri"}}}}},
            {"study": "heart"},
            "dataSets.heart.mri.hostPath.path /srv/mri is not allowed here (the chart's values",
        ),
        "the workspaces": (
            {"defaults": {"workspace": {"hostPath": {"path": "/srv/jobs"}}}},
            {"workspace": {}},
            "defaults.workspace.hostPath.path /srv/jobs is not allowed here (the chart's values",
        ),
    }.values(),
)
def test_no_profile_lends_a_folder_of_a_node_that_the_chart_does_not(
    profile: dict[str, Any], job: dict[str, Any], said: str
) -> None:
    given, site = sited(job, ProfileSpec.model_validate(profile))
    assert (forbidden(given, {}, site, None, 1) or "").startswith(said)


def test_no_profile_lends_an_image_of_a_registry_that_the_chart_does_not_allow() -> None:
    data_sets = {"dataSets": {"heart": {"mri": {"image": {"reference": "evil.io/a:1"}}}}}
    chart = profile_spec(limits={"registries": ["docker.io"]})
    given, site = sited({"study": "heart", "image": "a:1"}, ProfileSpec.model_validate(data_sets), chart)
    said = forbidden(given, {}, site, None, 1) or ""
    assert said.startswith("dataSets.heart.mri.image.reference evil.io/a:1 is not allowed here (the chart's values")


def test_no_profile_lends_the_socket_of_a_container_engine() -> None:  # F-44
    data_sets = {"dataSets": {"heart": {"mri": {"hostPath": {"path": "/run"}}}}}
    given, site = sited({"study": "heart"}, ProfileSpec.model_validate(data_sets), profile_spec(limits=OPEN))
    assert "no path to the socket of the node's container engine" in (forbidden(given, {}, site, None, 1) or "")


def test_without_an_image_anywhere_the_places_to_set_it_are_named() -> None:  # F-22
    world = World(image=None)
    with pytest.raises(
        InvalidSpec, match=r"spec\.image .* defaults\.image of a SliceJobProfile, or the chart value site"
    ):
        accept(world.job, Settings())


@pytest.mark.parametrize(
    ("field", "value"),
    [("image", 1), ("env", "A=1"), ("registryMirrors", {"docker.io": ""}), ("shmSize", "2x"), ("command", ["sh"])],
)
def test_a_default_that_could_never_be_used_is_refused(field: str, value: Any) -> None:  # F-05, F-07, B-33
    with pytest.raises(ValueError, match=field):
        Defaults.model_validate({field: value})
