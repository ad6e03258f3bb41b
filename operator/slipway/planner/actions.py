"""The actions of a plan, as data. `slipway.cluster.apply` carries them out; each may be repeated without harm."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slipway.api.places import Place
from slipway.api.status import Attempt, SliceJobStatus

Body = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Check:
    """Create these in a strict dry run: one pod of each kind, and the Services."""

    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateObjects:
    """Create what must exist before the pods: host lists, a NetworkPolicy. Existing ones are kept."""

    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateServices:
    """Create the Services that give the pods of an attempt their DNS names. Existing ones are kept.

    They are created after the pods, because the control plane updates the EndpointSlices of a Service for each new pod.
    """

    attempt: int
    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create a Secret with a new random token. An existing one is kept."""

    body: Body


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create the pods of these places. Existing ones are kept."""

    attempt: int
    places: tuple[Place, ...]
    pools: Mapping[int, str] = field(default_factory=dict)
    """By slice: the node pool that its pods are pinned to, or "" for placement by affinity.

    Slices without a missing pod are included, so that slices with affinity avoid their node pools.
    """


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete the pods of one attempt with deletecollection, in at least one request for each slice."""

    attempt: int
    slices: tuple[int, ...]
    """Slices whose workers are deleted."""
    grace_seconds: int | None
    """None keeps the terminationGracePeriodSeconds of each pod."""
    ended_too: bool = False
    """Whether to delete terminated pods too. They hold no chips, and are kept for their logs otherwise."""
    except_places: tuple[Place, ...] = ()
    """Pods to keep although their phase does not show yet that they have terminated."""
    head: bool = False
    """Whether the Ray head is deleted as well, which is in no slice."""


@dataclass(frozen=True, slots=True)
class ForceDeletePod:
    """Force-delete a pod whose Node is gone, after a GET of the Node has shown that it is."""

    name: str
    uid: str
    node: str
    silence_will_do: bool = False
    """Whether a NotReady node counts as gone, because timeouts.unsafeSilentNodeSeconds is set."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Read from the API server what a watch may not have shown. The next plan is made from the answers."""

    pods: bool = False
    """List the job's pods."""
    nodes: tuple[str, ...] = ()
    """GET these Nodes."""
    kubelets: tuple[str, ...] = ()
    """GET the Leases of the kubelets of these nodes."""
    visitors: tuple[str, ...] = ()
    """List the pods of others on these nodes."""
    events: tuple[str, ...] = ()
    """List the Events of the pods of these UIDs."""


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """Add attempts that leave the status to the pages of the job's history; those that are there already are fine."""

    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the finished job: ttlSecondsAfterFinished have passed."""


Action = (
    Check
    | CreateObjects
    | CreateServices
    | CreateToken
    | CreatePods
    | DeletePods
    | ForceDeletePod
    | Refresh
    | KeepHistory
    | DeleteJob
)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An Event to record."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision: write this status, then carry out the actions, then plan again at `wake_at` at the latest."""

    status: SliceJobStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    before: tuple[Action, ...] = ()
    """What has to be done before the status is written: it keeps what the status drops."""
