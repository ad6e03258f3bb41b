"""The Ray runtime: its pods and objects, and what becomes of a job whose end is its entrypoint's."""

import json
import shlex
from datetime import datetime, timedelta
from typing import Any

import pytest

from slipway.api.places import HEAD, Place, worker
from slipway.api.status import Cause, Condition
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.ray import objects
from slipway.core.model.container_states import ContainerState, ContainerStatus, Running, Terminated, Waiting
from slipway.core.model.job import Settings
from slipway.core.planner.contract.actions import (
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    DeletePods,
)
from slipway.core.validation.acceptance import pod_factory, resolve
from tests.core.build import HEAD_KEY, UID, PodHandle, World, actions_of

TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}, "hosts": None}
RUN: dict[str, Any] = {"ray": {"entrypoint": "python3 train.py"}}
KEEP: dict[str, Any] = {"ray": {"keepAlive": True}}


def make(place: Place, *, attempt: int = 0, slices: int = 2, **fields: Any) -> Any:
    return pod_factory(World(slices=slices, **(TPU | RUN | fields)).job, Settings()).pod(attempt, place)


def container(pod: Any, name: str) -> Any:
    spec = pod["spec"]
    return next(one for one in (*spec["containers"], *spec.get("initContainers", ())) if one["name"] == name)


def environment(pod: Any, name: str) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(pod, name)["env"]}


def resources(pod: Any) -> dict[str, Any]:
    [given] = [word for word in container(pod, "worker")["command"] if word.startswith("--resources=")]
    found: dict[str, Any] = json.loads(given.removeprefix("--resources="))
    return found


def order(pod: Any) -> Any:
    return json.loads(container(pod, "driver")["command"][-1].replace("$$(", "$("))


class Head:
    """Changes the head pod as the cluster would."""

    def __init__(self, world: World, attempt: int | None = None) -> None:
        self.world, self.handle = world, world.pod(*HEAD_KEY, attempt=attempt)

    def is_in(self, driver: ContainerState, ray: ContainerStatus, phase: str = "Running") -> PodHandle:
        if not self.handle.now.spec.node_name:
            self.handle.binds("cpu-0")
        return self.handle._status(
            phase=phase, container_statuses=(ContainerStatus("driver", driver),), init_container_statuses=(ray,)
        )

    @property
    def up(self) -> ContainerStatus:
        return ContainerStatus("ray-head", ContainerState(running=Running(self.world.now)))

    def starts(self) -> None:
        self.is_in(ContainerState(running=Running(self.world.now)), self.up)

    def is_joined(self) -> None:
        self.starts()
        self.handle.has("Ready", "")

    def driver_exits(self, code: int, message: str = "", reason: str = "") -> None:
        """The kubelet is still stopping Ray."""
        ended = Terminated(code, reason or ("Completed" if code == 0 else "Error"), message, self.world.now)
        self.is_in(ContainerState(terminated=ended), self.up)

    def ray_stops(self) -> None:
        driver = self.handle.now.status.container_statuses[0].state
        ray = ContainerStatus("ray-head", ContainerState(terminated=Terminated(143, "Error", "", self.world.now)))
        assert driver.terminated is not None
        self.is_in(driver, ray, "Failed" if driver.terminated.exit_code else "Succeeded")

    def ray_crashes(self, code: int, reason: str = "Error", *, since: datetime | None = None) -> None:
        """The kubelet has started it anew by the time anybody looks."""
        crash = ContainerState(terminated=Terminated(code, reason, "GCS: no space", self.world.now, since))
        again = ContainerStatus("ray-head", ContainerState(running=Running(self.world.now)), crash)
        self.is_in(self.handle.now.status.container_statuses[0].state, again)


def running(**fields: Any) -> World:
    """A job of one slice of two hosts whose entrypoint runs."""
    world = World(**({"slices": 1, "hosts": 2} | RUN | fields)).begin()
    world.now += timedelta(seconds=2)
    for host in range(2):
        world.pod(0, host).runs()
    Head(world).is_joined()
    world.settle()
    world.now += timedelta(seconds=60)
    return world


def ended(world: World) -> tuple[str | None, Cause | None]:
    first = next(attempt for attempt in world.status.attempts if attempt.number == 0)
    return first.reason, first.cause


def condition(world: World, kind: str) -> Condition:
    found = world.condition(kind)
    assert found is not None
    return found


# What the pods look like.


def test_a_worker_is_any_worker_with_ray_in_it() -> None:  # E2-38, E2-64, E2-78
    pod = make(worker(1, 0), attempt=3)
    found = environment(pod, "worker")
    assert found["MEGASCALE_COORDINATOR_ADDRESS"] == "3-0-0.train.ml.svc:8081"
    assert (found["MEGASCALE_PORT"], found["MEGASCALE_SLICE_ID"], found["MEGASCALE_NUM_SLICES"]) == ("8081", "1", "2")
    assert (found["TPU_NAME"], found["TPU_WORKER_ID"]) == ("train-s1", "0")
    assert (found["TPU_ACCELERATOR_TYPE"], found["TPU_TOPOLOGY"]) == ("v5p-16", "2x2x2")
    assert found["RAY_ADDRESS"] == "3-head.train-head.ml.svc:6379"
    assert (found["RAY_AUTH_MODE"], found["RAY_AUTH_TOKEN_PATH"]) == ("token", "/var/run/slipway/ray/token")
    assert container(pod, "worker")["resources"]["limits"] == {"google.com/tpu": "4"}
    command = container(pod, "worker")["command"]
    assert command[3:7] == [
        "http://3-head.train-head.ml.svc:52365/api/local_raylet_healthz",
        "ray",
        "start",
        "--address=3-head.train-head.ml.svc:6379",
    ]
    assert "--block" in command


OFFERED: dict[str, tuple[tuple[int, int], dict[str, Any], dict[str, Any]]] = {
    "host 0": (worker(0, 0), {}, {"train-s0": 1, "TPU": 4, "TPU-v5p-16-head": 1}),
    "host 0 of another slice": (worker(1, 0), {}, {"train-s1": 1, "TPU": 4, "TPU-v5p-16-head": 1}),
    "another host": (worker(0, 1), {}, {"train-s0": 1, "TPU": 4}),
    "E2-08 a name of its own": (
        worker(0, 0),
        {"ray": RUN["ray"] | {"headResourceName": "lead", "headWorkers": 3}},
        {"train-s0": 1, "TPU": 4, "TPU-v5p-16-head": 1, "lead": 3},
    ),
    "E2-08 more of it": (
        worker(0, 0),
        {"ray": RUN["ray"] | {"headWorkers": 2}},
        {"train-s0": 1, "TPU": 4, "TPU-v5p-16-head": 2},
    ),
    "E2-09 a name without TPUs": (
        worker(0, 0),
        {"accelerator": None, "ray": RUN["ray"] | {"headResourceName": "lead"}},
        {"train-s0": 1, "lead": 1},
    ),
    "no TPUs, no name": (worker(0, 0), {"accelerator": None}, {"train-s0": 1}),
    "as Ray spells tpu7x": (
        worker(0, 0),
        {"accelerator": {"type": "tpu7x-16"}},
        {"train-s0": 1, "TPU": 4, "TPU-v7x-16-head": 1},
    ),
}


@pytest.mark.parametrize(("place", "fields", "expected"), OFFERED.values(), ids=OFFERED)
def test_a_worker_offers(place: Place, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert resources(make(place, **fields)) == expected


def test_the_head_stays_off_tpu_nodes() -> None:  # E2-77
    pod = make(HEAD, ray=RUN["ray"] | {"head": {"nodeSelector": {"pool": "cpu"}}}, nodeSelector={"pool": "tpu"})
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"pool": "cpu"}
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "cloud.google.com/gke-tpu-accelerator", "operator": "DoesNotExist"}]
    assert "google.com/tpu" not in json.dumps(pod)
    assert container(pod, "ray-head")["resources"] == {"requests": {"cpu": "1", "memory": "4Gi"}}
    assert [one["containerPort"] for one in container(pod, "ray-head")["ports"]] == [6379, 8265, 10001]


DRIVER = {"cpu": "50m", "memory": "64Mi"}
LIMITED_HEADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no limits": ({"requests": {"cpu": 2}}, {}),
    "both": ({"limits": {"cpu": 2, "memory": "8Gi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
    "memory alone": ({"limits": {"memory": "8Gi"}}, {"limits": {"memory": "1Gi"}}),
    "a GPU alone": ({"limits": {"nvidia.com/gpu": 1}}, {}),
}


@pytest.mark.parametrize(("resources", "limits"), LIMITED_HEADS.values(), ids=LIMITED_HEADS)
def test_the_driver_has_limits_where_ray_has(resources: dict[str, Any], limits: dict[str, Any]) -> None:
    pod = make(HEAD, ray=RUN["ray"] | {"head": {"resources": resources}})
    assert container(pod, "driver")["resources"] == {"requests": DRIVER} | limits


def test_the_head_is_never_privileged() -> None:
    asked = {"privileged": True, "runAsUser": 1000}
    assert container(make(worker(0, 0), securityContext=asked), "worker")["securityContext"] == asked
    for name in ("ray-head", "driver"):
        assert container(make(HEAD, securityContext=asked), name)["securityContext"] == {"runAsUser": 1000}


def test_the_head_never_runs_the_entrypoint_twice() -> None:
    spec = make(HEAD)["spec"]
    assert spec["restartPolicy"] == "Never"
    assert [one["name"] for one in spec["containers"]] == ["driver"]
    # Only Ray itself is started anew, as a sidecar, and without the driver it runs nothing.
    assert [(one["name"], one["restartPolicy"]) for one in spec["initContainers"]] == [("ray-head", "Always")]


def test_the_entrypoint_gets_its_arguments_and_its_runtime_environment() -> None:  # E2-10, E2-28
    asked = {
        "entrypoint": "python3 train.py",
        "args": {"lr": 0.1, "name": "it's $(X)", "deep": {"a": [1]}, "none": None, "on": True},
        "runtimeEnv": {"pip": ["einops==0.8"], "env_vars": {"A": "a"}, "working_dir": "gs://b/c.zip"},
    }
    pod = make(HEAD, attempt=2, ray=asked)
    found = order(pod)
    assert found["workers"] == 4
    submission = found["submission"]
    assert submission["submission_id"] == "train-2"
    words = shlex.split(submission["entrypoint"])
    assert words[:2] == ["python3", "train.py"]
    assert words[2:] == ["--lr", "0.1", "--name", "it's $(X)", "--deep", '{"a": [1]}', "--on", "true"]
    assert submission["runtime_env"] == asked["runtimeEnv"]
    variables = environment(pod, "ray-head")
    assert json.loads(variables["SLIPWAY_ARGS"].replace("$$(", "$(")) == asked["args"]
    assert (variables["SLIPWAY_WORLD_SIZE"], variables["TPU_VERSION"], variables["TPU_POD_COUNT"]) == (
        "4",
        "v5p-16",
        "2",
    )


def test_a_kept_cluster_submits_nothing() -> None:
    assert order(make(HEAD, **KEEP)) == {"workers": 4, "submission": None}


def test_what_the_job_says_of_its_program_holds_for_the_head_too() -> None:
    pod = make(
        HEAD,
        env=[{"name": "A", "value": "a"}],
        workingDir="/app",
        volumes=[{"name": "data", "emptyDir": {}}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        serviceAccountName="trainer",
        podTemplate={
            "metadata": {"labels": {"team": "vision"}},
            "spec": {
                "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}],
                "nodeSelector": {"a": "b"},
                "resources": {"requests": {"memory": "400Gi"}},
                "resourceClaims": [{"name": "tpus", "resourceClaimTemplateName": "tpus"}],
                "containers": [{"name": "worker", "tty": True}, {"name": "sidecar", "image": "x:1"}],
            },
        },
    )
    head = container(pod, "ray-head")
    assert environment(pod, "ray-head")["A"] == "a"
    assert head["workingDir"] == "/app"
    assert {"/data", "/dev/shm", "/tmp/ray"} <= {one["mountPath"] for one in head["volumeMounts"]}
    assert pod["metadata"]["labels"]["team"] == "vision"
    assert pod["spec"]["serviceAccountName"] == "trainer"
    assert pod["spec"]["hostAliases"]
    assert not pod["spec"].keys() & {"nodeSelector", "resources", "resourceClaims"}
    assert [one["name"] for one in pod["spec"]["containers"]] == ["driver"]


def test_no_label_makes_other_rays_webhooks_change_the_pods() -> None:
    for place in (worker(0, 0), HEAD):
        labels = make(place)["metadata"]["labels"]
        assert not [key for key in labels if key.startswith("ray.io/")]
        assert labels["app.kubernetes.io/name"] != "kuberay"
        assert labels["app.kubernetes.io/managed-by"] == "slipway"


def test_only_the_jobs_pods_and_its_clients_may_connect() -> None:
    policy = objects.network_policy(World(**RUN).job)["spec"]
    assert policy["podSelector"] == {"matchLabels": {"slipway.dev/job-uid": UID}}
    inside, clients = policy["ingress"]
    assert inside == {"from": [{"podSelector": policy["podSelector"]}]}
    assert clients["from"] == [{"podSelector": {"matchLabels": {"slipway.dev/ray-client": "train"}}}]
    assert [one["port"] for one in clients["ports"]] == [8265, 10001]


def test_the_planner_knows_no_token() -> None:
    secret = objects.token_secret(World(**RUN).job)
    assert secret["immutable"] is True
    assert {"data", "stringData"}.isdisjoint(secret)
    assert secret["metadata"]["name"] == f"train-ray-{UID[:8]}"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "args that are no options": ({"ray": RUN["ray"] | {"args": {"a b": 1}}}, "spec.ray.args 'a b' is no option's name"),
    "coordinator on Ray's metrics port": ({"coordinator": {"port": 8080}}, "spec.coordinator.port 8080 is Ray's own"),
    "host network by the template": ({"podTemplate": {"spec": {"hostNetwork": True}}}, "hostNetwork cannot be true"),
    "a worker's command by the template": (
        {"podTemplate": {"spec": {"containers": [{"name": "worker", "command": ["sh"]}]}}},
        "containers[worker].command means nothing beside ray",
    ),
}


@pytest.mark.parametrize(("fields", "said"), REFUSED.values(), ids=REFUSED)
def test_what_no_schema_can_see_is_refused(fields: dict[str, Any], said: str) -> None:
    spec = World(**(RUN | fields)).job.spec
    assert spec is not None
    with pytest.raises(InvalidSpec) as caught:
        resolve(spec, Settings())
    assert said in caught.value.message


# What becomes of a job.


def test_both_kinds_of_pods_are_checked_before_anything_exists() -> None:
    world = World(slices=1, hosts=2, **RUN)
    world.checked = False
    [check] = actions_of(world.plan(), Check)
    assert [one["metadata"]["name"] for one in check.bodies] == ["train-0-0-0", "train-0-head", "train", "train-head"]


def test_one_service_of_each_role_is_checked_however_many_there_are() -> None:
    world = World(slices=3, hosts=64, **RUN)
    world.checked = False
    [check] = actions_of(world.plan(), Check)
    services = {one["metadata"]["name"] for one in check.bodies if one["kind"] == "Service"}
    assert services == {"train-g0", "train-head"}


def test_the_second_part_of_a_large_job_waits_for_the_names_of_its_other_services_and_for_no_token() -> None:
    world = World(slices=9, hosts=16, **RUN)
    parts = [world.step(), world.step()]
    assert [[type(one) for one in part.actions] for part in parts] == [
        [CreateObjects, CreateToken, CreatePods],
        [Check, CreatePods],
    ]
    [check] = actions_of(parts[1], Check)
    assert [one["metadata"]["name"] for one in check.bodies] == ["train-g1", "train-g2"]
    assert len(world.pods) == 9 * 16 + 1


def test_an_attempt_makes_the_head_its_workers_and_what_they_need() -> None:
    world = World(slices=1, hosts=2, **RUN)
    decision = world.step()
    [around] = actions_of(decision, CreateObjects)
    assert [(one["kind"], one["metadata"]["name"]) for one in around.bodies] == [
        ("NetworkPolicy", "train-ray"),
    ]
    [finding] = actions_of(world.plan(), CreateServices)
    assert [one["metadata"]["name"] for one in finding.bodies] == ["train", "train-head"]
    assert len(actions_of(decision, CreateToken)) == 1
    [create] = actions_of(decision, CreatePods)
    assert create.places == (HEAD, worker(0, 0), worker(0, 1))
    assert world.status.ray is not None
    assert world.status.ray.service == "train-head"


def test_a_job_runs_when_all_workers_have_joined() -> None:
    world = World(slices=1, hosts=2, **RUN).begin()
    for host in range(2):
        world.pod(0, host).runs()
    head = Head(world)
    head.starts()
    world.step(seconds=6)
    assert world.status.phase == "Starting"
    assert (world.status.hosts[0].pod, world.status.hosts[0].slice) == ("train-0-head", None)
    assert world.status.hosts[0].reason == "WaitingForWorkers"
    head.is_joined()
    world.settle()
    assert world.status.phase == "Running"
    assert condition(world, "Running").message == ("all 2 Ray workers of attempt 0 have joined and the entrypoint runs")
    assert world.condition("Ready") is None


def test_a_ready_head_whose_driver_is_said_to_wait_dates_no_run() -> None:
    world = World(**({"slices": 1, "hosts": 2} | RUN)).begin()
    world.now += timedelta(seconds=2)
    for host in range(2):
        world.pod(0, host).runs()
    Head(world).is_in(ContainerState(waiting=Waiting("ContainerCreating")), Head(world).up).has("Ready", "")
    world.settle()
    world.step(seconds=30)
    assert world.status.attempts[-1].running_time == world.now - timedelta(seconds=30)


def test_success_is_the_entrypoints() -> None:
    world = running()
    Head(world).driver_exits(0)
    decision = world.step()
    assert world.status.phase == "Succeeded"
    assert world.status.result is not None
    assert world.status.result.message == "the entrypoint of attempt 0 exited 0"
    # The workers are stopped; the head pod ends by itself, so that its log stays.
    assert [one.slices for one in actions_of(decision, DeletePods)] == [(0,)]


def test_a_head_that_does_not_end_by_itself_is_deleted() -> None:
    world = running()
    Head(world).driver_exits(0)
    world.step()
    decision = world.step(seconds=61)
    assert actions_of(decision, DeletePods)[0].head


def test_a_failed_entrypoint_is_a_failure_with_its_last_words() -> None:
    world = running()
    Head(world).driver_exits(3, "ValueError: NaN")
    world.settle()
    # Ray may still run in the head pod: no next attempt yet.
    assert world.status.phase == "Restarting"
    world.obey()
    world.settle()
    assert world.status.attempt == 0
    Head(world, 0).ray_stops()
    world.settle()
    assert ended(world) == ("ExitCode", Cause.FAILURE)
    first = world.status.attempts[1]
    assert "the Ray head (pod train-0-head on node cpu-0) exited with code 3: ValueError: NaN" in (first.message or "")
    assert first.root is not None
    assert (first.root.exit_code, first.root.slice, first.root.host) == (3, None, None)
    assert (world.status.attempt, world.status.failures) == (1, 1)


def ray_crashes(world: World) -> None:
    Head(world).ray_crashes(1)


def ray_out_of_memory(world: World) -> None:
    Head(world).ray_crashes(137, "OOMKilled")


def ray_crashes_twice(world: World) -> None:
    """The second time before anybody looks: of its runs only the last is known."""
    since = world.now
    world.now += timedelta(seconds=40)
    Head(world).ray_crashes(1, since=since)


def ray_leaves(world: World) -> None:
    Head(world).ray_crashes(0, "Completed")


def ray_crashes_and_the_entrypoint_after_it(world: World) -> None:
    Head(world).ray_crashes(134)
    ray_status = world.pod(*HEAD_KEY).now.status.init_container_statuses[0]
    world.now += timedelta(seconds=3)
    failed = ContainerState(terminated=Terminated(1, "Error", "ConnectionError", world.now))
    Head(world).is_in(failed, ray_status)


def head_node_dies(world: World) -> None:
    world.pod(0, 0).exits(1, message="GCS is gone")
    world.now += timedelta(seconds=50)
    world.not_ready("cpu-0")
    Head(world).handle.is_deleted()
    world.lose_node("cpu-0")


def head_is_deleted(world: World) -> None:
    Head(world).handle.is_deleted()


def head_vanishes(world: World) -> None:
    Head(world).handle.vanishes()


def worker_crashes(world: World) -> None:
    world.pod(0, 1).exits(139)


def worker_leaves(world: World) -> None:
    world.pod(0, 1).exits(0)


def worker_is_preempted(world: World) -> None:
    world.pod(0, 1).has("DisruptionTarget", "DeletionByTaintManager")
    Head(world).driver_exits(1, "ray.exceptions.ActorDiedError: The actor died unexpectedly")


def entrypoint_notices_a_dead_node_first(world: World) -> None:
    Head(world).driver_exits(1, "RuntimeError: a host does not answer")
    world.settle()
    world.now += timedelta(seconds=40)
    world.lose_node("node-0-1")


def ray_says_it_was_a_preemption(world: World) -> None:  # E2-23
    Head(world).driver_exits(1, "ray.exceptions.NodeDiedError: the node was preempted")


def the_program_says_so(world: World) -> None:  # E2-23, B-49
    Head(world).driver_exits(1, "RuntimeError: the node was preempted, owner died")


LOSSES: dict[str, tuple[Any, str, Cause]] = {
    "B-65 Ray crashes on the head": (ray_crashes, "ExitCode", Cause.FAILURE),
    "B-65 Ray crashes and takes the entrypoint along": (
        ray_crashes_and_the_entrypoint_after_it,
        "ExitCode",
        Cause.FAILURE,
    ),
    "B-65 the head runs out of memory": (ray_out_of_memory, "OOMKilled", Cause.FAILURE),
    "B-65 Ray crashes on the head for the second time": (ray_crashes_twice, "ExitCode", Cause.FAILURE),
    "B-65 Ray leaves the head": (ray_leaves, "UnexpectedOutcome", Cause.FAILURE),
    "E2-80 the head's node dies": (head_node_dies, "NodeLost", Cause.PREEMPTION),
    "E2-80 the head is deleted": (head_is_deleted, "PodDeleted", Cause.PREEMPTION),
    "E2-80 the head vanishes": (head_vanishes, "PodDeleted", Cause.PREEMPTION),
    "K-12 a worker crashes": (worker_crashes, "ExitCode", Cause.FAILURE),
    "a worker leaves": (worker_leaves, "UnexpectedOutcome", Cause.FAILURE),
    "E2-81 a worker is preempted": (worker_is_preempted, "Disrupted", Cause.PREEMPTION),
    "the entrypoint notices a dead node first": (entrypoint_notices_a_dead_node_first, "NodeLost", Cause.PREEMPTION),
    "E2-23 Ray says that it was a preemption": (ray_says_it_was_a_preemption, "RayNodeLost", Cause.PREEMPTION),
    "E2-23 the program says so": (the_program_says_so, "ExitCode", Cause.FAILURE),
}


@pytest.mark.parametrize(("happens", "reason", "cause"), LOSSES.values(), ids=LOSSES)
@pytest.mark.row("B-49", "B-65")
def test_what_ends_an_attempt(happens: Any, reason: str, cause: Cause) -> None:
    world = running()
    happens(world)
    world.until_restarted()
    world.obey()
    if (0, *HEAD_KEY) in world.pods and not Head(world, 0).handle.now.ended:
        Head(world, 0).ray_stops()
    world.until_orphans_terminated()
    assert ended(world) == (reason, cause)
    assert world.status.attempt == 1


LISTED: dict[str, tuple[Any, str]] = {
    "a worker's": (lambda world: world.pod(0, 1).exits(42), "ExitCode"),
    "Ray's on the head": (lambda world: Head(world).ray_crashes(42), "ExitCode"),
    "the entrypoint's": (lambda world: Head(world).driver_exits(42), ""),
}


@pytest.mark.parametrize("listed", ["FinalExitCode", "PreemptionExitCode", "IgnoredExitCode"])
@pytest.mark.parametrize(("happens", "reason"), LISTED.values(), ids=LISTED)
def test_exit_codes_with_a_meaning_are_the_entrypoints_only(happens: Any, reason: str, listed: str) -> None:
    kind = {"FinalExitCode": "fail", "PreemptionExitCode": "preemption", "IgnoredExitCode": "ignore"}[listed]
    world = running(retries={"onExitCodes": {kind: [42]}})
    happens(world)
    world.settle()
    assert ended(world)[0] == (reason or listed)


MEMORY: dict[str, tuple[Any, str]] = {
    "Ray's": (ray_out_of_memory, "ran out of memory (limit 8Gi)"),
    "the driver's": (
        lambda world: Head(world).driver_exits(137, reason="OOMKilled"),
        "ran out of memory (limit 1Gi)",
    ),
}


@pytest.mark.parametrize(("happens", "said"), MEMORY.values(), ids=MEMORY)
def test_the_memory_limit_that_is_named_is_that_of_the_container_that_ended(happens: Any, said: str) -> None:
    world = running(ray=RUN["ray"] | {"head": {"resources": {"limits": {"memory": "8Gi"}}}})
    happens(world)
    world.settle()
    assert (world.attempt.message or "").endswith(f"cpu-0) {said}")


def test_a_kept_cluster_is_ready_while_its_head_is() -> None:
    world = running(**KEEP)
    assert condition(world, "Ready").status == "True"
    Head(world).handle.has("Ready", "", status="False")
    world.settle()
    assert condition(world, "Ready").status == "False"
    assert world.status.phase == "Running"
    ray_crashes(world)
    world.until_restarted()
    assert world.status.attempt == 1
    assert condition(world, "Ready").status == "False"


@pytest.mark.parametrize(
    ("fields", "granted"),
    [
        pytest.param(TPU, 2, id="of TPUs"),
        pytest.param({"accelerator": {"gpu": {"vendor": "nvidia", "count": 1}}}, 2, id="of GPUs"),
        pytest.param({}, 1, id="of any kind, which the head could have"),
    ],
)
def test_fewer_slices_are_taken_when_only_the_head_has_no_node_if_workers_have_nodes(
    fields: dict[str, Any], granted: int
) -> None:
    world = World(slices=1, acceptableSlices=[1, 2], **(fields | RUN)).begin()
    for handle in world.all_pods():
        if handle.key[1:] != HEAD_KEY:
            handle.binds()
    world.pod(*HEAD_KEY).unschedulable()
    world.step(seconds=1)
    world.step(seconds=61)
    assert world.status.slices is not None
    assert (world.status.slices.granted, world.status.uncharged) == (granted, 2 - granted)
