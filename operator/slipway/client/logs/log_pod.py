"""A pod, as far as its log is concerned."""

from datetime import datetime
from typing import Final

import msgspec

from slipway.api import names
from slipway.core.model.pods import NEVER

_ENDED: Final = ("Succeeded", "Failed")


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a pod, in camelCase outside."""


class _Metadata(_Part, frozen=True):
    name: str
    uid: str
    resource_version: str = ""


class _Run(_Part, frozen=True):
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0


class _Waiting(_Part, frozen=True):
    reason: str = ""


class _State(_Part, frozen=True):
    waiting: _Waiting | None = None
    running: _Run | None = None
    terminated: _Run | None = None


class _Container(_Part, frozen=True):
    name: str
    state: _State = _State()


class _Status(_Part, frozen=True):
    phase: str = ""
    reason: str = ""
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()


class LogPod(_Part, frozen=True):
    """A pod, as far as its log is concerned."""

    metadata: _Metadata
    status: _Status = _Status()

    @property
    def container(self) -> str:
        """The container whose log is the host's: the program's, or the init container that kept it from starting."""
        return self.failed_init or self._program

    @property
    def failed_init(self) -> str:
        """The init container that failed, so that the program never started; empty where none did."""
        own = self._state_of(self._program)
        if self.status.phase != "Failed" or own.running or own.terminated:
            return ""
        ends = ((status.state.terminated, status.name) for status in self.status.init_container_statuses)
        failed = [(end.finished_at or NEVER, name) for end, name in ends if end is not None and end.exit_code]
        # Sidecars are stopped after that.
        return min(failed)[1] if failed else ""

    @property
    def _program(self) -> str:
        found = {status.name for status in self.status.container_statuses}
        return names.DRIVER_CONTAINER if names.DRIVER_CONTAINER in found else names.WORKER_CONTAINER

    @property
    def started(self) -> bool:
        """Whether the container has started, so that there is a log."""
        return self._run is not None

    @property
    def started_at(self) -> datetime | None:
        """When the container started."""
        return self._run.started_at if self._run else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        return self.status.phase in _ENDED or self._state.terminated is not None

    @property
    def reason(self) -> str:
        """Why it does not run, in one word."""
        waiting = self._state.waiting
        return self.status.reason or (waiting.reason if waiting else "") or self.status.phase or "Pending"

    @property
    def _run(self) -> _Run | None:
        return self._state.running or self._state.terminated

    @property
    def _state(self) -> _State:
        return self._state_of(self.container)

    def _state_of(self, name: str) -> _State:
        everything = (*self.status.container_statuses, *self.status.init_container_statuses)
        return next((container.state for container in everything if container.name == name), _State())
