"""`slipway doctor`: what a cluster offers to jobs."""

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.errors import Forbidden, SlipwayClusterError
from slipway.apiserver.wire import JsonObject
from slipway.cli.common import FAILED, output_option, print_data, run, targeted
from slipway.client.api_errors import typed
from slipway.client.cluster_client import AsyncClient, ClusterTarget
from slipway.client.errors import NotAllowed, NotFound
from slipway.client.operator_leases import no_operator, operators, several_operators
from slipway.client.pictures.console import console

_RIGHTS: Final = (
    ("create", names.GROUP, "slicejobs", "submit jobs"),
    ("patch", names.GROUP, "slicejobs", "cancel, suspend and resume jobs"),
    ("list", "", "pods", "show the hosts of jobs"),
    ("get", "", "pods/log", "read logs"),
    ("list", "", "events", "show Events"),
)
"""Verb, group and resource, and the commands that need the right."""


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    good: bool
    message: str


async def findings(client: AsyncClient, operator_namespace: str = "", operator_id: str = "") -> AsyncIterator[Finding]:
    """Look at one thing after another; what is missing does not keep the rest.

    Args:
        client: asks as this user, about the client's namespace.
        operator_namespace: the one namespace in which to look for an operator; empty for all.
        operator_id: of the operator to look for; empty for the one that has none.
    """
    version = await client.api.get("/version", _Version)
    yield Finding("API server", True, f"Kubernetes {version.git_version} at {client.api.server}")
    yield await _crd(client)
    async for finding in _operators(client, operator_namespace, operator_id):
        yield finding
    for verb, group, resource, use in _RIGHTS:
        yield await _right(client, verb, group, resource, use)
    yield await _nodes(client)


async def _crd(client: AsyncClient) -> Finding:
    try:
        jobs = await client.list()
    except NotFound:
        return Finding("CRD", False, "no SliceJobs: install Slipway's chart, or kubectl apply --server-side -f crds/")
    except NotAllowed as error:
        return Finding("CRD", False, f"{error}")
    return Finding("CRD", True, f"{names.API_VERSION}; {len(jobs)} job(s) in namespace {client.resolved_namespace}")


async def _operators(client: AsyncClient, within: str, operator_id: str) -> AsyncIterator[Finding]:
    now = datetime.now(UTC)
    everyone = await operators(client.api, now, within, operator_id=None)
    if everyone is None:
        where = f"namespace {within}" if within else "all namespaces; name the operator's with --operator-namespace"
        yield Finding("operator", not within, f"not looked for: this user may not list Leases in {where}")
        return
    namespace = client.resolved_namespace
    found = tuple(operator for operator in everyone if operator.operator_id == operator_id)
    if words := no_operator(found, namespace, now, operator_id):
        yield Finding("operator", False, words)
    else:
        alive = next(operator for operator in found if operator.alive and operator.serves(namespace))
        only = f" and serves only {', '.join(alive.served)}" if alive.served else ""
        yield Finding("operator", True, f"{alive.holder} leads in namespace {alive.namespace}{only}")
    good, words = several_operators(everyone, namespace)
    if words:
        yield Finding("several operators", good, words)


async def _right(client: AsyncClient, verb: str, group: str, resource: str, use: str) -> Finding:
    kind, _, subresource = resource.partition("/")
    asked = {"namespace": client.resolved_namespace, "verb": verb, "group": group, "resource": kind}
    asked |= {"subresource": subresource} if subresource else {}
    api = "authorization.k8s.io/v1"
    body = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    answer = await client.api.create(f"/apis/{api}/selfsubjectaccessreviews", body, JsonObject)
    may = bool(answer["status"].get("allowed"))
    words = f"may {use}" if may else f"may not {use}: bind the ClusterRole edit, or ask for {verb} on {resource}"
    return Finding(f"right to {verb} {resource}", may, words)


async def _nodes(client: AsyncClient) -> Finding:
    try:
        listing = await client.api.list(paths.NODES, _Node, label_selector=names.NODE_ACCELERATOR)
    except Forbidden:
        return Finding("TPU nodes", True, "not looked for: this user may not list nodes")
    pools: dict[tuple[str, str], set[str]] = {}
    for item in listing.items:
        labels = item.metadata.labels
        key = labels.get(names.NODE_ACCELERATOR, ""), labels.get(names.NODE_TOPOLOGY, "")
        pools.setdefault(key, set()).add(labels.get(names.NODE_POOL, item.metadata.name))
    if not pools:
        return Finding("TPU nodes", True, "none now: an autoscaler has to bring them, or only CPU jobs run here")
    words = (f"{label} {topology} in {len(found)} node pool(s)" for (label, topology), found in sorted(pools.items()))
    return Finding("TPU nodes", True, ", ".join(words))


@click.command()
@output_option("json", "yaml")
@click.option("--operator-namespace", default="", help="Look for the operator in this namespace.  [default: all]")
@click.option("--operator-id", default="", help="Look for the operator with this id.  [default: the one without]")
@targeted
def doctor(target: ClusterTarget, output: str | None, operator_namespace: str, operator_id: str) -> None:
    """Check what a cluster offers: CRD, operator, your rights, TPU nodes. Exit code 1 when something is missing."""

    async def work() -> list[Finding]:
        async with target.client() as client:
            try:
                return [finding async for finding in findings(client, operator_namespace, operator_id)]
            except SlipwayClusterError as error:
                raise typed(error) from error

    found = run(work())
    if output:
        print_data([asdict(one) for one in found], output)
    else:
        out = console()
        for one in found:
            out.print("✓" if one.good else "✗", style="green" if one.good else "bold red", end=" ")
            out.print(f"{one.check}: {one.message}")
    if not all(one.good for one in found):
        raise SystemExit(FAILED)
