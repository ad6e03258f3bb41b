"""A control plane with simulated nodes."""

from __future__ import annotations

import gc
import socket
import ssl
import warnings
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from uuid import uuid4

import pytest

from slipway.local_cluster import (
    ClusterSpec,
    LocalClusterError,
    NativeCluster,
    NativeProvider,
    Pool,
    interface,
    kubeapi,
)
from slipway.local_cluster.kubeapi import KubeApi
from slipway.local_cluster.processes import wait_until
from tests.waiting import PATIENCE

from .conftest import running
from .helpers import await_phase, create, node, pod, read, ready


def test_a_control_plane_is_up_and_authenticates(state_folder: Path) -> None:
    with running("t-bare") as cluster:
        assert (
            cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.groups[0]}").stdout == "system:masters"
        )
        minor = cluster.api().get("/version")["minor"]
        assert minor == "36"
    assert not (state_folder / "clusters" / "t-bare").exists()


@pytest.mark.parametrize("port", ["etcd", "peer"])
def test_other_users_of_the_machine_cannot_ask_etcd(simulated: NativeCluster, port: str) -> None:
    stranger = ssl.create_default_context(cafile=str(simulated.state.folder / "pki" / "etcd-ca.crt"))
    plain = socket.create_connection(("127.0.0.1", simulated.state.ports[port]), timeout=PATIENCE)
    with plain, stranger.wrap_socket(plain, server_hostname="127.0.0.1") as asked:
        asked.sendall(b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
        with pytest.raises(ssl.SSLError, match="certificate required"):
            asked.recv(1024)


def test_pods_with_tpus_run_on_simulated_nodes(simulated: NativeCluster) -> None:
    create(simulated, pod("fits", tpus=4))
    await_phase(simulated, "fits", "Running")
    found = read(simulated, "fits")
    assert found is not None
    assert found["spec"]["nodeName"].startswith("v5p-16-")
    assert found["status"]["podIP"]
    assert found["status"]["containerStatuses"][0]["ready"]


def test_a_pod_without_tolerations_stays_off_tpu_nodes(simulated: NativeCluster) -> None:
    create(simulated, pod("plain", tolerations=[]))
    await_phase(simulated, "plain", "Running")
    found = read(simulated, "plain")
    assert found is not None
    assert found["spec"]["nodeName"] == "cpu-0"


def test_simulated_pods_end_as_their_annotations_say(simulated: NativeCluster) -> None:
    run = {"slipway.dev/simulated-exit-code": "0", "slipway.dev/simulated-run-for": "1s"}
    create(simulated, pod("later"), pod("succeeds", metadata={"annotations": run}))
    await_phase(simulated, "later", "Running")
    await_phase(simulated, "succeeds", "Succeeded")
    simulated.kubectl("annotate", "pod", "later", "slipway.dev/simulated-exit-code=42")
    await_phase(simulated, "later", "Failed")
    found = read(simulated, "later")
    assert found is not None
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


def test_a_simulated_pod_takes_as_long_to_stop_as_it_says(simulated: NativeCluster) -> None:
    slow = {"slipway.dev/simulated-stop-after": "30s"}
    create(simulated, pod("slow", metadata={"annotations": slow}, terminationGracePeriodSeconds=90), pod("quick"))
    for name in ("slow", "quick"):
        await_phase(simulated, name, "Running")
    began = monotonic()
    simulated.kubectl("delete", "pod", "slow", "quick", "--wait=false")
    await_phase(simulated, "quick", "gone")
    await_phase(simulated, "slow", "gone")
    # The date of a deletion has whole seconds.
    assert monotonic() - began > 29


def test_a_preempted_simulated_node_goes_and_comes_back_as_another(simulated: NativeCluster) -> None:
    before = node(simulated, "v5p-16-0-1")
    simulated.preempt("v5p-16-0-1")
    assert node(simulated, "v5p-16-0-1") is None
    with pytest.raises(LocalClusterError, match="is there already"):
        simulated.restore("v5p-16-0-0")
    simulated.restore("v5p-16-0-1")
    after = node(simulated, "v5p-16-0-1")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert after["status"]["allocatable"]["google.com/tpu"] == "4"


def test_a_silent_simulated_node_turns_not_ready_and_recovers(simulated: NativeCluster) -> None:
    simulated.stop_kubelet("v5p-16-1-1")
    assert wait_until(lambda: not ready(simulated, "v5p-16-1-1"), PATIENCE, 0.2)
    simulated.start_kubelet("v5p-16-1-1")
    assert wait_until(lambda: ready(simulated, "v5p-16-1-1"), PATIENCE, 0.2)


def test_the_api_server_can_be_taken_away_and_brought_back(simulated: NativeCluster) -> None:
    simulated.stop_api_server()
    assert not simulated.api().ready()
    simulated.start_api_server()
    assert simulated.api().find("/api/v1/nodes/cpu-0") is not None


def test_a_paused_api_server_hangs_and_goes_on(simulated: NativeCluster) -> None:
    impatient = KubeApi(simulated.server, simulated.state.authority, simulated.state.token, timeout=0.5)
    simulated.pause("kube-apiserver")
    try:
        assert not impatient.ready()
    finally:
        simulated.resume("kube-apiserver")
    assert wait_until(simulated.api().ready, PATIENCE)
    with pytest.raises(LocalClusterError, match="kube-nothing is not running"):
        simulated.pause("kube-nothing")


def test_a_write_after_a_long_pause_has_a_connection_of_its_own(
    simulated: NativeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = KubeApi(simulated.server, simulated.state.authority, simulated.state.token)
    assert api.ready()
    [(kept, _)] = api._idle
    # The API server does that after 90 s.
    kept.sock.shutdown(socket.SHUT_RDWR)
    monkeypatch.setattr(kubeapi, "_KEPT_SECONDS", 0.0)
    name = f"after-a-pause-{uuid4().hex[:8]}"
    assert api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})["metadata"]["name"] == name


def test_connections_are_closed_once_nobody_has_their_client(simulated: NativeCluster) -> None:
    older = KubeApi(simulated.server, simulated.state.authority, simulated.state.token)
    assert older.ready()
    younger = KubeApi(simulated.server, simulated.state.authority, simulated.state.token)
    younger._idle.append(older._idle.pop())
    cycle: list[object] = [younger]
    cycle.append(cycle)
    # What is held here keeps its order, in which garbage is finalized: the socket first.
    held = younger._idle[0][0].sock
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del younger, cycle, held
        gc.collect()
    assert told == []


def test_a_preemption_can_be_announced(simulated: NativeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, str]] = []

    def wait(seconds: float) -> None:
        found = node(simulated, "v5p-16-1-0")
        assert found is not None
        seen.append((seconds, str(found["spec"])))

    monkeypatch.setattr(interface, "time", SimpleNamespace(sleep=wait))
    simulated.preempt("v5p-16-1-0", notice=30.0)
    [(seconds, spec)] = seen
    assert seconds == 30.0
    assert "cloud.google.com/impending-node-termination" in spec
    assert node(simulated, "v5p-16-1-0") is None
    simulated.restore("v5p-16-1-0")


def test_clusters_live_side_by_side(simulated: NativeCluster) -> None:
    with running("t-other", Pool(kind="simulated", type="v6e-16")) as other:
        assert other.server != simulated.server
        create(other, pod("only-here", tpus=4))
        await_phase(other, "only-here", "Running")
        assert read(simulated, "only-here") is None
        assert other.state.number != simulated.state.number
    assert wait_until(lambda: ready(simulated, "cpu-0"), PATIENCE, 0.2)


def test_up_of_the_same_cluster_changes_nothing_and_of_another_is_refused(simulated: NativeCluster) -> None:
    provider, before = NativeProvider(), simulated.state
    assert provider.up(simulated.spec).state == before
    with pytest.raises(LocalClusterError, match="runs already with other nodes"):
        provider.up(ClusterSpec(name=simulated.name))


def test_what_does_not_exist_is_named(simulated: NativeCluster) -> None:
    with pytest.raises(LocalClusterError, match="has no node 'v5p-16-9-9'"):
        simulated.preempt("v5p-16-9-9")
    with pytest.raises(LocalClusterError, match="no cluster 'nowhere'"):
        NativeProvider().get("nowhere")
    assert NativeProvider().down("nowhere") is False
