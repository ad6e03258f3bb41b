"""What a cluster should be made of, and the nodes that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from slipway.api.accelerators import AcceleratorError, Shape, Wanted, resolve
from slipway.devcluster.errors import LocalClusterError

Kind = Literal["real", "simulated"]

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
MAX_NAME = 30
KIND_LABEL = "slipway.dev/node-kind"
ZONE = "us-central2-b"
CPU = "cpu"
MAX_REAL_NODES = 100
TPU_RESOURCE = "google.com/tpu"
POOL_NOTATION = (
    "Write COUNT*TYPE, for example 2*v5p-16 or 1*cpu, and where needed the chips of a host: 2*v6e-8:chipsPerHost=8."
)

_POOL = re.compile(r"\s*(?:([0-9]{1,9})\s*\*\s*)?([^\s*:]+)\s*(?::\s*chipsPerHost=([0-9]{1,9})\s*)?")


def _checked_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > MAX_NAME:
        raise ValueError(
            f"{name!r} is no name of a cluster; use at most {MAX_NAME} lower-case letters, digits and `-`, and no `-` "
            "at either end"
        )
    return name


class Pool(BaseModel):
    """Node pools of one type: `count` slices of a TPU type, or `count` CPU nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    type: str = CPU
    count: Annotated[int, Field(ge=1, le=20_000)] = 1
    spot: bool = False
    chips_per_host: int | None = None
    """Needed only where the type leaves it open (v5e and v6e 2x4)."""

    @model_validator(mode="after")
    def _known_type(self) -> Pool:
        try:
            _ = self.shape
        except AcceleratorError as error:
            fault = "" if error.field == "chipsPerHost" else " is neither `cpu` nor a TPU type"
            raise ValueError(f"{self.type!r}{fault}: {error}") from error
        if self.type == CPU and self.chips_per_host is not None:
            raise ValueError("CPU nodes have no chips; leave chipsPerHost out")
        return self

    @property
    def shape(self) -> Shape | None:
        """The TPU slice that each of these node pools is; None for CPU nodes."""
        return None if self.type == CPU else resolve(self.type, chips_per_host=self.chips_per_host)


class ClusterSpec(BaseModel):
    """A whole cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_checked_name)] = "slipway"
    pools: list[Pool] = []
    images: list[Path] = Field(
        default=[], description="Image archives that every real node starts with, besides pause and busybox."
    )
    node_grace_seconds: Annotated[int, Field(ge=8, le=600)] | None = Field(
        default=None,
        description="How long a node may be silent before it is NotReady; default 20, or 240 above 500 nodes.",
    )

    @model_validator(mode="after")
    def _few_real_nodes(self) -> ClusterSpec:
        real = len(self.nodes("real"))
        if real > MAX_REAL_NODES:
            raise ValueError(f"{real} real nodes are more than the {MAX_REAL_NODES} that a local cluster can have")
        return self

    def nodes(self, kind: Kind | None = None) -> list[NodePlan]:
        """Return the nodes of one kind, or all, in a stable order."""
        return [plan for _, plans in self.by_pool() for plan in plans if kind in (None, plan.kind)]

    def by_pool(self) -> list[tuple[Pool, list[NodePlan]]]:
        """Return each entry of `pools` with its nodes."""
        used = dict[str, int]()
        found = [(pool, _pool_nodes(pool, used)) for pool in self.pools]
        real = (plan for _, plans in found for plan in plans if plan.kind == "real")
        for index, plan in enumerate(real):
            plan.index = index
        return found

    @property
    def grace_seconds(self) -> int:
        """How long the control plane waits for a silent node."""
        if self.node_grace_seconds is not None:
            return self.node_grace_seconds
        return 20 if len(self.nodes()) <= 500 else 240

    @property
    def lease_seconds(self) -> int:
        """Duration of node leases; nodes renew four times as often."""
        return max(4, self.grace_seconds)


@dataclass
class NodePlan:
    """One node as it should be."""

    name: str
    kind: Kind
    pool: str
    labels: dict[str, str]
    taints: list[dict[str, str]] = field(default_factory=list)
    tpus: int = 0
    index: int = -1


def _pool_nodes(pool: Pool, used: dict[str, int]) -> list[NodePlan]:
    """Name the nodes of a pool, counting on where earlier pools of the same type ended."""
    shape = pool.shape
    base = CPU if shape is None else re.sub(r"[^a-z0-9-]+", "-", shape.type.lower())
    first = used.get(base, 0)
    used[base] = first + pool.count
    plans = []
    for number in range(first, first + pool.count):
        if shape is None:
            plans.append(_plan(pool, f"{base}-{number}", "default-pool", None))
        else:
            name = f"{base}-{number}"
            plans.extend(_plan(pool, f"{name}-{host}", name, shape) for host in range(shape.hosts))
    return plans


def _plan(pool: Pool, name: str, pool_name: str, shape: Shape | None) -> NodePlan:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "cloud.google.com/gke-nodepool": pool_name,
        "topology.kubernetes.io/zone": ZONE,
        "topology.kubernetes.io/region": ZONE.rpartition("-")[0],
        KIND_LABEL: pool.kind,
    }
    # A kubelet knows of which architecture its machine is; the TPU machines of GKE are of this one.
    labels |= {"kubernetes.io/arch": "amd64"} if pool.kind == "simulated" else {}
    taints = []
    if shape is not None:
        labels |= {
            "cloud.google.com/gke-tpu-accelerator": shape.label,
            "cloud.google.com/gke-tpu-topology": shape.topology,
            "cloud.google.com/gke-accelerator-count": str(shape.chips_per_host),
        }
        taints.append({"key": TPU_RESOURCE, "value": "present", "effect": "NoSchedule"})
    if pool.spot:
        labels["cloud.google.com/gke-spot"] = "true"
        taints.append({"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"})
    return NodePlan(name, pool.kind, pool_name, labels, taints, shape.chips_per_host if shape else 0)


def parse_pool(text: str, kind: Kind, spot: bool = False) -> Pool:
    """Read `COUNT*TYPE` or `COUNT*TYPE:chipsPerHost=NUMBER`; a bare TYPE means one."""
    read = _POOL.fullmatch(text)
    if read is None:
        raise LocalClusterError(f"{text!r} does not name a pool.", hint=POOL_NOTATION)
    count, kind_of, chips = read.groups()
    try:
        return Pool(
            kind=kind, type=kind_of, count=int(count or 1), spot=spot, chips_per_host=int(chips) if chips else None
        )
    except ValidationError as error:
        offers = [_written(count or "1", wanted) for wanted in _suggestions(error)]
        if not offers:
            raise LocalClusterError(explain(error)) from error
        # The catalogue offers the same in the words of the resource.
        fault = explain(error).partition("; try ")[0]
        raise LocalClusterError(f"{fault}.", hint=f"Write {' or '.join(offers)}.") from error


def _suggestions(error: ValidationError) -> list[Wanted]:
    """What the catalogue of TPUs offers in place of a type that it refused."""
    causes = (getattr(fault.get("ctx", {}).get("error"), "__cause__", None) for fault in error.errors())
    return [wanted for cause in causes if isinstance(cause, AcceleratorError) for wanted in cause.suggestions]


def _written(count: str, wanted: Wanted) -> str:
    """A suggestion as `parse_pool` reads it."""
    size = wanted.type or ""
    if wanted.topology:
        size = f"{size.rpartition('-')[0]}-{wanted.topology}"
    return f"{count}*{size}" + (f":chipsPerHost={wanted.chips_per_host}" if wanted.chips_per_host else "")


def explain(error: ValidationError) -> str:
    """Turn a validation error into one sentence for each fault."""
    sentences = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        what = fault["msg"].removeprefix("Value error, ")
        sentences.append(f"{where}: {what}." if where else f"{what}.")
    return " ".join(sentences)
