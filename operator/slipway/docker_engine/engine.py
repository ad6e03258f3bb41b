"""Reaching the Docker engine, and what goes wrong on the way there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from typing import TYPE_CHECKING, Final

from slipway.docker_engine.errors import ImageBuildError

if TYPE_CHECKING:
    from docker import APIClient

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
ANSWER_SECONDS: Final = 10
"""How long an engine may take to say which version it is."""
SILENCE_SECONDS: Final = 24 * 3600
"""How long it may be silent at work: a step may run for hours without a word."""


@contextmanager
def connected() -> Iterator[APIClient]:
    """Hold a connection to the engine that DOCKER_HOST names, or to the one of this machine."""
    engine = _connect()
    try:
        yield engine
    finally:
        engine.close()


def _connect() -> APIClient:
    # The operator lives without the SDK, and with it this module must load.
    try:
        from docker import APIClient
        from docker.errors import DockerException
        from docker.utils import kwargs_from_env
    except ImportError as error:
        raise _unavailable(
            "Building needs the Docker SDK for Python.", str(error), "pip install 'slipway-tpu[docker]'"
        ) from error
    host = environ.get("DOCKER_HOST") or DEFAULT_HOST
    try:
        engine = APIClient(**kwargs_from_env(), version="auto", timeout=ANSWER_SECONDS)
    except (DockerException, OSError, ValueError) as error:
        raise _unreachable(host, error) from error
    engine.timeout = SILENCE_SECONDS
    return engine


def _unreachable(host: str, error: Exception) -> ImageBuildError:
    causes = list(_causes(error))
    hint = "Start the engine, or say where it is with DOCKER_HOST."
    if any(isinstance(cause, PermissionError) for cause in causes):
        hint = "Only root and the group `docker` may use this engine; `sudo usermod -aG docker $USER` adds you."
    return _unavailable(f"The Docker engine is not reachable at {host}.", str(causes[-1]), hint)


def _unavailable(what: str, stderr: str, hint: str) -> ImageBuildError:
    return ImageBuildError("engine", 1, stderr, what, hint)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Go down to the system's own error, which the layers above it wrap in their words."""
    found: BaseException | None = error
    while found is not None:
        yield found
        inner = next((each for each in found.args if isinstance(each, BaseException)), None)
        found = inner or found.__cause__ or found.__context__
