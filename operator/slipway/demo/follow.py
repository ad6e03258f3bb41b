"""What the cluster shows of one job, kept up to date by watches."""

import json
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any

Object = dict[str, Any]


class Follower:
    """Follows one SliceJob, its pods and the output of its first worker, through kubectl as a user would."""

    def __init__(self, kubectl: list[str], job: str, changed: Callable[[], None]) -> None:
        self._kubectl, self._job, self._changed = kubectl, job, changed
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._printed: set[str] = set()
        self.status: Object = {}
        self.pods: dict[str, Object] = {}
        self.output: list[str] = []

    def __enter__(self) -> "Follower":
        self._start(self._watch("slicejobs", f"--field-selector=metadata.name={self._job}"), self._read_job)
        self._start(self._watch("pods", f"--selector=slipway.dev/job-name={self._job}"), self._read_pod)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()
        for reader in self._readers:
            reader.join()

    def _watch(self, kind: str, selector: str) -> list[str]:
        return [*self._kubectl, "get", kind, selector, "--watch", "--output-watch-events", "--output=json"]

    def _start(self, command: list[str], read: Callable[[IO[str]], None]) -> None:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        reader = threading.Thread(target=_read_and_close, args=(process.stdout, read), daemon=True)
        self._readers.append(reader)
        reader.start()

    def _read_job(self, stream: IO[str]) -> None:
        for event in map(json.loads, stream):
            self.status = event["object"].get("status", {})
            self._changed()

    def _read_pod(self, stream: IO[str]) -> None:
        for event in map(json.loads, stream):
            pod = event["object"]
            name = pod["metadata"]["name"]
            if event["type"] == "DELETED":
                self.pods.pop(name, None)
            else:
                self.pods[name] = pod
                self._follow_output(name, pod)
            self._changed()

    def _follow_output(self, name: str, pod: Object) -> None:
        """Host 0 of slice 0 speaks for all; each attempt has its own."""
        labels = pod["metadata"]["labels"]
        first = labels.get("slipway.dev/slice") == "0" and labels.get("slipway.dev/host") == "0"
        if first and pod["status"]["phase"] == "Running" and name not in self._printed:
            self._printed.add(name)
            self._start([*self._kubectl, "logs", "--follow", name], self._read_output)

    def _read_output(self, stream: IO[str]) -> None:
        for line in stream:
            self.output.append(line.rstrip())
            self._changed()


def _read_and_close(stream: IO[str], read: Callable[[IO[str]], None]) -> None:
    with stream:
        read(stream)
