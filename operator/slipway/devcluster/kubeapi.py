"""A small client for the few calls that running a cluster takes."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.state import ClusterState

Object = dict[str, Any]
_WIDTH: Final = 16
"""Calls at a time."""
_READS_ONCE_MORE: Final = urllib3.Retry(1, connect=0, read=1, redirect=0, status=0, other=0, allowed_methods=["GET"])
"""The server may close a kept connection while a call is sent. Asking twice is harmless only for reads."""


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
        context = ssl.create_default_context(cafile=str(authority))
        headers = {"Accept": "application/json"}
        if certificate is None:
            headers["Authorization"] = f"Bearer {token.read_text()}"
        else:
            context.load_cert_chain(*certificate)
        self._server, self._headers = server, headers
        self._connections = urllib3.PoolManager(
            1, maxsize=_WIDTH, timeout=timeout, retries=_READS_ONCE_MORE, ssl_context=context
        )

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
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = f"application/{patch}-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._connections.request(method, self._server + path, body=data, headers=headers)
        except HTTPError as error:
            raise Unreachable(f"The API server at {self._server} cannot be reached: {_root(error)}") from error
        return answer.status, answer.data

    def close(self) -> None:
        """Close the connections that are not in use; later calls open new ones."""
        self._connections.clear()


def _root(error: BaseException) -> BaseException:
    """What the operating system said, without the words of the libraries around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def in_parallel(work: Callable[[Object], object], items: Iterable[Object], width: int = _WIDTH) -> None:
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
