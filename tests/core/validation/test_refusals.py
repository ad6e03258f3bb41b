"""What only the operator sees in a spec and refuses: messages name the user's own field, its value and a way out."""

from typing import Any

import pytest

from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import Settings
from slipway.core.validation.acceptance import resolve, template_hash
from tests.core.build import World, spec

V5P: dict[str, Any] = {"accelerator": {"type": "v5p-16"}}
RAY: dict[str, Any] = {"ray": {"entrypoint": "python a.py"}}
DIGEST = "sha256:" + "0a" * 32
QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"


def mount(path: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "node", "hostPath": {"path": path}}]}


def template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


def containers(**fields: Any) -> dict[str, Any]:
    """A template of a worker, and of a sidecar with these fields."""
    return template(containers=[{"name": "worker"}, {"name": "log", "image": "a", **fields}])


def worker(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "worker", **fields}])


def labelled(labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    return {"podTemplate": {"metadata": {"labels": labels, "annotations": annotations}}}


SOCKETS = {
    "the socket": "/var/run/docker.sock",
    "the socket by its other name": "/run/docker.sock",
    "containerd's": "/run/containerd/containerd.sock",
    "the folder of containerd's": "/var/run/containerd",
    "another socket of containerd's": "/run/containerd/s/0123",
    "CRI-O's": "/run/crio/crio.sock",
    "podman's": "/run/podman/podman.sock",
    "cri-dockerd's": "/var/run/cri-dockerd.sock",
    "a socket elsewhere": "/var/snap/microk8s/common/run/containerd.sock",
    "its folder": "/run",
    "its folder by its other name": "/var/run",
    "a folder above": "/var",
    "the whole node": "/",
    "slashes": "//run//containerd///",
    "a way round": "/var/lib/../run/./docker.sock",
    "above the root": "/../../run",
    "processes, whose roots are the node's": "/proc",
    "the root of the first process": "/proc/1/root",
    "the socket below it": "//proc//1/root/run/containerd/s",
}
FREE = {
    "data": "/mnt/data",
    "a beginning of the name only": "/runner",
    "a neighbour": "/run/containerd-data",
    "another folder below run": "/var/run/udev",
    "logs": "/var/log",
    "devices": "/dev",
    "a device": "/dev/vfio/0",
    "what the kernel says of devices": "/sys/class/accel",
    "a name that begins like processes": "/processed",
    "another folder of that name": "/data/proc",
    "no text": 7,
    "no absolute path": "relative/path",
}


@pytest.mark.parametrize("path", SOCKETS.values(), ids=SOCKETS.keys())
@pytest.mark.row("B-25")
def test_no_pod_gets_the_socket_of_the_container_engine(path: str) -> None:  # F-44
    for where, fields in (("spec", mount(path)), ("spec.podTemplate.spec", template(**mount(path)))):
        with pytest.raises(InvalidSpec) as refused:
            resolve(spec(**fields), Settings())
        assert refused.value.reason == "InvalidSpec"
        assert refused.value.message.startswith(f"{where}.volumes[1].hostPath.path {path!r} gives the pods the socket")


def test_a_path_by_the_processes_of_the_node_is_explained() -> None:
    with pytest.raises(InvalidSpec) as refused:
        resolve(spec(**mount("/proc/1/root")), Settings())
    assert "container engine (through /proc/1/root, which is the node's /): no path that is" in refused.value.message


@pytest.mark.parametrize("path", FREE.values(), ids=FREE.keys())
def test_other_folders_of_the_node_may_be_mounted(path: Any) -> None:
    assert resolve(spec(**mount(path)), Settings()).hosts == 1
    assert resolve(spec(**template(**mount(path))), Settings()).hosts == 1


def devices(resource: str, value: Any, kind: str = "limits") -> dict[str, Any]:
    return {"resources": {kind: {resource: value}}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "shmSize in Docker's units": ({"shmSize": "512m"}, "spec.shmSize '512m' is no whole number of bytes"),
    "memory in Docker's units": (
        {"resources": {"limits": {"cpu": "500m", "memory": "512m"}}},
        "spec.resources.limits[memory] '512m' is no whole number of bytes: give bytes, or a quantity such as 512Mi",
    ),
    "storage of a container of the template": (
        {
            "podTemplate": {
                "spec": {"containers": [{"name": "log", "resources": {"requests": {"ephemeral-storage": "0.1"}}}]}
            }
        },
        "resources.requests[ephemeral-storage] '0.1' is no whole number of bytes",
    ),
    "NVIDIA beside TPUs": (
        V5P | devices("nvidia.com/gpu", 1),
        "spec.resources.limits[nvidia.com/gpu] '1': the nodes of accelerator v5p-16 have TPUs and no GPUs: remove it, "
        "or remove spec.accelerator",
    ),
    "a part of one": (V5P | devices("nvidia.com/mig-1g.5gb", "2", "requests"), "spec.resources.requests[nvidia.com/m"),
    "AMD": (V5P | devices("amd.com/gpu", 1), "spec.resources.limits[amd.com/gpu] '1'"),
    "Intel": (V5P | devices("gpu.intel.com/i915", 1), "spec.resources.limits[gpu.intel.com/i915] '1'"),
    "GPUs by the template": (
        V5P | worker(**devices("nvidia.com/gpu", "8", "requests")),
        "spec.podTemplate.spec.containers[0].resources.requests[nvidia.com/gpu] '8'",
    ),
    "GPUs of a sidecar": (
        V5P | containers(**devices("nvidia.com/gpu", 1)),
        "spec.podTemplate.spec.containers[1].resources.limits[nvidia.com/gpu] '1'",
    ),
    "too many chips": (
        V5P | devices("google.com/tpu", "8"),
        "spec.resources.limits[google.com/tpu] '8': a host of accelerator v5p-16 has 4 chips, and Slipway requests "
        "them all: leave the field out",
    ),
    "too few chips by the template": (
        V5P | worker(**devices("google.com/tpu", 1, "requests")),
        "spec.podTemplate.spec.containers[0].resources.requests[google.com/tpu] '1': a host",
    ),
    "chips for a Ray head": (
        V5P | {"ray": RAY["ray"] | {"head": devices("google.com/tpu", 4)}},
        "spec.ray.head.resources.limits[google.com/tpu] '4': the Ray head never runs on TPU nodes: remove it",
    ),
    "chips for a Ray head by a request": (
        {"ray": RAY["ray"] | {"head": devices("google.com/tpu", "1", "requests")}},
        "spec.ray.head.resources.requests[google.com/tpu] '1': the Ray head never",
    ),
    "E2-09 headWorkers without TPUs and without a name": (
        {"ray": RAY["ray"] | {"headWorkers": 2}},
        "spec.ray.headWorkers 2: ray.headWorkers needs ray.headResourceName beside it in a job without TPUs",
    ),
    "B-39 a digest": (
        {"image": DIGEST},
        f"spec.image '{DIGEST}' names no registry or repository that a node could pull it from: push the image, and",
    ),
    "B-39 a short id": ({"image": "0123456789ab"}, "spec.image '0123456789ab' names no registry"),
    "B-39 a long id": ({"image": "0a" * 32}, "names no registry"),
    "B-39 a sidecar's": (containers(image=DIGEST), "spec.podTemplate.spec.containers[1].image 'sha256:"),
    "B-39 an init container's": (
        template(initContainers=[{"name": "a", "image": "0123456789ab"}]),
        "spec.podTemplate.spec.initContainers[0].image '0123456789ab'",
    ),
    "E2-35 in runtimeEnv": (
        {"ray": RAY["ray"] | {"runtimeEnv": {"env_vars": {"A": "s3cr3t", "MEGASCALE_SLICE_ID": "s3cr3t"}}}},
        "spec.ray.runtimeEnv.env_vars[MEGASCALE_SLICE_ID] is reserved: Slipway sets it for every host; remove it",
    ),
    "E2-35 in the template": (
        template(
            containers=[{"name": "log"}, {"name": "worker", "env": [{"name": "TPU_WORKER_ID", "value": "s3cr3t"}]}]
        ),
        "spec.podTemplate.spec.containers[1].env[TPU_WORKER_ID] is reserved",
    ),
    "K-04 Ray's token": (
        RAY | {"env": [{"name": "RAY_AUTH_TOKEN", "value": "s3cr3t"}]},
        "spec.env[RAY_AUTH_TOKEN] is reserved: Slipway sets it in every container of a Ray cluster; remove it",
    ),
    "K-04 Ray's address for the head": (
        {"ray": RAY["ray"] | {"head": {"env": [{"name": "RAY_ADDRESS", "value": "s3cr3t"}]}}},
        "spec.ray.head.env[RAY_ADDRESS] is reserved: Slipway sets it in every container of a Ray cluster; remove it",
    ),
    "E2-35 for the head": (
        {"ray": RAY["ray"] | {"head": {"env": [{"name": "SLIPWAY_COORDINATOR_ADDRESS", "value": "s3cr3t"}]}}},
        "spec.ray.head.env[SLIPWAY_COORDINATOR_ADDRESS] is reserved: Slipway sets it for every host; remove it",
    ),
    "K-04 Ray's mode in runtimeEnv": (
        {"ray": RAY["ray"] | {"runtimeEnv": {"env_vars": {"RAY_AUTH_MODE": "s3cr3t"}}}},
        "spec.ray.runtimeEnv.env_vars[RAY_AUTH_MODE] is reserved",
    ),
    "K-04 Ray's token in a sidecar": (
        RAY | containers(env=[{"name": "RAY_AUTH_TOKEN_PATH", "value": "s3cr3t"}]),
        "spec.podTemplate.spec.containers[1].env[RAY_AUTH_TOKEN_PATH] is reserved",
    ),
    "a worker that starts again": (
        worker(restartPolicy="OnFailure"),
        "spec.podTemplate.spec.containers[0].restartPolicy 'OnFailure': the containers of a host start once, and "
        "spec.retries says how often Slipway starts all hosts anew: remove it",
    ),
    "a sidecar among the containers": (
        containers(restartPolicy="Always"),
        "spec.podTemplate.spec.containers[1].restartPolicy 'Always': the containers of a host start once",
    ),
    "rules by which a worker starts again": (
        worker(restartPolicy="Never", restartPolicyRules=[{"action": "Restart"}]),
        "spec.podTemplate.spec.containers[0].restartPolicyRules a list: the containers of a host",
    ),
    "rules of an init container for all containers": (
        template(initContainers=[{"name": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]),
        "spec.podTemplate.spec.initContainers[0].restartPolicyRules 'RestartAllContainers': the containers of a host",
    ),
    "a queue of the pods": (
        labelled({QUEUE: "research"}),
        f"spec.podTemplate.metadata.labels[{QUEUE}] 'research': Kueue admits the SliceJob as a whole, not its pods: "
        "put the label into metadata.labels of the SliceJob",
    ),
    "a group of pods": (
        labelled({QUEUE: "research", GROUP: "train"}, **{"kueue.x-k8s.io/pod-group-total-count": "2"}),
        "put the label into metadata.labels of the SliceJob",
    ),
}


@pytest.mark.parametrize(("fields", "said"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.row("B-39", "B-16")
def test_what_no_schema_can_see_is_refused(fields: dict[str, Any], said: str) -> None:
    world = World(hosts=None if "accelerator" in fields else 1, **fields)
    decision = world.step()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, accepted.status, decision.actions) == ("Invalid", "False", ())
    assert said in accepted.message
    assert "s3cr3t" not in accepted.message


TAKEN: dict[str, dict[str, Any]] = {
    "GPUs without TPUs": devices("nvidia.com/gpu", 1),
    "GPUs for a Ray head": V5P | {"ray": RAY["ray"] | {"head": devices("nvidia.com/gpu", 1)}},
    "other GPUs for a Ray head": {
        "accelerator": {"gpu": {"vendor": "nvidia", "count": 2}},
        "ray": RAY["ray"] | {"head": devices("nvidia.com/mig-1g.5gb", 1)},
    },
    "the chips of a host": V5P | {"resources": {"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": 4}}},
    "chips in another spelling": V5P | worker(**devices("google.com/tpu", "4000m")),
    "a digest behind a repository": {"image": f"acme/train@{DIGEST}"},
    "a repository that begins like an id": {"image": "0123456789ab/train"},
    "Ray's token without Ray": {"env": [{"name": "RAY_AUTH_TOKEN", "value": "x"}]},
    "Ray's address in a sidecar": RAY | containers(env=[{"name": "RAY_ADDRESS", "value": "x"}]),
    "a container that starts once": worker(restartPolicy="Never"),
    "a sidecar among the init containers": template(initContainers=[{"name": "a", "restartPolicy": "Always"}]),
    "an init container that starts again": template(
        initContainers=[{"name": "a", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}]
    ),
    "rules that are none": template(initContainers=[{"name": "a", "restartPolicyRules": ["x"]}]),
    "a host's number in a sidecar": containers(env=[{"name": "TPU_WORKER_ID", "value": "0"}]),
}


@pytest.mark.parametrize("image", [DIGEST, "0123456789ab", "0a" * 32])
def test_a_machine_that_knows_images_by_their_ids_takes_them(image: str) -> None:
    with pytest.raises(InvalidSpec, match="names no registry"):
        resolve(spec(image=image), Settings())
    resolve(spec(image=image), Settings(images_by_id=True))


@pytest.mark.parametrize("fields", TAKEN.values(), ids=TAKEN.keys())
def test_what_only_looks_like_it_is_taken(fields: dict[str, Any]) -> None:
    assert resolve(spec(**fields), Settings()).hosts


@pytest.mark.parametrize(
    "fields",
    [
        {"volumes": [{"name": "slipway-data-0", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "slipway-workspace", "mountPath": "/all"}]},
        {"podTemplate": {"spec": {"volumes": [{"name": "slipway-shm", "emptyDir": {}}]}}},
        {
            "podTemplate": {
                "spec": {"containers": [{"name": "a", "volumeMounts": [{"name": "slipway-ray", "mountPath": "/"}]}]}
            }
        },
    ],
)
def test_volumes_of_slipway_are_not_the_job_s(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="are those of Slipway's own volumes"):
        resolve(spec(**fields), Settings())


HALF_A_BYTE = {"shmSize": "512m", "resources": {"limits": {"memory": "1500m"}}}


@pytest.mark.parametrize("phase", ["Starting", "Suspended", "Running"])
def test_a_size_that_an_earlier_version_took_goes_on(phase: str) -> None:
    """A stricter rule binds specs that are created or changed after it."""
    world = World(slices=1, hosts=1, suspend=phase == "Suspended")
    world.settle()
    if phase == "Running":
        world.run()
    # What the earlier version wrote of a spec with such sizes.
    world.fields |= HALF_A_BYTE
    if world.status.resolved is not None:
        hashed = world.status.resolved.model_copy(update={"template_hash": template_hash(world.job.spec)})
        world.status = world.status.model_copy(update={"resolved": hashed})
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert accepted.status == "True", accepted.message
    if phase == "Running":
        world.pod(0, 0).exits(1)
        world.until_restarted()
        assert (world.status.attempt, world.status.failures) == (1, 1)
