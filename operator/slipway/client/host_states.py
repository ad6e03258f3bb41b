"""The state of each host of a job, in one word."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slipway.api import names
from slipway.api.places import Place, parse_pod_name


class PodMetadata(msgspec.Struct, rename="camel"):
    """Which pod it is."""

    name: str
    resource_version: str = ""
    deletion_timestamp: str | None = None


class PodSeen(msgspec.Struct):
    """A pod as pictures need it."""

    metadata: PodMetadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def state_of(pod: PodSeen) -> str:
    """Unscheduled, Starting, Running, Terminating, Succeeded or Failed."""
    status = pod.status
    phase = status.get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return str(phase)
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    if not pod.spec.get("nodeName"):
        return "Unscheduled"
    if phase != "Running":
        return "Starting"
    container = {one["name"]: one for one in status.get("containerStatuses", ())}.get(names.WORKER_CONTAINER)
    ended = (container or {}).get("state", {}).get("terminated")
    if ended:
        return "Succeeded" if ended.get("exitCode") == 0 else "Failed"
    return "Running"


def hosts(job: str, pods: Iterable[Mapping[str, Any]]) -> dict[Place, str]:
    """The state of each host that has a pod."""
    seen = (msgspec.convert(pod, PodSeen) for pod in pods)
    placed = ((parse_pod_name(job, pod.metadata.name), pod) for pod in seen)
    return {found[1]: state_of(pod) for found, pod in placed if found is not None}
