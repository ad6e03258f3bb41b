"""A Docker engine and registries of the tests' own, on this machine, ended by their pids."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from slipway.devcluster.programs.packages import find_tool
from tests.waiting import START_SECONDS, until

PACKAGES = {
    "dockerd": "docker.io", "docker": "docker.io", "docker-registry": "docker-registry", "busybox": "busybox-static",
}  # fmt: skip
USER, PASSWORD = "anna", "sesame"
# bcrypt, the only form that the registry takes.
HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O\n"


@dataclass(frozen=True)
class Engine:
    """A running Docker engine."""

    process: subprocess.Popen[bytes]
    host: str
    """What DOCKER_HOST has to be."""


def tool(name: str) -> str:
    found = find_tool(name)
    assert found is not None, name
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:

        def runs() -> bool:
            assert process.poll() is None, log.read_text()
            return ready()

        until(f"{command[0]} is ready", runs, seconds=START_SECONDS)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def engine_in(folder: Path, *options: str) -> Iterator[Engine]:
    """An engine that shares nothing with another on this machine, and makes no bridge and no firewall rules."""
    path = folder / "engine.sock"
    command = [
        tool("dockerd"), f"--host=unix://{path}", f"--data-root={folder / 'data'}", f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'pid'}", f"--containerd-namespace=test-{os.getpid()}",
        f"--containerd-plugins-namespace=test-plugins-{os.getpid()}", "--bridge=none", "--iptables=false",
        "--ip-forward=false", "--ip-masq=false", *options,
    ]  # fmt: skip
    with running(command, folder / "engine.log", lambda: answers(path)) as process:
        yield Engine(process, f"unix://{path}")


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.settimeout(2)
            client.connect(str(path))
            client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in client.recv(64)
        except OSError:
            return False


@contextmanager
def registry_in(folder: Path, *, locked: bool = False) -> Iterator[str]:
    """A registry; yields host:port. A locked one wants USER and PASSWORD."""
    folder.mkdir()
    address = f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
    }
    if locked:
        (folder / "users").write_text(HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "users")}}
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    command = [tool("docker-registry"), "serve", str(folder / "config.yml")]
    with running(command, folder / "log", lambda: _serves(address)):
        yield address


def _serves(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=2):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 401
    except OSError:
        return False


class Breakable:
    """A way to an engine that can be cut while it is in use."""

    def __init__(self, path: Path, engine: str) -> None:
        self.host = f"unix://{path}"
        self._engine = engine.removeprefix("unix://")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._ends: list[socket.socket] = []

    def __enter__(self) -> "Breakable":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            end.close()

    def cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._engine)
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_relay, args=pair, daemon=True).start()


def _relay(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
