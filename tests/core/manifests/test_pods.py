"""What the pods of a job look like: names, environment, placement, and the template laid over them."""

import tracemalloc
from typing import Any

import pytest

from slipway.api import names
from slipway.api.places import FIRST, Place, worker
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.merge import merged
from slipway.core.manifests.runtime import workers
from slipway.core.model.job import Settings
from slipway.core.model.site import Site
from slipway.core.planner.contract.actions import Action, CreateObjects, CreatePods, DeleteHostLists
from slipway.core.validation.acceptance import pod_factory, resolve
from tests.core.build import UID, UNLIMITED, World, world_at

TPU = {"accelerator": {"type": "v5p-16", "spot": True}, "hosts": None}


def make(
    place: Place = FIRST, *, attempt: int = 0, settings: Settings | None = None, site: Site = UNLIMITED, **fields: Any
) -> Any:
    return pod_factory(world_at(site, **fields).job, settings or Settings()).pod(attempt, place)


def environment(pod: Any) -> dict[str, Any]:
    [worker] = [one for one in pod["spec"]["containers"] if one["name"] == "worker"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in worker["env"]}


def test_the_pods_of_many_slices_take_no_memory_once_they_are_made() -> None:
    slices = 300
    factory = pod_factory(world_at(UNLIMITED, slices=slices, **TPU).job, Settings())
    factory.pod(0, FIRST)
    tracemalloc.start()
    for index in range(slices):
        factory.pod(0, worker(index, 1))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100 * slices


def test_a_worker_knows_who_it_is_and_where_the_others_are() -> None:  # E2-29, E2-30, E2-31, E2-39, E2-32, E2-37
    found = environment(make(worker(1, 0), attempt=3, slices=2, **TPU))
    assert found == {
        "SLIPWAY_JOB": "train",
        "SLIPWAY_ATTEMPT": "3",
        "SLIPWAY_SLICE": "1",
        "SLIPWAY_HOST": "0",
        "SLIPWAY_RANK": "2",
        "SLIPWAY_WORLD_SIZE": "4",
        "SLIPWAY_COORDINATOR_ADDRESS": "3-0-0.train.ml.svc:8081",
        "JAX_NUM_PROCESSES": "4",
        "JAX_PROCESS_ID": "$(SLIPWAY_RANK)",
        "MASTER_ADDR": "3-0-0.train.ml.svc",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "RANK": "$(SLIPWAY_RANK)",
        "NODE_RANK": "$(SLIPWAY_RANK)",
        "EXECUTOR_CALL_SLICE": "1",
        "EXECUTOR_CALL_INDEX": "0",
        "MEGASCALE_COORDINATOR_ADDRESS": "3-0-0.train.ml.svc:8081",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_PORT": "8081",
        "MEGASCALE_SLICE_ID": "1",
        "TPU_NAME": "train-s1",
        "TPU_SLICE_NAME": "train-s1",
        "TPU_ZONE": "EMPTY",
        "TPU_VERSION": "v5p-16",
        "TPU_POD_COUNT": "2",
        "TPU_NUM_DEVICES": "4",
        "TPU_HOST_ID": "0",
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "3-1-0.train,3-1-1.train",
    }


def test_one_slice_has_no_megascale_variables() -> None:  # E2-30
    found = environment(make(slices=1, **TPU))
    assert not [name for name in found if name.startswith("MEGASCALE")]
    assert found["EXECUTOR_CALL_SLICE"] == "0"  # E1-35


def test_tpu7x_workers_get_process_addresses() -> None:
    found = environment(make(worker(0, 1), accelerator={"type": "tpu7x-16"}, hosts=None))
    assert found["TPU_PROCESS_ADDRESSES"] == "0-0-0.train:8471,0-0-1.train:8471"
    assert found["TPU_PROCESS_PORT"] == "8471"


def test_a_user_may_set_tpu_name_and_zone() -> None:  # E2-34
    given = [{"name": "TPU_NAME", "value": "mine"}, {"name": "A", "value": "a"}]
    found = environment(make(env=given, **TPU))
    assert (found["TPU_NAME"], found["A"]) == ("mine", "a")


def test_when_an_attempt_has_its_pods_the_host_lists_of_the_one_before_go() -> None:
    seen: list[Action] = []

    class Watched(World):
        def _carry_out(self, action: Action) -> None:
            seen.append(action)
            super()._carry_out(action)

    world = Watched(slices=2, hosts=40, accelerator=None)
    world.run()
    assert [one for one in seen if isinstance(one, DeleteHostLists)] == []
    world.pod(0, 0).exits(1)
    world.until_restarted()
    [gone] = [one for one in seen if isinstance(one, DeleteHostLists)]
    assert gone.names == ("train-0-0", "train-0-1")
    assert seen.index(gone) > max(place for place, one in enumerate(seen) if isinstance(one, CreatePods))


def test_long_host_lists_stand_in_one_config_map_for_each_slice() -> None:
    world = World(slices=2, accelerator={"type": "v5litepod-256"}, hosts=None)
    factory = pod_factory(world.job, Settings())
    reference = environment(factory.pod(0, worker(1, 63)))["TPU_WORKER_HOSTNAMES"]["configMapKeyRef"]
    first, second = factory.peers(0).host_lists(workers(2, 64))
    assert reference == {"name": second["metadata"]["name"], "key": "hostnames"}
    assert first["immutable"] is True
    assert second["data"]["hostnames"].split(",")[63] == "0-1-63.train-g1"


def test_pods_of_an_attempt_differ_only_in_their_place() -> None:  # E1-37
    one, other = make(worker(0, 0), slices=1, **TPU), make(worker(0, 1), slices=1, **TPU)
    for pod in (one, other):
        pod["metadata"].pop("name")
        pod["metadata"]["labels"].pop(names.LABEL_HOST)
        pod["spec"].pop("hostname")
        [container] = pod["spec"]["containers"]
        own = ("SLIPWAY_HOST", "SLIPWAY_RANK", "EXECUTOR_CALL_INDEX", "TPU_HOST_ID", "TPU_WORKER_ID")
        container["env"] = [one for one in container["env"] if one["name"] not in own]
    assert one == other


def test_identity_and_ownership() -> None:
    pod = make(worker(1, 0), attempt=2, slices=2, **TPU)
    assert pod["metadata"]["name"] == "train-2-1-0"
    assert pod["metadata"]["namespace"] == "ml"
    assert pod["spec"]["hostname"] == "2-1-0"
    assert pod["spec"]["subdomain"] == "train"
    assert pod["spec"]["restartPolicy"] == "Never"
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("SliceJob", UID, True)
    assert pod["metadata"]["labels"][names.LABEL_SLICE_KEY] == f"{UID}-1"


def test_dashboards_find_the_pods_of_a_job_unless_it_says_something_else() -> None:
    name, instance = "app.kubernetes.io/name", "app.kubernetes.io/instance"
    labels = make()["metadata"]["labels"]
    assert (labels[name], labels[instance]) == ("slicejob", "train")
    labels = make(podTemplate={"metadata": {"labels": {name: "llm"}}})["metadata"]["labels"]
    assert (labels[name], labels[instance]) == ("llm", "train")


def test_a_tpu_worker_asks_for_all_chips_of_a_fitting_node() -> None:  # E1-23, E2-12
    spec = make(**TPU)["spec"]
    [worker] = spec["containers"]
    assert worker["resources"] == {"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": "4"}}
    assert spec["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
        "cloud.google.com/gke-tpu-topology": "2x2x2",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/gke-spot": "true",
    }
    keys = [one["key"] for one in spec["tolerations"]]
    assert keys[:2] == ["google.com/tpu", "cloud.google.com/gke-spot"]


def test_a_multi_host_slice_has_a_pool_to_itself() -> None:  # E2-21
    affinity = make(worker(1, 0), slices=2, **TPU)["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    [together], [apart] = affinity["podAffinity"][required], affinity["podAntiAffinity"][required]
    assert together["topologyKey"] == apart["topologyKey"] == "cloud.google.com/gke-nodepool"
    assert together["labelSelector"]["matchLabels"] == {names.LABEL_SLICE_KEY: f"{UID}-1"}
    assert apart["namespaceSelector"] == {}


def test_a_slice_that_is_pinned_to_a_free_pool_needs_no_affinity() -> None:  # E2-21
    pod = pod_factory(World(slices=2, **TPU).job, Settings(), {1: "pool-7"}).pod(0, worker(1, 0))
    assert "affinity" not in pod["spec"]
    assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-nodepool"] == "pool-7"
    assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2x2"
    assert pod["metadata"]["labels"][names.LABEL_NODE_POOL] == "pool-7"


def test_a_slice_that_waits_keeps_out_of_the_pools_its_siblings_are_on_their_way_to() -> None:  # E2-21
    factory = pod_factory(World(slices=4, **TPU).job, Settings(), {0: "pool-9", 1: "", 3: "pool-7"})
    rules = factory.pod(0, worker(1, 0))["spec"]["affinity"]
    assert rules.keys() == {"podAffinity", "podAntiAffinity", "nodeAffinity"}
    [term] = rules["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "cloud.google.com/gke-nodepool", "operator": "NotIn", "values": ["pool-7", "pool-9"]}
    ]
    assert factory.pod(0, worker(2, 0))["spec"]["affinity"]["nodeAffinity"] == rules["nodeAffinity"]
    assert "affinity" not in factory.pod(0, worker(3, 0))["spec"]


@pytest.mark.parametrize(
    ("fields", "hosts"),
    [
        ({}, 2),
        ({"podTemplate": {"spec": {"nodeSelector": {"zone": "a"}}}}, 2),
        ({"podTemplate": {"spec": {"affinity": {"nodeAffinity": {}}}}}, 0),
        ({"podTemplate": {"spec": {"schedulingGates": [{"name": "queue"}]}}}, 0),
        ({"priorityClassName": "high"}, 0),
        ({"accelerator": {"type": "v5litepod-4"}}, 0),
        ({"accelerator": None, "hosts": 2}, 0),
    ],
    ids=["TPU slice", "a selector", "an affinity of the user's", "gated", "a priority", "one host", "CPU"],
)
def test_what_may_be_pinned(fields: dict[str, Any], hosts: int) -> None:
    given = {key: value for key, value in (TPU | fields).items() if value is not None}
    assert pod_factory(World(**{"hosts": None, **given}).job, Settings()).pool_hosts == hosts


@pytest.mark.parametrize(
    "fields", [{}, {"accelerator": {"type": "v5litepod-4"}, "hosts": None}], ids=["CPU", "single-host TPU"]
)
def test_other_shapes_are_free_of_pool_rules(fields: dict[str, Any]) -> None:
    assert "affinity" not in make(**fields)["spec"]


NOWHERE = {"maxSkew": 1, "topologyKey": "slipway.dev/nowhere", "whenUnsatisfiable": "ScheduleAnyway"}
BY_NODE = {
    **NOWHERE,
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {names.LABEL_JOB_UID: UID}},
}
BY_ZONE = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
ZONES = {"podTemplate": {"spec": {"topologySpreadConstraints": [BY_ZONE]}}}
PINNED = {0: "pool-a"}
SPREAD: dict[str, tuple[dict[str, Any], dict[int, str], list[dict[str, Any]]]] = {
    "a pinned slice, so that the scheduler does without its defaults": (TPU, PINNED, [NOWHERE]),
    "a pinned slice, and constraints in the template": ({**TPU, **ZONES}, PINNED, [BY_ZONE]),
    "a slice that is not pinned": (TPU, {}, []),
    "CPUs": ({}, {}, [BY_NODE]),
    "CPUs, and constraints in the template": (ZONES, {}, [BY_NODE, BY_ZONE]),
}


@pytest.mark.parametrize(("fields", "pools", "expected"), SPREAD.values(), ids=SPREAD)
def test_how_pods_spread(fields: dict[str, Any], pools: dict[int, str], expected: list[dict[str, Any]]) -> None:
    pod = pod_factory(world_at(UNLIMITED, **fields).job, Settings(), pools).pod(0, FIRST)
    assert pod["spec"].get("topologySpreadConstraints", []) == expected


def test_the_template_is_laid_over_the_pod() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "tolerations": [{"key": "mine", "operator": "Exists"}],
            "dnsPolicy": "Default",
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "template"}], "stdin": True},
                {"name": "sidecar", "image": "side:1"},
            ],
        },
    }
    pod = make(podTemplate=template, env=[{"name": "A", "value": "spec"}, {"name": "B", "value": "b"}])
    worker, sidecar = pod["spec"]["containers"]
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    assert pod["spec"]["dnsPolicy"] == "Default"
    assert {"key": "mine", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert len(pod["spec"]["tolerations"]) == 3
    assert worker["stdin"] is True
    assert environment(pod)["A"] == "template"
    assert environment(pod)["B"] == "b"
    assert sidecar == {"name": "sidecar", "image": "side:1"}


def test_an_init_container_of_the_template_tells_why_it_failed_unless_it_says_otherwise() -> None:
    silent = {"name": "silent", "image": "a:1", "terminationMessagePolicy": "File"}
    pod = make(podTemplate={"spec": {"initContainers": [{"name": "fetch", "image": "a:1"}, silent]}})
    found = {one["name"]: one["terminationMessagePolicy"] for one in pod["spec"]["initContainers"]}
    assert found == {"fetch": "FallbackToLogsOnError", "silent": "File"}


def test_shm_size_is_a_memory_volume() -> None:  # E1-13
    spec = make(shmSize="2Gi")["spec"]
    [volume] = spec["volumes"]
    [mount] = spec["containers"][0]["volumeMounts"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/dev/shm")


@pytest.mark.row("N-19")
@pytest.mark.parametrize(
    ("fields", "seconds"),
    [({}, 30), ({"terminationGracePeriodSeconds": 120}, 120),
     ({"podTemplate": {"spec": {"terminationGracePeriodSeconds": 9}}}, 9)],
    ids=["by default", "from the spec", "from the template"],
)  # fmt: skip
def test_the_grace_of_a_pod(fields: dict[str, Any], seconds: int) -> None:
    assert make(**fields)["spec"]["terminationGracePeriodSeconds"] == seconds


def test_host_network_resolves_cluster_names() -> None:
    spec = make(hostNetwork=True)["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostNetwork" not in make()["spec"]


@pytest.mark.parametrize(
    ("fields", "required"),
    [
        ({"hostNetwork": True}, True),
        ({"podTemplate": {"spec": {"hostNetwork": True}}}, True),
        ({"hostNetwork": True, "podTemplate": {"spec": {"hostNetwork": False}}}, False),
        ({}, False),
        ({"hostNetwork": True, "accelerator": {"type": "v5litepod-4"}, "hosts": None}, False),
    ],
    ids=["by the spec", "by the template", "the template says no", "the pods' own network", "TPUs are alone anyway"],
)
def test_pods_with_the_nodes_network_have_a_node_each(fields: dict[str, Any], required: bool) -> None:  # E2-21
    rule = {
        "labelSelector": {"matchLabels": {names.LABEL_JOB_UID: UID}},
        "topologyKey": "kubernetes.io/hostname",
    }
    wanted = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    assert make(**fields)["spec"].get("affinity") == (wanted if required else None)


def test_a_cpu_job_with_the_nodes_network_needs_as_many_nodes_as_hosts() -> None:  # E2-21
    assert pod_factory(World(slices=2, hosts=3, hostNetwork=True).job, Settings()).least_nodes == 6
    assert pod_factory(World(slices=2, hosts=3).job, Settings()).least_nodes == 0


def test_no_token_unless_a_service_account_is_named() -> None:
    assert make()["spec"]["automountServiceAccountToken"] is False
    assert make(serviceAccountName="me")["spec"]["automountServiceAccountToken"] is True


REFUSED = [
    ("B-10 unknown type", {"accelerator": {"type": "v9-8"}, "hosts": None}, "v9-8"),
    ("B-10 impossible number", {"accelerator": {"type": "v4-7"}, "hosts": None}, "v4-8"),
    (
        "B-15 the coordinator's port is taken",
        {
            "coordinator": {"port": 9000},
            "podTemplate": {"spec": {"containers": [{"name": "worker", "ports": [{"containerPort": 9000}]}]}},
        },
        "9000",
    ),
    (
        "B-16 reserved environment in the template",
        {"podTemplate": {"spec": {"containers": [{"name": "worker", "env": [{"name": "TPU_WORKER_ID"}]}]}}},
        "TPU_WORKER_ID",
    ),
    ("restart policy in the template", {"podTemplate": {"spec": {"restartPolicy": "Always"}}}, "restartPolicy"),
    (
        "no grace at all in the template",
        {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 0}}},
        "spec.podTemplate.spec.terminationGracePeriodSeconds 0 would take pods out of the API",
    ),
    (
        "more grace in the template than in the spec",
        {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 86401}}},
        "spec.podTemplate.spec.terminationGracePeriodSeconds 86401: at most 86400 is allowed",
    ),
    ("own labels in the template", {"podTemplate": {"metadata": {"labels": {"slipway.dev/slice": "0"}}}}, "slice"),
]


@pytest.mark.parametrize(("fields", "named"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
@pytest.mark.row("B-10", "B-15", "B-16")
def test_what_cannot_run_is_refused_with_the_value_named(fields: dict[str, Any], named: str) -> None:
    world = World(**fields)
    with pytest.raises(InvalidSpec, match=named):
        resolve(world.job.spec, Settings())  # type: ignore[arg-type]
    decision = world.step()
    assert world.status.phase == "Invalid"
    assert named in (world.condition("Accepted").message)  # type: ignore[union-attr]
    assert decision.actions == ()
    assert world.status.attempt is None


VOLUMES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "another source": (
        {"persistentVolumeClaim": {"claimName": "a"}},
        {"emptyDir": {}},
        {"emptyDir": {}},
    ),
    "another value of the same source": (
        {"persistentVolumeClaim": {"claimName": "a", "readOnly": True}},
        {"persistentVolumeClaim": {"claimName": "b"}},
        {"persistentVolumeClaim": {"claimName": "b", "readOnly": True}},
    ),
    "no source": ({"emptyDir": {"medium": "Memory"}}, {}, {"emptyDir": {"medium": "Memory"}}),
}


@pytest.mark.parametrize(("base", "over", "found"), VOLUMES.values(), ids=VOLUMES)
def test_a_volume_of_the_template_has_one_source(
    base: dict[str, Any], over: dict[str, Any], found: dict[str, Any]
) -> None:
    """As Kubernetes merges volumes (`patchStrategy: merge,retainKeys`)."""
    both = merged({"volumes": [{"name": "d"} | base]}, {"volumes": [{"name": "d"} | over]})
    assert both["volumes"] == [{"name": "d"} | found]


def test_the_host_lists_of_attempts_that_ended_before_they_had_services_go_too() -> None:
    lists: set[str] = set()

    class Watched(World):
        def _carry_out(self, action: Action) -> None:
            if isinstance(action, CreateObjects):
                lists.update(body["metadata"]["name"] for body in action.bodies if body["kind"] == "ConfigMap")
            if isinstance(action, DeleteHostLists):
                lists.difference_update(action.names)
            super()._carry_out(action)

    world = Watched(slices=1, hosts=64).run()
    world.pod(0, 0).exits(1)
    world.settle()
    world.obey()
    for _ in range(2):
        world.step()
        world.fields["suspend"] = True
        world.settle()
        world.obey()
        world.settle()
        world.fields["suspend"] = False
    world.settle()
    world.run()
    assert lists == {f"train-{world.status.attempt}-0"}
