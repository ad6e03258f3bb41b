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

from slipway.devcluster import ClusterSpec, LocalClusterError, NativeCluster, NativeProvider, Pool, interface
from slipway.devcluster.kubeapi import KubeApi
from slipway.devcluster.processes import wait_until
from tests.devcluster.conftest import running
from tests.devcluster.helpers import await_phase, create, node, pod, read, ready
from tests.waiting import START_SECONDS


@pytest.mark.stage("clusters")
def test_a_control_plane_is_up_and_authenticates(state_folder: Path) -> None:
    with running("t-bare") as cluster:
        assert (
            cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.groups[0]}").stdout == "system:masters"
        )
        minor = cluster.api().get("/version")["minor"]
        assert minor == "36"
    assert not (state_folder / "clusters" / "t-bare").exists()


@pytest.mark.parametrize("port", ["etcd", "peer"])
def test_other_users_of_the_machine_cannot_ask_etcd(own_cluster: NativeCluster, port: str) -> None:
    stranger = ssl.create_default_context(cafile=str(own_cluster.state.folder / "pki" / "etcd-ca.crt"))
    plain = socket.create_connection(("127.0.0.1", own_cluster.state.ports[port]), timeout=START_SECONDS)
    with plain, stranger.wrap_socket(plain, server_hostname="127.0.0.1") as asked:
        asked.sendall(b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
        with pytest.raises(ssl.SSLError, match="certificate required"):
            asked.recv(1024)


def test_pods_with_tpus_run_on_simulated_nodes(own_cluster: NativeCluster) -> None:
    create(own_cluster, pod("fits", tpus=4))
    await_phase(own_cluster, "fits", "Running")
    found = read(own_cluster, "fits")
    assert found is not None
    assert found["spec"]["nodeName"].startswith("v5p-16-")
    assert found["status"]["podIP"]
    assert found["status"]["containerStatuses"][0]["ready"]


def test_a_pod_without_tolerations_stays_off_tpu_nodes(own_cluster: NativeCluster) -> None:
    create(own_cluster, pod("plain", tolerations=[]))
    await_phase(own_cluster, "plain", "Running")
    found = read(own_cluster, "plain")
    assert found is not None
    assert found["spec"]["nodeName"] == "cpu-0"


def test_simulated_pods_end_as_their_annotations_say(own_cluster: NativeCluster) -> None:
    run = {"slipway.dev/simulated-exit-code": "0", "slipway.dev/simulated-run-for": "1s"}
    create(own_cluster, pod("later"), pod("succeeds", metadata={"annotations": run}))
    await_phase(own_cluster, "later", "Running")
    await_phase(own_cluster, "succeeds", "Succeeded")
    own_cluster.kubectl("annotate", "pod", "later", "slipway.dev/simulated-exit-code=42")
    await_phase(own_cluster, "later", "Failed")
    found = read(own_cluster, "later")
    assert found is not None
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


def test_a_simulated_pod_takes_as_long_to_stop_as_it_says(own_cluster: NativeCluster) -> None:
    slow = {"slipway.dev/simulated-stop-after": "5s"}
    create(own_cluster, pod("slow", metadata={"annotations": slow}, terminationGracePeriodSeconds=90), pod("quick"))
    for name in ("slow", "quick"):
        await_phase(own_cluster, name, "Running")
    began = monotonic()
    own_cluster.kubectl("delete", "pod", "slow", "quick", "--wait=false")
    await_phase(own_cluster, "quick", "gone")
    await_phase(own_cluster, "slow", "gone")
    # The date of a deletion has whole seconds.
    assert monotonic() - began > 4


def test_a_preempted_simulated_node_goes_and_comes_back_as_another(own_cluster: NativeCluster) -> None:
    before = node(own_cluster, "v5p-16-0-1")
    own_cluster.preempt("v5p-16-0-1")
    assert node(own_cluster, "v5p-16-0-1") is None
    with pytest.raises(LocalClusterError, match="is there already"):
        own_cluster.restore("v5p-16-0-0")
    own_cluster.restore("v5p-16-0-1")
    after = node(own_cluster, "v5p-16-0-1")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert after["status"]["allocatable"]["google.com/tpu"] == "4"


def test_a_silent_simulated_node_turns_not_ready_and_recovers(own_cluster: NativeCluster) -> None:
    own_cluster.stop_kubelet("v5p-16-1-1")
    assert wait_until(lambda: not ready(own_cluster, "v5p-16-1-1"), START_SECONDS, 0.2)
    own_cluster.start_kubelet("v5p-16-1-1")
    assert wait_until(lambda: ready(own_cluster, "v5p-16-1-1"), START_SECONDS, 0.2)


def test_the_api_server_can_be_taken_away_and_brought_back(own_cluster: NativeCluster) -> None:
    own_cluster.stop_api_server()
    assert not own_cluster.api().ready()
    own_cluster.start_api_server()
    assert own_cluster.api().find("/api/v1/nodes/cpu-0") is not None


def test_a_paused_api_server_hangs_and_goes_on(own_cluster: NativeCluster) -> None:
    impatient = KubeApi(own_cluster.server, own_cluster.state.authority, own_cluster.state.token, timeout=0.5)
    own_cluster.pause("kube-apiserver")
    try:
        assert not impatient.ready()
    finally:
        own_cluster.resume("kube-apiserver")
    assert wait_until(own_cluster.api().ready, START_SECONDS)
    with pytest.raises(LocalClusterError, match="kube-nothing is not running"):
        own_cluster.pause("kube-nothing")


def test_a_write_after_a_long_pause_has_a_connection_of_its_own(own_cluster: NativeCluster) -> None:
    api = KubeApi(own_cluster.server, own_cluster.state.authority, own_cluster.state.token)
    assert api.ready()
    # The API server does that after 90 s.
    _socket_of(api).shutdown(socket.SHUT_RDWR)
    name = f"after-a-pause-{uuid4().hex[:8]}"
    assert api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})["metadata"]["name"] == name


def test_connections_are_closed_once_nobody_has_their_client(own_cluster: NativeCluster) -> None:
    api = KubeApi(own_cluster.server, own_cluster.state.authority, own_cluster.state.token)
    assert api.ready()
    cycle: list[object] = [api]
    cycle.append(cycle)
    # What is held here keeps its order, in which garbage is finalized: the socket first.
    held = _socket_of(api)
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del api, cycle, held
        gc.collect()
    assert told == []


def _socket_of(api: KubeApi) -> socket.socket:
    """The socket of the connection that was used last."""
    pools = api._connections.pools
    pool = pools[next(iter(pools.keys()))]
    connection = pool.pool.get_nowait()
    pool.pool.put_nowait(connection)
    found: socket.socket = connection.sock
    return found


def test_a_preemption_can_be_announced(own_cluster: NativeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, str]] = []

    def wait(seconds: float) -> None:
        found = node(own_cluster, "v5p-16-1-0")
        assert found is not None
        seen.append((seconds, str(found["spec"])))

    monkeypatch.setattr(interface, "time", SimpleNamespace(sleep=wait))
    own_cluster.preempt("v5p-16-1-0", notice=30.0)
    [(seconds, spec)] = seen
    assert seconds == 30.0
    assert "cloud.google.com/impending-node-termination" in spec
    assert node(own_cluster, "v5p-16-1-0") is None
    own_cluster.restore("v5p-16-1-0")


@pytest.mark.thorough
def test_clusters_live_side_by_side(own_cluster: NativeCluster) -> None:
    with running("t-other", Pool(kind="simulated", type="v6e-16")) as other:
        assert other.server != own_cluster.server
        create(other, pod("only-here", tpus=4))
        await_phase(other, "only-here", "Running")
        assert read(own_cluster, "only-here") is None
        assert other.state.number != own_cluster.state.number
    assert wait_until(lambda: ready(own_cluster, "cpu-0"), START_SECONDS, 0.2)


def test_up_of_the_same_cluster_changes_nothing_and_of_another_is_refused(own_cluster: NativeCluster) -> None:
    provider, before = NativeProvider(), own_cluster.state
    assert provider.up(own_cluster.spec).state == before
    with pytest.raises(LocalClusterError, match="runs already with other nodes"):
        provider.up(ClusterSpec(name=own_cluster.name))


def test_what_does_not_exist_is_named(own_cluster: NativeCluster) -> None:
    with pytest.raises(LocalClusterError, match="has no node 'v5p-16-9-9'"):
        own_cluster.preempt("v5p-16-9-9")
    with pytest.raises(LocalClusterError, match="no cluster 'nowhere'"):
        NativeProvider().get("nowhere")
    assert NativeProvider().down("nowhere") is False
