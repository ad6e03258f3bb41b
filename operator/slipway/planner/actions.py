"""What the planner asks for. Data only: `slipway.cluster.apply` carries it out, and repeating any of it is harmless."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slipway.api.status import SliceJobStatus
from slipway.planner.snapshot import Slot

Body = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Check:
    """Ask the API server, in a strict dry run, whether it would take these: one pod of each kind, and the Services."""

    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateObjects:
    """Make what the pods need before them: host lists, a NetworkPolicy; those that are there are fine."""

    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateServices:
    """Make the Services by which the pods of an attempt find each other; those that are there are fine.

    They come after the pods: the control plane writes the addresses of a Service anew for each pod that appears.
    """

    attempt: int
    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Make a Secret with a new random token; one that is there already is kept."""

    body: Body


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Make the worker pods of these slots; those that are there already are fine."""

    attempt: int
    slots: tuple[Slot, ...]
    pools: Mapping[int, str] = field(default_factory=dict)
    """By slice: the node pool that the pods it has are pinned to, or "" for one that affinity finds.

    Slices that are not named may be pinned to free node pools. Slices without a slot here are named so that those that
    affinity places keep out of their pools.
    """


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete the job's pods of one attempt by collection, by at least one request for each slice."""

    attempt: int
    slices: tuple[int, ...]
    grace_seconds: int | None
    """None leaves each pod its own."""
    ended_too: bool = False
    """Also those that have ended; they hold no chips and are kept while somebody may want their logs."""
    spared: tuple[Slot, ...] = ()
    """Pods to be kept although their phase does not say yet that they have ended."""


@dataclass(frozen=True, slots=True)
class ForceDeletePod:
    """Remove a pod whose node is gone, after a live look at the node shows that it is."""

    name: str
    uid: str
    node: str
    silence_will_do: bool = False
    """Whether a node that is merely not ready counts as gone, as the job asked for at its own risk."""


@dataclass(frozen=True, slots=True)
class LookAtNodes:
    """Ask for nodes of which no watch has shown whether they are there, or that they are others by now."""

    names: tuple[str, ...]
    attempt: int | None = None
    """The ended attempt about whose unseen ends this asks; that it was asked is remembered."""


@dataclass(frozen=True, slots=True)
class ListPods:
    """Ask for the job's pods: a watch may lag without a sign, so that time has passed proves nothing by itself."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the finished job: its time to live is over."""


Action = (
    Check
    | CreateObjects
    | CreateServices
    | CreateToken
    | CreatePods
    | DeletePods
    | ForceDeletePod
    | LookAtNodes
    | ListPods
    | DeleteJob
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """An Event to record."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision: write this status first, then act, then look again at `wake_at` at the latest."""

    status: SliceJobStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
