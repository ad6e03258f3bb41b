"""Real nodes: real kubelets, real containers, a real network."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.devcluster import NativeCluster
from slipway.devcluster.processes import wait_until
from slipway.devcluster.programs.components import architecture
from tests.devcluster.helpers import await_phase, create, node, pod, read, ready
from tests.waiting import START_SECONDS

JOB = {"job": "talk"}
SERVE = "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


@pytest.fixture(scope="module")
def talkers(own_nodes: NativeCluster) -> NativeCluster:
    """Two pods on the two hosts of a slice, under one headless Service and one with an address."""
    ports = [{"port": 80, "targetPort": 8080}]
    spec: dict[str, Any] = {"selector": JOB, "ports": ports}
    headless = {**spec, "clusterIP": "None", "publishNotReadyAddresses": True}
    for name, content in (("talk", headless), ("address", spec)):
        create(own_nodes, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": content})
    for host in (0, 1):
        names = {"hostname": f"0-0-{host}", "subdomain": "talk"}
        create(
            own_nodes,
            pod(f"talk-{host}", f"echo hello from {host}; {SERVE}", 4, metadata={"labels": JOB}, **names),
        )
    for host in (0, 1):
        await_phase(own_nodes, f"talk-{host}", "Running")
    # Addresses are published a moment after the pods run.
    for host in (0, 1):
        shell(
            own_nodes,
            f"talk-{host}",
            f"until timeout 10 wget -qO- http://0-0-{1 - host}.talk:8080/; do sleep 0.2; done",
        )
    return own_nodes


@pytest.fixture(scope="module", autouse=True)
def _meanwhile(preempted: str) -> None:
    """Take a node away before these tests, so that pod garbage collection has noticed when `test_spot.py` looks."""


def shell(cluster: NativeCluster, name: str, command: str, *, check: bool = True) -> str:
    done = cluster.kubectl("exec", name, "--", "sh", "-c", command, check=check, timeout=START_SECONDS)
    return done.stdout.strip()


def says(cluster: NativeCluster, name: str, command: str, words: str) -> bool:
    """Whether the words come in time: on a busy machine a single packet may get lost, or be late."""
    return wait_until(lambda: words in shell(cluster, name, command, check=False), START_SECONDS, 0.5)


def test_nodes_look_like_those_of_gke(own_nodes: NativeCluster) -> None:
    found = node(own_nodes, "v5p-16-0-1")
    assert found is not None
    assert found["status"]["allocatable"]["google.com/tpu"] == "4"
    assert found["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"] == "2x2x2"
    assert found["metadata"]["labels"]["kubernetes.io/arch"] == architecture()
    assert {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"} in found["spec"]["taints"]
    other = node(own_nodes, "v5p-16-0-0")
    assert other is not None
    assert found["status"]["nodeInfo"]["bootID"] != other["status"]["nodeInfo"]["bootID"]


def test_each_host_of_a_slice_runs_one_pod(talkers: NativeCluster) -> None:
    pods = [read(talkers, f"talk-{host}") for host in (0, 1)]
    assert {each["spec"]["nodeName"] for each in pods if each} == {"v5p-16-0-0", "v5p-16-0-1"}


def test_pods_find_each_other_by_name_and_talk(talkers: NativeCluster) -> None:
    for name in ("0-0-1.talk", "0-0-1.talk.default.svc", "0-0-1.talk.default.svc.cluster.local"):
        assert says(talkers, "talk-0", f"timeout 10 wget -qO- http://{name}:8080/", "0-0-1"), name
    assert says(talkers, "talk-1", "timeout 10 wget -qO- http://0-0-0.talk:8080/", "0-0-0")
    assert shell(talkers, "talk-0", "hostname -f") == "0-0-0.talk.default.svc.cluster.local"


def test_service_addresses_work_from_every_side(talkers: NativeCluster) -> None:
    seen: set[str] = set()

    def both() -> bool:
        seen.add(shell(talkers, "talk-0", "timeout 10 wget -qO- http://address/", check=False))
        return seen >= {"0-0-0", "0-0-1"}

    assert wait_until(both, START_SECONDS, 0.1), seen  # its own node's pod as well as the other
    assert says(talkers, "talk-1", "nc -w 10 kubernetes.default.svc 443 </dev/null && echo true", "true")


def test_a_name_that_does_not_exist_is_answered_at_once(talkers: NativeCluster) -> None:
    assert says(talkers, "talk-0", "nslookup no-such-host.example.com", "NXDOMAIN")


def test_logs_and_exec_work_from_the_machine(talkers: NativeCluster) -> None:
    assert talkers.kubectl("logs", "talk-1").stdout.strip() == "hello from 1"
    assert shell(talkers, "talk-1", "hostname") == "0-0-1"
    failed = talkers.kubectl("exec", "talk-1", "--", "sh", "-c", "exit 7", check=False)
    assert failed.returncode == 7


def test_a_service_account_may_ask_the_api_server(talkers: NativeCluster) -> None:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert "BEGIN CERTIFICATE" in shell(talkers, "talk-0", f"cat {path}/ca.crt")
    assert shell(talkers, "talk-0", f"wc -c <{path}/token") > "100"


@pytest.mark.thorough
def test_a_container_over_its_memory_limit_is_oom_killed(own_nodes: NativeCluster) -> None:
    # The kernel tells containerd of the OOM through the container's cgroup, so the shell keeps that for a while.
    create(own_nodes, pod("hungry", "tail /dev/zero; code=$?; sleep 20; exit $code", limits={"memory": "24Mi"}))
    await_phase(own_nodes, "hungry", "Failed")
    found = read(own_nodes, "hungry")
    assert found is not None
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_volumes_and_termination_messages_work(
    own_nodes: NativeCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {"name": "host", "hostPath": {"path": str(folder)}},
    ]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "host", "mountPath": "/host"}]
    container = {"volumeMounts": mounts, "terminationMessagePolicy": "FallbackToLogsOnError"}
    command = "df -k /dev/shm | tail -1 >/host/shm; echo out of luck; exit 3"
    create(own_nodes, pod("mounts", command, volumes=volumes, container=container))
    await_phase(own_nodes, "mounts", "Failed")
    found = read(own_nodes, "mounts")
    assert found is not None
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"].strip()) == (3, "out of luck")
    assert (folder / "shm").read_text().split()[1] == "16384"


@pytest.mark.thorough
def test_a_silent_kubelet_makes_its_node_not_ready_and_keeps_its_tpus(own_nodes: NativeCluster) -> None:
    own_nodes.stop_kubelet("v5p-16-0-0")
    assert wait_until(lambda: not ready(own_nodes, "v5p-16-0-0"), START_SECONDS, 0.2)
    own_nodes.start_kubelet("v5p-16-0-0")
    # It may have been silent once more on a busy machine.
    assert wait_until(lambda: ready(own_nodes, "v5p-16-0-0"), START_SECONDS, 0.2)
    found = node(own_nodes, "v5p-16-0-0")
    assert found is not None
    assert found["status"]["allocatable"]["google.com/tpu"] == "4"
