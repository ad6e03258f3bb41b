"""The jobs of this machine's engine: one folder for each, with a SliceJob as JSON in it.

    jobs/NAME/job.json           the SliceJob, and beside it what only this machine needs to know of it
    jobs/NAME/logs/POD.log       what a container wrote, once it has ended; beside it POD.stdout and POD.stderr
    jobs/NAME/ray-token          the token of the job's Ray cluster
    jobs/NAME/supervisor.lock    locked by the process that looks after the job
    jobs/NAME/supervisor.log     what it did
    jobs/.home                   one word for this folder, by which its containers are known on an engine

A file is replaced as a whole, so a reader sees one version or the next. Writers take turns by a lock, and each version
has a number, so that nobody overwrites what he has not seen.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from slipway.api.names import is_job_name
from slipway.core.model.reading import NEVER_WRITTEN

NAMESPACE: Final = "local"
"""The namespace of every job: an engine has none, and DNS names of peers need one."""
FORMAT: Final = 1
"""Of what a job's file holds beside the SliceJob, in `local`; a higher one is a newer Slipway's."""
LABEL_HOME: Final = "slipway.dev/home"
"""On containers and networks: whose they are. See `home_id`."""
_HOME_ID_LENGTH: Final = 32
MAX_EVENTS: Final = 100
"""Events that are kept of a job, the newest."""
MAX_OUTAGES: Final = 20
"""Outages of the engine that are kept of a job, the newest."""
SHORTEST_OUTAGE: Final = timedelta(seconds=1)

JsonObject = dict[str, Any]


class JobExists(Exception):
    """There is a job of that name."""


class NoSuchJob(Exception):
    """There is no job of that name."""


def _no_job(name: str) -> NoSuchJob:
    return NoSuchJob(f"there is no job {name} on this machine's engine")


class Unreadable(Exception):
    """The file of a job cannot be read: it is damaged, another user's, or a newer Slipway's. The message says which."""


class Outdated(Exception):
    """Somebody else has changed the job since it was read."""


def home() -> Path:
    """The folder of all jobs, below XDG_STATE_HOME; a relative one is none, as the XDG specification has it."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path("~/.local/state").expanduser()) / "slipway" / "jobs"


@contextmanager
def _named(path: Path) -> Iterator[Path]:
    """Have the error of a write name the file, as that of an open does."""
    try:
        yield path
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def home_id(jobs: Path) -> str:
    """One word for a folder of jobs: by it the containers of its user are told from those of others (N-34).

    It is random. Machines that share an engine may have their folders at the same path, as CI containers do.
    """
    jobs.mkdir(parents=True, exist_ok=True)
    with _named(jobs / ".home") as path, path.open("a+") as file:
        # Of processes that start at once the first makes it. One that was killed meanwhile may have left a part.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if len(found := file.read()) != _HOME_ID_LENGTH:
            file.truncate(0)
            found = secrets.token_hex(_HOME_ID_LENGTH // 2)
            file.write(found)
            file.flush()
            os.fsync(file.fileno())
        return found


def former_home_id(jobs: Path) -> str:
    """What Slipway had for such a word before: machines with their folders at the same path have the same one."""
    return hashlib.sha256(str(jobs.resolve()).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.path.name

    @property
    def file(self) -> Path:
        """The SliceJob."""
        return self.path / "job.json"

    @property
    def is_there(self) -> bool:
        """Whether there is such a job, also one that its folder keeps from this user."""
        try:
            return self.file.exists()
        except PermissionError:
            return True

    @property
    def supervisor_log(self) -> Path:
        """What its supervisors did, and what they said who could not start."""
        return self.path / "supervisor.log"

    @property
    def token_file(self) -> Path:
        """The token of its Ray cluster, which all its attempts have."""
        return self.path / "ray-token"

    def ray_token(self) -> bytes:
        """The token of its Ray cluster, made if there is none.

        Raises:
            NoSuchJob: when the job is gone.
        """
        if not self.token_file.exists():
            with _named(self.path / ".ray-token"), self._owned_file(".ray-token") as descriptor:
                os.truncate(descriptor, 0)
                os.write(descriptor, secrets.token_hex(32).encode())
                os.fsync(descriptor)
            (self.path / ".ray-token").replace(self.token_file)
        return self.token_file.read_bytes()

    def log(self, pod: str) -> Path:
        """Where the log of a container is kept once it has ended."""
        return self.path / "logs" / f"{pod}.log"

    def read(self) -> JsonObject:
        """The SliceJob as it is stored.

        Raises:
            NoSuchJob: when there is none.
            Unreadable: when the file is damaged, another user's, or a newer Slipway's.
        """
        try:
            found: JsonObject = json.loads(self.file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise _no_job(self.name) from None
        except PermissionError as error:
            raise Unreadable(f"{error}: the job is another user's; root's, where it was submitted with sudo") from error
        except ValueError as error:
            raise Unreadable(
                f"{self.file} is damaged ({error}): remove {self.path}, and then what the job has left with "
                "slipway local prune"
            ) from error
        if (has := found["local"]["format"]) > FORMAT:
            raise Unreadable(
                f"{self.file}: local.format {has} is of a newer Slipway, and this one reads {FORMAT}: upgrade Slipway"
            )
        return found

    @contextmanager
    def changing(self, version: str | None = None) -> Iterator[JsonObject]:
        """The SliceJob, to be changed in place; it is written at the end if it was.

        Args:
            version: the resourceVersion that the change was made for.

        Raises:
            NoSuchJob: when there is none.
            Outdated: when the job has another version.
        """
        with self._locked():
            before = self.read()
            if version is not None and before["metadata"]["resourceVersion"] != version:
                raise Outdated(f"job {self.name} has changed")
            after = deepcopy(before)
            yield after
            if after != before:
                # What is written is what the body of the caller holds from then on.
                about = after["metadata"]
                about["resourceVersion"] = str(int(about["resourceVersion"]) + 1)
                if after["spec"] != before["spec"]:
                    about["generation"] += 1
                self._write(after)

    def create(self, body: JsonObject, local: JsonObject) -> JsonObject:
        """Store a new SliceJob with what this machine needs to know of it, and return it.

        Raises:
            JobExists: when there is one of that name.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        own = {
            "namespace": NAMESPACE,
            "uid": str(uuid.uuid4()),
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        made = body | {"metadata": dict(body["metadata"]) | own, "status": dict(NEVER_WRITTEN)}
        made["local"] = {"format": FORMAT, "events": [], "history": []} | local
        # Only its owner reads it: it may hold variables with secrets.
        self.path.mkdir(mode=0o700, exist_ok=True)
        with self._locked():
            if self.file.exists():
                raise JobExists(f"there is a job {self.name} on this machine's engine")
            (self.path / "logs").mkdir(exist_ok=True)
            self._write(made)
        return made

    def settle(self) -> None:
        """Note that nothing is left on the engine of a job that has ended."""
        with self.changing() as body:
            body["local"]["settled"] = True

    def outages(self) -> list[tuple[datetime, datetime]]:
        """When the engine was away, as supervisors of the job have noticed."""
        found = [[datetime.fromisoformat(one) for one in pair] for pair in self.read()["local"].get("outages", ())]
        return [(since, until) for since, until in found]

    def engine_lost(self, at: datetime) -> None:
        """Note that the engine is away, unless that is known: the next supervisor may be another process."""
        with self.changing() as body:
            body["local"].setdefault("engineLost", at.isoformat())

    def engine_seen(self) -> datetime:
        """When a supervisor of the job was last sure to see the engine."""
        body = self.read()
        return datetime.fromisoformat(body["local"].get("engineSeen") or body["metadata"]["creationTimestamp"])

    def engine_found(self, at: datetime) -> None:
        """Note that the engine can be reached."""
        with self.changing() as body:
            since = body["local"].pop("engineLost", None)
            body["local"]["engineSeen"] = at.isoformat()
            # In less time no engine stops and starts: only a connection was lost.
            if since is not None and at - datetime.fromisoformat(since) >= SHORTEST_OUTAGE:
                body["local"].setdefault("outages", []).append([since, at.isoformat()])
                del body["local"]["outages"][:-MAX_OUTAGES]

    def remove(self) -> None:
        """Remove the job with its logs."""
        gone = self.path.with_name(f".{self.name}.{uuid.uuid4().hex[:8]}")
        self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    @contextmanager
    def supervised(self, inherited: int | None = None) -> Iterator[int | None]:
        """Look after the job for as long as this lasts, unless another process does.

        Args:
            inherited: a descriptor that holds the lock, from the process that started this one.

        Returns:
            The descriptor that holds the lock; None where another process looks after the job. Who inherits the
            descriptor holds the lock as well.
        """
        if inherited is not None:
            try:
                yield inherited
            finally:
                os.close(inherited)
            return
        with self._owned_file("supervisor.lock") as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            yield descriptor

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._owned_file("write.lock") as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _owned_file(self, name: str) -> Iterator[int]:
        try:
            descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, NotADirectoryError):
            raise _no_job(self.name) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, body: JsonObject) -> None:
        fresh = self.path / ".job.json"
        with _named(fresh), fresh.open("wb") as file:
            file.write(json.dumps(body, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.file)


def folder(name: str) -> JobFolder:
    """The folder of a job, whether or not there is one.

    Raises:
        NoSuchJob: for what cannot be the name of a job, such as a path that leads elsewhere.
    """
    if not is_job_name(name):
        raise _no_job(name)
    return JobFolder(home() / name)


def folders() -> list[JobFolder]:
    """The folders of all jobs, by name."""
    if not home().is_dir():
        return []
    found = (JobFolder(path) for path in sorted(home().iterdir()) if is_job_name(path.name))
    return [one for one in found if one.is_there]
