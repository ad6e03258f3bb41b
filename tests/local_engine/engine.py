"""A Docker engine with networks of its own, which may be stopped, killed and started again; and users of it."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final
from unittest.mock import patch

import docker
import yaml
from click.testing import CliRunner
from docker.models.containers import Container

from slipway.cli.main import main
from slipway.devcluster.programs import packages
from slipway.devcluster.progress import Silent
from tests.local.servers import answers, running, tool
from tests.waiting import START_SECONDS, until

IMAGE: Final = "slipway.local/busybox:1"
NETWORK_PACKAGES: Final = {"ip": "iproute2", "iptables": "iptables", "nsenter": "util-linux"}
_NAMESPACES: Final = count()
SUPERVISOR: Final = b"slipway.local.supervisor.supervisor"
_APPLETS: Final = (
    "awk", "cat", "date", "dd", "echo", "env", "false", "grep", "head", "hostname", "httpd", "id", "kill", "ls",
    "mkdir", "nc", "nslookup", "ping", "printf", "rm", "seq", "sh", "sleep", "tail", "touch", "tr", "true", "usleep",
    "wc", "wget", "yes",
)  # fmt: skip


@dataclass
class Dockerd:
    """An engine in a network namespace of the test's own, so its bridges and rules are no one else's."""

    folder: Path
    namespace: str
    process: subprocess.Popen[bytes] | None = None
    shows_removals: ClassVar[bool] = True
    """Whether a container that is removed by force shows that from the moment on at which it is killed."""

    @property
    def socket(self) -> Path:
        return self.folder / "engine.sock"

    @property
    def host(self) -> str:
        """What DOCKER_HOST has to be."""
        return f"unix://{self.socket}"

    @property
    def containerd(self) -> Path:
        """The socket of what holds the containers; an engine that is killed does not take it along."""
        return self.folder / "containerd.sock"

    def command(self) -> list[str]:
        """What runs the engine."""
        return [
            tool("dockerd"), f"--host={self.host}", f"--data-root={self.folder / 'data'}",
            f"--exec-root={self.folder / 'exec'}", f"--pidfile={self.folder / 'pid'}",
            f"--containerd-namespace={self.namespace}", f"--containerd-plugins-namespace={self.namespace}-plugins",
            f"--containerd={self.containerd}",
        ]  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it answers."""
        # `ip netns exec` would hide the cgroups, without which an engine does not start.
        command = [tool("nsenter"), f"--net=/run/netns/{self.namespace}", *self.command()]
        log = self.folder / "engine.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=self.folder
            )
        until(f"an answer of the engine; see {log}", lambda: self._alive() and answers(self.socket))

    def printed(self, container: str, *command: str) -> str:
        """What a command prints in a container.

        By the docker command: the SDK loses what the engine sends together with the header of its answer.
        """
        called = [tool("docker"), f"--host={self.host}", "exec", container, *command]
        return subprocess.run(called, stdout=subprocess.PIPE, text=True, check=True).stdout

    def stop(self) -> None:
        """SIGTERM: it ends its containers first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: its containers live on until it is started again."""
        self._end(signal.SIGKILL)

    def _alive(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "engine.log").read_text()[-3000:]
        return True

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=START_SECONDS)
            self.process = None


@contextmanager
def engine_in(folder: Path) -> Iterator[Dockerd]:
    """A running Docker engine that has the image."""
    config = folder / "containerd.toml"
    config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    with network_namespace() as name:
        engine = Dockerd(folder, name)
        containerd = [
            tool("containerd"), f"--config={config}", f"--root={folder / 'containerd'}",
            f"--state={folder / 'containerd-state'}", f"--address={engine.containerd}",
        ]  # fmt: skip
        with running(containerd, folder / "containerd.log", engine.containerd.exists), started(engine):
            yield engine


@contextmanager
def engine_of(kind: type[Dockerd], needed: Mapping[str, str]) -> Iterator[Dockerd]:
    """A running engine of another kind that has the image, with the programs that it needs and their packages."""
    packages.ensure({**needed, **NETWORK_PACKAGES}, Silent())
    with (
        tempfile.TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as folder,
        network_namespace() as name,
        started(found := kind(Path(folder), name)),
    ):
        yield found


@contextmanager
def network_namespace() -> Iterator[str]:
    """The name of a network namespace in which nothing is."""
    name = f"slipway-{os.getpid()}-{next(_NAMESPACES)}"
    subprocess.run([tool("ip"), "netns", "add", name], check=True)
    try:
        subprocess.run([tool("ip"), "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run([tool("ip"), "netns", "delete", name], check=True)


@contextmanager
def started(engine: Dockerd) -> Iterator[None]:
    """Start an engine and give it the image; stop it in the end."""
    try:
        engine.start()
        with closing(docker.APIClient(engine.host, timeout=START_SECONDS)) as api:
            api.import_image_from_data(image(), repository=IMAGE)
        yield
        engine.stop()
    finally:
        engine.kill()


def image() -> bytes:
    """busybox with links for what the tests use."""
    content = io.BytesIO()
    busybox = Path(tool("busybox")).read_bytes()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(entry)
        program = tarfile.TarInfo("bin/busybox")
        program.size, program.mode = len(busybox), 0o755
        archive.addfile(program, io.BytesIO(busybox))
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return content.getvalue()


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@dataclass
class User:
    """Someone with a folder of jobs of his own, who types commands."""

    state: Path
    host: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        own = {"XDG_STATE_HOME": str(self.state), "DOCKER_HOST": self.host, "COLUMNS": "200", "TZ": "UTC"}
        return dict(os.environ) | own | self.environment

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        return self.any("local", *arguments, **options)

    def any(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """`slipway …` as a process of its own, whatever place of jobs it is about."""
        command = [sys.executable, "-m", "slipway.cli.main", *arguments]
        return subprocess.Popen(command, env=self.variables, **options)

    def slipway(self, *arguments: str, code: int | None = 0, stdin: str = "") -> Done:
        """`slipway local …` in this process, which saves a second; `code` is the exit code that it should have."""
        with patch.dict(os.environ, self.variables, clear=True):
            result = CliRunner().invoke(main, ["local", *arguments], input=stdin, catch_exceptions=False)
        return self._checked(arguments, code, Done(result.exit_code, result.stdout, result.stderr))

    def command(self, *arguments: str, code: int | None = 0, seconds: float = START_SECONDS) -> Done:
        """The same as a process of its own."""
        process = self.popen(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return self._checked(arguments, code, Done(process.returncode, out.decode(), err.decode()))

    def _checked(self, arguments: tuple[str, ...], code: int | None, done: Done) -> Done:
        assert code is None or done.code == code, f"slipway local {' '.join(arguments)}: {done}"
        return done

    def submit(self, script: str = "", name: str = "train", *options: str, code: int = 0, **spec: Any) -> Done:
        """Submit a job whose program is a script of a shell. It ends fast: shells do not listen to SIGTERM."""
        own: dict[str, Any] = {"image": IMAGE, "terminationGracePeriodSeconds": 1, "retries": {"gracePeriodSeconds": 1}}
        spec = own | ({"command": ["sh", "-c", script]} if script else {}) | spec
        spec["retries"] = own["retries"] | spec["retries"]
        body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": name}, "spec": spec}
        return self.slipway("submit", *options, "-f", "-", stdin=yaml.safe_dump(body), code=code)

    def file(self, name: str = "train") -> Path:
        return self.folder(name) / "job.json"

    def folder(self, name: str = "train") -> Path:
        return self.state / "slipway" / "jobs" / name

    def unfinished(self) -> list[str]:
        """Names of the jobs that have not ended."""
        names = [path.parent.name for path in self.state.glob("slipway/jobs/*/job.json")]
        return [one for one in names if not self.status(one).get("completionTime")]

    def status(self, name: str = "train") -> Any:
        """The status as it is stored, without a command that would look after the job."""
        return json.loads(self.file(name).read_bytes())["status"]

    def until(self, phase: str, name: str = "train", *, seconds: float = START_SECONDS) -> Any:
        """Wait for a phase; returns the status."""
        return self._until(name, phase, lambda: self.status(name).get("phase") == phase, seconds)

    def adopted(self) -> bool:
        """Have a command see to it that the job is looked after; a process that dies holds its lock for a moment."""
        self.slipway("list")
        return bool(self.supervisors() or self.status().get("completionTime"))

    def ended(self, name: str = "train", *, seconds: float = START_SECONDS) -> Any:
        """Wait until nothing is left to be done for a job that has ended; returns the status."""

        def over() -> bool:
            return not self.supervisors(name) and bool(self.status(name).get("completionTime"))

        return self._until(name, "ended", over, seconds)

    def _until(self, name: str, what: str, holds: Callable[[], bool], seconds: float) -> Any:
        try:
            until(f"job {name} is {what}", holds, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.status(name), indent=1)}\n{self.log(name)}") from None
        return self.status(name)

    def log(self, name: str = "train") -> str:
        """The end of what the supervisor wrote."""
        path = self.folder(name) / "supervisor.log"
        return path.read_text(errors="replace")[-5000:] if path.exists() else "no supervisor.log"

    def supervisors(self, name: str | None = None) -> list[int]:
        """The processes that look after this user's jobs, or one of them."""
        return [pid for pid, job in supervisors(self.state) if name in (None, job)]

    def only_supervisor(self, name: str = "train") -> int:
        # One that finds the job looked after ends again.
        until("one supervisor", lambda: len(self.supervisors(name)) == 1)
        return self.supervisors(name)[0]


def supervisors(state: Path) -> Iterator[tuple[int, str]]:
    """Processes that look after jobs below a folder, with the job's name."""
    for path in Path("/proc").iterdir():
        try:
            command = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
            if SUPERVISOR in command and f"XDG_STATE_HOME={state}".encode() in (
                (path / "environ").read_bytes().split(b"\0")
            ):
                yield int(path.name), command[command.index(SUPERVISOR) + 1].decode()
        except OSError:
            continue


@dataclass(frozen=True)
class Engine:
    """What is on an engine, as it is seen past Slipway."""

    client: docker.DockerClient

    def containers(self, name: str = "train", **labels: object) -> list[Container]:
        """The containers of a job, by name."""
        wanted = [f"slipway.dev/job-name={name}", *(f"slipway.dev/{key}={value}" for key, value in labels.items())]
        found = self.client.containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
        return sorted(found, key=lambda one: str(one.name))

    def running(self, name: str, count: int = 1, **labels: object) -> list[Container]:
        """Wait until so many containers of a job run, and return them."""

        def found() -> list[Container]:
            there = [one for one in self.containers(name, **labels) if one.status == "running"]
            return there if len(there) == count else []

        there: list[Container] = until(f"{count} running containers of {name}", found)
        return there

    def of_jobs(self) -> list[str]:
        """Names of all containers and networks of any job."""
        wanted: dict[str, str | list[str] | bool] = {"label": "slipway.dev/job-uid"}
        containers: list[Any] = self.client.containers.list(all=True, filters=wanted, ignore_removed=True)
        return [str(one.name) for one in (*containers, *self.client.networks.list(filters=wanted))]


def shared_folder(folder: Path) -> dict[str, Any]:
    """Fields of a job whose hosts see a folder of this machine as /shared."""
    return {
        "volumes": [{"name": "shared", "hostPath": {"path": str(folder)}}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
