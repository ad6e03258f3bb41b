"""What a spec comes to: its values, the hardware of the slices and the runtime of the pods."""

from dataclasses import dataclass

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.planner.hardware import Hardware, Tpu
from slipway.planner.runtime import RayCluster, Runtime


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


def effective(spec: SliceJobSpec, resolved: Resolved, forbidden: str | None = None) -> Effective:
    """Put a spec together with its values, and with what the limits of the site refuse in it."""
    return Effective(spec, resolved, _hardware(spec, resolved), runtime_of(spec), forbidden)


def runtime_of(spec: SliceJobSpec) -> Runtime:
    """The runtime that a spec asks for."""
    return RayCluster(spec.ray) if spec.ray is not None else Runtime()


def _hardware(spec: SliceJobSpec, resolved: Resolved) -> Hardware:
    return Tpu(spec.accelerator, resolved) if spec.accelerator is not None else Hardware(resolved)
