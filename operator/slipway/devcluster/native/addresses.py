"""Which addresses each cluster uses. Every cluster has a /16 of its own, chosen where the machine has no route."""

from __future__ import annotations

import ipaddress
import json
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.programs.packages import find_tool

_FIRST = 192
_COUNT = 60
_OWN_PREFIX = 16
_PRIVATE = ipaddress.IPv4Network("10.0.0.0/8")


@dataclass(frozen=True)
class Addresses:
    """The addresses of cluster number `number`: 10.<192 + number>.0.0/16."""

    number: int

    @property
    def _base(self) -> str:
        return f"10.{_FIRST + self.number}"

    @property
    def network(self) -> str:
        """Everything that lies inside the cluster."""
        return f"{self._base}.0.0/16"

    @property
    def host(self) -> str:
        """The machine's end of the link into the cluster: the API server listens here."""
        return f"{self._base}.255.1"

    @property
    def router(self) -> str:
        """The cluster's end of that link: CoreDNS listens here, and all nodes route through it."""
        return f"{self._base}.255.2"

    @property
    def services(self) -> str:
        """Addresses of Services."""
        return f"{self._base}.128.0/18"

    @property
    def kubernetes_service(self) -> str:
        """The address of the `kubernetes` Service: the first of the range."""
        return f"{self._base}.128.1"

    @property
    def simulated_pods(self) -> str:
        """Made-up addresses for pods on simulated nodes; nothing answers there."""
        return "100.64.0.1/10"

    @property
    def simulated_node(self) -> str:
        """The made-up address that all simulated nodes share."""
        return f"{self._base}.253.1"

    def node(self, index: int) -> str:
        """Return the address of a real node."""
        return f"{self._base}.254.{index + 10}"

    def pods(self, index: int) -> str:
        """Return the pod network of a real node."""
        return f"{self._base}.{index}.0/24"


def choose(taken: Iterable[int], *, routed: bool = True) -> Addresses:
    """Return addresses that neither another cluster nor a route of this machine uses.

    Args:
        taken: numbers of other clusters.
        routed: whether the machine needs a route to them; without one, those behind a route of its own do as well.
    """
    used, routes = set(taken), _routes()
    free = [Addresses(number) for number in range(_COUNT) if number not in used]
    for addresses in free:
        if not any(ipaddress.IPv4Network(addresses.network).overlaps(route) for route in routes):
            return addresses
    if free and not routed:
        return free[0]
    hint = "`slipway cluster status` lists the clusters, `slipway cluster down NAME` removes one."
    if wide := [str(route) for route in routes if route.prefixlen < _OWN_PREFIX and route.overlaps(_PRIVATE)]:
        hint = f"This machine has a route to {', '.join(wide)}, perhaps of a VPN. Simulated nodes need no addresses."
    raise LocalClusterError(
        "No address range between 10.192.0.0 and 10.251.255.255 is free for another cluster.", hint=hint
    )


def _routes() -> list[ipaddress.IPv4Network]:
    """Return where this machine's routes lead, but for those to everywhere."""
    ip = find_tool("ip")
    if ip is None:
        return []
    result = subprocess.run([ip, "-j", "-4", "route"], capture_output=True, text=True, check=False)
    destinations = [route.get("dst", "default") for route in json.loads(result.stdout or "[]")]
    routes = [ipaddress.IPv4Network(dst, strict=False) for dst in destinations if dst != "default"]
    # A VPN for all traffic has 0.0.0.0/1 and 128.0.0.0/1 in place of a default route.
    return [route for route in routes if route.prefixlen >= _PRIVATE.prefixlen]


def free_ports(count: int) -> list[int]:
    """Return ports on 127.0.0.1 that nobody listens on right now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
