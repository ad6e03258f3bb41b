"""What a call sends to the hosts, and what the hosts answer."""

import io
import json
import pickle
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Final

import cloudpickle

from slipway.client.errors import (
    HostFailure,
    JobError,
    JobFailed,
    JobInfo,
    JobPreempted,
    NotPicklable,
    ResultMissing,
    State,
    VersionMismatch,
)

MAX_BYTES: Final = 1_000_000
"""What fits into a Secret beside the program that unpacks it."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A host's result, and what it printed meanwhile."""

    value: Any
    output: str


@dataclass(frozen=True)
class Call:
    """A pickled call and what the hosts must know to unpack it."""

    name: str
    content: bytes
    capture: bool

    def header(self, runtime_env: Mapping[str, Any] | None = None) -> bytes:
        """A line of JSON; a job's entrypoint has its runtime environment already, a session's call brings it."""
        told = {"versions": versions(), "capture": self.capture, "size": len(self.content)}
        return json.dumps(told | {"runtime_env": dict(runtime_env or {})}).encode()


def check_runtime_env(given: Mapping[str, Any] | None) -> None:
    """Refuse a runtime environment that a session's calls could not bring.

    Raises:
        ValueError: naming the field that is no JSON, and not its value, which may be a secret.
    """
    for name, value in (given or {}).items():
        try:
            json.dumps({name: value})
        except (TypeError, ValueError) as error:
            raise ValueError(f"runtime_env[{name!r}] cannot be written as JSON: {error}") from None


def versions() -> dict[str, str]:
    """Versions that must agree with the image's; Ray's only where it is installed here."""
    found = {"Python": platform.python_version(), "cloudpickle": str(cloudpickle.__version__)}
    with suppress(metadata.PackageNotFoundError):
        found["Ray"] = metadata.version("ray")
    return found


def pack(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, capture: bool) -> Call:
    """A call of a function.

    Raises:
        NotPicklable: naming what cannot travel.
    """
    return _pack(function, None, args, kwargs, capture)


def pack_method(
    cls: type, init: tuple[Sequence[Any], Mapping[str, Any]], method: str,
    args: Sequence[Any], kwargs: Mapping[str, Any], *, capture: bool,
) -> Call:  # fmt: skip
    """A call of a method on an object that each host makes anew.

    Raises:
        NotPicklable: naming what cannot travel.
        AttributeError: when the class has no such method.
    """
    getattr(cls, method)
    return _pack(cls, (method, tuple(init[0]), dict(init[1])), args, kwargs, capture)


def _pack(target: Any, construct: Any, args: Sequence[Any], kwargs: Mapping[str, Any], capture: bool) -> Call:
    # They are read twice, and a generator, a map or a zip gives what it holds once.
    args, kwargs = tuple(args), dict(kwargs)
    name = getattr(target, "__qualname__", type(target).__name__)
    parts = {name: target, f"the constructor's arguments of {name}": construct}
    parts |= {f"argument {place} of {name}": value for place, value in enumerate(args)}
    parts |= {f"argument {key} of {name}": value for key, value in kwargs.items()}
    for what, value in parts.items():
        try:
            _Pickler(io.BytesIO()).dump(value)
        except _Reference:
            raise NotPicklable(
                f"{what} holds a Ray reference, and nothing was started: its value is in the Ray of this process, "
                "which the hosts have no part in: pass the value, ray.get(reference)"
            ) from None
        except Exception as error:
            raise NotPicklable(f"{what} cannot be pickled, and nothing was started: {error}") from error
    return Call(name.rpartition(".")[2], cloudpickle.dumps((target, construct, args, kwargs)), capture)


class _Reference(Exception):
    """What is pickled holds a reference of Ray's."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Finds references of Ray's, wherever they are: they can be pickled, and are waited for in vain elsewhere."""

    def persistent_id(self, value: Any) -> None:
        kind = type(value)
        if kind.__name__ == "ObjectRef" and kind.__module__.partition(".")[0] == "ray":
            raise _Reference


class _Unpickler(pickle.Unpickler):
    """Reads what Ray's copy of cloudpickle wrote where there is no Ray."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("ray.cloudpickle"):
            module = module.removeprefix("ray.")
        return super().find_class(module, name)


_KINDS: Final[Mapping[State, type[JobError]]] = {"failed": JobFailed, "preempted": JobPreempted, "error": JobError}


def unpack(document: bytes, info: JobInfo, *, flatten: bool) -> list[Any]:
    """Results of all hosts: one list, or with `flatten` false a list for each slice.

    Runs code of the results' own, which may take long: never in the loop that other calls share.

    Raises:
        VersionMismatch: when the hosts refused the call.
        JobFailed: when it raised on a host; what it raised is the cause.
        JobPreempted, JobError: when Ray failed under it; `.host` is then no host.
        ResultMissing: when a result cannot be read here.
    """
    head, _, blobs = document.partition(b"\n")
    told = json.loads(head)
    if told["refused"]:
        raise VersionMismatch(told["refused"], info)
    stream = io.BytesIO(blobs)
    slices: dict[int, list[Any]] = {}
    for host in told["hosts"]:
        blob = stream.read(host["blob"])
        if "error" in host:
            error, cause = failure(host, blob, info)
            raise error from cause
        value = _value(host, blob, info)
        slices.setdefault(host["slice"], []).append(Captured(value, host["output"]) if "output" in host else value)
    return [one for found in slices.values() for one in found] if flatten else list(slices.values())


def _value(host: Mapping[str, Any], blob: bytes, info: JobInfo) -> Any:
    try:
        return _Unpickler(io.BytesIO(blob)).load()
    except Exception as error:
        place = HostFailure(host["slice"], host["host"], host["rank"], None, None, "")
        raise ResultMissing(f"the result of {place} cannot be unpickled here: {error!r}", info) from error


def failure(host: Mapping[str, Any], blob: bytes, info: JobInfo) -> tuple[JobError, BaseException | None]:
    """The error of a host that failed, and what the function raised there if that could travel."""
    place = HostFailure(host["slice"], host["host"], host["rank"], None, None, host["error"])
    try:
        cause = _Unpickler(io.BytesIO(blob)).load() if blob else None
    except Exception:
        cause = None
    state: State = host.get("state", "failed")
    said = host["error"].rstrip().rpartition("\n")[2]
    error = _KINDS[state](said, replace(info, state=state), place)
    return error, cause if isinstance(cause, BaseException) else None
