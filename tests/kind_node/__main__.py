"""`slipway cluster --provider kind` and the chart from end to end: `python -m tests.kind_node`; takes some minutes.

The engine runs in a network namespace, and the rest of this program in the same one. Nothing is pulled.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from slipway.devcluster import BUSYBOX_IMAGE, KindCluster, KindProvider
from slipway.devcluster.kind.programs import NEEDED, PROGRAMS
from slipway.devcluster.native import images
from slipway.devcluster.programs import binaries
from slipway.devcluster.progress import Silent
from tests.chart.conftest import Helm, helm_program
from tests.clusters import kubectl_for
from tests.e2e.test_chart import HOME, Shell, whole_life
from tests.kind_node.engine import command
from tests.kind_node.image import NODE_IMAGE, build, fetch
from tests.local.servers import answers, running
from tests.operator_image import IMAGE, build_image
from tests.running import Jobs, Operator

NAME: Final = "kind-try"
INSIDE: Final = "inside"
JOB: Final[dict[str, Any]] = {
    "image": BUSYBOX_IMAGE, "accelerator": {"type": "v5p-16", "spot": True}, "slices": 2, "command": ["sleep", "600"],
}  # fmt: skip
LONG: Final = 180


def main() -> int:
    """Start an engine, and go on in its network."""
    if INSIDE in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            try_it(Path(folder))
        return 0
    # From inside the engine's network nothing can be fetched.
    fetch()
    binaries.ensure(NEEDED, Silent(), PROGRAMS)
    helm_program()
    build_image()
    with tempfile.TemporaryDirectory(prefix="slipway-kind-", ignore_cleanup_errors=True) as folder:
        socket = Path(folder) / "engine.sock"
        with running(command(Path(folder)), Path(folder) / "log", lambda: answers(socket)) as engine:
            enter = ["nsenter", f"--net=/proc/{engine.pid}/ns/net", sys.executable, "-m", "tests.kind_node", INSIDE]
            environment = os.environ | {"DOCKER_HOST": f"unix://{socket}", "SLIPWAY_STATE": f"{folder}/state"}
            return subprocess.run(enter, env=environment, check=False).returncode


def said(what: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def slipway(*arguments: str) -> str:
    """`slipway cluster …` as a user runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "slipway.cli.main", "cluster", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"slipway cluster {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def try_it(folder: Path) -> None:
    """Make a cluster, install the chart, run a job, take a node away, break a chip, and remove all of it."""
    said(f"the node image is {build()}")
    try:
        pools = ("--spot", "--real", "2*v5p-16", "--real", "1*cpu")
        slipway("up", NAME, "--provider", "kind", "--node-image", NODE_IMAGE, *pools)
        slipway("load-image", str(images.base_archive()), str(build_image()), "--cluster", NAME)
        said("the cluster is up, with images")
        run_jobs(KindProvider(NODE_IMAGE).get(NAME), folder)
    finally:
        slipway("down", NAME)
    said("the cluster is gone")


def run_jobs(cluster: KindCluster, folder: Path) -> None:
    """What the tests do with the chart on real nodes, and a job whose node is taken away and whose chip is broken."""
    kubectl = kubectl_for(cluster, "default")
    shell = Shell(Helm(helm_program(), folder), kubectl_for(cluster, HOME), IMAGE, folder)
    (folder / "none.log").touch()
    jobs = Jobs(kubectl, Operator(cluster.kubeconfig, folder / "none.log", "default"))
    whole_life(shell, jobs, cluster)
    said("a release of the chart went through its life")
    shell.run("install")
    jobs.apply(**JOB)
    jobs.until("Running", seconds=LONG)
    said("a job runs on four hosts")
    before = uid(jobs, "v5p-16-0-1")
    slipway("preempt", "v5p-16-0-1", "--cluster", NAME)
    status = json.loads(slipway("status", NAME, "-o", "json"))
    assert {one["name"]: one["state"] for one in status[0]["nodes"]}["v5p-16-0-1"] == "Preempted"
    jobs.until_true("the loss is noticed", lambda: jobs.status()["phase"] != "Running", seconds=LONG)
    slipway("restore", "v5p-16-0-1", "--cluster", NAME)
    assert uid(jobs, "v5p-16-0-1") != before
    after = jobs.until_attempt(1, seconds=LONG)
    assert (after["failures"], after["preemptions"]) == (0, 1), after
    said("its node was preempted and restored, and it runs again")
    slipway("break", "v5p-16-0-0", "--chip", "2", "--cluster", NAME)
    node = json.loads(slipway("status", NAME, "-o", "json"))[0]["nodes"][0]
    assert (node["name"], node["healthy_tpus"]) == ("v5p-16-0-0", 3), node
    slipway("restore", "v5p-16-0-0", "--cluster", NAME)
    said("a chip was broken and restored")
    shell.run("uninstall")


def uid(jobs: Jobs, node: str) -> str:
    """The UID of a Node."""
    return str(jobs.kubectl.get("node", node)["metadata"]["uid"])


if __name__ == "__main__":
    sys.exit(main())
