"""The whole operator, kopf included, against a real API server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from slipway.controller import namespaces
from slipway.controller.lease import DEFAULT_TIMES, LeaseTimes
from slipway.controller.main import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, run
from slipway.controller.observability import log_format
from slipway.controller.settings import OperatorSettings
from slipway.devcluster import NativeCluster
from tests import waiting
from tests.chart.rights import access
from tests.kubectl import Kubectl
from tests.places import CRD
from tests.running import LONG_LEASE
from tests.serving import kubeconfig
from tests.waiting import ANSWER_SECONDS, holds, passing

"""A busy API server costs no operator its Lease: nobody here starts it again, as a kubelet would."""


def job(name: str = "train", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "slipway.dev/v1alpha1",
        "kind": "SliceJob",
        "metadata": {"name": name},
        "spec": {"image": "busybox:1", "hosts": 2, "nodeSelector": {"nowhere": "at-all"}} | spec,
    }


def settings(cluster: NativeCluster, kubectl: Kubectl, **changes: Any) -> OperatorSettings:
    given: dict[str, Any] = {
        "kubeconfig": cluster.kubeconfig,
        "namespaces": (kubectl.namespace,),
        "lease_namespace": kubectl.namespace,
        "lease_times": LONG_LEASE,
        "health_port": 0,
        "metrics_port": 0,
    }
    return OperatorSettings(**given | changes)


@asynccontextmanager
async def operating(given: OperatorSettings) -> AsyncIterator["asyncio.Task[int]"]:
    stop = asyncio.Event()
    before = connections()
    running = asyncio.create_task(run(given, stop))
    try:
        yield running
    finally:
        stop.set()
        await asyncio.wait_for(running, ANSWER_SECONDS)
        # TLS connections that were cut off need some turns of the loop to close.
        await holds(lambda: connections() <= before, seconds=ANSWER_SECONDS)


def connections() -> int:
    """Open sockets of this process."""
    return sum("socket:" in str(one.resolve()) for one in Path("/proc/self/fd").iterdir())


async def until(condition: Callable[[], Any], what: str, seconds: float = ANSWER_SECONDS) -> Any:
    """What the condition yields once it is true; it is asked in a thread, for it runs kubectl."""
    return await asyncio.to_thread(waiting.until, what, condition, seconds=seconds, every=0.1)


def pods(kubectl: Kubectl) -> list[str]:
    return sorted(one["metadata"]["name"] for one in kubectl.get("pods")["items"])


async def test_a_job_gets_its_pods_and_takes_them_along(control_plane: NativeCluster, kubectl: Kubectl) -> None:
    async with operating(settings(control_plane, kubectl)) as running:
        await asyncio.to_thread(kubectl.apply, job())
        await until(lambda: pods(kubectl) == ["train-0-0-0", "train-0-0-1"], "two pods")
        await until(lambda: kubectl.get("sj", "train").get("status", {}).get("phase"), "a phase")
        await until(lambda: kubectl.get("events.events.k8s.io")["items"], "an Event")
        await asyncio.to_thread(kubectl, "delete", "sj", "train")
        await until(lambda: pods(kubectl) == [], "no pods")
    assert running.result() == EXIT_OK
    lease = await asyncio.to_thread(kubectl.get, "lease", "slipway-operator")
    assert lease["spec"]["holderIdentity"] == ""


# The user of the image is a number without an entry in /etc/passwd.
async def test_it_starts_as_a_user_without_a_name(
    control_plane: NativeCluster, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", nobody)
    async with operating(settings(control_plane, kubectl)) as running:
        await asyncio.to_thread(kubectl.apply, job())
        await until(lambda: len(pods(kubectl)) == 2, "two pods")
    assert running.result() == EXIT_OK


async def test_jobs_that_were_there_before_are_found_and_nothing_is_written_into_them(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    await asyncio.to_thread(kubectl.apply, job("early"))
    async with operating(settings(control_plane, kubectl)):
        await until(lambda: len(pods(kubectl)) == 2, "two pods")
    metadata = (await asyncio.to_thread(kubectl.get, "sj", "early"))["metadata"]
    assert "annotations" not in metadata
    assert "finalizers" not in metadata


async def test_operators_of_different_ids_serve_different_jobs_and_leave_each_others_pods_alone(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:  # N-01 N-32
    label = "slipway.dev/operator-id"
    theirs = job("theirs")
    theirs["metadata"]["labels"] = {label: "b"}
    async with operating(settings(control_plane, kubectl)):
        await asyncio.to_thread(kubectl.apply, job("ours"), theirs)
        await until(lambda: pods(kubectl) == ["ours-0-0-0", "ours-0-0-1"], "the pods of one job")
        other = await started(str(control_plane.kubeconfig), kubectl.namespace, SLIPWAY_OPERATOR_ID="b")
        await until(lambda: len(pods(kubectl)) == 4, "the pods of the other job")
        other.terminate()
        await other.communicate()
        stored = await asyncio.to_thread(kubectl.get, "pods,services", selector=f"{label}=b")
        assert {one["metadata"]["labels"]["slipway.dev/job-name"] for one in stored["items"]} == {"theirs"}
        holders = await asyncio.to_thread(kubectl.get, "lease")
        assert {one["metadata"]["name"] for one in holders["items"]} == {"slipway-operator", "slipway-operator-b"}
        await asyncio.to_thread(kubectl, "delete", "pod", "theirs-0-0-0", "--wait=false")
        await asyncio.to_thread(kubectl.apply, job("later"))
        await until(lambda: "later-0-0-1" in pods(kubectl), "the pods of a job that came later")
        left = [name for name in await asyncio.to_thread(pods, kubectl) if name.startswith("theirs")]
        assert left == ["theirs-0-0-1"]
    assert other.returncode == EXIT_OK


def holder(kubectl: Kubectl) -> str:
    found = kubectl("get", "lease", "slipway-operator", "-o", "jsonpath={.spec.holderIdentity}", check=False)
    return found.stdout


async def test_a_second_operator_stands_by_until_the_first_one_goes(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    # In a process of its own: at its end kopf takes every later task of the event loop for one of its own.
    async with operating(settings(control_plane, kubectl)):
        first = await until(lambda: holder(kubectl), "a leader")
        second = await started(str(control_plane.kubeconfig), kubectl.namespace)
        assert second.stderr is not None
        async with asyncio.timeout(ANSWER_SECONDS):
            while f"standing by for {first}" not in (await second.stderr.readline()).decode():
                continue
        await passing(1)
        assert await asyncio.to_thread(holder, kubectl) == first
    await until(lambda: holder(kubectl) not in ("", first), "another leader")
    await asyncio.to_thread(kubectl.apply, job())
    await until(lambda: len(pods(kubectl)) == 2, "two pods")
    second.terminate()
    await second.communicate()
    assert second.returncode == EXIT_OK


async def test_a_second_operator_leads_after_the_first_ones_sudden_death(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    given = str(control_plane.kubeconfig), kubectl.namespace
    # The second one goes by what is written in the Lease.
    first = await started(*given, times=DEFAULT_TIMES)
    led = await until(lambda: holder(kubectl), "a leader")
    second = await started(*given)
    await passing(2.5)
    await asyncio.to_thread(kubectl.apply, job())
    await until(lambda: len(pods(kubectl)) == 2, "two pods")
    # One that has lost its Lease on a busy machine is dead already.
    with suppress(ProcessLookupError):
        first.kill()
    await first.communicate()
    await asyncio.to_thread(kubectl.apply, job("after"))
    await until(lambda: holder(kubectl) != led, "another leader")
    await until(lambda: len(pods(kubectl)) == 4, "pods of the job that came after")
    second.terminate()
    await second.communicate()
    assert second.returncode == EXIT_OK


async def test_an_operator_that_loses_its_lease_ends_and_fails(control_plane: NativeCluster, kubectl: Kubectl) -> None:
    async with operating(settings(control_plane, kubectl)) as running:
        await until(lambda: kubectl("get", "lease", "slipway-operator", check=False).returncode == 0, "a Lease")
        stolen = '{"spec":{"holderIdentity":"somebody-else"}}'
        await asyncio.to_thread(kubectl, "patch", "lease", "slipway-operator", "--type=merge", "-p", stolen)
        assert await asyncio.wait_for(asyncio.shield(running), ANSWER_SECONDS) == EXIT_FAILED


async def test_health_is_served(control_plane: NativeCluster, kubectl: Kubectl, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}/healthz"
    given = settings(control_plane, kubectl, health_port=unused_tcp_port, metrics_port=0)
    async with operating(given), aiohttp.ClientSession() as session:
        body: dict[str, Any] = {}
        async with asyncio.timeout(ANSWER_SECONDS):
            # Until there is an engine, the process says what it waits for.
            while "engine" not in body:
                await passing(0.1)
                with suppress(aiohttp.ClientConnectionError):
                    async with session.get(url) as response:
                        body = await response.json()
    assert response.status == 200
    assert {"oldestWait", "silence", "loopLag"} <= body["engine"].keys()


async def test_an_operator_that_may_not_use_its_lease_is_healthy_and_not_ready_until_it_may(
    control_plane: NativeCluster, kubectl: Kubectl, unused_tcp_port: int, tmp_path: Path
) -> None:
    role = kubectl.namespace

    def allow(*groups: str) -> None:
        rules = [{"apiGroups": list(groups), "resources": ["*"], "verbs": ["*"]}]
        api = "rbac.authorization.k8s.io/v1"
        kubectl.apply({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules})

    async def until_probes_say(healthz: int, readyz: int) -> None:
        said: tuple[int, ...] = ()
        while said != (healthz, readyz):
            await passing(0.1)
            with suppress(aiohttp.ClientConnectionError):
                said = await asked(unused_tcp_port, "/healthz"), await asked(unused_tcp_port, "/readyz")

    kubectl("create", "serviceaccount", "operator")
    kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={role}:operator")
    allow("", "slipway.dev", "apiextensions.k8s.io")
    own = access(control_plane, kubectl.namespace, "operator", tmp_path / "kubeconfig")
    await until_allowed(replace(kubectl, kubeconfig=own))
    given = settings(control_plane, kubectl, kubeconfig=own, health_port=unused_tcp_port)
    async with operating(given), asyncio.timeout(ANSWER_SECONDS):
        await until_probes_say(200, 503)
        await passing(2.0)
        assert await asked(unused_tcp_port, "/readyz") == 503
        await asyncio.to_thread(allow, "", "slipway.dev", "apiextensions.k8s.io", "coordination.k8s.io")
        await until_probes_say(200, 200)


async def until_allowed(kubectl: Kubectl) -> None:
    """Wait until the API server knows of the rights to SliceJobs: an operator that is refused at first ends."""
    asked = ("auth", "can-i", "list", "slicejobs.slipway.dev")
    await until(lambda: kubectl(*asked, check=False).returncode == 0, "the rights")


async def test_a_server_that_is_away_is_waited_for_while_probes_are_answered(
    kubeconfig_of: Callable[[str], Path], unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    given = OperatorSettings(
        kubeconfig=kubeconfig_of("http://127.0.0.1:9"), health_port=unused_tcp_port, metrics_port=0
    )
    async with operating(given) as running:
        await holds(lambda: "the API server does not answer" in caplog.text, seconds=ANSWER_SECONDS)
        await passing(1.5)
        assert await asked(unused_tcp_port, "/healthz") == 200
        assert await asked(unused_tcp_port, "/readyz") == 503
        assert not running.done()
    assert running.result() == EXIT_OK
    assert caplog.text.count("the API server does not answer") == 1


async def asked(port: int, path: str) -> int:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


@pytest.fixture
def kubeconfig_of(tmp_path: Path) -> Callable[[str], Path]:
    return partial(kubeconfig, tmp_path)


async def test_a_crd_that_is_deleted_and_comes_back_is_waited_for(  # N-02
    control_plane: NativeCluster, kubectl: Kubectl, unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    port = unused_tcp_port
    log_format.hush_kopf()
    async with operating(settings(control_plane, kubectl, health_port=port)) as running:
        await until(lambda: holder(kubectl), "a leader")
        try:
            await asyncio.to_thread(kubectl, "delete", "crd", "slicejobs.slipway.dev")
            await until(lambda: "does not know SliceJobs" in caplog.text, "a sentence")
            assert (await asked(port, "/healthz"), await asked(port, "/readyz")) == (200, 503)
            # Some looks later.
            await passing(2)
            assert not running.done()
            assert caplog.text.count("does not know SliceJobs") == 1
        finally:
            await asyncio.to_thread(kubectl.apply, yaml.safe_load(CRD.read_text()))
            await asyncio.to_thread(kubectl.until_established)
        await asyncio.to_thread(kubectl.apply, job())
        await until(lambda: len(pods(kubectl)) == 2, "two pods")
        assert await asked(port, "/readyz") == 200
    assert "Traceback" not in caplog.text


def rights(kubectl: Kubectl, account: str) -> dict[str, Any]:
    """The rights of an administrator in one namespace, which go with it."""
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": account}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    about = {"name": "operator", "namespace": kubectl.namespace}
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": about}
    return body | {"roleRef": role, "subjects": [subject]}


async def test_a_namespace_that_is_lost_leaves_the_others_served(
    control_plane: NativeCluster,
    kubectl: Kubectl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(namespaces, "RIGHTS_SECONDS", 0.5)
    account, other = kubectl.namespace, replace(kubectl, namespace=f"{kubectl.namespace}-b")
    await asyncio.to_thread(kubectl, "create", "namespace", other.namespace)
    await asyncio.to_thread(kubectl, "create", "serviceaccount", "operator")
    for space in (kubectl, other):
        await asyncio.to_thread(space.apply, rights(space, account))
    token = (await asyncio.to_thread(kubectl, "create", "token", "operator")).stdout.strip()
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    restricted = tmp_path / "kubeconfig"
    restricted.write_text(yaml.safe_dump(config))
    for space in (kubectl, other):
        await until_allowed(replace(space, kubeconfig=restricted))
    given = settings(control_plane, kubectl, kubeconfig=restricted, namespaces=(account, other.namespace))
    async with operating(given) as running:
        await asyncio.to_thread(other.apply, job())
        await until(lambda: len(pods(other)) == 2, "pods in both namespaces")
        await asyncio.to_thread(other, "delete", "rolebinding", "operator")
        await until(lambda: "may not be listed" in caplog.text, "a word on the namespace that is lost")
        await asyncio.to_thread(kubectl.apply, job())
        await until(lambda: len(pods(kubectl)) == 2, "pods in the namespace that is left")
    assert running.result() == EXIT_OK
    async with operating(given) as running:
        await asyncio.to_thread(kubectl.apply, job("second"))
        await until(lambda: len(pods(kubectl)) == 4, "pods of a process that never served the other namespace")
        await asyncio.to_thread(other.apply, rights(other, account), job("later"))
        await until(lambda: len(pods(other)) == 4, "pods in the namespace that came back")
    assert running.result() == EXIT_OK
    await asyncio.to_thread(kubectl, "delete", "namespace", other.namespace, "--wait=false")


async def test_a_cluster_that_cannot_be_reached_is_said_and_refused(
    control_plane: NativeCluster, kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    given = settings(control_plane, kubectl, context="no-such-context")
    assert await run(given) == EXIT_REFUSED
    assert "no-such-context" in caplog.text


async def started(
    kubeconfig: str, namespace: str, before: str = "", *, times: LeaseTimes = LONG_LEASE, **environment: str
) -> "asyncio.subprocess.Process":
    given = {"lease-duration": times.duration, "renew-deadline": times.deadline, "retry-period": times.retry}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from slipway.cli.operator import operator\n{before}\noperator()",
        *(
            "--kubeconfig",
            kubeconfig,
            "--namespaces",
            namespace,
            "--lease-namespace",
            namespace,
            "--health-port",
            "0",
            "--metrics-port",
            "0",
            *(f"--{name}={value:g}" for name, value in given.items()),
        ),
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_bad_port_in_the_environment_stops_the_process_with_one_sentence() -> None:
    process = await started("/nonexistent", "ns", COORD_PORT="abc")
    _, said = await process.communicate()
    assert process.returncode == EXIT_REFUSED
    assert said.decode() == (
        "slipway operator: COORD_PORT 'abc' is not a port: a whole number from 1 to 65535 is needed\n"
    )


STOPPED_WHERE_EXCEPTIONS_ARE_CAUGHT = """
import os, signal, sys
class Finder:
    def find_spec(name, *rest):
        if name == "slipway.controller.main":
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                sum(range(1000))
            except BaseException:
                raise ImportError("pydantic says something else")
sys.meta_path.insert(0, Finder)
"""


async def test_a_process_is_told_to_stop_where_an_exception_would_be_taken_for_an_error(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    process = await started(str(control_plane.kubeconfig), kubectl.namespace, STOPPED_WHERE_EXCEPTIONS_ARE_CAUGHT)
    _, said = await asyncio.wait_for(process.communicate(), ANSWER_SECONDS)
    assert (process.returncode, said.decode()) == (EXIT_OK, "")


@pytest.mark.parametrize("seconds", [0.1, 0.4, 0.7, 1.0, 1.3])
async def test_a_process_that_is_told_to_stop_while_it_starts_has_not_failed(
    seconds: float, control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    told = f"import os, signal, threading; threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGTERM)).start()"
    process = await started(str(control_plane.kubeconfig), kubectl.namespace, told)
    _, said = await asyncio.wait_for(process.communicate(), ANSWER_SECONDS)
    assert process.returncode == EXIT_OK, said.decode()
    assert "Traceback" not in said.decode()


TOLD_WHILE_KOPF_CONNECTS = """
import asyncio, os, signal, aiohttp
real = aiohttp.TCPConnector.connect
async def connect(self, request, *rest, **more):
    found = await real(self, request, *rest, **more)
    if request.url.path == "/apis/slipway.dev/v1alpha1":
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(1)
    return found
aiohttp.TCPConnector.connect = connect
"""
"""kopf asks what the API server serves; it closes the session of its requests when it ends, also under these."""


async def test_a_process_that_is_told_to_stop_while_kopf_connects_has_not_failed(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    process = await started(str(control_plane.kubeconfig), kubectl.namespace, TOLD_WHILE_KOPF_CONNECTS)
    _, said = await asyncio.wait_for(process.communicate(), ANSWER_SECONDS)
    assert process.returncode == EXIT_OK, said.decode()
    assert "Traceback" not in said.decode()


HUNG_TASKS = """
import sys
from kopf._cogs.aiokits import aiotasks
real = aiotasks.wait
async def wait(tasks, **more):
    at_the_end = more.get("timeout") == 5
    done, pending = await real(tasks, **more | ({"timeout": 60} if at_the_end else {}))
    if at_the_end and pending:
        print("kopf waited in vain for", pending, file=sys.stderr)
    return done, pending
aiotasks.wait = wait
"""
"""At its end kopf waits five seconds for tasks that nobody ends; a busy machine has longer to end the others."""


async def test_the_process_ends_promptly_in_the_middle_of_its_work(
    control_plane: NativeCluster, kubectl: Kubectl
) -> None:
    process = await started(str(control_plane.kubeconfig), kubectl.namespace, HUNG_TASKS)
    await asyncio.to_thread(kubectl.apply, job(hosts=1000))
    await until(lambda: len(pods(kubectl)) > 20, "some pods")
    process.send_signal(signal.SIGTERM)
    _, said = await asyncio.wait_for(process.communicate(), ANSWER_SECONDS)
    assert process.returncode == EXIT_OK, said.decode()
    assert "kopf waited in vain" not in said.decode()
    assert "Traceback" not in said.decode()
    await asyncio.to_thread(kubectl, "delete", "sj", "train", "--wait=false")
