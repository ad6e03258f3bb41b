"""This machine as a site: its defaults, what its nodes have, and no limits but the engine's own."""

import os
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from slipway.api.base import Passthrough
from slipway.api.gpus import DEFAULT_RESOURCES
from slipway.api.profile import Defaults, GpuNodes, Limits, ProfileSpec
from slipway.api.slicejob import SliceJobSpec, Timeouts
from slipway.core.manifests.containers import template_spec
from slipway.core.model.site import Profile
from slipway.local.conversion.devices import Inventory

MACHINE: Final = "this machine"
"""Who gives defaults to jobs and takes or refuses their pods, in messages."""
START_SECONDS: Final = 30
"""Seconds within which containers start, unless the job says otherwise: images are there before an attempt begins."""
GRACE_SECONDS: Final = 10
"""Seconds between SIGTERM and SIGKILL, unless the job says otherwise: those of `docker stop`."""
_LIMITS: Final = Limits(
    host_paths=("/",), host_processes=True, privileged=True, service_accounts=("*",), priority_classes=("*",)
)
"""Who may use the engine may do everything on this machine."""


def site(written: SliceJobSpec) -> Profile:
    """What this machine gives a job.

    One with a workspace runs as who submits it, who is to read its files (F-43). How long the init containers of a job
    run nobody knows, nor how long a Ray cluster takes until all workers have joined, so these have the time of a
    cluster to start.
    """
    profile = _machine()
    of_user = written.workspace is not None and os.getuid() != 0
    prepares = written.ray is not None or bool(template_spec(written).get("initContainers"))
    if not of_user and not prepares:
        return profile
    given: dict[str, Any] = {"termination_grace_period_seconds": GRACE_SECONDS}
    if not prepares:
        given["timeouts"] = profile.spec.defaults.timeouts
    if of_user:
        user = {"runAsUser": os.getuid(), "runAsGroup": os.getgid()}
        given["pod_security_context"] = Passthrough.model_validate(user)
    return replace(profile, spec=profile.spec.model_copy(update={"defaults": Defaults(**given)}))


@lru_cache(maxsize=1)
def _machine() -> Profile:
    timeouts = Timeouts(start_seconds=START_SECONDS)
    defaults = Defaults(timeouts=timeouts, termination_grace_period_seconds=GRACE_SECONDS)
    spec = ProfileSpec(defaults=defaults, limits=_LIMITS, gpus=gpus(Inventory.read()))
    return Profile(MACHINE, spec=spec, for_all=True)


def gpus(inventory: Inventory) -> GpuNodes | None:
    """The GPUs of this machine: with those of one vendor, a job need name neither vendor nor number (N-31)."""
    resources = {vendor: name for vendor, name in DEFAULT_RESOURCES.items() if inventory.devices.get(vendor)}
    if not resources:
        return None
    counts = [len(inventory.devices[vendor]) for vendor in resources]
    return GpuNodes.model_validate({"resources": resources, "perNode": counts[0] if len(counts) == 1 else None})
