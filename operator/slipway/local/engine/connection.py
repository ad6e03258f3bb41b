"""A connection of the Docker SDK that trusts whom it was told to trust, closes a socket that nobody answers to, says to
which of its streams a program wrote, and goes on without the credentials of a helper that is not installed.

In a module of its own, because `engine` has to load where there is no SDK.
"""

import logging
import socket
import warnings
from collections.abc import Iterator
from typing import Any

from docker import APIClient
from docker.auth import AuthConfig
from docker.credentials import StoreError
from docker.errors import DockerException
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool
from docker.utils import config

from slipway.local.engine.frames import Frame, frames

log = logging.getLogger(__name__)


class Connection(APIClient):
    """An APIClient for which the authority of its own engine is stronger than REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE.

    `requests` prefers those variables, which a company's proxy may need, to what a session says.
    """

    def __init__(self, *, num_pools: int, **options: Any) -> None:
        # The first request is made in there.
        self._num_pools = num_pools
        super().__init__(num_pools=num_pools, **options)
        # What it has read from the Docker configuration, which its types do not name.
        sdk: Any = self
        sdk._auth_configs = _Credentials(sdk._auth_configs, sdk.credstore_env)

    def mount(self, prefix: Any, adapter: Any) -> None:
        """Have an adapter make the requests to addresses that begin so."""
        if isinstance(adapter, UnixHTTPAdapter):
            adapter = _UnixAdapter(adapter.socket_path, adapter.timeout, self._num_pools, adapter.max_pool_size)
        super().mount(prefix, adapter)

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Settings of a request, of which those of the session are one's own and no default."""
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)

    def _multiplexed_response_stream_helper(self, response: Any) -> Iterator[Frame]:
        """What programs write, with the stream of each frame, which the SDK keeps to itself."""
        # What it does for every stream, and its types do not name.
        sdk: Any = self
        sdk._disable_socket_timeout(sdk._get_raw_response_socket(response))
        yield from frames(response.raw)


class _Credentials(AuthConfig):
    """Those of the Docker configuration, without those of a helper that is not installed.

    A configuration that names the helper of a desktop comes along into containers and to other machines, which do not
    have it, and most images can be pulled by everybody. A helper that is there and fails is told of.
    """

    def _resolve_authconfig_credstore(self, registry: Any, credstore_name: Any) -> Any:
        try:
            return super()._resolve_authconfig_credstore(registry, credstore_name)  # type: ignore[misc]
        except DockerException as error:
            if self._is_installed(credstore_name):
                raise
            _warn(error.__cause__ or error)
            return None

    def get_all_credentials(self) -> Any:
        """Credentials by registry, as a build gets them."""
        try:
            found = super().get_all_credentials()  # type: ignore[no-untyped-call]
        except StoreError as error:
            if self._is_installed(self.creds_store):
                raise
            _warn(error)
            found = dict(self.auths)
        return {registry: own for registry, own in found.items() if own is not None}

    def _is_installed(self, helper: Any) -> bool:
        return self._get_store_instance(helper).exe is not None

    def _get_store_instance(self, name: Any) -> Any:
        with warnings.catch_warnings():
            # That it is not installed is said in other words below, with the file that names it.
            warnings.simplefilter("ignore")
            return super()._get_store_instance(name)  # type: ignore[misc]


def _warn(error: BaseException) -> None:
    # The words name the helper.
    file = config.find_config_file()
    log.warning("going on without credentials from the helper that %s names: %s", file, error)


class _UnixAdapter(UnixHTTPAdapter):
    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        with self.pools.lock:
            if (pool := self.pools.get(url)) is None:
                pool = self.pools[url] = _UnixPool(url, self.socket_path, self.timeout, self.max_pool_size)
        return pool


class _UnixPool(UnixHTTPConnectionPool):
    def _new_conn(self) -> Any:
        timeout: Any = self.timeout
        return _UnixConnection(self.base_url, self.socket_path, timeout)


class _UnixConnection(UnixHTTPConnection):
    def connect(self) -> None:
        """Open its socket; the SDK would leave one that nobody answers to garbage collection."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self.unix_socket)
        except OSError:
            made.close()
            raise
        self.sock = made
