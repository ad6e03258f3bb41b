"""Hosts of several containers: what init containers, sidecars and containers beside the worker see and do (T-04)."""

import os
import signal
from typing import Any

import pytest

from slipway.local.submission import Refused, rendered
from tests.local_engine.engine import IMAGE, Dockerd, Engine, User
from tests.waiting import until

WORK, FAST = {"name": "work", "mountPath": "/all"}, {"name": "fast", "mountPath": "/fast"}


def shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": [WORK, FAST]} | fields


def template(*init: dict[str, Any], beside: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    """Fields of a job whose hosts have these containers besides, and share two empty volumes."""
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    inside = {"initContainers": [*init], "containers": list(beside), "volumes": volumes} | spec
    worker = {"name": "worker", "volumeMounts": [WORK, FAST]}
    return {"podTemplate": {"spec": inside | {"containers": [worker, *inside["containers"]]}}}


SERVES = 'mkdir -p /tmp/www; echo "from $(hostname)" > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www'
ASKS = "until wget -q -O - http://127.0.0.1:8080/; do sleep 0.1; done"


def volumes_of_others(engine: Engine) -> list[str]:
    return sorted(one.name for one in engine.client.volumes.list())


@pytest.mark.thorough
def test_containers_start_in_the_order_of_a_pod_and_share_what_those_of_a_pod_share(user: User, engine: Engine) -> None:
    before = volumes_of_others(engine)
    first = shell("first", "echo first >> /all/order; echo fast > /fast/file; cat /proc/mounts | grep ' /fast '")
    proxy = shell("proxy", f"id -u > /all/proxy; {SERVES}", restartPolicy="Always", securityContext={"runAsUser": 5})
    second = shell("second", f"{ASKS} > /all/answer && echo second >> /all/order")
    beside = shell(
        "beside",
        "until [ -e /all/done ]; do sleep 0.1; done; nslookup 0-1-0.train > /all/found; touch /all/ok",
    )
    worker = f"echo worker >> /all/order; cat /all/order /all/proxy /all/answer /fast/file; {ASKS}; touch /all/done; "
    user.submit(
        worker + "until [ -e /all/ok ]; do sleep 0.1; done; cat /all/found",
        slices=2,
        **template(first, proxy, second, beside=(beside,)),
    )
    assert user.ended()["phase"] == "Succeeded"
    lines = user.slipway("logs", "train").out.splitlines()
    own = [line.removeprefix("[1/0] ") for line in lines if line.startswith("[1/0]")]
    assert own[:7] == ["first", "second", "worker", "5", "from 0-1-0", "fast", "from 0-1-0"]
    assert any("Address" in line and "127.0.0" not in line for line in own[7:])
    kept = user.folder() / "logs" / "train-0-1-0.first.log"
    assert "size=1024k" in kept.read_text()
    assert volumes_of_others(engine) == before


def test_a_failed_init_container_is_the_cause_and_its_last_words_are_kept(user: User, engine: Engine) -> None:
    sidecar = shell("proxy", "sleep 1000", restartPolicy="Always")
    fetch = shell("fetch", "sleep 2; echo looking; sleep 1; echo nothing to fetch >&2; exit 3")
    user.submit("touch /all/ran", retries={"maxFailures": 1}, **template(sidecar, fetch))
    followed = user.command("logs", "train", "--follow")
    status = user.ended()
    [attempt] = status["attempts"]
    assert (status["phase"], attempt["cause"], attempt["reason"]) == ("Failed", "failure", "UnexpectedOutcome")
    assert "init container fetch exited with code 3" in attempt["message"]
    assert attempt["root"]["log"] == "looking\nnothing to fetch"
    assert "nothing to fetch" in (user.folder() / "logs" / "train-0-0-0.fetch.log").read_text()
    told = "the program of host 0 of slice 0 in attempt 0 never started: this is the log of init container fetch"
    for done in (followed, user.slipway("logs", "train")):
        assert done.out == "looking\nnothing to fetch\n"
        assert told in done.err
    assert user.slipway("logs", "train", "--failed", "--stream", "stderr").out == "nothing to fetch\n"
    assert "nothing to fetch" in user.slipway("why", "train").out


def states(engine: Engine, host: str) -> dict[str, str]:
    """The containers of a host by what is behind its name, and how they are."""
    found = (one for one in engine.containers() if str(one.name).startswith(host))
    return {str(one.name).removeprefix(host): one.status for one in found}


def test_a_sidecar_that_ends_is_started_again_and_ends_with_its_worker(user: User, engine: Engine) -> None:
    proxy = shell("proxy", "echo run >> /all/runs; sleep 0.2", restartPolicy="Always")
    worker = "[ $SLIPWAY_HOST = 1 ] && sleep 1000; until [ $(wc -l < /all/runs) -ge 3 ]; do sleep 0.1; done"
    user.submit(worker, hosts=2, **template(proxy))
    over = {"": "exited", ".proxy": "exited", "_sandbox": "exited"}
    until("the end of the first host", lambda: states(engine, "train-0-0-0") == over)
    user.until("Running")
    assert states(engine, "train-0-0-1").keys() == over.keys()
    user.slipway("cancel", "train")
    assert user.ended()["phase"] == "Cancelled"


@pytest.mark.thorough
def test_the_worker_decides_and_what_is_beside_it_gets_the_same_signal(user: User, engine: Engine) -> None:
    beside = shell("beside", "trap 'echo told to stop; exit 0' TERM; touch /all/up; while :; do sleep 0.1; done")
    worker = "until [ -e /all/up ]; do sleep 0.1; done; [ $SLIPWAY_ATTEMPT = 1 ] || exit 3"
    grace = {"terminationGracePeriodSeconds": 30, "retries": {"gracePeriodSeconds": 30}}
    user.submit(worker, **grace, **template(beside=(beside,)))
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 1, 1)
    assert (status["attempts"][1]["reason"], status["attempts"][1]["root"]["exitCode"]) == ("ExitCode", 3)
    for attempt in (0, 1):
        assert "told to stop" in (user.folder() / "logs" / f"train-{attempt}-0-0.beside.log").read_text()


def test_a_host_of_which_somebody_removes_a_part_is_removed_whole(user: User, engine: Engine) -> None:
    proxy = shell("proxy", "sleep 1000", restartPolicy="Always")
    user.submit("[ $SLIPWAY_ATTEMPT = 1 ] || sleep 1000", **template(proxy))
    engine.running("train", 3)
    engine.client.containers.get("train-0-0-0.proxy").remove(force=True)
    status = user.ended()
    assert (status["phase"], status["preemptions"], status["failures"]) == ("Succeeded", 1, 0)
    assert status["attempts"][-1]["reason"] == "PodDeleted"


@pytest.mark.thorough
def test_a_supervisor_that_is_killed_leaves_a_host_that_the_next_one_goes_on_with(
    user: User, engine: Engine, dockerd: Dockerd
) -> None:
    waits = shell("waits", "until [ -e /all/go ]; do sleep 0.1; done")
    user.submit("cat /all/word", **template(waits))
    engine.running("train", 2)
    os.kill(user.only_supervisor(), signal.SIGKILL)
    until("its end", lambda: not user.supervisors())
    dockerd.printed("train-0-0-0.waits", "sh", "-c", "echo on > /all/word; touch /all/go")
    until("a supervisor", user.adopted)
    status = user.ended()
    assert (status["phase"], status["attempt"]) == ("Succeeded", 0)
    assert "on" in user.slipway("logs", "train").out


def test_docker_run_cannot_start_a_host_of_several_containers(user: User) -> None:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    spec = {"image": IMAGE, **template(shell("first", "true"))}
    with pytest.raises(Refused, match="container first: one docker command starts one container"):
        rendered(body | {"spec": spec})
