"""Where the API server is, and how to prove who we are.

The official client reads the configuration: kubeconfig with exec plugins and auth providers, or the service account
of a pod. What it yields is kept fresh here, for a token lives an hour and this process lives for months.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import yaml
from aiohttp import encode_basic_auth
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

log = logging.getLogger(__name__)

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod finds the name of its own namespace."""
_ADVICE: Final = "name a kubeconfig with --kubeconfig or the environment variable KUBECONFIG"
_RENEWAL_PAUSE: Final = 5.0
"""Seconds during which a second 401 does not run the exec plugin again."""
_RENEWAL_SECONDS: Final = 30.0
"""An exec plugin that takes longer hangs: every request and watch waits for it."""
_BEFORE_EXPIRY: Final = timedelta(seconds=30)
# Who reads a kubeconfig takes for granted that mappings are where they belong, and stumbles over any other YAML.
_NO_KUBECONFIG: Final = (AttributeError, KeyError, TypeError)
_UNUSABLE: Final = (ConfigException, OSError, ValueError, yaml.YAMLError, *_NO_KUBECONFIG)
"""What reading a kubeconfig may raise; a ValueError where something in it is wrongly encoded."""


class AccessError(Exception):
    """There is no usable configuration; the message says what was looked for."""


def proxy_of(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy to a server by HTTPS_PROXY, HTTP_PROXY and NO_PROXY as kubectl reads them; None for none.

    The same in lower case counts only where it is not given in upper case. Entries of NO_PROXY are names with their
    subdomains, `.name` for the subdomains alone, addresses, networks, each perhaps with a port, and `*`.
    """
    url = urlsplit(server)
    proxy = _variable(environment, f"{url.scheme}_proxy")
    host, port = url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)
    if not proxy or host == "localhost" or _is_excepted(host, port, _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy(url: str | None) -> tuple[str | None, str]:
    """The URL of a proxy without its user, because messages repeat it, and the header that names the user.

    Raises:
        AccessError: when the proxy is none of HTTP.
    """
    if not url:
        return None, ""
    given = urlsplit(url)
    user, at, address = given.netloc.rpartition("@")
    bare = given._replace(netloc=address).geturl()
    if given.scheme not in ("http", "https"):
        raise AccessError(f"proxy {bare} cannot be used: a proxy is reached by http:// or https://")
    name, _, password = user.partition(":")
    return bare, encode_basic_auth(unquote(name), unquote(password)) if at else ""


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_excepted(host: str, port: int, listed: str) -> bool:
    address = _network(host)
    if address is not None and address.network_address.is_loopback:
        return True
    for entry in filter(None, map(str.strip, listed.lower().split(","))):
        name, colon, number = entry.rpartition(":")
        if not colon or not number.isdecimal() or _network(entry) is not None:
            name, number = entry, str(port)
        if number != str(port):
            continue
        network = _network(name.strip("[]"))
        if entry == "*" or (network is not None and address is not None and address.network_address in network):
            return True
        name = name.removeprefix("*")
        if network is None and (host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}")):
            return True
    return False


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


class Access:
    """An API server's address and credentials that stay valid."""

    def __init__(
        self, configuration: Configuration, reload: Callable[[Configuration], Awaitable[datetime | None]] | None = None
    ) -> None:
        """`reload` reads everything again into the configuration and returns when that expires, if it does."""
        self._configuration = configuration
        self._reload = reload
        self._expires: datetime | None = None
        self._renewed = -inf
        self._renewal: asyncio.Task[bool] | None = None
        self._begun = 0.0
        self._hangs = False
        self.server: Final[str] = str(configuration.host).rstrip("/")
        """URL without a trailing slash."""
        self.proxy, self.proxy_login = _proxy(configuration.proxy or proxy_of(self.server, os.environ))
        """The proxy that the kubeconfig names, or the environment: its URL, and the header with its user."""
        self.server_hostname: Final[str | None] = configuration.tls_server_name
        """Name that the server's certificate is checked for, where it is not the address."""
        self.ssl: Final[ssl.SSLContext | None] = _context(configuration) if self.server.startswith("https") else None

    async def authorization(self) -> str | None:
        """Value of the Authorization header; None where a client certificate or nothing at all identifies us."""
        if self._configuration.refresh_api_key_hook is not None:
            self._configuration.refresh_api_key_hook(self._configuration)
        elif self._expires is not None and datetime.now(UTC) >= self._expires - _BEFORE_EXPIRY:
            await self.renew()
        token: str | None = self._configuration.api_key.get("BearerToken")
        return token.strip() if token else None

    async def renew(self) -> bool:
        """Read the credentials again after they were refused or have expired; False where that cannot help."""
        if self._reload is None:
            return False
        now = asyncio.get_running_loop().time()
        if self._renewal is None or self._renewal.done():
            if now - self._renewed < _RENEWAL_PAUSE:
                return True
            # It goes on when those who wait give up: nothing ends a plugin that was begun, which may wait for somebody
            # to log in. So it is not begun a second time beside itself, and no request is too impatient for it.
            self._renewal, self._begun, self._hangs = asyncio.create_task(self._read_again()), now, False
        renewal = self._renewal
        await asyncio.wait({renewal}, timeout=max(0.0, self._begun + _RENEWAL_SECONDS - now))
        if renewal.done():
            return renewal.result()
        if not self._hangs:
            self._hangs = True
            words = "credentials could not be read again within %.0f s: the kubeconfig's exec plugin seems to hang"
            log.warning(words, _RENEWAL_SECONDS)
        return False

    async def _read_again(self) -> bool:
        assert self._reload is not None
        try:
            self._expires = await self._reload(self._configuration)
            if self.ssl is not None and self._configuration.cert_file:
                self.ssl.load_cert_chain(self._configuration.cert_file, self._configuration.key_file)
        except _UNUSABLE as error:
            log.warning("credentials could not be read again: %s", error)
            return False
        finally:
            self._renewed = asyncio.get_running_loop().time()
        return True


async def load_access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """Read the configuration as kubectl does: the file given, $KUBECONFIG, ~/.kube/config, or the pod's account.

    Raises:
        AccessError: when none of them is there, or the one that is cannot be used.
    """
    path = _kubeconfig(kubeconfig)
    try:
        if path is not None:
            return await _from_kubeconfig(path, context)
        configuration = Configuration()
        await _read_account(configuration)
    except _UNUSABLE as error:
        raise AccessError(_unusable(path, error) if path is not None else _nothing_found(error)) from error
    return Access(configuration, _read_account)


def configured_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """Namespace of the context that `load_access` would take, or of the pod; empty where neither names one.

    Raises:
        AccessError: when there is a kubeconfig that cannot be read.
    """
    path = _kubeconfig(kubeconfig)
    try:
        contents = _contents(path) if path is not None else {}
        if not contents:
            return POD_NAMESPACE.read_text().strip() if POD_NAMESPACE.exists() else ""
        wanted = context or _current_context(contents)
        entries = (entry for content in contents.values() for entry in content.get("contexts") or ())
        found = next((entry.get("context") for entry in entries if entry["name"] == wanted), None)
        return str((found or {}).get("namespace") or "")
    except _UNUSABLE as error:
        raise AccessError(_unusable(str(path), error)) from error


def _files(path: str) -> list[Path]:
    """The files in a list like $KUBECONFIG; as kubectl does it, without empty entries and files that are not there."""
    named = (Path(each).expanduser() for each in path.split(os.pathsep) if each)
    return [file for file in named if file.exists()]


def _contents(path: str) -> dict[str, Any]:
    """What stands in each of the files; nothing of those that are empty."""
    read = {str(file): _content(file) for file in _files(path)}
    return {name: content for name, content in read.items() if content is not None}


def _content(file: Path) -> Any:
    with file.open() as stream:
        return yaml.safe_load(stream)


def _current_context(contents: dict[str, Any]) -> str | None:
    """The context of the first file that names one, as kubectl has it; the official client takes the last."""
    return next(filter(None, (content.get("current-context") for content in contents.values())), None)


def _unusable(path: str, error: Exception) -> str:
    if not _files(path):
        return f"cannot connect to a Kubernetes cluster: the kubeconfig {path} does not exist; {_ADVICE}"
    reason = "it is not a kubeconfig" if isinstance(error, _NO_KUBECONFIG) else " ".join(str(error).split())
    return f"cannot connect to a Kubernetes cluster: the kubeconfig {path} cannot be used ({reason}); {_ADVICE}"


def _nothing_found(error: Exception) -> str:
    return (
        "cannot connect to a Kubernetes cluster: KUBECONFIG is not set, there is no file "
        f"{DEFAULT_KUBECONFIG}, and this process has no service account of a pod ({error}); {_ADVICE}"
    )


def _kubeconfig(given: Path | None) -> str | None:
    if given is not None:
        return str(given)
    if named := os.environ.get("KUBECONFIG"):
        return named
    default = Path(DEFAULT_KUBECONFIG).expanduser()
    return str(default) if default.exists() else None


async def _from_kubeconfig(path: str, context: str | None) -> Access:
    # Once: after `kubectl config use-context` the credentials of another cluster must not go to this one's server.
    chosen = context or _current_context(_contents(path))
    if chosen is None:
        raise ConfigException("it has no current-context")

    async def reload(configuration: Configuration) -> datetime | None:
        loader: Any = await load_kube_config(  # type: ignore[no-untyped-call]
            # The client merges several files as kubectl does, but for the current context and for empty files.
            config_file=os.pathsep.join(_contents(path)),
            context=chosen,
            client_configuration=configuration,
            persist_config=False,
        )
        return getattr(loader, "exec_plugin_expiry", None)

    configuration = Configuration()
    expires = await reload(configuration)
    access = Access(configuration, reload)
    access._expires = expires
    return access


async def _read_account(configuration: Configuration) -> None:
    """Read the service account of the pod; the client does that each minute of a clock that may be set back."""
    load_incluster_config(configuration)  # type: ignore[no-untyped-call]


def _context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
