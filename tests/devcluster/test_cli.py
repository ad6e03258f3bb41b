"""`slipway cluster` as people use it."""

from __future__ import annotations

import json
import os
import platform
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import docker
import pytest
import yaml
from click.testing import CliRunner, Result

from slipway.cli.cluster import cluster
from slipway.cli.demo import demo
from slipway.demo import images
from slipway.demo.images import EXAMPLES, manifest_of
from slipway.devcluster import ClusterSpec, NativeCluster, Pool, state
from slipway.devcluster import status as observed
from slipway.devcluster.images import archives
from slipway.devcluster.processes import wait_until
from slipway.devcluster.programs import packages
from slipway.devcluster.programs.packages import find_tool
from slipway.devcluster.progress import Silent
from tests.devcluster.helpers import await_phase, create, pod
from tests.local.servers import PACKAGES, engine_in
from tests.places import ROOT
from tests.waiting import START_SECONDS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cluster, arguments, catch_exceptions=False)


def test_up_of_a_running_cluster_says_so(own_cluster: NativeCluster) -> None:
    result = run("status", own_cluster.name)
    assert result.exit_code == 0, result.output
    assert f"export KUBECONFIG={own_cluster.kubeconfig}" in result.output
    other = run("up", own_cluster.name, "--simulated", "1*cpu")
    assert other.exit_code == 1
    assert "runs already with other nodes" in other.output
    assert f"slipway cluster down {own_cluster.name}" in other.output


@pytest.mark.stage("clusters")
@pytest.mark.thorough
def test_up_twice_and_down_twice(state_folder: Path) -> None:
    try:
        first = run("up", "t-cli", "--simulated", "2*v5p-16", "--spot")
        assert first.exit_code == 0, first.output
        assert "Cluster t-cli: 4 nodes" in first.output
        assert "export KUBECONFIG=" in first.output
        again = run("up", "t-cli", "--simulated", "2*v5p-16", "--spot")
        assert "runs already as asked; nothing was changed" in again.output
        back = run("preempt", "v5p-16-1", "--cluster", "t-cli", "--return-after", "100ms")
        assert back.exit_code == 0, back.output
        assert "v5p-16-1-0, v5p-16-1-1: preempted and back" in back.output
    finally:
        last = run("down", "t-cli")
    assert "is removed" in last.output
    again = run("down", "t-cli")
    assert again.exit_code == 4
    assert "There is no cluster 't-cli'" in again.output


def test_status_as_json(own_cluster: NativeCluster) -> None:
    found = json.loads(run("status", own_cluster.name, "-o", "json").output)[0]
    assert found["state"] == "Running"
    assert {node["name"]: node["tpus"] for node in found["nodes"]}["v5p-16-0-0"] == 4
    assert all(found["processes"].values())
    assert own_cluster.name in [each["name"] for each in json.loads(run("status", "-o", "json").output)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up", "t-bad", "--real", "v5p-16*2"], "does not name a pool"),
        (["up", "t-bad", "--simulated", "1*v5p-17"], "neither `cpu` nor a TPU type"),
        (["up", "t-bad", "--simulated", "1*cpu:chipsPerHost=4"], "CPU nodes have no chips"),
        (["up", "Bad_Name"], "'Bad_Name' is no name of a cluster; use at most 30 lower-case letters, digits and `-`"),
        (["down", "../.."], "'../..' is no name of a cluster"),
    ],
)
def test_faults_are_sentences(state_folder: Path, arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["env", "t-half"],
        *([verb, "cpu-0", "--cluster", "t-half"] for verb in ("preempt", "restore", "break")),
        ["load-image", str(ROOT / "README.md"), "--cluster", "t-half"],
        ["load-examples", "--cluster", "t-half"],
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_half_made_cluster_is_called_so(state_folder: Path, arguments: list[str], *, recorded: bool) -> None:
    with state.locked("t-half", make=True):
        if recorded:
            pools = [Pool(kind="real", type="cpu")]
            state.ClusterState(spec=ClusterSpec(name="t-half", pools=pools), binaries={"kubectl": Path("/k")}).save()
    result = run(*arguments)
    state.remove("t-half")
    assert result.exit_code == 1
    assert "The cluster 't-half' is half made" in result.output
    assert "slipway cluster down t-half" in result.output


def test_a_folder_that_can_be_no_cluster_keeps_none_from_being_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path))
    for name in ("dev", "dev.bak", "-", "Dev"):
        (tmp_path / "clusters" / name).mkdir(parents=True)
    result = run("status", "-o", "json")
    assert [(one["name"], one["state"]) for one in json.loads(result.output)] == [("dev", "Unfinished")]


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["status", "t-file"], ["up", "t-file", "--simulated", "1*cpu"], ["down", "t-file"], ["env", "t-file"]],
    ids=" ".join,
)
def test_what_the_machine_refuses_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    in_the_way = tmp_path / "state"
    in_the_way.write_text("")
    monkeypatch.setenv("SLIPWAY_STATE", str(in_the_way))
    result = run(*arguments)
    assert result.exit_code == 1
    assert f"Error: {in_the_way}/clusters" in result.output
    assert "Not a directory." in result.output


def test_a_command_that_is_interrupted_has_its_own_code(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(state, "names", interrupted)
    result = run("status")
    assert (result.exit_code, result.output) == (130, "Error: interrupted\n")


def test_the_demo_says_what_the_machine_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("")
    monkeypatch.setenv("SLIPWAY_CACHE", str(in_the_way / "x"))
    result = CliRunner().invoke(demo)
    assert result.exit_code == 1
    assert result.output.startswith("The demo failed: ")
    assert "Not a directory." in " ".join(result.output.split())


OTHER_MACHINES: dict[str, tuple[str, int, str]] = {
    "no root": ("Linux", 1000, "Real nodes need root"),
    "no Linux": ("Darwin", 0, "Local clusters run on Linux only"),
}


@pytest.mark.parametrize(("system", "user", "words"), OTHER_MACHINES.values(), ids=OTHER_MACHINES)
def test_the_demo_builds_nothing_on_a_machine_where_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch, system: str, user: int, words: str
) -> None:
    built: list[str] = []
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(images, "build_python_image", lambda reference, *_, **__: built.append(reference))
    result = CliRunner().invoke(demo)
    assert (result.exit_code, built) == (3, [])
    assert words in " ".join(result.output.split())


def test_a_record_that_is_no_text_keeps_no_cluster_from_being_removed(state_folder: Path) -> None:
    with state.locked("t-bytes", make=True) as folder:
        (folder / "state.json").write_bytes(b"\xff\xfe\x00")
    assert "t-bytes: Unreadable" in run("status").output
    assert run("down", "t-bytes").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [["down", "t-none"], ["status", "t-none"], ["env", "t-none"], ["preempt", "x", "--cluster", "t-none"]],
    ids=lambda arguments: arguments[0],
)
def test_a_cluster_that_is_not_there_ends_with_its_own_code(own_cluster: NativeCluster, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 4
    assert "There is no cluster 't-none'" in result.output
    assert f"{own_cluster.name}" in result.output.partition("Clusters: ")[2], "the clusters that there are"


def test_the_chips_of_a_host_can_be_said_where_a_type_leaves_them_open(state_folder: Path) -> None:
    refused = run("up", "t-chips", "--simulated", "3*v6e-8")
    assert refused.exit_code == 1
    assert "Hint: Write 3*v6e-8-1 or 3*v6e-8-2." in refused.output
    try:
        made = run("up", "t-chips", "--simulated", "2*v6e-8:chipsPerHost=4", "--simulated", "1*cpu")
        assert "Cluster t-chips: 5 nodes" in made.output
        asked_for = [
            ["pool", "kind", "type", "topology", "spot", "slices", "nodes"],
            ["v6e-8-0…v6e-8-1", "simulated", "v6e-8", "2x4", "2/2", "4/4"],
            ["default-pool", "simulated", "cpu", "1/1"],
        ]
        seen: list[list[str]] = []

        def shown() -> bool:
            seen[:] = rows(run("status", "t-chips").output)[:3]
            return seen == asked_for

        assert wait_until(shown, START_SECONDS), seen
    finally:
        run("down", "t-chips")


def rows(output: str) -> list[list[str]]:
    """The rows of the tables in what `status` prints."""
    lines = output.splitlines()
    return [line.split() for line in lines[[line.split()[:1] == ["pool"] for line in lines].index(True) :]]


def node(name: str, state: str) -> observed.NodeStatus:
    pool = name.rpartition("-")[0]
    return observed.NodeStatus(
        name=name, kind="simulated", pool=pool, accelerator="tpu-v5-lite-podslice", tpus=4, spot=True, state=state
    )


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> str:
    """A cluster of 64 hosts, one of which is gone."""
    nodes = [node(f"v5litepod-256-0-{host}", "Preempted" if host == 7 else "Ready") for host in range(64)]
    pool = observed.PoolStatus(
        pools=["v5litepod-256-0"], kind="simulated", type="v5litepod-256", topology="16x16", spot=True,
        slices=1, ready_slices=0, nodes=64, ready_nodes=63,
    )  # fmt: skip
    found = observed.ClusterStatus(name="large", state="Running", folder=Path("/x"), pools=[pool], nodes=nodes)
    monkeypatch.setattr(observed, "of", lambda name: found)
    # A pipe of a narrow terminal.
    monkeypatch.setenv("COLUMNS", "40")
    return "large"


def test_status_of_a_large_cluster_is_short_and_names_what_is_not_ready(large: str) -> None:
    output = run("status", large).output
    assert rows(output)[1] == ["v5litepod-256-0", "simulated", "v5litepod-256", "16x16", "spot", "0/1", "63/64"]
    assert "1 of 64 nodes are not Ready" in output
    assert [line.split() for line in output.splitlines()[-1:]] == [
        ["v5litepod-256-0-7", "simulated", "v5litepod-256-0", "tpu-v5-lite-podslice", "(spot)", "4", "Preempted"]
    ]


def test_a_row_of_the_status_is_one_line_in_a_pipe(large: str) -> None:
    lines = run("status", large, "--nodes").output.splitlines()
    nodes = [line.split() for line in lines if "tpu-v5-lite-podslice (spot)" in line]
    assert len(nodes) == 64
    assert {row[-1] for row in nodes} == {"Ready", "Preempted"}


def test_simulated_nodes_take_no_images(own_cluster: NativeCluster) -> None:
    result = run("load-examples", "pretrain", "--cluster", own_cluster.name)
    assert result.exit_code == 1
    assert "has no real nodes" in result.output


@pytest.mark.thorough
def test_the_images_of_examples_reach_the_nodes(
    own_nodes: NativeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(reference: str, requirements: list[str], files: dict[str, Path], **_: object) -> Path:
        """Without the packages, which the demo's tests prove and each of the nodes would unpack for many seconds."""
        assert "jax" in requirements[0]
        contents: dict[str, Path | bytes] = {"bin/sh": Path(find_tool("busybox") or ""), **files}
        layer = archives.tar_layer(tmp_path / "layer", contents, {})
        archives.write(tmp_path / "example.tar", [archives.Image(reference, (layer,))])
        return tmp_path / "example.tar"

    monkeypatch.setattr(images, "build_python_image", small)
    result = run("load-examples", "pretrain", "--cluster", own_nodes.name)
    assert result.exit_code == 0, result.output
    assert f"kubectl apply -f {ROOT / 'examples/pretrain.yaml'}" in result.output
    command = ["/bin/sh", "-c", "test -s /app/train.py"]
    create(own_nodes, pod("example", container={"image": "slipway.local/train:1", "command": command}))
    await_phase(own_nodes, "example", "Succeeded")


@pytest.mark.thorough
def test_an_image_of_the_engine_reaches_the_nodes(own_nodes: NativeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    packages.ensure(PACKAGES, Silent())
    # Short, because the paths of sockets may not be long.
    with TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as folder, engine_in(Path(folder)) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        with closing(docker.APIClient(engine.host)) as api:
            layer = archives.tar_layer(Path(folder) / "layer", {"bin/sh": Path(find_tool("busybox") or "")}, {})
            api.import_image_from_data(layer.path.read_bytes(), repository="mine", tag="1")
        absent = run("load-image", "absent:1", "--cluster", own_nodes.name)
        assert (absent.exit_code, "There is no file absent:1, and the Docker engine" in absent.output) == (1, True)
        result = run("load-image", "mine:1", "--cluster", own_nodes.name)
    assert result.exit_code == 0, result.output
    create(own_nodes, pod("mine", container={"image": "mine:1", "command": ["/bin/sh", "-c", "true"]}))
    await_phase(own_nodes, "mine", "Succeeded")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_image_of_an_example_is_the_one_its_manifest_names(example: str) -> None:
    [spec] = [body["spec"] for body in yaml.safe_load_all(manifest_of(example).read_text())]
    assert spec["image"] == EXAMPLES[example].image
    assert f"/app/{EXAMPLES[example].program}" in str(spec)


def test_a_bad_duration_is_a_usage_error(own_cluster: NativeCluster) -> None:
    result = run("preempt", "cpu-0", "--return-after", "soon")
    assert result.exit_code == 2
    assert "is not a length of time" in result.output
