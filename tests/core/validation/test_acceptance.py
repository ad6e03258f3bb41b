"""What is refused before anything runs, what is noticed of a spec that changed, and what always works."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api import crd
from slipway.api.reading import read_spec
from slipway.api.slicejob import CHANGEABLE, CHANGEABLE_WHILE_SUSPENDED, SliceJobSpec
from slipway.client.environment_listing import listing
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.redact import redacted
from slipway.core.model.job import Settings
from slipway.core.model.site import Site
from slipway.core.planner.contract.actions import Check, CreatePods, DeleteJob
from slipway.core.validation import acceptance
from slipway.core.validation.acceptance import OPAQUE, changed_since, pod_factory, resolve, template_hash
from tests.core.build import World, actions_of, spec


def test_a_default_is_no_change_so_that_a_newer_slipway_knows_older_jobs() -> None:
    given = {"hosts": 2}
    spelled_out = given | {"slices": 1, "suspend": False, "volumes": [], "accelerator": None}
    assert template_hash(spec(**given)) == template_hash(spec(**spelled_out))


@pytest.mark.row("B-60")
def test_a_hidden_change_of_the_template_keeps_the_next_attempt_back() -> None:
    world = World(podTemplate={"spec": {"dnsPolicy": "Default"}}).run()
    world.fields["podTemplate"] = {"spec": {"dnsPolicy": "None"}}
    world.settle()
    assert world.status.phase == "Running"
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "SpecChanged")
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.phase == "Restarting"
    assert not actions_of(world.plan(), CreatePods)
    running = world.condition("Running")
    assert running is not None
    assert running.reason == "SpecChanged"
    world.fields["podTemplate"] = {"spec": {"dnsPolicy": "Default"}}
    world.settle()
    assert world.status.attempt == 1


def test_a_template_that_was_changed_before_the_job_was_seen_suspended_is_accepted_when_it_is_suspended_again() -> None:
    world = World().run()
    # Suspended, changed and resumed before the operator looked.
    world.fields["podTemplate"] = {"spec": {"nodeSelector": {"a": "b"}}}
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert "set spec.suspend to true, wait for that phase" in accepted.message
    for suspended in (True, False):
        world.fields["suspend"] = suspended
        world.until_restarted()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, world.status.attempt, world.status.phase) == ("True", 1, "Starting")


@pytest.mark.parametrize("field", sorted(set(SliceJobSpec.model_fields) - OPAQUE))
def test_a_field_that_cel_compares_is_not_in_the_hash_so_that_it_may_become_changeable(field: str) -> None:
    given: dict[str, Any] = {
        "profile": "a", "accelerator": {"type": "v5p-8"}, "hosts": 2, "one_host_per_node": True, "slices": 2,
        "acceptable_slices": [2], "managed_by": "kueue.x-k8s.io/multikueue",
        "image": "b", "image_pull_policy": "Always", "image_pull_secrets": [{"name": "a"}], "command": ["a"],
        "args": ["a"], "working_dir": "/a", "volume_mounts": [{"name": "a", "mountPath": "/a"}], "shm_size": 1,
        "host_network": True, "service_account_name": "a", "node_selector": {"a": "b"}, "tolerations": [{"key": "a"}],
        "priority_class_name": "a", "termination_grace_period_seconds": 9, "coordinator": {"port": 9},
        "retries": {"maxFailures": 9}, "timeouts": {"startSeconds": 9}, "active_deadline_seconds": 9,
        "ttl_seconds_after_finished": 9, "suspend": True, "cancel": True, "cancel_grace_period_seconds": 9,
        "workspace": {"hostPath": {"path": "/a"}}, "study": "a", "output": {"volume": "a", "path": "/a"},
        "python_module": {"module": "a", "args": [{"name": "--a", "value": 1}]},
        "progress": {"pattern": "(?P<step>[0-9]+)"},
    }  # fmt: skip
    assert template_hash(spec()) == template_hash(spec(**{field: given[field]}))


def test_every_field_with_parts_that_cel_cannot_compare_is_in_the_hash() -> None:
    def opaque(node: Any) -> bool:
        if isinstance(node, list):
            return any(map(opaque, node))
        return isinstance(node, dict) and (
            bool(node.get("x-kubernetes-preserve-unknown-fields")) or any(map(opaque, node.values()))
        )

    properties = crd.openapi_schema()["properties"]["spec"]["properties"]
    names = {field.alias: name for name, field in SliceJobSpec.model_fields.items()}
    assert {names[alias] for alias, node in properties.items() if opaque(node)} <= OPAQUE


def test_changeable_fields_are_fields() -> None:
    aliases = {field.alias for field in SliceJobSpec.model_fields.values()}
    assert aliases >= CHANGEABLE | CHANGEABLE_WHILE_SUSPENDED


@pytest.mark.parametrize("theirs", ["0123456789ab-0123456789ab", "v1:0123456789ab-0123456789ab"])
def test_a_job_that_another_version_accepted_goes_on_and_gets_the_hash_of_this_one(theirs: str) -> None:
    world = World(priorityClassName="high").run()
    assert world.status.resolved is not None
    mine = world.status.resolved.template_hash
    older = world.status.resolved.model_copy(update={"template_hash": theirs})
    world.status = world.status.model_copy(update={"resolved": older})
    assert not changed_since(world.job, resolve(spec(priorityClassName="high"), Settings()))
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.attempt == 1
    assert world.status.resolved.template_hash == mine


def test_a_job_that_an_older_version_accepted_gets_its_next_attempt_although_it_would_be_refused_today() -> None:
    world = World(hosts=1).run()
    world.fields["volumes"] = [{"name": "engine", "hostPath": {"path": "/var/run/docker.sock"}}]
    assert world.status.resolved is not None
    then = world.status.resolved.model_copy(update={"template_hash": template_hash(spec(**world.fields))})
    world.status = world.status.model_copy(update={"resolved": then})
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (world.status.attempt, (1, 0, 0) in world.pods) == (1, True)


TOO_MANY: dict[str, dict[str, Any]] = {
    "CPU hosts": {"hosts": 4096, "slices": 5},
    "the most of acceptableSlices": {"hosts": 4096, "slices": 1, "acceptableSlices": [1, 5]},
    "hosts of TPU slices": {"accelerator": {"type": "v5p-8192"}, "hosts": None, "slices": 17},
}


@pytest.mark.parametrize("fields", TOO_MANY.values(), ids=TOO_MANY.keys())
def test_a_job_has_no_more_pods_than_the_site_allows(fields: dict[str, Any]) -> None:
    job = spec(**fields)
    with pytest.raises(InvalidSpec, match=r"spec.slices \d+ x \d+ hosts of a slice = \d+ pods.*at most 16384 pods"):
        resolve(job, Settings())
    assert resolve(job, Settings(max_pods=100_000)).hosts
    with pytest.raises(InvalidSpec, match="at most 3 pods"):
        resolve(spec(hosts=2, slices=2), Settings(max_pods=3))


V5P: dict[str, Any] = {"accelerator": {"type": "v5p-8", "spot": True}, "hosts": None}
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
SELECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "accelerator.nodeSelector": (
        {"accelerator": V5P["accelerator"] | {"nodeSelector": {TOPOLOGY: "4x4x4"}}},
        "spec.accelerator.nodeSelector cloud.google.com/gke-tpu-topology: '4x4x4' contradicts spec.accelerator, which "
        "selects '2x2x1'",
    ),
    "nodeSelector": ({"nodeSelector": {"cloud.google.com/gke-spot": "false"}}, "spec.nodeSelector"),
    "the template": (
        {"podTemplate": {"spec": {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "x\ny"}}}},
        "spec.podTemplate.spec.nodeSelector",
    ),
}


@pytest.mark.parametrize(("fields", "said"), SELECTORS.values(), ids=SELECTORS.keys())
def test_no_selector_contradicts_the_accelerator(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        resolve(spec(**(V5P | fields)), Settings())
    assert said in refused.value.message
    assert refused.value.message.isprintable()


def test_a_selector_may_repeat_what_the_accelerator_says() -> None:
    assert resolve(spec(**V5P, nodeSelector={TOPOLOGY: "2x2x1", "pool": "a"}), Settings()).topology == "2x2x1"


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "containers is text": ({"containers": "x"}, "spec.podTemplate.spec.containers is a string:"),
    "containers is a number": ({"containers": 5}, "spec.podTemplate.spec.containers is a number:"),
    "a container is text": ({"containers": ["x"]}, "spec.podTemplate.spec.containers[0] is a string:"),
    "a container is null": ({"containers": [None]}, "spec.podTemplate.spec.containers[0] is null:"),
    "a name is a list": ({"containers": [{"name": ["worker"]}]}, "spec.podTemplate.spec.containers[0].name"),
    "ports is text": ({"containers": [{"name": "worker", "ports": "8081"}]}, ".containers[0].ports is a string:"),
    "a port is a number": (
        {"containers": [{"name": "worker", "ports": [8081]}]},
        ".containers[0].ports[0] is a number:",
    ),
    "env is an object": ({"containers": [{"name": "worker", "env": {}}]}, ".containers[0].env is an object:"),
    "a variable is null": ({"containers": [{"name": "worker", "env": [None]}]}, ".containers[0].env[0] is null:"),
    "initContainers": (
        {"initContainers": ["x"]},
        "spec.podTemplate.spec.initContainers[0] is a string: a list of objects",
    ),
    "a nameless one": (
        {"initContainers": [{"env": []}]},
        "initContainers[0] has no name: a list of objects is needed, each with a name",
    ),
    "a port of it": ({"initContainers": [{"name": "a", "ports": [1]}]}, "initContainers[a].ports[0] is a number:"),
    "a variable of it": (
        {"initContainers": [{"name": "a", "env": "s3cr3t"}]},
        "initContainers[a].env is a string: a list",
    ),
    "a mount": (
        {"containers": [{"name": "worker", "volumeMounts": [{}]}]},
        "containers[worker].volumeMounts[0] has no mountPath:",
    ),
    "volumes": ({"volumes": {"name": "a"}}, "spec.podTemplate.spec.volumes is an object:"),
    "tolerations": ({"tolerations": "all"}, "spec.podTemplate.spec.tolerations is a string:"),
    "nodeSelector": ({"nodeSelector": "gpu"}, "spec.podTemplate.spec.nodeSelector is a string: an object is needed"),
}


def stored(template: dict[str, Any], **fields: Any) -> World:
    """A world with a job as the API server may have stored it, whatever this version can read of it."""
    content = {"image": "busybox:1", "podTemplate": {"spec": template}} | fields
    world = World()
    world.read = read_spec(content)
    return world


@pytest.mark.parametrize(("template", "said"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_template_is_named_and_can_be_cancelled_and_suspended(template: dict[str, Any], said: str) -> None:
    world = stored(template)
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, accepted.status) == ("Invalid", "False")
    assert said in accepted.message
    assert "s3cr3t" not in accepted.message
    for field, phase in ({"suspend": True}, "Suspended"), ({}, "Invalid"), ({"cancel": True}, "Cancelled"):
        world.read = stored(template, **field).read
        world.settle()
        assert world.status.phase == phase
    assert world.status.result is not None
    assert world.status.completion_time is not None


def test_a_job_that_becomes_invalid_while_it_is_suspended_keeps_its_conditions() -> None:
    """Who waits for one to become False sees it."""
    world = World(suspend=True)
    world.settle()
    before = {one.type: one.status for one in world.status.conditions}
    world.read = stored({"containers": "x"}).read
    world.settle()
    after = {one.type: one.status for one in world.status.conditions}
    assert world.status.phase == "Invalid"
    assert before.keys() <= after.keys()
    assert (before["Suspended"], after["Suspended"], after["CapacityAvailable"]) == ("True", "False", "False")


def test_a_cancelled_job_that_could_not_run_is_deleted_when_its_time_is_over() -> None:
    world = stored({"containers": "x"}, cancel=True, ttlSecondsAfterFinished=60)
    world.settle()
    assert world.status.phase == "Cancelled"
    assert world.plan().wake_at == world.now + timedelta(seconds=60)
    assert actions_of(world.step(seconds=60), DeleteJob)


def test_null_is_as_good_as_absent() -> None:
    nulls = {"initContainers": [{"name": "a", "env": None}], "volumes": None, "nodeSelector": None}
    without = {"initContainers": [{"name": "a"}]}
    assert template_hash(spec(podTemplate={"spec": nulls})) == template_hash(spec(podTemplate={"spec": without}))
    assert resolve(spec(podTemplate={"spec": nulls}), Settings()).hosts == 1


def worker(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "worker", **fields}]}}}


MISTYPED: dict[str, dict[str, Any]] = {
    "a capability with a colon": {"securityContext": {"capabilities": {"add": [{"SYS_PTRACE": None}]}}},
    "capabilities that are a number": worker(securityContext={"capabilities": {"add": 5}}),
    "sysctls that are a number": {"podSecurityContext": {"sysctls": 5}},
    "a sysctl whose name is a list": {"podSecurityContext": {"sysctls": [{"name": ["kernel.msgmax"]}]}},
    "sources of a volume that are a number": {"volumes": [{"name": "a", "projected": {"sources": 5}}]},
    "a variable from nowhere": worker(env=[{"name": "A", "valueFrom": True}]),
    "resources that are a list": worker(resources=[]),
    "limits that are a number": worker(resources={"limits": 5, "requests": ["cpu"]}),
    "an overhead that is a list": {"podTemplate": {"spec": {"overhead": ["cpu"]}}},
    "an image of a volume that is a number": {"volumes": [{"name": "a", "image": {"reference": 5}}]},
    "lists that are no lists of a pod": {
        "podSecurityContext": {"volumes": [5]},
        "podTemplate": {"spec": {"securityContext": {"volumes": [{"name": {}}]}}},
    },
}


@pytest.mark.parametrize("fields", MISTYPED.values(), ids=MISTYPED)
def test_what_the_schema_cannot_see_is_left_to_the_dry_run_to_name(fields: dict[str, Any]) -> None:
    content = {"image": "busybox:1"} | fields
    world = World()
    world.read, world.checked = read_spec(content), False
    site = Site(mirrors={"docker.io": "mirror.example.com"})
    world.sited = lambda given, _: (given, site)
    decision = world.plan()
    [check] = actions_of(decision, Check)
    assert check.bodies
    assert redacted("A=1", world.job.spec) == "A=1"
    assert listing(world.job, Settings()).workers
    assert pod_factory(world.job, Settings()).needs


KEYS = ["name", "key", "value", "valueFrom", "sources", "requests", "limits", "reference", "volumes"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=6,
)
CONTEXT = st.dictionaries(
    st.sampled_from(["capabilities", "sysctls", "seccompProfile", "seLinuxOptions", "windowsOptions", "procMount"]),
    JSON | st.dictionaries(st.sampled_from(["add", "drop", "type", "user", "hostProcess"]), JSON),
)
NAMES = st.sampled_from(["worker", "log"])
CONTAINER = st.dictionaries(
    st.sampled_from(["env", "envFrom", "ports", "volumeMounts", "resources", "image", "command", "securityContext"]),
    JSON | CONTEXT,
)
TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "containers": JSON
        | st.lists(st.builds(lambda name, rest: {"name": name, **rest}, NAMES, CONTAINER), max_size=2),
        **dict.fromkeys(("initContainers", "volumes", "tolerations", "nodeSelector", "affinity", "hostAliases"), JSON),
        "securityContext": JSON | CONTEXT,
        **dict.fromkeys(("terminationGracePeriodSeconds", "topologySpreadConstraints", "imagePullSecrets"), JSON),
    },
)


GPUS = st.fixed_dictionaries(
    {},
    optional={"vendor": st.sampled_from(["amd", "auto", "nvidia"]), "count": st.integers(0, 64), "model": st.just("a")},
)


@given(
    template=TEMPLATE,
    contexts=st.fixed_dictionaries({}, optional=dict.fromkeys(("securityContext", "podSecurityContext"), CONTEXT)),
    ray=st.booleans(),
    tpu=st.booleans(),
    gpu=st.none() | GPUS,
    kind=st.text(min_size=2, max_size=8),
)
def test_whatever_the_api_server_stores_leads_to_a_status_and_can_be_stopped(
    template: dict[str, Any], contexts: dict[str, Any], ray: bool, tpu: bool, gpu: dict[str, Any] | None, kind: str
) -> None:
    fields: dict[str, Any] = contexts | ({"ray": {"entrypoint": "a"}} if ray else {})
    fields |= {"accelerator": {"type": f"v5p-{kind}" if ray else "v5p-16"}} if tpu else {}
    fields |= {"accelerator": {"gpu": gpu}, "oneHostPerNode": True} if gpu is not None else {}
    world = stored(template, **fields)
    world.checked = False
    world.sited = lambda given, _: (given, Site())
    decision = world.plan()
    assert decision.status.phase == "Invalid" or actions_of(decision, Check)
    for field, phase in ({"suspend": True}, "Suspended"), ({"cancel": True}, "Cancelled"):
        world.read = stored(template, **fields, **field).read
        assert world.plan().status.phase == phase


@pytest.mark.parametrize("content", [{"newer": 1}, {"podTemplate": {"newer": 1}}, {"imagePullPolicy": 7}])
def test_a_job_that_runs_is_followed_to_its_end_though_a_field_is_not_known(content: dict[str, Any]) -> None:
    world = World(slices=2).run()
    world.read = read_spec({"image": "busybox:1", "slices": 2, "hosts": 1, **content})
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, accepted.status, accepted.reason) == ("Running", "False", "InvalidSpec")
    assert next(iter(content)) in accepted.message
    for handle in world.all_pods():
        handle.exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"


def test_a_job_with_an_unknown_field_does_not_begin() -> None:
    world = World()
    world.read = read_spec({"image": "busybox:1", "newer": 1})
    world.settle()
    assert (world.status.phase, world.status.attempt) == ("Invalid", None)
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert accepted.message == "spec.newer is not a known field of this version of Slipway"


def test_a_job_whose_spec_cannot_be_read_any_more_stays_as_it_is_until_it_can() -> None:
    world = World().run()
    known = world.read
    world.read = None, "spec: cannot be read"
    world.settle()
    world.pod(0, 0).exits(1)
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, world.attempt.end_time, accepted.status) == ("Running", None, "False")
    assert accepted.message.startswith("spec: cannot be read; the status and the pods stay as they are")
    world.read = known
    world.until_restarted()
    assert (world.status.phase, world.status.attempt, world.status.failures) == ("Starting", 1, 1)


@pytest.mark.row("B-42")
def test_a_finished_job_stays_as_it_is_when_it_is_cancelled() -> None:
    world = World().run()
    world.pod(0, 0).exits(0)
    world.settle()
    finished = world.status
    world.fields["cancel"] = True
    world.settle()
    assert (world.status.phase, world.status.result) == ("Succeeded", finished.result)


def test_hashes_say_which_version_made_them() -> None:
    assert template_hash(spec()).startswith(acceptance.HASH_VERSION)


def test_a_job_that_is_created_suspended_does_not_say_that_its_pods_are_taken() -> None:
    world = World(suspend=True)
    world.checked = False
    world.step()
    assert "checks its pods in a dry run before the first attempt" in world.condition("Accepted").message
