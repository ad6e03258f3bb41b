"""GPU jobs and CPU jobs with an accelerator: what a job may ask for, and what its pods look like."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api import names
from slipway.api.gpus import ANY_SITE, DEFAULT_RESOURCES, Gpu, GpuError, GpuSite, is_gpu
from slipway.api.gpus import resolve as resolve_gpus
from slipway.api.places import HEAD, worker
from slipway.core.explain.scheduler import View, explain_unscheduled
from slipway.core.manifests.accepted import InvalidSpec, effective, hardware_of
from slipway.core.manifests.hardware import Hardware, Tpu
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.site import Site
from slipway.core.model.tenants import NOBODY
from slipway.core.planner.contract.actions import DeletePods
from slipway.core.validation.acceptance import pod_factory, resolve
from tests.core.build import START, UID, World, actions_of, spec

NVIDIA = {"vendor": "nvidia", "count": 2}
MODEL_LABEL = "cloud.google.com/gke-accelerator"
ONE_VENDOR = GpuSite(resources={"amd": "amd.com/gpu"}, per_node=8, model_label="amd.com/gpu.product-name")


def gpu(**fields: Any) -> dict[str, Any]:
    return {"accelerator": {"gpu": fields}}


def on(resource: str, value: Any, kind: str = "limits") -> dict[str, Any]:
    return {"resources": {kind: {resource: value}}}


def template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


def make(**fields: Any) -> Any:
    return pod_factory(World(**fields).job, Settings()).pod(0, worker(0, 0))


def refused(site: GpuSite = ANY_SITE, **fields: Any) -> str:
    with pytest.raises(InvalidSpec) as error:
        resolve(spec(**fields), Settings(), site)
    return error.value.message


# Which GPUs


FOUND: dict[str, tuple[dict[str, Any], GpuSite, tuple[str, str, int]]] = {
    "NVIDIA": (NVIDIA, ANY_SITE, ("nvidia", "nvidia.com/gpu", 2)),
    "AMD": ({"vendor": "amd", "count": 1}, ANY_SITE, ("amd", "amd.com/gpu", 1)),
    "Intel": ({"vendor": "intel", "count": 64}, ANY_SITE, ("intel", "gpu.intel.com/i915", 64)),
    "another resource of the site's": (
        {"vendor": "intel", "count": 1},
        GpuSite(resources={"intel": "gpu.intel.com/xe"}),
        ("intel", "gpu.intel.com/xe", 1),
    ),
    "auto": ({"vendor": "auto", "count": 3}, ONE_VENDOR, ("amd", "amd.com/gpu", 3)),
    "no vendor is auto": ({"count": 3}, ONE_VENDOR, ("amd", "amd.com/gpu", 3)),
    "no count is all of a node": ({"vendor": "amd"}, ONE_VENDOR, ("amd", "amd.com/gpu", 8)),
    "E1-11 nothing said is all of the site's": ({}, ONE_VENDOR, ("amd", "amd.com/gpu", 8)),
}


@pytest.mark.parametrize(("asked", "site", "found"), FOUND.values(), ids=FOUND)
def test_which_gpus_a_host_has(asked: dict[str, Any], site: GpuSite, found: tuple[str, str, int]) -> None:  # N-31
    gpus = resolve_gpus(Gpu.model_validate(asked), site)
    assert gpus is not None
    assert (gpus.vendor, gpus.resource, gpus.count) == found


OPEN: dict[str, tuple[dict[str, Any], GpuSite, str]] = {
    "N-31 several vendors": (
        {"count": 1},
        ANY_SITE,
        "vendor auto, the default: this site may have GPUs of amd, intel and nvidia: name one of them",
    ),
    "N-31 two vendors": (
        {"vendor": "auto", "count": 1},
        GpuSite(resources={"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}),
        "vendor auto, the default: this site may have GPUs of amd and nvidia: name one of them",
    ),
    "a vendor that the site has not": (
        {"vendor": "nvidia", "count": 1},
        ONE_VENDOR,
        "vendor nvidia: this site has GPUs of amd only",
    ),
    "a site without GPUs": ({"count": 1}, GpuSite(resources={}), "vendor auto: this site has no GPUs"),
    "E1-11 no count, and nobody knows how many a node has": (
        {"vendor": "nvidia"},
        ANY_SITE,
        "count is not set, and how many GPUs a node of this site has is not known: set it, or gpus.perNode of",
    ),
}


@pytest.mark.parametrize(("asked", "site", "said"), OPEN.values(), ids=OPEN)
@pytest.mark.row("B-27")
def test_what_the_site_leaves_open_is_asked_for(asked: dict[str, Any], site: GpuSite, said: str) -> None:
    assert f"spec.accelerator.gpu.{said}" in refused(site, accelerator={"gpu": asked})


@given(
    vendor=st.sampled_from([None, "auto", *DEFAULT_RESOURCES]),
    count=st.none() | st.integers(0, 64),
    vendors=st.sets(st.sampled_from(sorted(DEFAULT_RESOURCES))),
    per_node=st.none() | st.integers(1, 64),
)
def test_what_a_job_says_is_never_changed(
    vendor: Any, count: int | None, vendors: set[str], per_node: int | None
) -> None:
    site = GpuSite({name: DEFAULT_RESOURCES[name] for name in vendors}, per_node)
    try:
        gpus = resolve_gpus(Gpu(vendor=vendor, count=count), site)
    except GpuError:
        assert count != 0
        return
    if gpus is None:
        assert count == 0
        return
    assert gpus.vendor == (vendor if vendor in DEFAULT_RESOURCES else next(iter(vendors)))
    assert gpus.count == (per_node if count is None else count)
    assert is_gpu(gpus.resource)


# What contradicts it


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a TPU type": (
        {"accelerator": {"gpu": NVIDIA, "type": "v5p-8"}},
        "spec.accelerator.gpu: give exactly one of type, generation or gpu",
    ),
    "a TPU generation": (
        {"accelerator": {"gpu": NVIDIA, "generation": "v5p", "topology": "2x2x1"}},
        "give exactly one of type, generation or gpu",
    ),
    "a topology": ({"accelerator": {"gpu": NVIDIA, "topology": "2x2x1"}}, "are words for TPUs"),
    "chips": ({"accelerator": {"gpu": NVIDIA, "chipsPerHost": 4}}, "are words for TPUs"),
    "a label of TPUs": ({"accelerator": {"gpu": NVIDIA, "label": "tpu9"}}, "are words for TPUs"),
    "a model of no GPUs": (
        gpu(count=0, model="nvidia-l4"),
        "spec.accelerator.gpu.model nvidia-l4: model means nothing",
    ),
    "a spot reservation": (
        {"accelerator": {"gpu": NVIDIA, "reservation": "mine", "spot": True}},
        "spec.accelerator.reservation: reservation and spot exclude each other: spot machines are never taken from a",
    ),
    "a spot reservation of TPUs": (
        {"accelerator": {"type": "v5p-8", "reservation": "mine", "spot": True}},
        "reservation and spot exclude each other",
    ),
    "another model by a selector": (
        gpu(**NVIDIA, model="nvidia-l4") | {"nodeSelector": {MODEL_LABEL: "nvidia-h100"}},
        f"spec.nodeSelector {MODEL_LABEL}: 'nvidia-h100' contradicts spec.accelerator, which selects 'nvidia-l4'",
    ),
    "another model by the accelerator's selector": (
        {"accelerator": {"gpu": NVIDIA | {"model": "nvidia-l4"}, "nodeSelector": {MODEL_LABEL: "x"}}},
        f"spec.accelerator.nodeSelector {MODEL_LABEL}: 'x' contradicts",
    ),
    "another reservation of TPUs": (
        {"accelerator": {"type": "v5p-8", "reservation": "mine"}}
        | template(nodeSelector={"cloud.google.com/reservation-name": "yours"}),
        "spec.podTemplate.spec.nodeSelector cloud.google.com/reservation-name: 'yours' contradicts",
    ),
    "another reservation of CPUs": (
        {"accelerator": {"gpu": {"count": 0}, "reservation": "mine"}}
        | {"nodeSelector": {"cloud.google.com/reservation-name": "yours"}},
        "contradicts spec.accelerator, which selects 'mine'",
    ),
    "TPU chips": (gpu(**NVIDIA) | on("google.com/tpu", 4), "the hosts of spec.accelerator.gpu have nvidia.com/gpu"),
    "hosts of TPUs": (
        {"accelerator": {"type": "v5p-8"}, "hosts": 2},
        "spec.hosts 2: hosts is for CPU and GPU jobs only: the accelerator's shape decides how many hosts a TPU slice",
    ),
    "one host a node on TPUs": (
        {"accelerator": {"type": "v5p-8"}, "oneHostPerNode": True},
        "spec.oneHostPerNode: oneHostPerNode is for CPU and GPU jobs only: a host of a TPU slice always has its node",
    ),
    "one host a node, and another rule": (
        {"oneHostPerNode": True}
        | template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}),
        "spec.podTemplate.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution would replace",
    ),
}


@pytest.mark.parametrize(("fields", "said"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_contradicts_the_hardware_is_refused(fields: dict[str, Any], said: str) -> None:
    assert said in refused(**fields)


WORKER: dict[str, Any] = {"name": "worker"}
LIMIT = "spec.resources.limits[nvidia.com/gpu]"
AGAIN = "by spec.accelerator.gpu.count a host has 2, and Slipway requests them all: remove this"
TWICE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no count at all": ({}, {}, ""),
    "a limit alone": ({}, on("nvidia.com/gpu", 3), ""),
    "a part of a GPU alone": ({}, on("nvidia.com/mig-1g.5gb", 3), ""),
    "a count alone": (gpu(**NVIDIA), {}, ""),
    "the same limit": (gpu(**NVIDIA), on("nvidia.com/gpu", 2), ""),
    "the same limit as text": (gpu(**NVIDIA), on("nvidia.com/gpu", "2"), ""),
    "the same limit in another spelling": (gpu(**NVIDIA), on("nvidia.com/gpu", "2000m"), ""),
    "the same request": (gpu(**NVIDIA), on("nvidia.com/gpu", 2, "requests"), ""),
    "the same limit by the template": (gpu(**NVIDIA), template(containers=[WORKER | on("nvidia.com/gpu", 2)]), ""),
    "GPUs of a sidecar": (
        gpu(**NVIDIA),
        template(containers=[{"name": "log", "image": "a", **on("nvidia.com/gpu", 1)}]),
        "",
    ),
    "cards of NVIDIA for the network": (
        gpu(**NVIDIA),
        {"resources": {"limits": {"nvidia.com/mlnxnics": 1, "nvidia.com/hostdev": 1}}},
        "",
    ),
    "cards of AMD for the network": (gpu(**NVIDIA), on("amd.com/nic", 1), ""),
    "a shared GPU": (
        gpu(**NVIDIA),
        on("nvidia.com/gpu.shared", 2),
        "the hosts of spec.accelerator.gpu have nvidia.com/gpu",
    ),
    "a part of a GPU of AMD": (
        gpu(**NVIDIA),
        on("amd.com/cpx_nps4", 2),
        "the hosts of spec.accelerator.gpu have nvidia.com/gpu",
    ),
    "CPU and memory": (gpu(**NVIDIA), {"resources": {"limits": {"cpu": 8, "memory": "8Gi"}}}, ""),
    "another limit": (gpu(**NVIDIA), on("nvidia.com/gpu", 3), f"{LIMIT} '3': {AGAIN}"),
    "no GPUs by the limit": (gpu(**NVIDIA), on("nvidia.com/gpu", 0), f"{LIMIT} '0': {AGAIN}"),
    "another request": (
        gpu(**NVIDIA),
        on("nvidia.com/gpu", 1, "requests"),
        f"spec.resources.requests[nvidia.com/gpu] '1': {AGAIN}",
    ),
    "another limit by the template": (
        gpu(**NVIDIA),
        template(containers=[WORKER | on("nvidia.com/gpu", "8")]),
        f"spec.podTemplate.spec.containers[0].resources.limits[nvidia.com/gpu] '8': {AGAIN}",
    ),
    "GPUs of another vendor": (
        gpu(**NVIDIA),
        on("amd.com/gpu", 2),
        "spec.resources.limits[amd.com/gpu] '2': the hosts of spec.accelerator.gpu have nvidia.com/gpu: remove it",
    ),
    "a part of a GPU": (
        gpu(**NVIDIA),
        on("nvidia.com/mig-1g.5gb", 2),
        "the hosts of spec.accelerator.gpu have nvidia.com/gpu",
    ),
    "B-28 no GPUs": (gpu(count=0), {}, ""),
    "B-28 no GPUs, and a limit": (
        gpu(count=0),
        on("nvidia.com/gpu", 2),
        f"{LIMIT} '2': spec.accelerator.gpu.count is 0, so no host has GPUs: remove one of them",
    ),
}


@pytest.mark.parametrize(("accelerator", "resources", "said"), TWICE.values(), ids=TWICE)
@pytest.mark.row("B-27")
def test_a_number_of_gpus_is_said_once_or_twice_the_same(
    accelerator: dict[str, Any], resources: dict[str, Any], said: str
) -> None:  # F-51, F-53, K-13
    fields = accelerator | resources
    if said:
        assert said in refused(**fields)
        return
    container = make(**fields)["spec"]["containers"][0]
    asked = resources.get("resources", {}).get("limits", {})
    wanted = accelerator.get("accelerator", {}).get("gpu", {}).get("count") or asked.get("nvidia.com/gpu")
    found = container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu")
    assert (found and int(found)) == (wanted and int(wanted))


# What the pods are


@pytest.mark.parametrize(
    ("vendor", "resource"), [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("intel", "gpu.intel.com/i915")]
)
def test_a_pod_has_its_gpus_beside_all_else_whatever_the_vendor(vendor: str, resource: str) -> None:  # N-26, N-28, N-29
    volumes = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    limits = {"resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}
    pod = make(**gpu(vendor=vendor, count=2), **volumes, **limits)["spec"]
    [container] = pod["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "4", "memory": "8Gi", resource: "2"},
        "requests": {resource: "2"},
    }
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    assert {"key": resource, "operator": "Exists"} in pod["tolerations"]
    assert "nodeSelector" not in pod
    assert "affinity" not in pod
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert not [one for one in container["env"] if one["name"].startswith(("NVIDIA", "CUDA", "TPU_VERSION"))]


def test_model_spot_and_labels_are_selected() -> None:  # E2-11
    accelerator = {"gpu": NVIDIA | {"model": "nvidia-l4"}, "spot": True, "nodeSelector": {"zone": "a"}}
    pod = make(accelerator=accelerator, nodeSelector={"team": "b"})["spec"]
    assert pod["nodeSelector"] == {
        MODEL_LABEL: "nvidia-l4",
        "cloud.google.com/gke-spot": "true",
        "zone": "a",
        "team": "b",
    }
    assert {"key": "cloud.google.com/gke-spot", "operator": "Exists"} in pod["tolerations"]


RESERVED: dict[str, dict[str, Any]] = {
    "TPUs": {"accelerator": {"type": "v5p-16", "reservation": "mine"}, "hosts": None},
    "GPUs": {"accelerator": {"gpu": NVIDIA, "reservation": "mine"}},
    "CPUs": {"accelerator": {"gpu": {"count": 0}, "reservation": "mine"}},
}


@pytest.mark.parametrize("fields", RESERVED.values(), ids=RESERVED)
def test_a_reservation_is_selected(fields: dict[str, Any]) -> None:
    assert make(**fields)["spec"]["nodeSelector"]["cloud.google.com/reservation-name"] == "mine"


def test_the_site_decides_by_which_label_a_model_is_known() -> None:
    asked = spec(**gpu(model="MI300X"))
    resolved = resolve(asked, Settings(), ONE_VENDOR)
    found = effective(asked, resolved, Site(gpus=ONE_VENDOR)).hardware
    assert found.node_selector() == {"amd.com/gpu.product-name": "MI300X"}
    assert found.resources() == {"amd.com/gpu": "8"}


def test_without_gpus_a_job_is_a_cpu_job() -> None:  # F-53, B-28
    accelerator = {"gpu": {"count": 0}, "spot": True}
    pod, plain = make(accelerator=accelerator, hosts=2)["spec"], make(hosts=2)["spec"]
    spot = {"key": "cloud.google.com/gke-spot", "operator": "Exists"}
    assert pod.pop("nodeSelector") == {"cloud.google.com/gke-spot": "true"}
    assert pod["tolerations"] == [spot, *plain["tolerations"]]
    assert pod | {"tolerations": plain["tolerations"]} == plain
    assert make(**gpu(count=0), hosts=2)["spec"] == plain


def test_the_ranks_of_gpu_hosts_go_over_all_slices() -> None:  # E2-11
    world = World(slices=2, hosts=3, **gpu(**NVIDIA))
    world.begin()
    pod = pod_factory(world.job, Settings()).pod(0, worker(1, 2))
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert (env["SLIPWAY_RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("5", "6", "0-0-0.train.ml.svc")
    assert "JAX_COORDINATOR_ADDRESS" in env
    assert len(world.pods) == 6


STATUS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "GPUs": (
        gpu(**NVIDIA),
        {"type": "nvidia.com/gpu", "gpuVendor": "nvidia", "gpuResource": "nvidia.com/gpu", "gpusPerHost": 2},
    ),
    "a model": (
        gpu(**NVIDIA, model="nvidia-l4"),
        {"type": "nvidia-l4", "gpuVendor": "nvidia", "gpuResource": "nvidia.com/gpu", "gpusPerHost": 2},
    ),
    "no GPUs": (gpu(count=0), {}),
    "CPUs": ({}, {}),
}


@pytest.mark.parametrize(("fields", "shown"), STATUS.values(), ids=STATUS)
def test_the_status_says_which_gpus_a_host_has(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    resolved = resolve(spec(hosts=3, **fields), Settings()).model_dump(by_alias=True, exclude_none=True)
    assert {name: value for name, value in resolved.items() if name == "type" or name.startswith("gpu")} == shown
    assert (resolved["hosts"], resolved["chipsPerHost"]) == (3, 0)


# Nodes


def test_hosts_of_gpu_slices_share_nodes_and_no_slice_has_a_node_pool_to_itself() -> None:  # E2-21
    factory = pod_factory(World(slices=2, hosts=2, **gpu(**NVIDIA)).job, Settings())
    assert (factory.pool_hosts, factory.least_nodes) == (0, 0)


WHOLE: dict[str, tuple[dict[str, Any], GpuSite, bool]] = {
    "all GPUs of a node": ({}, ONE_VENDOR, True),
    "as many as a node has": ({"count": 8}, ONE_VENDOR, True),
    "fewer": ({"count": 4}, ONE_VENDOR, False),
    "nobody knows how many a node has": (NVIDIA, ANY_SITE, False),
}


@pytest.mark.parametrize(("asked", "site", "whole"), WHOLE.values(), ids=WHOLE)
def test_a_host_has_a_node_to_itself_where_it_takes_all_gpus(asked: dict[str, Any], site: GpuSite, whole: bool) -> None:
    job = spec(hosts=2, accelerator={"gpu": asked})
    found = hardware_of(job, resolve(job, Settings(), site), site)
    assert (found.whole_nodes, found.is_tpu, found.own_pool) == (whole, False, False)


def test_only_tpus_have_node_pools_of_their_own() -> None:
    tpus, none = spec(accelerator={"type": "v5p-16"}), spec(hosts=2)
    found = [hardware_of(one, resolve(one, Settings())) for one in (tpus, none)]
    assert [type(one) for one in found] == [Tpu, Hardware]
    assert [one.own_pool for one in found] == [True, False]
    assert [one.whole_nodes for one in found] == [True, False]


APART: dict[str, dict[str, Any]] = {
    "a CPU job": {},
    "a GPU job": gpu(**NVIDIA),
    "a Ray job": {"ray": {"entrypoint": "python a.py"}},
}


@pytest.mark.parametrize("fields", APART.values(), ids=APART)
def test_one_host_a_node_where_asked(fields: dict[str, Any]) -> None:  # E2-21
    workers = {"matchLabels": {names.LABEL_JOB_UID: UID, names.LABEL_ROLE: names.ROLE_WORKER}}
    rule = {"labelSelector": workers, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    factory = pod_factory(World(hosts=3, slices=2, oneHostPerNode=True, **fields).job, Settings())
    assert factory.pod(0, worker(1, 2))["spec"]["affinity"] == affinity
    assert factory.least_nodes == 6
    assert "affinity" not in make(oneHostPerNode=False, **fields)["spec"]
    assert make(**fields) == make(oneHostPerNode=None, **fields)


def test_a_ray_head_may_be_beside_a_worker() -> None:
    head = pod_factory(World(oneHostPerNode=True, **APART["a Ray job"]).job, Settings()).pod(0, HEAD)
    assert "podAntiAffinity" not in head["spec"]["affinity"]


def test_hosts_of_a_gpu_job_with_the_nodes_network_are_apart() -> None:
    affinity = make(hostNetwork=True, **gpu(**NVIDIA))["spec"]["affinity"]
    assert affinity == make(hostNetwork=True)["spec"]["affinity"]


# Ray


def test_a_ray_worker_offers_its_gpus_as_ray_takes_them() -> None:  # E2-11
    pod = make(**gpu(**NVIDIA), **APART["a Ray job"])
    command = pod["spec"]["containers"][0]["command"]
    assert "--num-gpus=2" in command
    [resources] = [word.removeprefix("--resources=") for word in command if word.startswith("--resources=")]
    assert json.loads(resources) == {"train-s0": 1}


def test_a_ray_worker_without_gpus_says_nothing_of_them() -> None:
    for fields in ({}, gpu(count=0), {"accelerator": {"type": "v5p-8"}, "hosts": None}):
        command = make(**fields, **APART["a Ray job"])["spec"]["containers"][0]["command"]
        assert not [word for word in command if word.startswith("--num-gpus")]


# Why there are no nodes


def node(name: str, gpus: str | None = None, **labels: str) -> Node:
    size = {"cpu": "8", "memory": "32Gi"} | ({"nvidia.com/gpu": gpus} if gpus is not None else {})
    taints = (Taint("nvidia.com/gpu", "NoSchedule", None, "present"),) if gpus is not None else ()
    ready = PodCondition("Ready", "True", "", "", START)
    return Node(NodeMetadata(name, uid=f"uid-{name}", labels=labels), NodeSpec(taints), NodeStatus((ready,), size))


L4 = {MODEL_LABEL: "nvidia-l4"}
CPU_NODE, GPU_NODE = node("cpu"), node("gpu", "4", **L4)
NOWHERE: dict[str, tuple[list[Node], dict[str, Any], tuple[str, str] | None]] = {
    "no node has GPUs": ([CPU_NODE], gpu(**NVIDIA), ("NoSuchNodes", "no node has nvidia.com/gpu")),
    "nor does one by a plain limit": (
        [CPU_NODE],
        on("nvidia.com/gpu", 2),
        ("NoSuchNodes", "no node has nvidia.com/gpu"),
    ),
    "no node has GPUs of that vendor": ([GPU_NODE], gpu(vendor="amd", count=1), ("NoSuchNodes", "amd.com/gpu")),
    "no node has that model": (
        [CPU_NODE, GPU_NODE],
        gpu(**NVIDIA, model="nvidia-h100-80gb"),
        ("SelectorMatchesNothing", f"no node has {MODEL_LABEL}=nvidia-h100-80gb"),
    ),
    "too few on each node": (
        [CPU_NODE, GPU_NODE],
        gpu(vendor="nvidia", count=8),
        ("NodesTooSmall", "gpu has 4 nvidia.com/gpu on each host, less than a pod requests"),
    ),
    "a taint of GPU nodes that a plain limit does not tolerate": (
        [CPU_NODE, GPU_NODE],
        on("nvidia.com/gpu", 2),
        ("NodesTainted", "gpu has the taint nvidia.com/gpu=present:NoSchedule, which nothing tolerates"),
    ),
    "how full the nodes are nobody knows": ([CPU_NODE, GPU_NODE], gpu(**NVIDIA, model="nvidia-l4"), None),
    "a CPU job": ([CPU_NODE, GPU_NODE], {}, None),
}


@pytest.mark.parametrize(("nodes", "fields", "said"), NOWHERE.values(), ids=NOWHERE)
def test_why_the_scheduler_finds_no_gpus(
    nodes: list[Node], fields: dict[str, Any], said: tuple[str, str] | None
) -> None:
    found = explain_unscheduled(View(World(**fields).job, Settings(), nodes, NOBODY, 1, START, START)).found
    assert (found is None) == (said is None)
    if found is not None and said is not None:
        assert found.reason == said[0]
        assert said[1] in found.message


def test_a_node_without_gpus_is_of_no_use_to_a_gpu_job() -> None:
    suits = pod_factory(World(**gpu(**NVIDIA)).job, Settings()).suits
    assert [suits(one) for one in (CPU_NODE, GPU_NODE, node("none", "0"))] == [False, True, False]
    assert pod_factory(World().job, Settings()).suits(CPU_NODE)


def contested(gpus_held: str | None, older_asks: dict[str, Any]) -> World:
    """A job of two slices, of which one runs on nodes with so many GPUs, and an older job that waits for nodes."""
    mine = gpu(**NVIDIA) if gpus_held is not None else {}
    world = World(slices=2, hosts=2, **mine).begin()
    for handle in world.all_pods():
        handle.runs() if handle.key[1] == 0 else handle.unschedulable()
    world.step(seconds=6)
    for name in list(world.nodes):
        world.nodes[name] = node(name, gpus_held)
    asked = spec(**({"slices": 1, "hosts": 1} | older_asks))
    older = replace(world.job, name="older", uid="older", created=START - timedelta(hours=1), spec=asked, accepted={})
    world.rivals = (older,)
    return world


RIVALS: dict[str, tuple[str | None, dict[str, Any], bool]] = {
    "two GPU jobs": ("2", gpu(**NVIDIA), True),
    "the older needs more GPUs than a node has": ("2", gpu(vendor="nvidia", count=8), False),
    "the older needs GPUs of another vendor": ("2", gpu(vendor="amd", count=1), False),
    "the older needs GPUs, and the younger has CPU nodes": (None, gpu(**NVIDIA), False),
    "two CPU jobs": (None, {}, True),
    "the older needs a node for each host, and there are as many": (None, {"hosts": 2, "oneHostPerNode": True}, True),
    "the older needs a node for each host, and there are fewer": (None, {"hosts": 3, "oneHostPerNode": True}, False),
}


@pytest.mark.parametrize(("gpus_held", "older_asks", "gives_way"), RIVALS.values(), ids=RIVALS)
def test_a_younger_job_gives_way_where_the_older_can_use_its_nodes(
    gpus_held: str | None, older_asks: dict[str, Any], gives_way: bool
) -> None:
    world = contested(gpus_held, older_asks)
    assert any(actions_of(world.step(seconds=60), DeletePods) for _ in range(5)) == gives_way
