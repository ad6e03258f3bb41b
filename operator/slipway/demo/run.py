"""The course of the demo."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console

from slipway.api.places import parse_pod_name
from slipway.client.blocking import Client
from slipway.demo import images, proof
from slipway.demo.files import shipped
from slipway.demo.follow import Follower
from slipway.demo.view import View, story
from slipway.devcluster import ClusterSpec, NativeCluster, NativeProvider, Pool
from slipway.devcluster.native.provider import check_machine
from slipway.devcluster.progress import StepReporter

EXAMPLE: Final = "pretrain"
POOLS: Final = (Pool(kind="real", type="v5p-16", count=2, spot=True),)
LIMIT_SECONDS: Final = 300
AWAY_SECONDS: Final = 10
LONG_LEASE: Final = ("--lease-duration", "120", "--renew-deadline", "100")
"""There is no other operator, and a machine that builds and starts a cluster may be slow to answer."""

_END: Final = "the end of the job"


class DemoFailed(Exception):
    """The demo did not show what it promises; the message says what was seen instead."""


@dataclass(frozen=True)
class Times:
    """Seconds from the node's death, as measured by the demo."""

    to_restart_noticed: float
    to_new_pods: float


def build_image(progress: StepReporter) -> Path:
    """The archive of the example's image."""
    return images.build(EXAMPLE, progress)


def manifest(checkpoints: Path) -> dict[str, Any]:
    """The example's SliceJob with this machine's folder as the shared one."""
    body: dict[str, Any] = yaml.safe_load(images.manifest_of(EXAMPLE).read_text())
    [volume] = body["spec"]["volumes"]
    volume["hostPath"]["path"] = str(checkpoints)
    return body


@contextmanager
def operator_process(kubeconfig: Path, log: Path, host_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The operator as a process on this machine, stopped at the end; jobs may mount that folder of the nodes."""
    command = [sys.executable, "-m", "slipway.cli.main", "operator", "--kubeconfig", str(kubeconfig)]
    environment = os.environ | {"SLIPWAY_SITE": json.dumps({"limits": {"hostPaths": [str(host_path)]}})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *LONG_LEASE, "--health-port", "0", "--metrics-port", "0"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Demo:
    """One run on a cluster that is up."""

    def __init__(self, cluster: NativeCluster, console: Console, work: Path) -> None:
        self._cluster, self._work = cluster, work
        self._checkpoints = work / "checkpoints"
        self._checkpoints.mkdir()
        self._body = manifest(self._checkpoints)
        self._name: str = self._body["metadata"]["name"]
        self._kubectl = [str(cluster.state.binaries["kubectl"]), "--kubeconfig", str(cluster.kubeconfig)]
        self._changed = threading.Event()
        self._view = View(console)
        self._console = console
        self._deadline = time.monotonic() + LIMIT_SECONDS
        self._open = ExitStack()

    @property
    def _steps(self) -> int:
        return next(int(one["value"]) for one in self._body["spec"]["env"] if one["name"] == "STEPS")

    def run(self) -> Times:
        """Run the job through a preemption to its end.

        Raises:
            DemoFailed: with everything that was not as it should be.
        """
        with self._open:
            self._apply("crds", shipped("crds"))
            self._start_operator()
            self._open.enter_context(self._view.open())
            self._view.say(f"kubectl apply: SliceJob {self._name}, 2 slices of 2 hosts")
            self._apply("job", self._body)
            client = Client(kubeconfig=self._cluster.kubeconfig)
            follower = self._open.enter_context(Follower(client, self._name, self._changed.set))
            self._until(follower, "the first checkpoints", lambda: self._step() >= self._steps // 4)
            resumed_from = self._step()
            times = self._preempt(follower)
            self._until(follower, _END, lambda: follower.ended)
            job = follower.job
            assert job is not None
        self._console.print(story(job, self._console.width))
        wrong = proof.complaints(job.stored.status, proof.newest(self._checkpoints), self._steps, resumed_from)
        if wrong:
            raise DemoFailed("; ".join(wrong) + f". Operator's log: {self._log_tail()}")
        return times

    def _preempt(self, seen: Follower) -> Times:
        placed = ((parse_pod_name(self._name, name), pod) for name, pod in list(seen.pods.items()))
        node = next(pod.spec["nodeName"] for found, pod in placed if found is not None and found[1].slice == 1)
        self._view.say(f"slipway cluster preempt {node} --return-after {AWAY_SECONDS}s")
        start = time.monotonic()
        taking = threading.Thread(target=self._take_away, args=(node,))
        taking.start()
        self._until(seen, "the restart", lambda: seen.job is not None and seen.job.ended(0))
        noticed = time.monotonic() - start
        self._until(
            seen, "the pods of attempt 1", lambda: sum(n.startswith(f"{self._name}-1-") for n in list(seen.pods)) == 4
        )
        created = time.monotonic() - start
        taking.join()
        self._view.say(f"{node} is back as a new machine")
        return Times(noticed, created)

    def _take_away(self, node: str) -> None:
        self._cluster.preempt(node)
        time.sleep(AWAY_SECONDS)
        self._cluster.restore(node)

    def _step(self) -> int:
        written = proof.newest(self._checkpoints)
        return len(written.losses) if written else 0

    def _start_operator(self) -> None:
        self._operator = self._open.enter_context(
            operator_process(self._cluster.kubeconfig, self._work / "operator.log", self._checkpoints)
        )

    def _until(self, seen: Follower, what: str, holds: Any) -> None:
        while not holds():
            if self._operator.poll() is not None:
                raise DemoFailed(f"the operator ended while waiting for {what}: {self._log_tail()}")
            if time.monotonic() > self._deadline or (seen.ended and what != _END):
                status = seen.job.stored.status if seen.job is not None else {}
                raise DemoFailed(
                    f"{what} did not come; the job says: {json.dumps(status, indent=1)[-3000:]}. "
                    f"Operator's log: {self._log_tail()}"
                )
            self._changed.wait(timeout=0.5)
            self._changed.clear()
            self._view.show(seen)
        self._view.show(seen)

    def _apply(self, what: str, content: Path | dict[str, Any]) -> None:
        source = str(content) if isinstance(content, Path) else "-"
        text = None if isinstance(content, Path) else json.dumps(content)
        done = subprocess.run(
            [*self._kubectl, "apply", "--server-side", "-f", source], input=text, text=True, capture_output=True
        )
        if done.returncode != 0:
            raise DemoFailed(f"kubectl apply of {what}: {done.stderr.strip()}")
        if what == "crds":
            self._until_served()

    def _until_served(self) -> None:
        """A CRD is served a moment after it was applied."""
        while subprocess.run([*self._kubectl, "get", "slicejobs"], capture_output=True).returncode != 0:
            if time.monotonic() > self._deadline:
                raise DemoFailed("the API server does not serve SliceJobs")
            time.sleep(0.1)

    def _log_tail(self) -> str:
        log = self._work / "operator.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "none"


def demo(console: Console, progress: StepReporter, *, keep: bool = False) -> Times:
    """Make the cluster, run the job, and leave nothing behind but caches.

    Args:
        keep: leave the cluster running afterwards.

    Raises:
        DemoFailed: the demo did not show what it promises.
        LocalClusterError: the cluster could not be made.
    """
    provider, name = NativeProvider(), f"demo-{os.getpid()}"
    spec = ClusterSpec(name=name, pools=list(POOLS))
    # To build the image takes minutes.
    check_machine(spec)
    archive = build_image(progress)
    try:
        cluster = provider.up(spec.model_copy(update={"images": [archive]}), progress)
        with tempfile.TemporaryDirectory(prefix="slipway-demo-") as work:
            return Demo(cluster, console, Path(work)).run()
    finally:
        if not keep:
            provider.down(name, progress)
