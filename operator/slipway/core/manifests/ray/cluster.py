"""The Ray runtime: what differs in the pods.

The workers are the same pods in the same places as those of any job, with Ray in them. The head is one pod more. In
it Ray is a sidecar of the `driver`: so the pod ends when the driver does, its logs stay, and what the kubelet does
with a crashed Ray (it starts it anew, without workers) can never run the entrypoint a second time.
"""

import json
import re
import shlex
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from slipway.api import names
from slipway.api.places import HEAD, Place
from slipway.api.ray import Ray
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import RayState
from slipway.core.manifests.hardware import Hardware, Variable, literal
from slipway.core.manifests.peers import Peers
from slipway.core.manifests.ray import objects
from slipway.core.manifests.runtime import Runtime, workers
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod

TOKEN_KEY: Final = "token"
TOKEN_FOLDER: Final = "/var/run/slipway/ray"
TOKEN_VOLUME: Final = "slipway-ray-token"
HAS_JOINED: Final = ("test", "-e", "/tmp/ray/slipway-joined")
"""What succeeds in the driver's container once all workers have joined: then the head is Ready."""
AGENT_PORT: Final = 52365
METRICS_PORT: Final = 8080
NO_LIMIT: Final = 100_000_000
"""A failure threshold that is never reached: whatever takes too long is Slipway's to judge, by its own time limits."""

_RAYLET_HEALTH: Final = "/api/local_raylet_healthz"
_NODE_IS_UP: Final = {"httpGet": {"path": _RAYLET_HEALTH, "port": AGENT_PORT}}
_OPTION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_FOLDER_VOLUME: Final = "slipway-ray"
_HEAD_REQUESTS: Final = {"cpu": "1", "memory": "4Gi"}
_DRIVER_REQUESTS: Final = {"cpu": "50m", "memory": "64Mi"}
_DRIVER_LIMITS: Final = {"cpu": "1", "memory": "1Gi"}
"""Far more than it needs: a quota on limits asks that there be some."""
_NODE_PROGRAM: Final = resources.files("slipway.core.manifests.ray").joinpath("node_program.py").read_text()
_DRIVER_PROGRAM: Final = resources.files("slipway.core.manifests.ray").joinpath("driver_program.py").read_text()


def head_address(peers: Peers) -> str:
    """Where the head of this attempt is, by a name known before any pod exists."""
    return f"{names.head_hostname(peers.attempt)}.{names.head_service(peers.job.name)}.{peers.job.namespace}.svc"


def mounts() -> list[Body]:
    """Where it appears."""
    return [{"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}]


def _variables(job: Job, address: str, group: str) -> list[Variable]:
    """The environment of a container with a Ray node in it, by the names that Ray and KubeRay give it."""
    return [
        literal("FQ_RAY_IP", address),
        literal("RAY_IP", address),
        literal("RAY_PORT", names.RAY_GCS_PORT),
        literal("RAY_ADDRESS", f"{address}:{names.RAY_GCS_PORT}"),
        *_authentication(),
        literal("RAY_CLUSTER_NAME", job.name),
        literal("RAY_CLUSTER_NAMESPACE", job.namespace),
        literal("RAY_NODE_TYPE_NAME", group),
        {"name": "RAY_CLOUD_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]


def _authentication() -> list[Variable]:
    return [literal("RAY_AUTH_MODE", "token"), literal("RAY_AUTH_TOKEN_PATH", f"{TOKEN_FOLDER}/{TOKEN_KEY}")]


def worker_resources(job: Job, ray: Ray, place: Place, hardware: Hardware) -> dict[str, int]:
    """The Ray resources a worker offers: its devices, its slice, and on host 0 what programs find the slice by."""
    offered = {names.slice_name(job.name, place.slice): 1} | hardware.ray_resources()
    if place.host == 0 and hardware.head_resource is not None:
        offered[hardware.head_resource] = (ray.head_workers or 1) if ray.head_resource_name is None else 1
    if place.host == 0 and ray.head_resource_name is not None:
        offered[ray.head_resource_name] = ray.head_workers or 1
    return offered


def worker_probes() -> Body:
    """Whether the worker's Ray has joined, and still answers."""
    return _probes(_NODE_IS_UP, timeout=2)


def _ray_start(await_first: str, *arguments: str) -> list[str]:
    fixed = (f"--dashboard-agent-listen-port={AGENT_PORT}", f"--metrics-export-port={METRICS_PORT}", "--block")
    return _kept(["python3", "-c", _NODE_PROGRAM, await_first, "ray", "start", *arguments, *fixed])


def _kept(command: list[str]) -> list[str]:
    """The command as the kubelet must be told it, which expands `$(NAME)`."""
    return [word.replace("$(", "$$(") for word in command]


def _probes(look: Body, *, timeout: int) -> Body:
    timed = {**look, "timeoutSeconds": timeout}
    return {
        "startupProbe": {**_NODE_IS_UP, "timeoutSeconds": 2, "periodSeconds": 1, "failureThreshold": NO_LIMIT},
        "readinessProbe": {**timed, "periodSeconds": 5, "failureThreshold": 10},
        "livenessProbe": {**timed, "periodSeconds": 5, "failureThreshold": 120},
    }


def _never_on_tpus() -> Body:
    without = {"matchExpressions": [{"key": names.NODE_ACCELERATOR, "operator": "DoesNotExist"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [without]}}}


def _ray_container(peers: Peers, ray: Ray, hardware: Hardware, container: Body) -> Body:
    """Ray itself, and in it the entrypoint."""
    own = [*job_variables(peers, hardware), *_variables(peers.job, "127.0.0.1", "headgroup")]
    if ray.args is not None:
        own.append(literal("SLIPWAY_ARGS", json.dumps(ray.args)))
    for_all = {one["name"]: one for one in container.get("env", ())}
    given = for_all | {
        variable.name: variable.model_dump(by_alias=True, exclude_none=True) for variable in ray.head.env
    }
    ports = (names.RAY_GCS_PORT, names.RAY_DASHBOARD_PORT, names.RAY_CLIENT_PORT)
    gcs, dashboard, client = (str(port) for port in ports)
    return {
        **container,
        "name": names.RAY_CONTAINER,
        "restartPolicy": "Always",
        # No CPUs: tasks belong on the workers.
        "command": _ray_start(
            "", "--head", f"--port={gcs}", "--dashboard-host=0.0.0.0", f"--dashboard-port={dashboard}",
            f"--ray-client-server-port={client}", "--num-cpus=0",
        ),
        "env": [one for one in own if one["name"] not in given] + list(given.values()),
        "ports": [{"containerPort": port} for port in ports],
        "resources": _head_resources(ray),
        "volumeMounts": [*container["volumeMounts"], _folder_mount()],
        **_probes({"httpGet": {"path": "/api/gcs_healthz", "port": names.RAY_DASHBOARD_PORT}}, timeout=5),
    }  # fmt: skip


def job_variables(peers: Peers, hardware: Hardware) -> list[Variable]:
    """What the entrypoint is told of its job; what tells slices and hosts apart is in the workers."""
    return [
        literal("SLIPWAY_JOB", peers.job.name),
        literal("SLIPWAY_ATTEMPT", peers.attempt),
        literal("SLIPWAY_WORLD_SIZE", peers.count),
        *hardware.job_variables(peers.slices),
    ]


def _head_resources(ray: Ray) -> Body:
    given: Body = ray.head.resources.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    requests, limits = given.get("requests", {}), given.get("limits", {})
    # A limit without a request is the request, by Kubernetes' own default.
    missing = {name: value for name, value in _HEAD_REQUESTS.items() if name not in limits}
    return given | {"requests": missing | requests}


def _driver_resources(ray: Ray) -> Body:
    """A limit on what Ray beside it has a limit on, for a quota on limits takes no pod with a container without."""
    limits = {name: most for name, most in _DRIVER_LIMITS.items() if name in ray.head.resources.limits}
    return {"requests": _DRIVER_REQUESTS} | ({"limits": limits} if limits else {})


def _folder_mount() -> Body:
    return {"name": _FOLDER_VOLUME, "mountPath": "/tmp/ray"}


def _driver(peers: Peers, ray: Ray, container: Body) -> Body:
    """Waits for the workers and follows the entrypoint; it is ready once all have joined."""
    order = json.dumps({"workers": peers.count, "submission": submission(peers, ray)})
    kept = ("image", "imagePullPolicy", "securityContext", "terminationMessagePolicy")
    return {key: container[key] for key in kept if key in container} | {
        "name": names.DRIVER_CONTAINER,
        "command": _kept(["python3", "-c", _DRIVER_PROGRAM, order]),
        "env": _authentication(),
        "resources": _driver_resources(ray),
        "volumeMounts": [*mounts(), _folder_mount()],
        "startupProbe": {
            "exec": {"command": list(HAS_JOINED)},
            "periodSeconds": 1,
            "failureThreshold": NO_LIMIT,
        },
    }


def submission(peers: Peers, ray: Ray) -> dict[str, Any] | None:
    """What Ray's job server is asked to run, under a name that is new in each attempt; None for a kept cluster."""
    if ray.entrypoint is None:
        return None
    environment = ray.runtime_env
    return {
        "submission_id": f"{peers.job.name}-{peers.attempt}",
        "entrypoint": " ".join([ray.entrypoint, *_options(ray.args or {})]),
        "runtime_env": environment.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        if environment is not None
        else {},
        "metadata": {"slipway_job": peers.job.name, "slipway_attempt": str(peers.attempt)},
    }


def _options(args: dict[str, Any]) -> list[str]:
    """Arguments as words for a shell; what is null is left out, what is no text is written as JSON."""
    return [
        f"--{key} {shlex.quote(value if isinstance(value, str) else json.dumps(value))}"
        for key, value in args.items()
        if value is not None
    ]


class RayCluster(Runtime):
    """A Ray head, in which the entrypoint runs, and Ray workers."""

    needs_shm = True

    def __init__(self, spec: Ray) -> None:
        """`spec` is `spec.ray`."""
        self._ray = spec
        self.waits_for_clients = spec.keep_alive

    def problem(self, template: Body, coordinator_port: int) -> tuple[str, str] | None:
        """Names of arguments, ports and parts of the template that Ray cannot do with."""
        for key in self._ray.args or ():
            if _OPTION.fullmatch(key) is None:
                return (
                    "InvalidArgument",
                    f"spec.ray.args {key[:80]!r} is no option's name: letters, digits, - and _ are allowed",
                )
        if coordinator_port in (AGENT_PORT, METRICS_PORT):
            return "PortTaken", f"spec.coordinator.port {coordinator_port} is Ray's own on every worker: choose another"
        if template.get("hostNetwork"):
            return "InvalidPodTemplate", (
                "spec.podTemplate.spec.hostNetwork cannot be true beside ray: "
                "Ray's ports would be open to the nodes' network"
            )
        for container in template.get("containers", ()):
            for field in ("command", "args"):
                if container["name"] == names.WORKER_CONTAINER and container.get(field):
                    return "InvalidPodTemplate", (
                        f"spec.podTemplate.spec.containers[worker].{field} means nothing beside ray, "
                        "whose workers run Ray"
                    )
        return None

    def places(self, slices: int, hosts: int) -> frozenset[Place]:
        """The workers and the head."""
        return _with_head(slices, hosts)

    def runs_program(self, pod: Pod) -> bool:
        """Whether it is the head, and the driver ended it; workers run Ray."""
        return pod.is_head and not pod.ray_ended_first

    def memory_limit(self, pod: Pod, spec: SliceJobSpec) -> str | int | None:
        """The head has its own, which is for Ray; and its driver that which it has beside Ray's."""
        if not pod.is_head:
            return super().memory_limit(pod, spec)
        found: dict[str, str | int] = (
            self._ray.head.resources.limits if pod.ray_ended_first else _driver_resources(self._ray).get("limits", {})
        )
        return found.get("memory")

    def objects(self, job: Job) -> tuple[Body, ...]:
        """Who may connect to the cluster."""
        return (objects.network_policy(job),)

    def token(self, job: Job) -> Body:
        """The token with which they do."""
        return objects.token_secret(job)

    def services(self, peers: Peers) -> tuple[Body, ...]:
        """The workers' Services and the head's."""
        return *peers.services(), objects.service(peers.job)

    def state(self, job: Job) -> RayState | None:
        """How clients reach the cluster."""
        return RayState(service=names.head_service(job.name), token_secret=names.ray_token_secret(job.name, job.uid))

    def running(self, attempt: int, hosts: int) -> str:
        """Says what the cluster is doing."""
        doing = "the cluster waits for clients" if self.waits_for_clients else "the entrypoint runs"
        return f"all {hosts - 1} Ray workers of attempt {attempt} have joined and {doing}"

    def succeeded(self, attempt: int, hosts: int) -> str:
        """Only the entrypoint succeeds."""
        return f"the entrypoint of attempt {attempt} exited 0"

    def volumes(self, job: Job) -> list[Body]:
        """The token of the cluster."""
        secret = {"secretName": names.ray_token_secret(job.name, job.uid), "defaultMode": 0o444}
        return [{"name": TOKEN_VOLUME, "secret": secret}]

    def mounts(self) -> list[Body]:
        """Where Ray is told to find the token."""
        return mounts()

    def worker_variables(self, peers: Peers, slice_index: int, hardware: Hardware) -> list[Variable]:
        """How it finds the head."""
        group = names.slice_name(peers.job.name, slice_index)
        return _variables(peers.job, head_address(peers), group) + hardware.ray_variables()

    def worker_fields(self) -> Body:
        """How the kubelet sees that it has joined."""
        return worker_probes()

    def worker_command(self, peers: Peers, place: Place, hardware: Hardware) -> list[str] | None:
        """Starts Ray with the resources of this host."""
        head = head_address(peers)
        offered = worker_resources(peers.job, self._ray, place, hardware)
        # Ray does not take GPUs among the resources.
        gpus = [f"--num-gpus={offered.pop('GPU')}"] if "GPU" in offered else []
        health = f"http://{head}:{AGENT_PORT}{_RAYLET_HEALTH}"
        joins = f"--address={head}:{names.RAY_GCS_PORT}"
        return _ray_start(health, joins, *gpus, f"--resources={json.dumps(offered)}")

    def head(self, peers: Peers, hardware: Hardware, common: Body, container: Body) -> Body:
        """Ray, and the driver that follows the entrypoint."""
        if "securityContext" in container:
            # Only what opens TPUs needs it.
            allowed = {key: value for key, value in container["securityContext"].items() if key != "privileged"}
            container = container | {"securityContext": allowed}
        ray_itself = _ray_container(peers, self._ray, hardware, container)
        return common | {
            "nodeSelector": self._ray.head.node_selector,
            "affinity": _never_on_tpus(),
            "volumes": [*common["volumes"], {"name": _FOLDER_VOLUME, "emptyDir": {}}],
            "initContainers": [*common.get("initContainers", ()), ray_itself],
            "containers": [_driver(peers, self._ray, container)],
            "restartPolicy": "Never",
            "subdomain": names.head_service(peers.job.name),
            "hostname": names.head_hostname(peers.attempt),
        }


@lru_cache(maxsize=64)
def _with_head(slices: int, hosts: int) -> frozenset[Place]:
    return workers(slices, hosts) | {HEAD}
