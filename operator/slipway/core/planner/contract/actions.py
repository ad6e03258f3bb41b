"""The actions of a plan, as data. `controller.act.apply` carries them out; each may be repeated without harm."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from slipway.api.places import Place
from slipway.api.status import Attempt, SliceJobStatus
from slipway.core.manifests.additions import NO_ADDITIONS, PodAdditions
from slipway.core.model.parts import Body


@dataclass(frozen=True, slots=True)
class Check:
    """Create these in a strict dry run: one pod of each kind, and one Service of each role."""

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
class DeleteHostLists:
    """Delete the ConfigMaps with the host lists of an attempt whose pods cannot run any more."""

    names: tuple[str, ...]


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
    workers: PodAdditions = NO_ADDITIONS
    """What the job's queue adds to its workers."""
    head: PodAdditions = NO_ADDITIONS
    """What it adds to the Ray head."""


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete the pods of one attempt, workers too that the cache does not know."""

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
    """Read from the API server what a watch may not have shown. The next plan is made from the answers.

    Each is answered, or the plan is carried out again: what is not there or may not be read is known as that, with the
    time of the question. Plans hold back words until the answer is there.
    """

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
    workload: bool = False
    """GET the job's Workload."""


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """Add attempts that leave the status to the pages of the job's history; those that are there already are fine."""

    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the finished job: ttlSecondsAfterFinished have passed."""


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Ask Kueue for the quota of the job. An existing Workload of the job is kept."""

    version: str
    """API version of the Workload."""
    body: Body


@dataclass(frozen=True, slots=True)
class PatchWorkload:
    """Merge into a Workload, if it still has the resource version that the patch was made from."""

    version: str
    name: str
    resource_version: str
    patch: Body
    status: bool = False
    """Whether it is the status that is patched."""


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete a Workload; its finalizer keeps it, and its quota, until that is dropped."""

    version: str
    name: str
    uid: str


Action = (
    Check
    | CreateObjects
    | CreateServices
    | DeleteHostLists
    | CreateToken
    | CreatePods
    | DeletePods
    | ForceDeletePod
    | Refresh
    | KeepHistory
    | DeleteJob
    | CreateWorkload
    | PatchWorkload
    | DeleteWorkload
)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An Event to record."""

    reason: str
    message: str
    warning: bool = False
    attempt: Attempt | None = None
    """The attempt that it is about."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision: write this status, then carry out the actions, then plan again at `wake_at` at the latest."""

    status: SliceJobStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    before: tuple[Action, ...] = ()
    """What has to be done before the status is written: it keeps what the status drops."""
