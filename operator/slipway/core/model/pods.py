"""What the API server shows of a pod, and what follows from it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from propcache.api import cached_property

from slipway.api import names
from slipway.api.places import HEAD, Place, parse_pod_name, worker
from slipway.core.model.container_states import ContainerState, Terminated
from slipway.core.model.parts import Part
from slipway.core.model.pod_parts import PodCondition, PodMetadata, PodSpec, PodStatus

CREATING: Final = "ContainerCreating"
BEING_CREATED: Final = frozenset({"", CREATING, "PodInitializing"})
"""Reasons for which the container of a pod waits that has no trouble."""
NEVER: Final = datetime.max.replace(tzinfo=UTC)
ENDED_PHASES: Final = ("Succeeded", "Failed")


class Pod(Part, frozen=True, gc=True, dict=True):
    """A worker pod. Derived properties are cached, because each plan reads every pod of a job."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    restarted: bool = False
    """Whether an earlier version of this pod showed an earlier run of its worker; not a field of the API."""
    ended_first: bool = False
    """Whether an earlier version was `ended_unasked`; not a field of the API."""

    @cached_property
    def _named(self) -> tuple[int, Place] | None:
        """Attempt and place by the name of the pod, which is immutable; None for a pod that Slipway did not create."""
        return parse_pod_name(self.metadata.labels.job_name, self.metadata.name)

    @cached_property
    def is_copy(self) -> bool:
        """Whether Slipway did not create it although it has the labels of a host (`kubectl debug --copy-to`)."""
        return self._named is None

    @cached_property
    def is_mislabelled(self) -> bool:
        """Whether its labels do not say what its name says, so that the selectors of its place miss it."""
        return self._named is not None and (_index(self.metadata.labels.attempt), self._labelled) != self._named

    @cached_property
    def attempt(self) -> int:
        """The attempt of the pod. For a copy it is that of its label, or -1 when that is no number."""
        return self._named[0] if self._named is not None else _index(self.metadata.labels.attempt)

    @cached_property
    def place(self) -> Place:
        """The place of the pod in its job. For a copy it is that of its labels."""
        if self._named is not None:
            return self._named[1]
        return self._labelled

    @property
    def _labelled(self) -> Place:
        labels = self.metadata.labels
        return HEAD if labels.role == names.ROLE_HEAD else worker(_index(labels.slice), _index(labels.host))

    @cached_property
    def is_head(self) -> bool:
        """Whether it is the pod of the Ray head, which ends when its driver does."""
        return self.place.is_head

    @cached_property
    def ended(self) -> bool:
        """Whether every container of the pod has terminated."""
        return self.status.phase in ENDED_PHASES or self.ending

    @cached_property
    def may_run(self) -> bool:
        """Whether a container of the pod may run, or be restarted.

        A node that reboots with an empty disk restarts the containers of every pod whose phase is not final, whatever
        their last reported states.
        """
        return self.status.phase not in ENDED_PHASES

    @cached_property
    def ending(self) -> bool:
        """Whether all containers have terminated and the phase is not final yet: kubelets set it later."""
        containers = self.status.container_statuses
        if not containers or containers[0].state.terminated is None or self.status.phase in ENDED_PHASES:
            return False
        return all(status.state.terminated for status in (*containers, *self.status.init_container_statuses))

    @cached_property
    def terminating(self) -> bool:
        """Whether it is terminating: it has a deletionTimestamp."""
        return self.metadata.deletion_timestamp is not None

    @cached_property
    def deletion_requested_at(self) -> datetime | None:
        """When its deletion was requested, to the second."""
        if self.metadata.deletion_timestamp is None:
            return None
        return self.metadata.deletion_timestamp - timedelta(seconds=self.metadata.deletion_grace_period_seconds or 0)

    @cached_property
    def worker(self) -> ContainerState | None:
        """How the host is: its program, or in a head pod Ray where that ended first.

        None before the kubelet reports it.
        """
        return ContainerState(terminated=self._ray_end) if self.ray_ended_first else self.program

    @property
    def end(self) -> Terminated | None:
        """How its worker has ended; in a Ray head its driver, or Ray if that was first."""
        return self.worker.terminated if self.worker is not None else None

    @property
    def program(self) -> ContainerState | None:
        """State of the container that the pod is there for: the worker, or the driver in a head pod."""
        name = names.DRIVER_CONTAINER if self.is_head else names.WORKER_CONTAINER
        return next((status.state for status in self.status.container_statuses if status.name == name), None)

    @cached_property
    def ray_ended_first(self) -> bool:
        """Whether it is a head pod whose Ray has ended before its driver.

        That is the end of the head: a Ray that the kubelet starts again has no workers.
        """
        if not self.is_head:
            return False
        driver, ray = self.program, self._ray_end
        if driver is None or ray is None:
            return False
        return driver.terminated is None or _before(ray.finished_at, driver.terminated.finished_at)

    @cached_property
    def _ray_end(self) -> Terminated | None:
        for status in self.status.init_container_statuses:
            if status.name == names.RAY_CONTAINER:
                return status.last_state.terminated or status.state.terminated
        return None

    @property
    def failed_init(self) -> tuple[str, Terminated] | None:
        """The init container for which the pod failed, so that its program never started; None where there is none.

        The kubelet stops sidecars after that.
        """
        ends = ((status.name, status.state.terminated) for status in self.status.init_container_statuses)
        failed = [(name, end) for name, end in ends if end is not None and end.exit_code != 0]
        if self.status.phase != "Failed" or self.end is not None or not failed:
            return None
        return min(failed, key=lambda found: found[1].finished_at or NEVER)

    @cached_property
    def termination_unobserved(self) -> bool:
        """Whether its kubelet did not see how the worker ended (ContainerStatusUnknown)."""
        return self.end is not None and self.end.reason == "ContainerStatusUnknown"

    @property
    def ended_unasked(self) -> bool:
        """Whether its worker had terminated before anybody wanted the pod gone, as far as its versions show."""
        return self.ended_first or (self.end is not None and not self.terminating and not self.announced)

    @cached_property
    def ray_crashed(self) -> bool:
        """Whether it is a head pod whose Ray container has terminated while its driver has not."""
        containers = self.status.container_statuses
        return (
            self.is_head
            and self._ray_end is not None
            and any(container.state.terminated is None for container in containers)
        )

    @cached_property
    def started(self) -> bool:
        """Whether the worker runs or has run. A head pod has started when all workers have joined it."""
        state = self.worker
        if state is None:
            return self.ended
        if self.is_head and state.terminated is None:
            return self.condition("Ready") is not None
        return state.running is not None or state.terminated is not None

    @cached_property
    def waits_to_start(self) -> bool:
        """Whether a container waits for something else than its creation; those of nearly every pod do not."""
        containers = (*self.status.container_statuses, *self.status.init_container_statuses)
        waiting = (container.state.waiting for container in containers)
        return any(one is not None and one.reason not in BEING_CREATED for one in waiting)

    @property
    def unhindered(self) -> bool:
        """Whether neither the scheduler nor the kubelet says that something is in the way of its start."""
        return not self.waits_to_start and self.condition("PodScheduled", "False") is None

    @cached_property
    def run_since(self) -> datetime | None:
        """Since when the program has had its present run; the end of time while it waits for one, None if not known.

        A Ray that the kubelet starts again tells nothing: only a machine that lost its state starts the driver anew.
        """
        state = self.program
        run = state.running or state.terminated if state is not None else None
        if state is None or run is None:
            return NEVER if state is not None and state.waiting is not None else None
        return run.started_at

    @cached_property
    def unhealthy_devices(self) -> tuple[str, ...]:
        """The devices of its containers that are unhealthy, such as `chip-2 of google.com/tpu`."""
        return tuple(
            sorted(
                f"{device.resource_id} of {devices.name}"
                for status in self.status.container_statuses
                for devices in status.allocated_resources_status
                for device in devices.resources
            )
        )

    @cached_property
    def bound_at(self) -> datetime | None:
        """When it was bound to its node, to the second."""
        bound = self.condition("PodScheduled")
        return bound.last_transition_time if bound is not None else None

    @cached_property
    def undisturbed(self) -> bool:
        """Whether no container has terminated, no device is unhealthy and no condition or reason announces its end."""
        if self.ended or self.status.reason or self.unhealthy_devices or self.end is not None:
            return False
        return not self.announced

    @property
    def announced(self) -> bool:
        """Whether a condition announces that somebody is about to end it."""
        return any(self.condition(kind) for kind in ("DisruptionTarget", "TerminationTarget"))

    def condition(self, kind: str, status: str = "True") -> PodCondition | None:
        """The condition of that type when it has that status."""
        for condition in self.status.conditions:
            if condition.type == kind and condition.status == status:
                return condition
        return None


def _before(moment: datetime | None, other: datetime | None) -> bool:
    return moment is not None and other is not None and moment < other


def _index(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1
