"""Reaching the Docker engine, and what goes wrong on the way there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slipway.local.engine.errors import EngineUnavailable, ImageBuildError

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
LEAST_VERSION: Final = (1, 41)
"""The oldest Engine API that is supported, that of Docker 20.10."""
ANSWER_SECONDS: Final = 10
"""How long an engine may take to say which version it is."""
SILENCE_SECONDS: Final = 24 * 3600
"""How long it may be silent at work: a step may run for hours without a word."""
_POOL: Final = 32
"""Connections that are kept open."""
_CERTIFICATES: Final = ("ca.pem", "cert.pem", "key.pem")
"""The files in DOCKER_CERT_PATH; the first says whom to trust."""
_TLS: Final = re.compile("certificate|HTTPS server|[.]pem", re.IGNORECASE)
"""In what is said where one side of TLS does not know the other."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine is, as the variables of the docker command say it."""

    host: str = ""
    """DOCKER_HOST; empty for that of the context, or of this machine."""
    context: str = ""
    """Docker context; empty for none."""
    cert_path: str = ""
    """DOCKER_CERT_PATH: the folder with the certificates for TLS."""
    verify: bool = False
    """DOCKER_TLS_VERIFY: whether the engine's certificate is checked."""

    @classmethod
    def configured(cls, environ: Mapping[str, str] = os.environ) -> Address:
        """What the docker command would use: DOCKER_HOST, else DOCKER_CONTEXT, else the current context."""
        path = environ.get("DOCKER_CERT_PATH", "")
        # The supervisor of a job has another current folder.
        tls = (str(Path(path).absolute()) if path else "", bool(environ.get("DOCKER_TLS_VERIFY")))
        if host := environ.get("DOCKER_HOST"):
            return cls(host, "", *tls)
        return cls("", environ.get("DOCKER_CONTEXT") or _current_context())

    @property
    def words(self) -> str:
        """The address in messages."""
        return self.host or (f"the Docker context {self.context}" if self.context else DEFAULT_HOST)

    @property
    def is_here(self) -> bool:
        """Whether it is known to be one of this machine, because a socket of this machine leads to it."""
        return (self._host_of_context() if self.context else self.host or DEFAULT_HOST).startswith("unix://")

    def _host_of_context(self) -> str:
        try:
            # The SDK writes http+unix:// for a socket.
            return str(self.options()["base_url"]).removeprefix("http+")
        except (ImportError, ValueError):
            # Who connects says what is wrong.
            return ""

    def options(self) -> dict[str, Any]:
        """What the SDK is told.

        Raises:
            ValueError: when there is no such context, or a certificate is missing.
        """
        from docker.context import ContextAPI
        from docker.utils import kwargs_from_env

        if self.context:
            context = ContextAPI.get_context(self.context)
            if context is None:
                raise ValueError(f"there is no Docker context {self.context}")
            tls: TLSConfig | None = context.TLSConfig
            return {"base_url": context.Host} | ({"tls": tls} if tls is not None else {})
        needed = _CERTIFICATES if self.verify else _CERTIFICATES[1:]
        if self.cert_path and (missing := [one for one in needed if not Path(self.cert_path, one).is_file()]):
            raise ValueError(f"there is no {missing[0]} in {self.cert_path}")
        said = {"DOCKER_HOST": self.host, "DOCKER_CERT_PATH": self.cert_path}
        told = {name: value for name, value in said.items() if value}
        return dict(kwargs_from_env(environment=told | ({"DOCKER_TLS_VERIFY": "1"} if self.verify else {})))


def _current_context() -> str:
    try:
        from docker.context.config import get_current_context_name
    except ImportError:
        return ""
    name = str(get_current_context_name())
    return "" if name == "default" else name


def connect(address: Address) -> APIClient:
    """A connection to an engine.

    Raises:
        EngineUnavailable: when there is no SDK, no engine, no right to use it, or when it is too old.
    """
    # The operator lives without the SDK, and with it this module must load.
    try:
        from docker.errors import DockerException

        from slipway.local.engine.connection import Connection
    except ImportError as error:
        what = "A Docker engine is reached with the Docker SDK for Python."
        raise EngineUnavailable(what, str(error), "pip install 'slipway-tpu[docker]'") from error
    try:
        options = address.options()
        if str(options.get("base_url", "")).startswith("ssh://") and find_spec("paramiko") is None:
            what = f"The Docker engine at {address.words} is reached by SSH, for which the Docker SDK needs paramiko."
            raise EngineUnavailable(what, "", "pip install paramiko")
        engine = Connection(**options, version="auto", timeout=ANSWER_SECONDS, num_pools=_POOL)
    except (DockerException, OSError, ValueError) as error:
        raise _unreachable(address, error) from error
    spoken = tuple(int(part) for part in str(engine.api_version).split("."))
    if spoken < LEAST_VERSION:
        engine.close()
        least = ".".join(map(str, LEAST_VERSION))
        what = f"The Docker engine at {address.words} speaks API {engine.api_version}; {least} is the least."
        raise EngineUnavailable(what, "", "Docker 20.10 and Podman 4 speak it.")
    engine.timeout = SILENCE_SECONDS
    return engine


@contextmanager
def connected() -> Iterator[APIClient]:
    """Hold a connection for a build or a push.

    Raises:
        ImageBuildError: of the stage `engine`.
    """
    try:
        engine = connect(Address.configured())
    except EngineUnavailable as error:
        raise ImageBuildError("engine", 1, error.detail, error.what, error.hint) from error
    try:
        yield engine
    finally:
        engine.close()


def _unreachable(address: Address, error: Exception) -> EngineUnavailable:
    causes = list(_causes(error))
    # What an engine answers says more than that it was an error.
    explained = (str(getattr(cause, "explanation", None) or "").strip() for cause in causes)
    detail = next(filter(None, explained), str(causes[-1]))
    hint = "Start the engine, or say where it is with DOCKER_HOST."
    if any(isinstance(cause, PermissionError) for cause in causes):
        hint = "Only root and the group `docker` may use this engine; `sudo usermod -aG docker $USER` adds you."
    elif _TLS.search(detail):
        hint = "DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or a Docker context, say which certificates it is to see."
    return EngineUnavailable(f"The Docker engine is not reachable at {address.words}.", detail.rstrip("."), hint)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Go down to the system's own error, which the layers above it wrap in their words."""
    found: BaseException | None = error
    while found is not None:
        yield found
        inner = next((each for each in found.args if isinstance(each, BaseException)), None)
        found = inner or found.__cause__ or found.__context__
