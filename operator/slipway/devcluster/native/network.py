"""The network of real nodes: a router namespace, one namespace for each node, and one link to the machine.

    machine --- /30 --- router --- node 0 --- pods of node 0
                          |------- node 1 --- pods of node 1

Everything between the nodes is routed, so pods, nodes, Services and the machine reach each other by plain
addresses. No namespace has a name in /run/netns: each lives as long as the process that holds it, and nothing of
the machine's own network changes but one link, which goes away with the router.
"""

from __future__ import annotations

import subprocess

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.native.addresses import Addresses
from slipway.devcluster.programs.packages import find_tool


def ip(lines: list[str], inside: int | None = None) -> None:
    """Run a batch of `ip` commands, on the machine or in the network namespace of a process."""
    prefix = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net", "--"]
    result = subprocess.run(
        [*prefix, find_tool("ip") or "ip", "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise LocalClusterError(f"The cluster's network cannot be set up: {result.stderr.strip()}")


def link_machine(addresses: Addresses, link: str, router: int) -> None:
    """Join the machine and the router, and route the cluster's addresses there."""
    ip(
        [
            f"link add {link} type veth peer name machine netns {router}",
            f"addr add {addresses.host}/30 dev {link}",
            f"link set {link} up",
        ]
    )
    ip(
        [
            "link set lo up",
            f"addr add {addresses.router}/30 dev machine",
            "link set machine up",
            f"route add default via {addresses.host}",
        ],
        inside=router,
    )
    ip([f"route add {addresses.network} via {addresses.router} dev {link}"])


def link_node(addresses: Addresses, index: int, router: int, node: int) -> None:
    """Join the router and a node; whatever link a former life of the node left is replaced."""
    name, address = f"node{index}", addresses.node(index)
    remove_node_link(index, router)
    ip([f"link add {name} type veth peer name eth0 netns {node}", f"link set {name} up"], inside=router)
    ip(
        [
            "link set lo up",
            f"addr add {address}/32 dev eth0",
            "link set eth0 up",
            f"route add {addresses.router} dev eth0 scope link src {address}",
            f"route add default via {addresses.router} dev eth0 src {address}",
        ],
        inside=node,
    )
    ip(
        [
            f"route replace {address} dev {name} src {addresses.router}",
            f"route replace {addresses.pods(index)} via {address} dev {name} onlink",
        ],
        inside=router,
    )


def remove_node_link(index: int, router: int) -> None:
    """Remove a node's link if it is still there: a killed namespace takes a moment to let go of its end."""
    subprocess.run(
        ["nsenter", f"--net=/proc/{router}/ns/net", "--", find_tool("ip") or "ip", "link", "del", f"node{index}"],
        capture_output=True,
        check=False,
    )


def remove_machine_link(link: str) -> None:
    """Remove the machine's link if the router's end has not taken it along."""
    program = find_tool("ip")
    if program is not None:
        subprocess.run([program, "link", "del", link], capture_output=True, check=False)


def corefile(addresses: Addresses, kubeconfig: str) -> str:
    """Return CoreDNS' configuration: the cluster's names, and a plain "no such name" for all others."""
    return f"""\
.:53 {{
    bind {addresses.router}
    errors
    ready {addresses.router}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig "{kubeconfig}"
        pods insecure
        ttl 1
    }}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def proxy_command(program: str, kubeconfig: str, addresses: Addresses, node: str) -> list[str]:
    """Return kube-proxy's command line. It runs once, in the router, which every packet to a Service passes."""
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        "--proxy-mode=iptables",
        f"--hostname-override={node}",
        f"--bind-address={addresses.router}",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
        # Answers must come back through the router even when both pods are on one node.
        "--masquerade-all",
        "--iptables-min-sync-period=100ms",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
        "--oom-score-adj=0",
    ]
