"""A running operator and the jobs it looks after, as tests see them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from slipway.controller.lease import LeaseTimes
from tests.kubectl import Kubectl, api_of, refusal
from tests.places import ROOT
from tests.waiting import ANSWER_SECONDS, until

T = TypeVar("T")

OWN_SOURCES: Final = ROOT / "operator"
LONG_LEASE: Final = LeaseTimes(duration=120, deadline=100.0, retry=2.0)
"""An API server that is slow to answer costs no operator its Lease: no kubelet starts it again here."""


@dataclass
class Operator:
    """The operator as a process of this machine; may be killed and started again."""

    kubeconfig: Path
    log: Path
    namespace: str
    """Where its Lease is."""
    admin: Path | None = None
    """Kubeconfig of somebody who may delete its Lease, where its own may not."""
    whole_cluster: bool = False
    """Whether it serves all namespaces, and not only that of its Lease."""
    times: LeaseTimes = LONG_LEASE
    """Of its Lease; earlier versions have DEFAULT_TIMES alone."""
    site: dict[str, Any] = field(
        default_factory=lambda: {
            "limits": {"hostPaths": ["/"], "hostNetwork": True, "serviceAccounts": ["*"], "priorityClasses": ["*"]}
        }
    )
    """Defaults and limits of all jobs."""
    image: str = ""
    """An image with Slipway, for the directories of jobs."""
    metrics_port: int = 0
    """Port of /metrics on this machine; 0 serves none."""
    log_format: str = "text"
    sources: Path = OWN_SOURCES
    """Those of this version, or of another."""
    process: subprocess.Popen[bytes] | None = field(default=None)
    _began: int = 0
    """Size of the log when it was started last."""

    def start(self) -> "Operator":
        command = [sys.executable, "-m", "slipway.cli.main", "operator", "--kubeconfig", str(self.kubeconfig)]
        # A Lease of the test's own: an operator that was killed keeps its Lease for a while.
        lease = ["--lease-namespace", self.namespace, "--health-port", "0"]
        if self.sources == OWN_SOURCES:
            # Earlier versions have no such options.
            lease += ["--metrics-port", str(self.metrics_port), "--log-format", self.log_format]
            lease += ["--lease-duration", f"{self.times.duration}", "--renew-deadline", f"{self.times.deadline:g}"]
            lease += ["--retry-period", f"{self.times.retry:g}"]
        served = [] if self.whole_cluster else ["--namespaces", self.namespace]
        given = {"SLIPWAY_SITE": json.dumps(self.site), "SLIPWAY_IMAGE": self.image, "PYTHONPATH": str(self.sources)}
        with self.log.open("ab") as output:
            self._began = output.tell()
            self.process = subprocess.Popen(
                [*command, *lease, *served], stdout=output, stderr=subprocess.STDOUT, env=os.environ | given
            )
        return self

    def until_ready(self) -> "Operator":
        """Wait until it leads and has listed everything."""

        def ready() -> bool:
            self.is_as_asked()
            return self.said("ready:")

        until("the operator leads", ready)
        return self

    def start_again(self) -> "Operator":
        """Start it after it was killed. The Lease of the killed process would have to run out first."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/slipway-operator"
        api_of(self.admin or self.kubeconfig).delete(lease)
        return self.start()

    def running(self) -> "Operator":
        """Start it if a test has ended it, or it has ended by itself, which the test before is told of."""
        if self.process is None or self.process.poll() is not None:
            self.start_again().until_ready()
        return self

    def kill(self) -> None:
        """SIGKILL: no chance to say good-bye."""
        killed, self.process = self.process, None
        assert killed is not None
        killed.send_signal(signal.SIGKILL)
        killed.wait()

    def is_as_asked(self) -> None:
        """Look whether it runs, unless it was stopped.

        Raises:
            AssertionError: when it has ended by itself.
        """
        assert self.process is None or self.process.poll() is None, self.tail()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        stopped, self.process = self.process, None
        if stopped is None:
            return 0
        stopped.terminate()
        try:
            code = stopped.wait(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            stopped.kill()
            raise AssertionError(f"the operator did not stop: {self.tail()}") from None
        # Before it has said anything it has not begun to listen to signals.
        return 0 if code == -signal.SIGTERM and not self._said else code

    def said(self, words: str) -> bool:
        """Whether it has logged the words since it was started last."""
        return words.encode() in self._said

    @property
    def _said(self) -> bytes:
        return self.log.read_bytes()[self._began :]

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass
class Jobs:
    """SliceJobs in one namespace."""

    kubectl: Kubectl
    operator: Operator
    seconds: float = ANSWER_SECONDS
    """How long what becomes of a job may take: START_SECONDS where kubelets are real."""

    def apply(self, name: str = "train", labels: dict[str, str] | None = None, **spec: Any) -> str:
        spec = {"image": "slipway.local/busybox:1"} | spec
        if spec["image"] is None:
            del spec["image"]
        meta = {"name": name, "labels": labels or {}}
        body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": meta, "spec": spec}
        self.kubectl.apply(body)
        return name

    def status(self, name: str = "train") -> Any:
        return self.kubectl.get("sj", name).get("status", {})

    def pods(self, name: str = "train", attempt: int | None = None) -> list[Any]:
        selector = f"slipway.dev/job-name={name}" + ("" if attempt is None else f",slipway.dev/attempt={attempt}")
        items: list[Any] = self.kubectl.get("pods", selector=selector)["items"]
        return items

    def all_pods(self) -> list[Any]:
        """The pods of every job of the namespace."""
        items: list[Any] = self.kubectl.get("pods", selector="slipway.dev/job-name")["items"]
        return items

    def condition(self, kind: str, name: str = "train") -> Any:
        return next((one for one in self.status(name).get("conditions", ()) if one["type"] == kind), {})

    def events(self, name: str = "train") -> list[str]:
        items = self.kubectl.get("events.events.k8s.io")["items"]
        return [one["reason"] for one in items if one["regarding"]["name"] == name]

    def until(self, phase: str, name: str = "train", *, seconds: float | None = None) -> Any:
        """Wait for a phase; returns the status."""
        last: dict[str, Any] = {}

        def reached() -> Any:
            last.clear()
            last.update(self.status(name))
            return last.get("phase") == phase

        try:
            self.until_true(phase, reached, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"not {phase} but {json.dumps(last)}\n{error}") from None
        return last

    def until_all(
        self, names: Collection[str], phase: str, attempt: int | None = None, *, seconds: float | None = None
    ) -> list[Any]:
        """Wait until all are in a phase, in an attempt of this number where one is given; returns their status."""

        def found() -> Any:
            there = {one["metadata"]["name"]: one.get("status", {}) for one in self.kubectl.get("sj")["items"]}
            wanted = [there[name] for name in names]
            holds = all(one.get("phase") == phase and attempt in (None, one.get("attempt")) for one in wanted)
            return wanted if holds else None

        return list(self.until_true(f"{phase} of {', '.join(names)}", found, seconds=seconds, every=0.2))

    def until_true(self, what: str, holds: Callable[[], T], *, seconds: float | None = None, every: float = 0.05) -> T:
        """Wait for something that no condition tells."""

        def found() -> T:
            self.operator.is_as_asked()
            return holds()

        try:
            return until(what, found, seconds=seconds or self.seconds, every=every)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.operator.tail()}") from None

    def until_said(
        self, phase: str, reason: str, *words: str, name: str = "train", seconds: float | None = None
    ) -> str:
        """Wait until one look shows the phase, the reason of Running and these words; returns its message.

        Two looks may show the same job before and after a change.
        """

        def found() -> str:
            status = self.status(name)
            running: Any = next((one for one in status.get("conditions", ()) if one["type"] == "Running"), {})
            message = str(running.get("message"))
            seen = status.get("phase"), running.get("reason")
            return message if seen == (phase, reason) and all(one in message for one in words) else ""

        return self.until_true(f"{phase}, {reason}: {', '.join(words)}", found, seconds=seconds)

    def until_attempt(
        self, number: int, name: str = "train", *, seconds: float | None = None, every: float = 0.05
    ) -> dict[str, Any]:
        """Wait until that attempt runs; returns the status."""

        def found() -> Any:
            status = self.status(name)
            return status if (status.get("attempt"), status.get("phase")) == (number, "Running") else None

        return dict(self.until_true(f"attempt {number} running", found, seconds=seconds, every=every))

    def ran(self, pod: dict[str, Any]) -> tuple[int, str]:
        """Run a pod of one container to its end; returns the exit code and the log."""
        name = pod["metadata"]["name"]

        def end() -> Any:
            containers = self.kubectl.get("pod", name)["status"].get("containerStatuses", ())
            return next((one["state"].get("terminated") for one in containers), None)

        self.kubectl.apply(pod)
        exit_code = self.until_true(f"the end of pod {name}", end)["exitCode"]
        return exit_code, self.kubectl("logs", name).stdout

    def delete_all(self) -> None:
        """Delete every job of the namespace; the server breaks off when deleting many takes longer than a minute."""
        collection = f"/apis/slipway.dev/v1alpha1/namespaces/{self.kubectl.namespace}/slicejobs"
        api = api_of(self.kubectl.kubeconfig)
        for _ in range(5):
            if not refusal(lambda: api.delete_all(collection)):
                return
        api.delete_all(collection)
