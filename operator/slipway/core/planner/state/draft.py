"""The plan while it is being made: the input of the rules, and the status and actions that they build."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from slipway.api.places import parse_intervals
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Resolved, SliceJobStatus
from slipway.core.manifests.accepted import Effective, InvalidSpec
from slipway.core.manifests.hardware import Hardware
from slipway.core.manifests.peers import Peers
from slipway.core.manifests.pods import PodFactory
from slipway.core.manifests.runtime import Runtime
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import Action, Refresh
from slipway.core.planner.contract.freshness import EVER, NODES, PODS, WORKLOAD, Step, is_recent, needed_since
from slipway.core.planner.contract.snapshot import SKEW, Snapshot
from slipway.core.planner.state.gate import OPEN, Blocker, Gate
from slipway.core.planner.state.observation import Observation, observe

READ_AGAIN: Final = timedelta(seconds=10)
"""How long to wait before a Node is read again whose last answer settled nothing."""
SHORTEST_PAUSE: Final = timedelta(seconds=2)
LONGEST_PAUSE: Final = timedelta(seconds=60)


def retry_pause(since: datetime, now: datetime, longest: timedelta = LONGEST_PAUSE) -> timedelta:
    """How long to wait before another try: a quarter of the time that tries have failed for."""
    return min(max((now - since) / 4, SHORTEST_PAUSE), longest)


@dataclass(slots=True)
class Draft:
    """One plan in the making; exists during one call of `plan`."""

    snapshot: Snapshot
    effective: Effective
    now: datetime
    status: SliceJobStatus
    problem: InvalidSpec | None = None
    """Why no further attempt can begin although earlier ones did."""
    seen: Observation = field(init=False)
    actions: list[Action] = field(default_factory=list)
    before: tuple[Action, ...] = ()
    """What is to be done before the status is written."""
    wake_at: datetime | None = None
    refresh_pods: bool = False
    refresh_nodes: set[str] = field(default_factory=set)
    refresh_kubelets: set[str] = field(default_factory=set)
    refresh_visitors: tuple[str, ...] = ()
    refresh_events: set[str] = field(default_factory=set)
    refresh_workload: bool = False
    blocked: Blocker | None = None
    """What blocks the next attempt, or the creation of its pods."""
    gate: Gate = OPEN
    """What the queue of the job lets it do."""
    _hiding: SliceJobSpec | None = None

    def __post_init__(self) -> None:
        self.look()

    @property
    def spec(self) -> SliceJobSpec:
        """The job's spec."""
        return self.effective.spec

    @property
    def hiding(self) -> SliceJobSpec | None:
        """The spec by which secrets are hidden in what others say."""
        if self._hiding is None:
            self._hiding = self.job.site.hiding(self.spec)
        return self._hiding

    @property
    def resolved(self) -> Resolved:
        """The values of the spec after defaults."""
        return self.effective.resolved

    @property
    def hardware(self) -> Hardware:
        """What the workers run on."""
        return self.effective.hardware

    @property
    def runtime(self) -> Runtime:
        """What runs in the pods."""
        return self.effective.runtime

    @property
    def job(self) -> Job:
        """The job that is decided on."""
        return self.snapshot.job

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.status.newest

    @property
    def granted(self) -> int:
        """Slices of the newest attempt."""
        return self.status.slices.granted if self.status.slices else self.spec.most_slices

    @property
    def most_slices(self) -> int:
        """The largest number of slices that the next attempt can have."""
        return self.spec.most_slices if self.gate.slices is None else self.gate.slices

    def pod_factory(self) -> PodFactory:
        """What makes the job's pods, of slices that are not pinned."""
        return PodFactory(self.job, self.effective, self.snapshot.settings)

    def peers(self, attempt: int) -> Peers:
        """The workers of an attempt with the slices of the newest one."""
        return Peers(self.job, attempt, self.granted, self.resolved)

    @property
    def active(self) -> Attempt | None:
        """The newest attempt while it has not ended."""
        attempt = self.attempt
        return attempt if attempt is not None and attempt.end_time is None else None

    @property
    def starting(self) -> Attempt | None:
        """The newest attempt while it has not ended and its hosts have not all been seen running."""
        attempt = self.active
        return attempt if attempt is not None and attempt.running_time is None else None

    @property
    def unjudged(self) -> Attempt | None:
        """The newest attempt when it has ended without success and nothing has been charged for it yet."""
        attempt = self.status.unsettled
        return attempt if attempt is not None and attempt.end_time is not None else None

    def look(self) -> None:
        """Sort the pods again, by the newest attempt."""
        done = parse_intervals(self.status.succeeded_hosts)
        self.seen = observe(self.snapshot, self.attempt, self.effective, self.granted, done, self.now)

    def update(self, **changes: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def update_attempt(self, **changes: Any) -> None:
        """Change fields of the newest attempt's record."""
        newest, *older = self.status.attempts
        self.update(attempts=(newest.model_copy(update=changes), *older))

    def act(self, *actions: Action) -> None:
        """Add actions to carry out after the status is written."""
        self.actions.extend(actions)

    def reached(self, due: datetime) -> bool:
        """Whether that time has come and the pods were listed since; if not, they are listed.

        The event that a timer waits for may have happened before the watch shows it.
        """
        return self.passed(due) and self.may(Step.END_BY_TIME, due)

    def passed(self, due: datetime) -> bool:
        """Whether that time has come; if not, the next plan is made then at the latest."""
        if self.now < due:
            self.wake(due)
        return self.now >= due

    @property
    def is_new(self) -> bool:
        """Whether the job was created since this process leads, whichever clock is right."""
        return self.job.created >= self.snapshot.known.leading_since + SKEW

    def may(self, step: Step, event: datetime = EVER, nodes: Iterable[str] = ()) -> bool:
        """Whether the reads that a step needs after that event were made; those that are missing are requested."""
        horizon = self.snapshot.known
        if not self.passed(event):
            # Another server's clock is ahead; no answer could be recent enough yet.
            return False
        listed = step not in PODS or is_recent(PODS[step], horizon, event, self.now)
        stale: set[str] = set()
        if step in NODES:
            since = needed_since(NODES[step], horizon, event)
            stale = {name for name in nodes if horizon.nodes_as_of.get(name, EVER) < since}
        read = horizon.workload_as_of is not None and horizon.workload_as_of >= horizon.leading_since
        unread = step in WORKLOAD and not read
        self.refresh_pods |= not listed
        self.refresh_nodes |= stale
        self.refresh_workload |= unread
        return listed and not stale and not unread

    def admitted_still(self) -> bool:
        """Whether the queue admits the job as far as this leader knows; the one before it may have given quota back."""
        return self.job.queue is None or self.is_new or self.may(Step.CREATE_ADMITTED)

    def look_for(self, nodes: Iterable[str]) -> None:
        """Request reads of Nodes whose existence no watch has shown."""
        for name in nodes:
            again = self.snapshot.known.nodes_as_of.get(name, EVER)
            if again is EVER or again + READ_AGAIN <= self.now:
                self.refresh_nodes.add(name)
            else:
                self.wake(again + READ_AGAIN)

    @property
    def refresh(self) -> tuple[Refresh, ...]:
        """What has to be read before the next plan."""
        asked_for = (self.refresh_nodes, self.refresh_kubelets, self.refresh_events)
        nodes, kubelets, events = (tuple(sorted(one)) for one in asked_for)
        asked = Refresh(self.refresh_pods, nodes, kubelets, self.refresh_visitors, events, self.refresh_workload)
        return (asked,) if asked != Refresh() else ()

    def wake(self, at: datetime) -> None:
        """Plan again at that time at the latest."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at
