"""A running operator and the jobs it looks after, as tests see them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from slipway.cluster.lease import LOST_LEASE
from tests.conftest import ROOT, Kubectl
from tests.waiting import PATIENCE

OWN_SOURCES = ROOT / "operator"


@dataclass
class Operator:
    """The operator as a process of this machine; may be killed and started again.

    Like a kubelet it is started again when it has ended because a busy API server left its renewals unanswered.
    """

    kubeconfig: Path
    log: Path
    namespace: str
    whole_cluster: bool = False
    """Whether it serves all namespaces, and not only its own."""
    site: dict[str, Any] = field(
        default_factory=lambda: {"limits": {"hostPaths": ["/"], "serviceAccounts": ["*"], "priorityClasses": ["*"]}}
    )
    """Defaults and limits of all jobs."""
    metrics_port: int = 0
    """Port of /metrics on this machine; 0 serves none."""
    log_format: str = "text"
    sources: Path = OWN_SOURCES
    """Those of this version, or of another."""
    process: subprocess.Popen[bytes] | None = field(default=None)
    _began: int = 0
    """Size of the log when it was started last."""
    _lock: Any = field(default_factory=Lock)

    def start(self) -> "Operator":
        command = [sys.executable, "-m", "slipway.cli.main", "operator", "--kubeconfig", str(self.kubeconfig)]
        # A Lease of the test's own: an operator that was killed keeps its Lease for a while.
        lease = ["--lease-namespace", self.namespace, "--health-port", "0"]
        if self.sources == OWN_SOURCES:
            # Earlier versions have no such options.
            lease += ["--metrics-port", str(self.metrics_port), "--log-format", self.log_format]
        served = [] if self.whole_cluster else ["--namespaces", self.namespace]
        environment = os.environ | {"SLIPWAY_SITE": json.dumps(self.site), "PYTHONPATH": str(self.sources)}
        with self.log.open("ab") as output:
            self._began = output.tell()
            self.process = subprocess.Popen(
                [*command, *lease, *served], stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        Thread(target=self._restart_like_the_kubelet, args=(self.process,), daemon=True).start()
        return self

    def _restart_like_the_kubelet(self, started: "subprocess.Popen[bytes]") -> None:
        started.wait()
        with self._lock:
            if self.process is started and self.lost_its_lease:
                self.start()

    def _taken(self) -> "subprocess.Popen[bytes] | None":
        """The process, which is not started again from now on."""
        with self._lock:
            taken, self.process = self.process, None
        return taken

    def kill(self) -> None:
        """SIGKILL: no chance to say good-bye."""
        killed = self._taken()
        assert killed is not None
        killed.send_signal(signal.SIGKILL)
        killed.wait()

    def is_as_asked(self) -> None:
        """Look whether it runs, unless it was stopped.

        Raises:
            AssertionError: when it has ended by itself.
        """
        with self._lock:
            assert self.process is None or self.process.poll() is None or self.lost_its_lease, self.tail()

    @property
    def lost_its_lease(self) -> bool:
        """Whether it has ended because a busy API server left its renewals unanswered."""
        return any(map(self.said, LOST_LEASE))

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        stopped = self._taken()
        if stopped is None:
            return 0
        stopped.terminate()
        try:
            code = stopped.wait(timeout=PATIENCE)
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


class Jobs:
    """SliceJobs in one namespace."""

    def __init__(self, kubectl: Kubectl, operator: Operator) -> None:
        self.kubectl, self.operator = kubectl, operator

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
        items: list[Any] = self.kubectl.get("pods", "-l", selector)["items"]
        return items

    def condition(self, kind: str, name: str = "train") -> Any:
        return next((one for one in self.status(name).get("conditions", ()) if one["type"] == kind), {})

    def events(self, name: str = "train") -> list[str]:
        items = self.kubectl.get("events.events.k8s.io")["items"]
        return [one["reason"] for one in items if one["regarding"]["name"] == name]

    def until(self, phase: str, name: str = "train", *, seconds: float = PATIENCE) -> Any:
        """Wait for a phase; returns the status."""
        end, reached = time.monotonic() + seconds, f"--for=jsonpath={{.status.phase}}={phase}"
        while self.kubectl("wait", f"sj/{name}", reached, "--timeout=60s", check=False).returncode != 0:
            assert time.monotonic() < end, f"not {phase} but {self.status(name)}\n{self.operator.tail()}"
            self.operator.is_as_asked()
        return self.status(name)

    def until_all(
        self, names: Collection[str], phase: str, attempt: int | None = None, *, seconds: float = PATIENCE
    ) -> list[Any]:
        """Wait until all are in a phase, in an attempt of this number where one is given; returns their status."""

        def found() -> Any:
            there = {one["metadata"]["name"]: one.get("status", {}) for one in self.kubectl.get("sj")["items"]}
            wanted = [there[name] for name in names]
            holds = all(one.get("phase") == phase and attempt in (None, one.get("attempt")) for one in wanted)
            return wanted if holds else None

        return list(self.until_true(f"{phase} of {', '.join(names)}", found, seconds=seconds, pause=0.5))

    def until_true(self, what: str, holds: Callable[[], Any], *, seconds: float = PATIENCE, pause: float = 0.1) -> Any:
        """Wait for something that no condition tells."""
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < end, f"{what} did not happen\n{self.operator.tail()}"
            self.operator.is_as_asked()
            time.sleep(pause)
        return found

    def until_said(self, phase: str, reason: str, *words: str, name: str = "train", seconds: float = PATIENCE) -> str:
        """Wait until one look shows the phase, the reason of Running and these words; returns its message.

        Two looks may show the same job before and after a change.
        """

        def found() -> str:
            status = self.status(name)
            running = next((one for one in status.get("conditions", ()) if one["type"] == "Running"), {})
            message = str(running.get("message"))
            seen = status.get("phase"), running.get("reason")
            return message if seen == (phase, reason) and all(one in message for one in words) else ""

        return str(self.until_true(f"{phase}, {reason}: {', '.join(words)}", found, seconds=seconds))

    def until_attempt(
        self, number: int, name: str = "train", *, seconds: float = PATIENCE, pause: float = 0.1
    ) -> dict[str, Any]:
        """Wait until that attempt runs; returns the status."""

        def found() -> Any:
            status = self.status(name)
            return status if (status.get("attempt"), status.get("phase")) == (number, "Running") else None

        status: dict[str, Any] = self.until_true(f"attempt {number} running", found, seconds=seconds, pause=pause)
        return status

    def ran(self, pod: dict[str, Any], *, seconds: float) -> tuple[int, str]:
        """Run a pod of one container to its end; returns the exit code and the log."""
        name, end = pod["metadata"]["name"], "jsonpath={.status.containerStatuses[0].state.terminated.finishedAt}"
        self.kubectl.apply(pod)
        self.kubectl("wait", f"pod/{name}", f"--for={end}", f"--timeout={seconds}s", seconds=2 * seconds)
        [container] = self.kubectl.get("pod", name)["status"]["containerStatuses"]
        return container["state"]["terminated"]["exitCode"], self.kubectl("logs", name).stdout
