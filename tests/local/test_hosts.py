"""Hosts of several containers: what is started next, and the pod that they are together."""

from typing import Any

import pytest

from slipway.core.planner.state.observation import waiting_for
from slipway.local.containers.container_state import Circumstances, Deletion
from slipway.local.containers.host import Host, hosts, leftovers
from slipway.local.conversion.containers_of_pod import LABEL_PART_OF, LABEL_PARTS
from slipway.local.conversion.convert import Surroundings, containers
from slipway.local.conversion.docker_run import ContainerRequest
from slipway.local.conversion.pod_sandbox import IMAGE, with_volumes
from slipway.local.images.sandbox_image import program
from tests.local.pods import with_spec
from tests.local.test_seen import CREATED, FINISHED, NEVER, STARTED

PARTS = "sandbox:,init:first,sidecar:proxy,init:second,beside:log"
NAMES = {"sandbox": "train-0-0-0_sandbox", "worker": "train-0-0-0"}
HERE = Circumstances("here")
States = dict[str, Any]
"""By the name of the container: running, created, an exit code, or why it could not be started."""


def inspected(name: str, state: Any) -> dict[str, Any]:
    status = "exited" if isinstance(state, int) else state if state in ("created", "running") else "created"
    labels = {LABEL_PARTS: PARTS} if name == "worker" else {LABEL_PART_OF: NAMES["worker"]}
    return {
        "Id": name,
        "Name": "/" + NAMES.get(name, f"train-0-0-0.{name}"),
        "Created": CREATED,
        "Config": {"Labels": labels | {"slipway.dev/job-name": "train"}},
        "State": {
            "Status": status,
            "Error": state if state not in ("created", "running") and not isinstance(state, int) else "",
            "ExitCode": state if isinstance(state, int) else 0,
            "StartedAt": NEVER if status == "created" else STARTED.isoformat(),
            "FinishedAt": FINISHED.isoformat() if status == "exited" else NEVER,
        },
    }


def host(**states: Any) -> Host:
    everything = dict.fromkeys(("sandbox", "first", "proxy", "second", "log", "worker"), "created") | states
    [found] = hosts(inspected(name, state) for name, state in everything.items() if state is not None)
    return found


UP: States = {"sandbox": "running"}
READY: States = UP | {"first": 0, "proxy": "running", "second": 0}
RUNS: States = READY | {"log": "running", "worker": "running"}

STEPS: dict[str, tuple[States, list[str]]] = {
    "the sandbox": ({}, ["sandbox"]),
    "the first init container": (UP, ["first"]),
    "nothing while it runs": (UP | {"first": "running"}, []),
    "the sidecar": (UP | {"first": 0}, ["proxy"]),
    "the next init container as soon as the sidecar runs": (UP | {"first": 0, "proxy": "running"}, ["second"]),
    "nothing after a failure": (UP | {"first": 3}, []),
    "nothing without the sidecar": (UP | {"first": 0, "proxy": "no such file"}, []),
    "nothing without the sandbox": ({"sandbox": "port is already allocated"}, []),
    "the worker with what is beside it": (READY, ["log", "worker"]),
    "what is left to start": (READY | {"log": "running"}, ["worker"]),
    "nothing more": (RUNS, []),
    "nothing again": (RUNS | {"worker": 0, "log": 0}, []),
}


@pytest.mark.parametrize(("states", "due"), STEPS.values(), ids=STEPS.keys())
def test_what_is_started_next(states: States, due: list[str]) -> None:
    assert [one["Id"] for one in host(**states).due()] == due


PHASES: dict[str, tuple[States, str]] = {
    "created": ({}, "Pending"),
    "initializing": (READY, "Pending"),
    "an init container failed while a sidecar runs": (UP | {"proxy": "running", "first": 3}, "Pending"),
    "an init container failed": (UP | {"first": 3}, "Failed"),
    "no sandbox": ({"sandbox": "port is already allocated"}, "Failed"),
    "running": (RUNS, "Running"),
    "a container beside the worker runs": (RUNS | {"worker": 0}, "Running"),
    "a sidecar runs": (RUNS | {"worker": 0, "log": 0}, "Running"),
    "succeeded, whatever becomes of the sidecar": (RUNS | {"worker": 0, "log": 0, "proxy": 143}, "Succeeded"),
    "a container beside the worker failed": (RUNS | {"worker": 0, "log": 1, "proxy": 0}, "Failed"),
    "the worker failed": (RUNS | {"worker": 3, "log": 0, "proxy": 0}, "Failed"),
}


@pytest.mark.parametrize(("states", "phase"), PHASES.values(), ids=PHASES.keys())
def test_its_phase_is_that_of_a_pod(states: States, phase: str) -> None:
    assert host(**states).pod(HERE, 1).status.phase == phase


def test_a_sidecar_that_cannot_be_started_holds_the_pod_up_with_its_words() -> None:
    pod = host(**UP | {"first": 0, "proxy": "no such file"}).pod(HERE, 1)
    waiting = {one.name: one.state.waiting for one in pod.status.init_container_statuses}["proxy"]
    assert waiting is not None
    assert (pod.waits_to_start, waiting.reason, waiting.message) == (True, "RunContainerError", "no such file")


HELD_UP: dict[str, tuple[States, str | None]] = {
    "no init container": (UP | {"first": 0}, None),
    "one that failed": (UP | {"first": 3}, "first"),
    "one that could not be started": (UP | {"first": "no such file"}, "first"),
    "one that failed, and not the sidecar that was stopped for it": (READY | {"proxy": 143, "second": 3}, "second"),
    "a sidecar": (UP | {"first": 0, "proxy": 1}, "proxy"),
    "nothing once the worker has started": (RUNS | {"proxy": 143, "worker": 1, "log": 0}, None),
}


@pytest.mark.parametrize(("states", "failed"), HELD_UP.values(), ids=HELD_UP)
def test_the_init_container_that_keeps_the_worker_from_starting(states: States, failed: str | None) -> None:
    found = host(**states)
    assert (found.failed_init and found.failed_init[0].name) == failed
    assert found.last_words == ({failed} if failed else set())


def test_the_last_words_of_an_init_container_that_failed_are_in_its_status() -> None:
    pod = host(**UP | {"first": 3}).pod(Circumstances("here", tails={"first": "nothing to fetch"}), 1)
    assert pod.failed_init is not None
    assert (pod.failed_init[0], pod.failed_init[1].message) == ("first", "nothing to fetch")


BROKEN: dict[str, tuple[States, bool]] = {
    "nothing is missing": (RUNS, False),
    "an init container that has ended": (RUNS | {"first": None}, False),
    "an init container before the worker has started": (READY | {"first": None}, True),
    "the sidecar": (RUNS | {"proxy": None}, True),
    "the sandbox": (RUNS | {"sandbox": None}, True),
    "a sandbox that somebody has stopped": (RUNS | {"sandbox": 137}, True),
    "what an ended worker no longer needs": (RUNS | {"worker": 0, "proxy": None, "sandbox": 137}, False),
}


@pytest.mark.parametrize(("states", "broken"), BROKEN.values(), ids=BROKEN.keys())
def test_whether_somebody_has_taken_a_part_away(states: States, broken: bool) -> None:
    assert host(**states).broken is broken


def test_what_has_no_worker_is_left_over_and_the_sandbox_goes_last() -> None:
    of_one = [inspected(name, "created") for name in ("sandbox", "first", "log")]
    assert [one["Id"] for one in leftovers(of_one)] == ["first", "log", "sandbox"]
    assert leftovers([*of_one, inspected("worker", "created")]) == []


def head(ray: Any = "running", driver: Any = "running") -> Host:
    """A Ray head whose two containers are in these states."""
    found = [inspected("sandbox", "running"), inspected("proxy", ray), inspected("worker", driver)]
    found[1]["Name"] = "/train-0-head.ray-head"
    found[2]["Name"] = "/train-0-head"
    for one in found:
        labels = one["Config"]["Labels"] | {"slipway.dev/role": "head"}
        one["Name"] = one["Name"].replace("train-0-0-0_", "train-0-head_")
        changed = {LABEL_PARTS: "sandbox:,sidecar:ray-head", LABEL_PART_OF: "train-0-head"}
        one["Config"]["Labels"] = {name: changed.get(name, value) for name, value in labels.items()}
    [made] = hosts(found)
    return made


def test_a_head_has_started_when_all_workers_have_joined() -> None:
    host = head()
    assert (host.may_be_joined, head(driver=0).may_be_joined, head(driver="created").may_be_joined) == (1, 0, 0)
    waiting, joined = host.pod(HERE, 1), host.pod(Circumstances("here", joined=True), 2)
    assert (waiting.is_head, waiting.started, joined.started) == (True, False, True)
    assert waiting_for(waiting) == ("WaitingForWorkers", "not all workers have joined the Ray head")


def test_the_end_of_a_head_is_that_of_its_driver_or_of_a_ray_that_ended_before() -> None:
    ended = head(driver=7, ray="running").pod(Circumstances("here", tail="no such file"), 1)
    assert ended.worker is not None
    assert ended.worker.terminated is not None
    assert (ended.worker.terminated.exit_code, ended.worker.terminated.message) == (7, "no such file")
    host = head(ray=1)
    assert host.failed_ray == ["proxy"]
    # It is not started again, and its last words are those of the head.
    assert host.due() == []
    crashed = host.pod(Circumstances("here", tails={"proxy": "out of files"}, joined=True), 2)
    assert crashed.worker is not None
    assert crashed.worker.terminated is not None
    assert crashed.ray_crashed
    assert (crashed.worker.terminated.exit_code, crashed.worker.terminated.message) == (1, "out of files")


@pytest.mark.parametrize("status", ["removing", "dead"])
def test_who_removes_ray_removes_the_head(status: str) -> None:
    host = head(ray=137)
    for one in host.others.values():
        one["State"]["Status"] = status if one["Id"] == "proxy" else one["State"]["Status"]
    assert host.pod(HERE, 1).deletion_requested_at == FINISHED
    # What Slipway deletes itself, it knows the time of.
    assert host.pod(Circumstances("here", deletion=Deletion(STARTED, 5)), 2).deletion_requested_at == STARTED


def test_a_head_starts_ray_before_the_driver() -> None:
    assert [one["Id"] for one in head(ray="created", driver="created").due()] == ["proxy"]
    assert [one["Id"] for one in head(driver="created").due()] == ["worker"]


def parts(**spec: Any) -> dict[str, ContainerRequest]:
    log = {"name": "log", "image": "log:1", "volumeMounts": [{"name": "v", "mountPath": "/in"}]}
    worker = {
        "name": "worker",
        "volumeMounts": [{"name": "v", "mountPath": "/out"}, {"name": "own", "mountPath": "/own"}],
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    own = {
        "containers": [worker, log],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "own", "emptyDir": {}}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["peer"]}],
    }
    return {one.name: one for one in containers(with_spec(own | spec), Surroundings(network="slipway"))}


def test_the_sandbox_has_the_network_and_the_others_join_it() -> None:
    found = parts(shareProcessNamespace=True)
    [sandbox, log, worker] = found
    of_sandbox, there = found[sandbox].body["HostConfig"], f"container:{sandbox}"
    assert (found[sandbox].body["Image"], found[sandbox].body["Hostname"]) == (IMAGE, "0-0-0")
    assert (of_sandbox["NetworkMode"], of_sandbox["ExtraHosts"], of_sandbox["Init"]) == (
        "slipway",
        ["peer:10.0.0.1"],
        True,
    )
    assert of_sandbox["PortBindings"] == {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}
    for name in (log, worker):
        host_config = found[name].body["HostConfig"]
        assert {host_config[key] for key in ("NetworkMode", "IpcMode", "PidMode")} == {there}
        assert not {"ExtraHosts", "PortBindings", "Init"} & host_config.keys()
        assert not {"Hostname", "NetworkingConfig", "ExposedPorts"} & found[name].body.keys()


def test_on_the_host_network_there_is_no_network_to_join() -> None:
    for one in parts(hostNetwork=True).values():
        assert one.body["HostConfig"]["NetworkMode"] == "host"


def test_volumes_that_several_containers_mount_are_those_of_the_sandbox() -> None:
    [sandbox, log, worker] = parts().values()
    assert [one["Target"] for one in sandbox.body["HostConfig"]["Mounts"]] == ["/volumes/v"]
    made = {"Name": f"/{sandbox.name}", "Mounts": [{"Destination": "/volumes/v", "Name": "abc"}]}
    sources = [
        [one.get("Source") for one in with_volumes(it, made).body["HostConfig"]["Mounts"]] for it in (log, worker)
    ]
    assert sources == [["abc"], ["abc", None]]


@pytest.mark.parametrize(("machine", "number"), [("amd64", 62), ("arm64", 183)])
def test_the_program_of_the_sandbox_is_an_executable_of_its_machine(machine: str, number: int) -> None:
    found = program(machine)
    assert (found[:6], int.from_bytes(found[18:20], "little")) == (b"\x7fELF\x02\x01", number)
    assert int.from_bytes(found[96:104], "little") == len(found)
