"""What a spec comes to: its values, the hardware of the slices and the runtime of the pods."""

from dataclasses import dataclass

from slipway.api.gpus import ANY_SITE, GpuSite
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.core.manifests.hardware import Gpu, Hardware, Tpu
from slipway.core.manifests.ray.cluster import RayCluster
from slipway.core.manifests.runtime import Runtime
from slipway.core.model.site import Site


@dataclass(frozen=True, slots=True)
class Effective:
    """A spec with everything that follows from it."""

    spec: SliceJobSpec
    resolved: Resolved
    """Its values after defaults; those of the accepted spec where the present one cannot be accepted."""
    hardware: Hardware
    runtime: Runtime
    forbidden: str | None = None
    """What the limits of the site refuse in it, in a sentence. An attempt that has begun is not touched by that."""


def effective(spec: SliceJobSpec, resolved: Resolved, site: Site, forbidden: str | None = None) -> Effective:
    """Put a spec together with its values, its site, and what the limits of the site refuse in it."""
    return Effective(spec, resolved, hardware_of(spec, resolved, site.gpus), runtime_of(spec), forbidden)


def runtime_of(spec: SliceJobSpec) -> Runtime:
    """The runtime that a spec asks for."""
    return RayCluster(spec.ray) if spec.ray is not None else Runtime()


def hardware_of(spec: SliceJobSpec, resolved: Resolved, site: GpuSite = ANY_SITE) -> Hardware:
    """The hardware that a spec asks for, with the values that it comes to."""
    asked = spec.accelerator
    if asked is not None and asked.gpu is None:
        return Tpu(asked, resolved)
    if asked is not None and resolved.gpus_per_host:
        return Gpu(asked, resolved, site)
    return Hardware(resolved, asked)


class InvalidSpec(Exception):
    """The job cannot be run as it is written."""

    def __init__(self, reason: str, message: str) -> None:
        """`reason` is one CamelCase word; `message` names the field, its value and what is allowed."""
        super().__init__(reason, message)
        self.reason = reason
        self.message = message
