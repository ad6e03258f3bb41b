"""What a cluster should be made of, and the nodes that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slipway.api.accelerators import Shape, resolve
from slipway.local_cluster.errors import LocalClusterError

Kind = Literal["real", "simulated"]

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
KIND_LABEL = "slipway.dev/node-kind"
ZONE = "us-central2-b"
CPU = "cpu"
MAX_REAL_NODES = 100
TPU_RESOURCE = "google.com/tpu"


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
        except ValueError as error:
            raise ValueError(f"{self.type!r} is neither `cpu` nor a TPU type: {error}") from error
        return self

    @property
    def shape(self) -> Shape | None:
        """The TPU slice that each of these node pools is; None for CPU nodes."""
        return None if self.type == CPU else resolve(self.type, chips_per_host=self.chips_per_host)


class ClusterSpec(BaseModel):
    """A whole cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        str,
        Field(pattern=NAME_PATTERN, max_length=30, description="Lower-case letters, digits, -"),
    ] = "slipway"
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
        plans, used = list[NodePlan](), dict[str, int]()
        real = 0
        for pool in self.pools:
            for plan in _pool_nodes(pool, used):
                plan.index = real if plan.kind == "real" else -1
                real += plan.kind == "real"
                plans.append(plan)
        return [plan for plan in plans if kind in (None, plan.kind)]

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
        "kubernetes.io/arch": "amd64",
        "cloud.google.com/gke-nodepool": pool_name,
        "topology.kubernetes.io/zone": ZONE,
        "topology.kubernetes.io/region": ZONE.rpartition("-")[0],
        KIND_LABEL: pool.kind,
    }
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
    """Read `COUNT*TYPE`, `TYPE*COUNT` being refused and a bare TYPE meaning one."""
    count, star, kind_of = text.partition("*")
    if not star:
        count, kind_of = "1", text
    if not re.fullmatch(r"[0-9]+", count.strip()) or not kind_of.strip():
        raise LocalClusterError(
            f"{text!r} does not name a pool.", hint="Write COUNT*TYPE, for example 2*v5p-16 or 1*cpu."
        )
    try:
        return Pool(kind=kind, type=kind_of.strip(), count=int(count), spot=spot)
    except ValidationError as error:
        raise LocalClusterError(explain(error)) from error


def explain(error: ValidationError) -> str:
    """Turn a validation error into one sentence for each fault."""
    sentences = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        what = fault["msg"].removeprefix("Value error, ")
        sentences.append(f"{where}: {what}." if where else f"{what}.")
    return " ".join(sentences)
