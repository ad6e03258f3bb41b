"""GPUs of the hosts of a job: how a job asks for them, and what the site's nodes have.

A pod gets GPUs as an extended resource that a device plugin offers; the plugin chooses the devices and tells the
container of them. So a job says how many, of which vendor and of which model, and never which ones.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from pydantic import ConfigDict, Field

from slipway.api.base import Model, rule, rules

GpuVendor = Literal["amd", "intel", "nvidia"]

DEFAULT_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"amd": "amd.com/gpu", "intel": "gpu.intel.com/i915", "nvidia": "nvidia.com/gpu"}
)
"""The extended resource of each vendor's device plugin."""
GKE_MODEL_LABEL: Final = "cloud.google.com/gke-accelerator"
"""GKE's node label with the model of a node's GPUs, such as nvidia-l4."""

_VENDORS: Final = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
_NETWORK: Final = "nic|rdma|hostdev|sriov"
"""What is in the names of the other devices that vendors offer. GPUs may have any name: plugins can rename them."""
_SPOKEN: Final = ("gpu", "gpus")
"""What people write in the place of such a name."""
_LABEL_VALUE: Final = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

MODEL_OF_NONE: Final = "model means nothing beside count 0, which asks for no GPUs: remove one of them"
"""What both the API server and the operator say."""


@lru_cache(maxsize=1024)
def is_gpu(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one, by its name."""
    return resource in _SPOKEN or (resource.startswith(_VENDORS) and re.search(_NETWORK, resource) is None)


def cel_is_gpu(name: str) -> str:
    """The same in CEL, for a resource that a container may request."""
    of_vendor = " || ".join(f"{name}.startsWith('{vendor}')" for vendor in _VENDORS)
    return f"({of_vendor}) && !{name}.matches('{_NETWORK}')"


class Gpu(Model):
    """GPUs of each host."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.model) || !has(self.count) || self.count > 0",
                MODEL_OF_NONE,
                path=".model",
            )
        )
    )

    vendor: Literal[GpuVendor, "auto"] | None = None
    """Vendor of the GPUs: nvidia, amd or intel, or auto for the only vendor of the site. Default auto."""
    count: int | None = Field(default=None, ge=0, le=64)
    """GPUs of each host. Default: all GPUs of a node, where the site says how many these are.
    With 0 the job runs on CPU nodes, whatever the site's default is."""
    model: str | None = Field(default=None, max_length=63, pattern=_LABEL_VALUE)
    """Model of the GPUs, as a node label has it: cloud.google.com/gke-accelerator, or the site's choice."""


@dataclass(frozen=True)
class GpuSite:
    """What a site says of the GPUs of its nodes."""

    resources: Mapping[str, str] = field(default_factory=lambda: DEFAULT_RESOURCES, hash=False)
    """The extended resource of each vendor whose GPUs the site has."""
    per_node: int | None = None
    """GPUs of a node; None where nodes differ, or nobody has said it."""
    model_label: str = GKE_MODEL_LABEL
    """The node label with the model."""
    known: bool = True
    """False for a client, which leaves open what the site decides."""


ANY_SITE: Final = GpuSite()
"""A site that has said nothing: it may have GPUs of every vendor."""
UNKNOWN_SITE: Final = GpuSite(known=False)
"""A site of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs that each host of a job has."""

    vendor: str
    resource: str
    """The extended resource, such as nvidia.com/gpu."""
    count: int
    """At least 1."""
    model: str | None

    @property
    def type(self) -> str:
        """The model, or the resource where any model will do: the accelerator type that users see."""
        return self.model or self.resource


class GpuError(ValueError):
    """What was asked for is not what the site has. The message begins with the field below accelerator.gpu."""


def resolve(asked: Gpu, site: GpuSite = ANY_SITE) -> Gpus | None:
    """The GPUs that a job asks for; None with count 0, and where an unknown site decides.

    Raises:
        GpuError: when the site leaves it open which, or how many, these are.
    """
    if asked.count == 0:
        return None
    if not site.known and (asked.vendor in (None, "auto") or asked.count is None):
        return None
    vendor = _vendor(asked.vendor or "auto", site)
    count = asked.count or site.per_node
    if count is None:
        raise GpuError(
            "count is not set, and how many GPUs a node of this site has is not known: "
            "set it, or gpus.perNode of the SliceJobProfile"
        )
    return Gpus(vendor, site.resources[vendor], count, asked.model)


def _vendor(asked: str, site: GpuSite) -> str:
    known = sorted(site.resources)
    if not known:
        raise GpuError(f"vendor {asked}: this site has no GPUs")
    if asked != "auto":
        if asked not in site.resources:
            raise GpuError(f"vendor {asked}: this site has GPUs of {_listed(known)} only")
        return asked
    if len(known) > 1:
        raise GpuError(f"vendor auto, the default: this site may have GPUs of {_listed(known)}: name one of them")
    return known[0]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
