"""A small client for the few calls that running a cluster takes."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.state import ClusterState

Object = dict[str, Any]
_Idle = deque[tuple[http.client.HTTPSConnection, float]]
_KEPT_SECONDS = 30.0
"""The API server closes a connection that is idle for 90 s, and a write that meets that is not sent again."""


class ApiError(LocalClusterError):
    """The API server refused."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"The API server answered {status}: {message}")


class Unreachable(LocalClusterError):
    """The API server could not be reached."""


class KubeApi:
    """Calls to one API server over kept connections. May be used by several threads."""

    def __init__(
        self,
        server: str,
        authority: Path,
        token: Path,
        timeout: float = 60.0,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """Call `server` as whom the token says, or the certificate and its key where one is given."""
        url = urllib.parse.urlsplit(server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._context = ssl.create_default_context(cafile=str(authority))
        self._credentials: dict[str, str] = {}
        if certificate is None:
            self._credentials["Authorization"] = f"Bearer {token.read_text()}"
        else:
            self._context.load_cert_chain(*certificate)
        self._timeout = timeout
        self._idle: _Idle = deque()
        # Not in `__del__`: the garbage collector may finalize the socket of a connection before this client.
        weakref.finalize(self, _close, self._idle)

    def call(self, method: str, path: str, body: Object | None = None, patch: str = "merge") -> Object:
        """Make one call; 404 and the like are raised as ApiError."""
        status, data = self._send(method, path, body, patch)
        if status >= 400:
            try:
                message = json.loads(data).get("message", "")
            except ValueError:
                message = data.decode(errors="replace")[:200]
            raise ApiError(status, message)
        answer: Object = json.loads(data) if data[:1] == b"{" else {}
        return answer

    def get(self, path: str) -> Object:
        """Read one object or list."""
        return self.call("GET", path)

    def find(self, path: str) -> Object | None:
        """Read one object; None when it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Object) -> Object | None:
        """Create an object; None when it already exists."""
        try:
            return self.call("POST", path, body)
        except ApiError as error:
            if error.status == 409:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object; it may be gone already."""
        try:
            self.call("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            return self._send("GET", "/readyz", None, "merge")[0] == 200
        except Unreachable:
            return False

    def _send(self, method: str, path: str, body: Object | None, patch: str) -> tuple[int, bytes]:
        headers = {**self._credentials, "Accept": "application/json"}
        if body is not None:
            kind = f"application/{patch}-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = kind
        data = None if body is None else json.dumps(body).encode()
        try:
            return self._exchange(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"The API server at https://{self._host}:{self._port} cannot be reached: {error}"
            ) from error

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        while True:
            connection, kept = self._connection()
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                result = answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                # The server may have closed a kept connection meanwhile. Asking twice is harmless only for reads.
                if not kept or method != "GET":
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self._idle.append((connection, time.monotonic()))
                return result

    def _connection(self) -> tuple[http.client.HTTPSConnection, bool]:
        with suppress(IndexError):
            while True:
                kept, since = self._idle.pop()
                if time.monotonic() - since < _KEPT_SECONDS:
                    return kept, True
                kept.close()
        new = http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=self._timeout)
        return new, False

    def close(self) -> None:
        """Close the connections that are not in use; later calls open new ones."""
        _close(self._idle)


def _close(idle: _Idle) -> None:
    while idle:
        idle.pop()[0].close()


def in_parallel(work: Callable[[Object], object], items: Iterable[Object], width: int = 16) -> None:
    """Do one call for each item, several at a time; the first fault is raised."""

    def batch(mine: list[Object]) -> None:
        for item in mine:
            work(item)

    everything = list(items)
    shares = [share for share in (everything[start::width] for start in range(width)) if share]
    if shares:
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(batch, shares))


def client(state: ClusterState, timeout: float = 60.0) -> KubeApi:
    """Return a client for the cluster."""
    return KubeApi(state.server, state.authority, state.token, timeout, state.certificate)
