"""The snapshot of one job on its engine, put together for one decision."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace as replace_struct

from slipway.api.profile import ProfileSpec
from slipway.api.status import SliceJobStatus
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node, NodeMetadata
from slipway.core.model.pods import Pod
from slipway.core.model.reading import read_job
from slipway.core.model.roster import Roster
from slipway.core.model.site import Choice, Profile
from slipway.core.planner.contract.freshness import EVER, Horizon
from slipway.core.planner.contract.snapshot import OwnDeletions, Printed, Rejection, Snapshot, Vanished
from slipway.core.validation.site import site_of
from slipway.local.containers import container_state
from slipway.local.containers.container_state import Circumstances, Deletion, Inspected
from slipway.local.containers.containers import Containers
from slipway.local.containers.host import Host, hosts, is_worker, leftovers, pod_of
from slipway.local.conversion.containers_of_pod import LABEL_PARTS
from slipway.local.supervisor.machine_site import MACHINE, site
from slipway.local.supervisor.ray_readiness import Joining
from slipway.local.supervisor.this_machine import THIS, Machine

REMOVAL_SHOWS_SECONDS: Final = 0.3
"""How long after it was killed a container is looked at again: Podman says only then whether somebody removes it."""
SETTINGS: Final = Settings(operator_image="slipway", maker=MACHINE, images_by_id=True)
NOT_FOLLOWED: Final = (
    "LogsNotFollowed",
    "spec.progress: the local engine follows no logs, so status.progress is empty",
)


def read(body: dict[str, Any], known: Job | None = None) -> Job:
    """A stored job with the defaults of this machine, and of the profile that it was submitted with.

    A `known` one of the same version is that job.
    """
    about = body["metadata"]
    if known is not None and (known.uid, known.resource_version) == (about["uid"], about["resourceVersion"]):
        return known
    job = read_job(body, known)
    if (written := job.written) is None:
        return job
    if known is not None and known.given is written:
        return replace(job, spec=known.spec, given=written, site=known.site, accepted=known.accepted)
    stored = body.get("local", {}).get("options", {}).get("profile")
    profile = Profile(stored["name"], spec=ProfileSpec.model_validate(stored["spec"])) if stored else None
    spec, said = site_of(written, site(written), Choice(profile))
    return replace(job, spec=spec, given=written, site=said, accepted={})


@dataclass
class JobCache:
    """The containers of a job as they were last seen, and what this process has done about them."""

    containers: Containers
    machine: Machine = THIS
    pods: dict[str, Pod] = field(default_factory=dict)
    """By the id of the worker's container."""
    deletions: dict[str, Deletion] = field(default_factory=dict)
    outages: list[tuple[datetime, datetime]] = field(default_factory=list)
    """When the engine was not reachable."""
    hung_up: datetime | None = None
    """When it ended the stream of events; a turn that is under way may find out later."""
    checked: int | None = None
    """The generation whose containers can be made here."""
    rejection: tuple[int, Rejection] | None = None
    """Why a container of a generation could not be created."""
    served: int | None = None
    served_at: datetime = EVER
    """From when on containers of the attempt could start: nobody starts them while no process looks after the job."""
    begun: int | None = None
    status_written: datetime | None = None
    _seen: dict[str, Inspected] = field(default_factory=dict)
    """All containers by id, as they were last seen."""
    _states: dict[str, str] = field(default_factory=dict)
    _removed: dict[str, datetime] = field(default_factory=dict)
    """When it was first seen that a container is being removed, by id."""
    _unstartable: dict[str, str] = field(default_factory=dict)
    """Why containers could not be started, by id."""
    _vanished: dict[str, Vanished] = field(default_factory=dict)
    _destroyed: dict[str, datetime] = field(default_factory=dict)
    """When the engine says that containers were removed, by id; until a look has shown that they are gone."""
    _deleted: tuple[int | None, set[str]] = (None, set())
    _ended_here: int | None = None
    joining: Joining = field(init=False)
    """Which Ray heads all workers have joined."""
    _since: datetime = field(init=False)
    _versions: int = 0
    _observed: datetime = EVER

    def __post_init__(self) -> None:
        self._since = self.clock()
        self.joining = Joining(self.containers, self.clock)

    def clock(self) -> datetime:
        """The time of this machine."""
        return self.machine.now()

    def remember(self, before: "JobCache") -> None:
        """Keep what was seen before the engine was lost: what is gone at the next look was there, and is missed.

        A container whose deletion was under way is not remembered: whether the engine did it, nobody can tell.
        """
        forgotten = {pod_of(before._seen[one]) for one in before.deletions.keys() & before._seen.keys()}
        self._seen = {one: found for one, found in before._seen.items() if pod_of(found) not in forgotten}
        self.pods = {one: pod for one, pod in before.pods.items() if one in self._seen}
        self._removed, self._vanished = dict(before._removed), dict(before._vanished)

    def observe(self, changed: Iterable[str]) -> None:
        """Look at the containers that are new or have changed.

        Args:
            changed: ids of containers that something has happened to.

        Raises:
            EngineLost: when the engine does not answer.
        """
        at, dirty = self.clock(), set(changed)
        states = self.containers.states()
        news = self._looked_at(
            one
            for one, state in states.items()
            if one not in self._seen or one in dirty or self._states.get(one) != state
        )
        removed = self._removed_after_all(news)
        # What was removed meanwhile is gone as well: the others may be as they are because of that.
        there = states.keys() - self._destroyed.keys() - removed
        gone = {one: self._seen.pop(one) for one in self._seen.keys() - there}
        self._removed = {one: since for one, since in self._removed.items() if one in states}
        for one in self.pods.keys() & gone.keys():
            self._vanished[one] = Vanished(self.pods.pop(one), at, at if one in self.deletions else None)
            self.deletions.pop(one, None)
        self._date_removals()
        touched = {pod_of(one) for one in (*news.values(), *gone.values())}
        for one, found in self._seen.items():
            if is_worker(found) and pod_of(found) in touched:
                self._see(one, found)
        self._states, self._observed = {one: state for one, state in states.items() if one in self._seen}, at
        self._ask_heads()

    def destroyed(self, container: str, at: datetime) -> None:
        """The engine says when it has removed a container; another thread may call this, before or after the look."""
        self._destroyed[container] = at

    def _looked_at(self, containers: Iterable[str]) -> dict[str, Inspected]:
        found = {container: self.containers.inspect(container) for container in containers}
        return {one: self._noted(known) for one, known in found.items() if known is not None}

    def _removed_after_all(self, news: dict[str, Inspected]) -> set[str]:
        """Look again at what somebody killed just now; returns what is gone by then."""
        just_now = self.clock() - timedelta(seconds=1)
        killed = {one for one, found in news.items() if container_state.killed_since(found["State"], just_now)}
        killed -= self.deletions.keys()
        if not killed:
            return set()
        self.machine.sleep(REMOVAL_SHOWS_SECONDS)
        again = self._looked_at(killed)
        news |= again
        return killed - again.keys()

    def _date_removals(self) -> None:
        for one, at in tuple(self._destroyed.items()):
            vanished = self._vanished.get(one)
            if vanished is not None and at < vanished.at:
                removed = None if vanished.removed_at is None else at
                self._vanished[one] = replace(vanished, at=at, removed_at=removed)
            if one not in self._seen:
                del self._destroyed[one]

    def _ask_heads(self) -> None:
        """Ask the Ray heads that wait for workers and are not being deleted."""
        self.joining.joined &= self.pods.keys()
        waiting = self.pods.keys() - self.joining.joined - self.deletions.keys()
        for one in self.joining.ask(sorted(one for one in waiting if self.host(one).may_be_joined)):
            self._see(one, self._seen[one])

    def host(self, worker: str) -> Host:
        """A worker, by its id, with the containers beside it."""
        found = self._seen[worker]
        if LABEL_PARTS not in (found["Config"]["Labels"] or {}):
            return Host(found)
        [host] = hosts([found, *(one for one in tuple(self._seen.values()) if not is_worker(one))])
        return host

    @property
    def leftovers(self) -> list[Inspected]:
        """The containers of hosts whose worker is gone."""
        return leftovers(self._seen.values())

    def cannot_start(self, container: str, why: str) -> None:
        """A container could not be started, which the engine tells nobody; the next look is at it, too."""
        self._unstartable[container] = why
        self._states.pop(container, None)

    def take_back(self, container: str) -> None:
        """A host was removed that never ran: it is as if it had never been created."""
        for found in self.host(container).containers:
            self._seen.pop(found["Id"], None)
            self._states.pop(found["Id"], None)
        del self.pods[container]

    def deleting(self, container: str, deletion: Deletion) -> None:
        """This process has begun to delete a container."""
        self.deletions[container] = deletion
        self._deleted[1].add(container)
        if (found := self.containers.inspect(container)) is not None:
            self._see(container, self._noted(found))

    def not_deleting(self, container: str) -> None:
        """The deletion of a container has failed; the next look is at it, too."""
        self.deletions.pop(container, None)
        self._states.pop(container, None)

    def serves(self, attempt: int) -> None:
        """This process has made the network of an attempt."""
        self.served, self.served_at = attempt, self.clock()

    def _noted(self, found: Inspected) -> Inspected:
        state = found["State"]
        if not state.get("Error"):
            state["Error"] = self._unstartable.get(found["Id"], "")
        if state["Status"] in container_state.BEING_REMOVED:
            self._removed.setdefault(found["Id"], self.clock())
        self._seen[found["Id"]] = found
        return found

    def _see(self, container: str, found: Inspected) -> None:
        state, host = found["State"], self.host(container)
        failed = container_state.ended(state) and state.get("ExitCode") != 0
        about = Circumstances(
            node=self.machine.name,
            tail=self.containers.tail(container) if failed else "",
            tails={word: self.containers.tail(word) for word in host.last_words},
            joined=container in self.joining.joined,
            deletion=self.deletions.get(container),
            removed=self._removed,
            outages=tuple(self.outages),
        )
        self._versions += 1
        self.pods[container] = host.pod(about, self._versions)

    def snapshot(self, job: Job) -> Snapshot:
        """Everything a decision on the job is made from, as of the last look."""
        node, at = self.machine.name, self._observed
        attempt = job.status.attempt
        self._vanished = {
            uid: vanished
            for uid, vanished in self._vanished.items()
            if not job.status.final and (attempt is None or not Roster(attempt).is_earlier(vanished.pod))
        }
        rejection = self.rejection[1] if self.rejection and self.rejection[0] == job.generation else None
        uids = frozenset(self._deleted[1]) if self._deleted[0] == attempt else frozenset()
        return Snapshot(
            job=job,
            pods=tuple(self._with_lost_deletion(pod, job) for pod in self.pods.values()),
            vanished=tuple(self._vanished.values()),
            # A machine that was started again is another Node of the same name.
            nodes={node: Node(NodeMetadata(node, uid=node, creation_timestamp=self.machine.booted_at()))},
            known=Horizon(self._since, at, at, EVER, {node: at}),
            checked=self.checked == job.generation,
            rejection=rejection,
            pending_deletions=frozenset(self.deletions),
            served=self.served,
            served_at=self.served_at,
            deleted_here=OwnDeletions(uids, complete=self._ended_here is not None and self._ended_here == attempt),
            begun_by_this_process=self.begun,
            status_written=self.status_written,
            printed=Printed(attempt, problem=NOT_FOLLOWED) if attempt is not None else None,
            gone_has_ended=True,
            settings=SETTINGS,
        )

    def _with_lost_deletion(self, pod: Pod, job: Job) -> Pod:
        """The pod, deleted by Slipway if it terminated after its attempt had ended by another process.

        A container does not show that Slipway has stopped it; but all of an attempt that has ended is stopped. The
        clocks of this machine and of the engine are taken for one.
        """
        attempt = job.status.newest if job.status.attempt_ended else None
        end = pod.end
        if attempt is None or attempt.end_time is None or end is None or end.finished_at is None:
            return pod
        if pod.may_run or pod.terminating or not Roster.of(attempt).is_current(pod):
            return pod
        if self._ended_here == attempt.number:
            return pod
        if end.finished_at <= attempt.end_time:
            return pod
        deleted = replace_struct(pod.metadata, deletion_timestamp=attempt.end_time, deletion_grace_period_seconds=0)
        return replace_struct(pod, metadata=deleted)

    def writes(self, job: Job, status: SliceJobStatus) -> None:
        """That status is about to be written in place of the one that the job has."""
        if status.attempt != job.status.attempt:
            self.begun = status.attempt
        if status.attempt_ended and not job.status.attempt_ended:
            self._ended_here, self._deleted = status.attempt, (status.attempt, set())

    @property
    def observed(self) -> datetime:
        """When the containers were last looked at."""
        return self._observed
