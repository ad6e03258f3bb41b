"""Which network the hosts of a container call have that does not say which."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from slipway import CPU, TPU, DockerConfig, JobCancelled, run_docker_on_pod
from slipway.sdk.accelerators import AcceleratorConfig
from tests.running import Jobs
from tests.sdk.caller import client_of
from tests.sdk.server import Server
from tests.waiting import ANSWER_SECONDS

CONFIG = DockerConfig("slipway.local/busybox:1", ["sleep", "1000"])
NODES = "its hosts have the network of the nodes (network='auto'): for jobs on TPUs and GPUs"
PODS = "its hosts have the network of the pods (network='auto'): "
REFUSED = "spec.hostNetwork true is not allowed here (the chart's values, site.limits.hostNetwork): remove it"

# Each: the accelerator, the limits of the site, whether the pods have the network of the nodes, and what is printed.
NETWORKS: dict[str, tuple[AcceleratorConfig, dict[str, Any], bool, str]] = {
    "TPUs": (TPU("v5p-16", spot=True), {}, True, NODES),
    "TPUs where the site forbids it": (
        TPU("v5p-16", spot=True),
        {"hostNetwork": False},
        False,
        PODS + REFUSED,
    ),
    "CPUs": (CPU(), {}, False, f"{PODS}for jobs on CPUs"),
}


@pytest.mark.parametrize(("accelerator", "limits", "of_nodes", "printed"), NETWORKS.values(), ids=NETWORKS)
@pytest.mark.row("E1-09")
def test_hosts_have_the_network_of_the_nodes_where_the_site_allows_it(
    own_jobs: Callable[..., Jobs], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    accelerator: AcceleratorConfig, limits: dict[str, Any], of_nodes: bool, printed: str,
) -> None:  # fmt: skip
    jobs = own_jobs(site={"limits": limits})
    client = client_of(jobs.kubectl, tmp_path)
    with ThreadPoolExecutor(1) as background:
        call = background.submit(
            run_docker_on_pod, CONFIG, accelerator, capture_output=False, name="train", client=client
        )
        jobs.until_true("the job", lambda: call.done() or jobs.kubectl.get("sj")["items"])
        jobs.until("Running")
        assert {bool(pod["spec"].get("hostNetwork")) for pod in jobs.pods()} == {of_nodes}
        jobs.kubectl("delete", "sj", "train")
        with pytest.raises(JobCancelled):
            call.result(timeout=ANSWER_SECONDS)
    assert [line for line in capsys.readouterr().err.splitlines() if "network" in line] == [
        f"SliceJob train: {printed}"
    ]


@pytest.mark.parametrize("field", ["spec", "podTemplate"])
def test_a_network_that_the_spec_names_is_left_alone(
    server: Server, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    server.log, server.status = "done\n", {"phase": "Succeeded"}
    own = {"hostNetwork": False}
    spec: dict[str, Any] = own if field == "spec" else {"podTemplate": {"spec": own}}
    kept = DockerConfig("slipway.local/busybox:1", ["true"], remove=False)
    run_docker_on_pod(kept, TPU("v5p-8"), name="train", client=server.client, spec=spec)
    assert server.jobs["train"]["spec"].items() >= spec.items()
    assert (server.networks, "network" in capsys.readouterr().err) == ([False], False)


def test_hosts_have_the_network_of_the_pods_where_the_api_server_refuses_the_other(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "hostNetwork true is not allowed here (site.limits.hostNetwork): remove it"
    server.refuses_nodes_network, server.log = said, "done\n"
    server.status = {"phase": "Succeeded"}
    assert run_docker_on_pod(CONFIG, TPU("v5p-8"), name="train", client=server.client) == "done\n"
    assert server.networks == [True, False]
    assert PODS in (printed := capsys.readouterr().err)
    assert said in printed
