"""The calls to the engine that running a job takes: containers, their logs, the job's network, images."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slipway.api import names
from slipway.local.containers.container_state import Inspected, lacks_port
from slipway.local.conversion.empty_volumes import opening
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.engine.frames import dated_lines
from slipway.local.jobs.job_files import LABEL_HOME

if TYPE_CHECKING:
    from docker import APIClient

TAIL_LINES: Final = 80
MAX_TAIL_BYTES: Final = 2048
"""What kubelets keep of the log of a container that failed."""
log = logging.getLogger(__name__)

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
CONFLICT: Final = 409
NOT_MODIFIED: Final = 304
_OF_RUNTIME: Final = "OCI "
LABEL_OPENED: Final = f"{names.GROUP}/opens-volumes-of"
"""UID of the job whose volumes a container is there to open."""


class EngineRefuses(Exception):
    """The engine does not do what it was asked for; the message is its own."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status of its answer."""


class EngineLost(Exception):
    """The engine does not answer."""


@contextmanager
def as_engine_errors() -> Iterator[None]:
    """Raises what the SDK raises as EngineRefuses and EngineLost."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except APIError as error:
        message = str(error.explanation or error).strip()
        raise EngineRefuses(message, error.status_code or 0) from error
    except (RequestException, HTTPError, DockerException, OSError, EngineUnavailable) as error:
        raise EngineLost(str(error)) from error


class Streams(NamedTuple):
    """Which streams of a program are wanted."""

    stdout: bool = True
    stderr: bool = True


BOTH: Final = Streams()


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of one job."""

    api: APIClient
    uid: str
    """UID of the job."""

    @property
    def api_version(self) -> tuple[int, ...]:
        """The version of the Engine API that is spoken."""
        return tuple(map(int, str(self.api.api_version).split(".")))

    def states(self) -> dict[str, str]:
        """The state of each container of the job, in a word, by id."""
        with as_engine_errors():
            found = self.api.containers(all=True, filters={"label": [f"{names.LABEL_JOB_UID}={self.uid}"]})
        return {one["Id"]: one["State"] for one in found}

    def of_all_jobs(self) -> list[dict[str, Any]]:
        """The containers of every job of Slipway, as the engine lists them."""
        with as_engine_errors():
            found: list[dict[str, Any]] = self.api.containers(all=True, filters={"label": [names.LABEL_JOB_UID]})
        return found

    def inspect(self, container: str) -> Inspected | None:
        """What the engine says of a container; None when there is none."""
        with as_engine_errors(), _absent_is_none():
            found: Inspected = self.api.inspect_container(container)
            return found
        return None

    def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Create a container and return its id; it is not started."""
        with as_engine_errors():
            made = self.api.create_container_from_config(dict(body), name)  # type: ignore[no-untyped-call]
            return str(made["Id"])

    def start(self, container: str, token: bytes | None = None) -> str:
        """Start a container; returns why it cannot be started, of which there is no event, or nothing.

        Args:
            container: its id.
            token: that of the job's Ray cluster, for a container that mounts it.
        """
        try:
            with as_engine_errors(), _absent_is_none():
                self._open_volumes(container, token)
                self.api.start(container)
        except EngineRefuses as error:
            if error.status == NOT_MODIFIED:
                return ""
            state = (self.inspect(container) or {}).get("State", {})
            if state.get("Error"):
                return str(state["Error"])
            # Docker has the words of the OCI runtime in the state of the container, Podman only in its answer. Other
            # answers are about the engine, which may take the container another time.
            about_it = _OF_RUNTIME in str(error) or lacks_port(str(error))
            if about_it and state.get("Status") == "created":
                return str(error)
            raise
        return ""

    def _open_volumes(self, container: str, token: bytes | None) -> None:
        """Let every user write to the empty volumes of a container, as to an emptyDir; again is as well."""
        found = self.api.inspect_container(container)
        archive = opening(found["HostConfig"].get("Mounts") or (), token)
        if archive is None:
            return
        if not found["HostConfig"]["ReadonlyRootfs"]:
            self.api.put_archive(container, "/", archive)
            return
        # The engine unpacks nothing where the root can only be read.
        labels = {LABEL_HOME: found["Config"]["Labels"].get(LABEL_HOME, ""), LABEL_OPENED: self.uid}
        body = {"Image": found["Image"], "Labels": labels, "HostConfig": {"VolumesFrom": [container]}}
        # It has no name: one that could not be removed would be in the way of the next.
        beside = self.api.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        try:
            self.api.put_archive(beside, "/", archive)
        finally:
            with _left_for_later():
                self.api.remove_container(beside, force=True)

    def stop(self, container: str, grace_seconds: int) -> None:
        """Send SIGTERM, then SIGKILL after so many seconds; returns when the container has ended."""
        with as_engine_errors(), _absent_is_none():
            self.api.stop(container, timeout=grace_seconds)

    def remove(self, container: str) -> None:
        """Remove a container with its anonymous volumes; one that runs is killed."""
        with as_engine_errors(), _absent_is_none():
            self.api.remove_container(container, v=True, force=True)

    def ask(self, container: str, command: Sequence[str]) -> str | None:
        """Start a command in a container, and do not wait for it; returns its id, None in one that does not run."""
        try:
            with as_engine_errors():
                made = self.api.exec_create(container, list(command))
                self.api.exec_start(made["Id"], detach=True)
                return str(made["Id"])
        except EngineRefuses as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                log.warning("%s cannot be asked by %s: %s", container[:12], " ".join(command), error)
            return None

    def answer(self, command: str) -> bool | None:
        """Whether a command that was started so has exited 0; None while it runs."""
        try:
            with as_engine_errors():
                found = self.api.exec_inspect(command)
        except EngineRefuses:
            # The engine forgets it with its container.
            return False
        return None if found["Running"] or found["ExitCode"] is None else found["ExitCode"] == 0

    def tail(self, container: str) -> str:
        """Its last lines, as many as kubelets keep."""
        try:
            with as_engine_errors():
                raw = self.api.logs(container, tail=TAIL_LINES)
        except EngineRefuses:
            # Somebody is removing the container.
            return ""
        return bytes(raw)[-MAX_TAIL_BYTES:].decode(errors="replace")

    def log(
        self,
        container: str,
        *,
        follow: bool = False,
        since: datetime | None = None,
        tail: int | None = None,
        streams: Streams = BOTH,
    ) -> Log:
        """Its log, each line after the time at which it was written; `tail` counts the lines of both streams."""
        options: dict[str, Any] = streams._asdict()
        if since is not None:
            options["since"] = since
        with as_engine_errors():
            raw = self.api.logs(
                container, stream=True, timestamps=True, follow=follow, tail="all" if tail is None else tail, **options
            )
        return Log(raw)

    def events(self, since: datetime) -> Iterator[dict[str, Any]]:
        """What happens to containers of the job from then on; ends when the engine does."""
        with as_engine_errors():
            filters = {"type": "container", "label": f"{names.LABEL_JOB_UID}={self.uid}"}
            for event in self.api.events(since=int(since.timestamp()), decode=True, filters=filters):
                # What is run in a container beside its program changes nothing, and would have this process look anew.
                if not str(event.get("Action", "")).startswith("exec"):
                    yield event


class Log:
    """The log of a container as it comes from the engine, in pieces."""

    def __init__(self, frames: Any) -> None:
        """`frames` is the stream of the SDK, with those of `slipway.local.engine.frames`."""
        self._frames = frames

    def __iter__(self) -> Iterator[bytes]:
        with as_engine_errors():
            yield from dated_lines(self._frames)

    def cut(self) -> None:
        """Break it off, from any thread: who reads it comes to its end."""
        # Two threads may call this; the second call finds the socket closed.
        with suppress(OSError):
            self._frames.close()

    def close(self) -> None:
        """Let go of the connection; for who reads it, at the end or before."""
        self.cut()
        # The SDK has made a circle of the answer and its socket, which nothing but garbage collection would open.
        self._frames._response.close()


@contextmanager
def _absent_is_none() -> Iterator[None]:
    """Lets the body be left early where the engine has no such container, or is removing it already."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        if error.status_code != NOT_FOUND and "already in progress" not in str(error.explanation):
            raise


@contextmanager
def _left_for_later() -> Iterator[None]:
    """What the engine refuses to do now is done with all that a job has left."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        log.warning("a container that opened volumes could not be removed yet: %s", error.explanation or error)


def ensure_network(api: APIClient, name: str, labels: Mapping[str, str]) -> None:
    """Create the network of a job, unless it is there."""
    with as_engine_errors():
        if any(network["Name"] == name for network in api.networks(names=[name])):
            return
        api.create_network(name, driver="bridge", labels=dict(labels), check_duplicate=True)


def network_exists(api: APIClient, name: str) -> bool:
    """Whether there is a network of that name.

    Raises:
        EngineRefuses: naming the network, when the engine does not say.
        EngineLost: when the engine does not answer.
    """
    try:
        with as_engine_errors():
            return any(network["Name"] == name for network in api.networks(names=[name]))
    except EngineRefuses as error:
        raise EngineRefuses(f"Docker network {name} cannot be looked up: {error}", error.status) from error


def remove_the_rest(api: APIClient, uid: str) -> None:
    """Remove what a job whose containers are gone has left: its networks, and containers that opened its volumes."""
    with as_engine_errors():
        for one in api.containers(all=True, filters={"label": f"{LABEL_OPENED}={uid}"}):
            with _absent_is_none():
                # Its volumes are those of the job, whose containers may have gone before it.
                api.remove_container(one["Id"], v=True, force=True)
        for one in api.networks(filters={"label": f"{names.LABEL_JOB_UID}={uid}"}):
            with _absent_is_none():
                _remove_network(api, one["Id"], uid)


def _remove_network(api: APIClient, network: str, uid: str) -> None:
    """Remove the network of a job; who has joined it loses it, once none of the job's containers is in it any more."""
    from docker.errors import APIError

    try:
        api.remove_network(network)
    except APIError as error:
        if error.status_code == NOT_FOUND:
            raise
        joined = api.inspect_network(network)["Containers"] or {}
        if not joined or joined.keys() & Containers(api, uid).states().keys():
            raise
        for container, about in joined.items():
            log.info("container %s loses the network of the job, which has ended", about.get("Name", container))
            with _absent_is_none():
                api.disconnect_container_from_network(container, network, force=True)
        api.remove_network(network)


def image_id(api: APIClient, reference: str) -> str | None:
    """Id of an image that the engine has; None where it has none."""
    with as_engine_errors(), _absent_is_none():
        return str(api.inspect_image(reference)["Id"])  # type: ignore[no-untyped-call]
    return None
