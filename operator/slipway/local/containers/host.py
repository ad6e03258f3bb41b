"""A host of several containers: what a kubelet does with them, and the pod that they are together.

The sandbox runs as long as the pod. Init containers run to their ends one after another, sidecars start among them,
and then start the worker and the containers beside it. When those have ended the sidecars are stopped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slipway.core.model.pods import Pod
from slipway.local.containers.container_state import (
    BEING_REMOVED,
    STOPPED,
    Circumstances,
    Inspected,
    container_state,
    ended,
    exit_code,
    lacks_port,
    pod_json,
    removal,
    start_failed,
    stopped_with_engine,
)
from slipway.local.conversion.containers_of_pod import LABEL_PART_OF, SANDBOX, Kind, Part, is_head, parts_of


@dataclass(frozen=True, slots=True)
class Host:
    """The containers of a pod as they were last seen."""

    worker: Inspected
    others: Mapping[str, Inspected] = field(default_factory=dict)
    """The containers beside the worker by their names on the engine."""

    @property
    def id(self) -> str:
        """That of the worker's container."""
        return str(self.worker["Id"])

    @property
    def name(self) -> str:
        """That of the pod."""
        return _name(self.worker)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What there should be beside the worker."""
        return parts_of(self.worker["Config"]["Labels"] or {})

    def _found(self, *kinds: Kind) -> Iterator[tuple[Part, Inspected]]:
        for part in self.parts:
            if part.kind in kinds and (one := self.others.get(part.container(self.name))) is not None:
                yield part, one

    @property
    def beside(self) -> list[tuple[str, Inspected]]:
        """The containers beside the worker that run something, by name."""
        found = self._found(Kind.INIT, Kind.SIDECAR, Kind.BESIDE)
        return [(part.container(self.name), one) for part, one in found]

    @property
    def sandbox(self) -> Inspected | None:
        """The container that has what the others share."""
        return self.others.get(SANDBOX.container(self.name))

    @property
    def may_be_joined(self) -> bool:
        """Whether it is a Ray head whose driver runs, which knows whether all workers have joined."""
        return is_head(self.worker["Config"]["Labels"] or {}) and self.worker["State"]["Status"] == "running"

    @property
    def _ray(self) -> list[Inspected]:
        """The containers of a Ray head beside its driver."""
        beside = [one for _, one in self._found(Kind.SIDECAR)]
        return beside if is_head(self.worker["Config"]["Labels"] or {}) else []

    @property
    def failed_ray(self) -> list[str]:
        """Ids of those that have failed: their logs say why."""
        return [one["Id"] for one in self._ray if ended(one["State"]) and not _succeeded(one["State"])]

    @property
    def failed_init(self) -> tuple[Part, Inspected] | None:
        """The init container that failed, so that the worker never starts; a sidecar only where nothing else did."""
        if not self.parts or not _fresh(self.worker):
            return None
        found = (*self._found(Kind.INIT), *self._found(Kind.SIDECAR))
        return next((one for one in found if ended(one[1]["State"]) and not _succeeded(one[1]["State"])), None)

    @property
    def last_words(self) -> set[str]:
        """Ids of the containers beside the worker whose logs say why it ended, or why it never started."""
        failed = self.failed_init
        return {*self.failed_ray, *([failed[1]["Id"]] if failed else ())}

    @property
    def unstartable(self) -> str:
        """Why its sandbox cannot be started; empty when it can."""
        one = self.sandbox
        return str(one["State"]["Error"]) if one is not None and start_failed(one["State"]) else ""

    @property
    def without_port(self) -> str:
        """Why it cannot be started, if that is a port of this machine which somebody has; empty otherwise."""
        failed = (str(container["State"]["Error"]) for container in self.containers if start_failed(container["State"]))
        return next(filter(lacks_port, failed), "")

    @property
    def containers(self) -> list[Inspected]:
        """All, in the order in which to remove them: the sandbox has the volumes of the others."""
        sandbox = [self.sandbox] if self.sandbox is not None else []
        return [*(one for _, one in self.beside), self.worker, *sandbox]

    @property
    def broken(self) -> bool:
        """Whether somebody has taken away what the worker needs.

        Init containers that have ended are no longer needed, and people remove what has ended.
        """
        state, sandbox = self.worker["State"], self.sandbox
        if not self.parts or ended(state) or self._hopeless:
            return False
        fresh = state["Status"] == "created"
        there = {part for part, _ in self._found(*Kind)}
        missing = [part for part in self.parts if part not in there and (fresh or part.kind is not Kind.INIT)]
        return bool(missing) or sandbox is None or sandbox["State"]["Status"] not in ("created", "running", "paused")

    @property
    def _hopeless(self) -> bool:
        """Whether the worker will never start."""
        failed = (one["State"] for _, one in self._found(Kind.INIT))
        return bool(self.unstartable) or any(ended(one) and not _succeeded(one) for one in failed)

    @property
    def over(self) -> bool:
        """Whether nothing but sidecars is left to run."""
        regular = (one["State"] for _, one in self._found(Kind.BESIDE))
        return self._hopeless or (ended(self.worker["State"]) and all(map(ended, regular)))

    def due(self) -> list[Inspected]:
        """The containers that are to be started now."""
        sandbox = self.sandbox
        if not self.parts:
            return [self.worker] if self.worker["State"]["Status"] == "created" else []
        if sandbox is None or self.over:
            return []
        if sandbox["State"]["Status"] != "running":
            return [sandbox] if _fresh(sandbox) else []
        if _fresh(self.worker):
            for part, one in self._found(Kind.INIT, Kind.SIDECAR):
                if _fresh(one):
                    return [one]
                if start_failed(one["State"]) or (part.kind is Kind.INIT and not ended(one["State"])):
                    return []
        regular = (one for _, one in self._found(Kind.BESIDE))
        return [one for one in (*regular, self.worker) if _fresh(one)]

    def running(self, *kinds: Kind) -> list[str]:
        """Ids of the containers of these kinds that run, the one that started last first."""
        found = [one["Id"] for _, one in self._found(*kinds) if _runs(one["State"])]
        return found[::-1]

    def pod(self, about: Circumstances, version: int) -> Pod:
        """The host as the planner reads pods; `version` grows from one look to the next."""
        pod: Pod = msgspec.convert(self.pod_json(about, version), Pod, strict=False)
        return pod

    def pod_json(self, about: Circumstances, version: int) -> dict[str, Any]:
        """The host as a pod."""
        body = pod_json(self.worker, about, version)
        if not self.parts:
            return body
        status = body["status"]
        if about.deletion is None:
            # The end of Ray is that of the head, so who removes it removes the head.
            for one in self._ray:
                body["metadata"] |= removal(one, about) if one["State"]["Status"] in BEING_REMOVED else {}
        [worker] = status["containerStatuses"]
        if why := self.unstartable:
            worker["state"] = container_state(self.worker["State"] | {"Error": why}, self.worker["Created"])
        elif _fresh(self.worker):
            worker["state"] = {"waiting": {"reason": "PodInitializing"}}
            if any(stopped_with_engine(one["State"], about) for _, one in self._found(Kind.INIT)):
                status |= STOPPED
        status["containerStatuses"] = [worker, *self._statuses(about, Kind.BESIDE)]
        status["initContainerStatuses"] = self._statuses(about, Kind.INIT, Kind.SIDECAR)
        status["phase"] = self._phase(status["phase"])
        return body

    def _statuses(self, about: Circumstances, *kinds: Kind) -> list[dict[str, Any]]:
        found = self._found(*kinds)
        return [{"name": part.name, "state": _state(part, one, about.tails.get(one["Id"], ""))} for part, one in found]

    def _phase(self, of_worker: str) -> str:
        """It is final when every container has ended, as with a kubelet; how sidecars end says nothing."""
        others = [one["State"] for _, one in self._found(Kind.INIT, Kind.SIDECAR, Kind.BESIDE)]
        if not self.over or any(map(_runs, others)):
            return "Pending" if _fresh(self.worker) else "Running"
        regular = (one["State"] for _, one in self._found(Kind.BESIDE))
        return "Succeeded" if of_worker == "Succeeded" and all(map(_succeeded, regular)) else "Failed"


def _state(part: Part, one: Inspected, tail: str) -> dict[str, Any]:
    state = one["State"]
    if part.kind is Kind.SIDECAR and start_failed(state):
        return {"waiting": {"reason": "RunContainerError", "message": state["Error"]}}
    return container_state(state, one["Created"], tail)


def _fresh(one: Inspected) -> bool:
    """Whether it was created, and nobody has tried to start it."""
    return one["State"]["Status"] == "created" and not one["State"].get("Error")


def _runs(state: Inspected) -> bool:
    return state["Status"] in ("running", "paused", "restarting")


def _succeeded(state: Inspected) -> bool:
    return ended(state) and exit_code(state) == 0


def is_worker(container: Inspected) -> bool:
    """Whether it is the worker of its host, and not a container beside it."""
    return LABEL_PART_OF not in (container["Config"]["Labels"] or {})


def pod_of(container: Inspected) -> str:
    """Name of the pod that a container is of."""
    return str((container["Config"]["Labels"] or {}).get(LABEL_PART_OF) or _name(container))


def hosts(containers: Iterable[Inspected]) -> list[Host]:
    """The hosts that have a worker among these containers."""
    others: dict[str, dict[str, Inspected]] = {}
    workers = []
    for one in containers:
        if is_worker(one):
            workers.append(one)
        else:
            others.setdefault(pod_of(one), {})[_name(one)] = one
    return [Host(worker, others.get(_name(worker), {})) for worker in workers]


def leftovers(containers: Iterable[Inspected]) -> list[Inspected]:
    """The containers of hosts that have no worker among these; sandboxes, which have volumes of others, last."""
    found = list(containers)
    pods = {pod_of(one) for one in found if is_worker(one)}
    left = [one for one in found if pod_of(one) not in pods]
    return sorted(left, key=lambda one: _name(one) == SANDBOX.container(pod_of(one)))


def _name(container: Inspected) -> str:
    return str(container["Name"]).removeprefix("/")
