"""Which operators a cluster has: the holders of their Leases."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Forbidden
from slipway.client.target import possible_namespace

_SLACK: Final = timedelta(seconds=5)
"""How far the clocks of this machine and of the operator's may be apart."""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(frozen=True)
class Operator:
    """The process that holds a Lease, or held it last."""

    namespace: str
    holder: str
    """Empty when the Lease was released."""
    renewed: datetime | None
    alive: bool
    """Whether it renewed the Lease within its duration."""
    served: tuple[str, ...] = ()
    """The namespaces that it serves; empty for all."""
    operator_id: str = ""

    def serves(self, namespace: str) -> bool:
        """Whether it looks after the jobs of a namespace."""
        return not self.served or namespace in self.served


async def operators(
    api: ApiConnection, now: datetime | None = None, namespace: str = "", operator_id: str | None = ""
) -> tuple[Operator, ...] | None:
    """The operators of a cluster or of one namespace; None when this user may not list Leases there.

    Args:
        api: the connection.
        now: the time of the question.
        namespace: where their Leases are; empty for all namespaces.
        operator_id: of those that are wanted; empty for those without an id, None for all.

    Raises:
        Refused: when no namespace can have that name.
    """
    path, now = paths.leases(possible_namespace(namespace) if namespace else ""), now or datetime.now(UTC)
    not_of_kubelets = f"metadata.namespace!={paths.KUBELETS}"
    selector = not_of_kubelets if operator_id is None else f"metadata.name={names.lease_of(operator_id)}"
    try:
        listing = await api.list(path, _Lease, field_selector=selector)
    except Forbidden:
        return None
    found = ((item, names.operator_of(item.metadata.name)) for item in listing.items)
    return tuple(_operator(lease, of, now) for lease, of in found if of is not None)


def several_operators(found: tuple[Operator, ...], namespace: str) -> tuple[bool, str]:
    """What it means that several operators serve a namespace: whether that is good, and a sentence.

    The sentence is empty where one operator serves it, or none.
    """
    serving = [operator for operator in found if operator.alive and operator.serves(namespace)]
    known = ", ".join(
        f"{operator.holder} in {operator.namespace} ({_id_words(operator.operator_id)})" for operator in serving
    )
    words = f"{len(serving)} operators serve namespace {namespace}: {known}"
    if len(serving) < 2:
        return True, ""
    if len({operator.operator_id for operator in serving}) < len(serving):
        step = "give each an id of its own, or let them serve different namespaces (--namespaces)"
        return False, f"{words}. Those with the same id act on the same jobs: {step}"
    step = f"in namespaces with the label {names.LABEL_LIMITS}=enforced the API server applies those of all"
    return True, f"{words}. Each applies its limits only to the jobs with its id; {step}"


def _id_words(operator_id: str) -> str:
    return f"operator id {operator_id}" if operator_id else "no operator id"


def _operator(lease: _Lease, operator_id: str, now: datetime) -> Operator:
    spec = lease.spec
    until = spec.renew_time + timedelta(seconds=spec.lease_duration_seconds or 0) if spec.renew_time else None
    alive = bool(spec.holder_identity) and until is not None and now <= until + _SLACK
    listed = lease.metadata.annotations.get(names.SERVED_NAMESPACES, "")
    served = tuple(listed.split(",")) if listed else ()
    return Operator(lease.metadata.namespace, spec.holder_identity or "", spec.renew_time, alive, served, operator_id)


def no_operator(found: tuple[Operator, ...] | None, namespace: str, now: datetime, operator_id: str = "") -> str:
    """Why no operator looks after the jobs of a namespace, in a sentence; empty where one does, or nobody can tell.

    `found` are the operators that have the id which the jobs name.
    """
    lease = names.lease_of(operator_id)
    if found is None or any(operator.alive and operator.serves(namespace) for operator in found):
        return ""
    if not found:
        if operator_id:
            label = f"{names.LABEL_OPERATOR_ID}={operator_id}"
            step = "correct the label, or start an operator with that id"
            return f"no operator serves jobs with the label {label}: there is no Lease {lease}; {step}"
        return f"no operator runs: there is no Lease {lease}; install Slipway's chart"
    own, running = (
        [operator for operator in found if operator.serves(namespace)],
        [operator for operator in found if operator.alive],
    )
    if running and not own:
        known = "; ".join(
            f"the one in {operator.namespace} serves only {', '.join(operator.served)}" for operator in running
        )
        step = "create the job in a namespace that is served, or start an operator for this one (--namespaces)"
        return f"no operator serves namespace {namespace}: {known}; {step}"
    last = max(own or found, key=lambda operator: operator.renewed or datetime.min.replace(tzinfo=UTC))
    ago = f"{(now - last.renewed).total_seconds():.0f} s ago" if last.renewed else "never"
    where = f" for namespace {namespace}" if running else ""
    words = (
        f"no operator runs{where}: Lease {last.namespace}/{lease} was last renewed {ago} by {last.holder or 'nobody'}"
    )
    return f"{words}; see kubectl get pods -n {last.namespace}"


async def unserved(api: ApiConnection, namespace: str, now: datetime, operator_id: str) -> str:
    """Why no operator looks after the jobs of a namespace that name this operator.

    Empty where one does, or where this user may not know.
    """
    return no_operator(await operators(api, now, operator_id=operator_id), namespace, now, operator_id)
