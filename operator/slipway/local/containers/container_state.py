"""Containers as pods: what the engine says of a container, in the words that the planner reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from slipway.api import names
from slipway.local.conversion.containers_of_pod import is_head
from slipway.local.jobs.job_files import NAMESPACE

ENGINE_STOPPED: Final = "NodeShutdown"
"""The reason of a pod whose container terminated because its engine was stopped, as kubelets give it."""
STOPPED: Final[Mapping[str, str]] = MappingProxyType(
    {"reason": ENGINE_STOPPED, "message": "the Docker engine was stopped"}
)
_STOPPED_SLACK: Final = timedelta(seconds=1)
"""How late this process may notice that the engine has hung up. A program that ends so soon before is not charged."""
START_ERROR: Final = "StartError"
SIGKILLED: Final = 137
_EPOCH_YEAR: Final = 1
_PORT_TAKEN: Final = re.compile("port is already allocated|address already in use", re.IGNORECASE)
"""In the words of Docker and Podman, about another container and about another program."""
BEING_REMOVED: Final = ("removing", "dead")

Inspected = dict[str, Any]
"""The answer to `GET /containers/ID/json`."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Slipway's own deletion of a container."""

    since: datetime
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the engine does not say of a container."""

    node: str
    """Name of this machine."""
    tail: str = ""
    """The last lines of a container that has failed."""
    tails: Mapping[str, str] = field(default_factory=dict)
    """Those of the containers beside it, by id."""
    joined: bool = False
    """Whether all workers have joined this Ray head."""
    deletion: Deletion | None = None
    removed: Mapping[str, datetime] = field(default_factory=dict)
    """When it was first seen that somebody removes a container, by id: unless it ran, the engine does not date that."""
    outages: tuple[tuple[datetime, datetime], ...] = ()
    """When the engine was not reachable: from, until."""


def moment(text: str) -> datetime | None:
    """A date of the engine; None for the one that stands for none."""
    found = datetime.fromisoformat(text) if text else None
    return None if found is None or found.year <= _EPOCH_YEAR else found


def pod_json(container: Inspected, about: Circumstances, version: int) -> dict[str, Any]:
    """A container as a pod of that one container.

    Args:
        container: what the engine says of it.
        about: what it does not say.
        version: a number that grows from one look to the next.
    """
    state, labels = container["State"], container["Config"]["Labels"] or {}
    metadata: dict[str, Any] = {
        "name": container["Name"].removeprefix("/"),
        "namespace": NAMESPACE,
        "uid": container["Id"],
        "resourceVersion": str(version),
        "labels": labels,
        "ownerReferences": [{"uid": labels.get(names.LABEL_JOB_UID, "")}],
    }
    if about.deletion is not None:
        until = about.deletion.since + timedelta(seconds=about.deletion.grace_seconds)
        metadata["deletionTimestamp"] = until.isoformat()
        metadata["deletionGracePeriodSeconds"] = about.deletion.grace_seconds
    elif state["Status"] in BEING_REMOVED:
        metadata |= removal(container, about)
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": container["Created"]}
    conditions = [bound, *([{"type": "Ready", "status": "True"}] if about.joined else [])]
    name = names.DRIVER_CONTAINER if is_head(labels) else names.WORKER_CONTAINER
    worker = {"name": name, "state": container_state(state, container["Created"], about.tail)}
    status: dict[str, Any] = {"phase": _phase(state, about), "conditions": conditions, "containerStatuses": [worker]}
    if stopped_with_engine(state, about):
        status |= STOPPED
    return {"metadata": metadata, "spec": {"nodeName": about.node}, "status": status}


def removal(container: Inspected, about: Circumstances) -> dict[str, Any]:
    """What the metadata of a pod say of a container that somebody else removes; a dead one could not be removed."""
    since = (
        moment(container["State"]["FinishedAt"]) or about.removed.get(container["Id"]) or moment(container["Created"])
    )
    at = since.isoformat() if since is not None else container["Created"]
    return {"deletionTimestamp": at, "deletionGracePeriodSeconds": 0}


def ended(state: Inspected) -> bool:
    """Whether a container has ended, or could not be started."""
    return state["Status"] in ("exited", *BEING_REMOVED) or start_failed(state)


def killed_since(state: Inspected, since: datetime) -> bool:
    """Whether it was killed after that moment, by no lack of memory."""
    finished = moment(state.get("FinishedAt", ""))
    killed = state["Status"] == "exited" and state.get("ExitCode") == SIGKILLED and not state.get("OOMKilled")
    return killed and finished is not None and finished > since


def start_failed(state: Inspected) -> bool:
    """Whether a container could not be started."""
    return state["Status"] == "created" and bool(state.get("Error"))


def lacks_port(why: str) -> bool:
    """Whether a container could not be started because somebody has a port of this machine that it is to open."""
    return _PORT_TAKEN.search(why) is not None


def _phase(state: Inspected, about: Circumstances) -> str:
    if ended(state):
        succeeded = exit_code(state) == 0 and not stopped_with_engine(state, about)
        return "Succeeded" if succeeded else "Failed"
    return "Pending" if state["Status"] == "created" else "Running"


def exit_code(state: Inspected) -> int:
    """A container without a readable exit code has failed (F-68), and so has one that never ran or is dead (F-67)."""
    code = state.get("ExitCode")
    no_word_of_the_program = state["Status"] == "dead" or _never_ran(state)
    return code if isinstance(code, int) and not (code == 0 and no_word_of_the_program) else 1


def _never_ran(state: Inspected) -> bool:
    """Whether the engine removes it without having started it: it dates no end."""
    return moment(state.get("FinishedAt", "")) is None


def container_state(state: Inspected, created: str, tail: str = "") -> dict[str, Any]:
    """The state of a container as a kubelet words it; `tail` is the end of its log."""
    started, finished = moment(state.get("StartedAt", "")), moment(state.get("FinishedAt", ""))
    if start_failed(state):
        # The engine does not date it. The containers of an attempt are started together, as soon as they are created.
        end = {"exitCode": 128, "reason": START_ERROR, "message": state["Error"], "finishedAt": created}
        return {"terminated": end}
    if ended(state):
        end = {
            "exitCode": exit_code(state),
            "reason": _reason(state),
            "message": tail,
            "startedAt": started.isoformat() if started else None,
            "finishedAt": finished.isoformat() if finished else None,
        }
        return {"terminated": end}
    if state["Status"] in ("created", "restarting"):
        return {"waiting": {"reason": "ContainerCreating"}}
    return {"running": {"startedAt": started.isoformat() if started else None}}


def _reason(state: Inspected) -> str:
    if _never_ran(state):
        return "ContainerStatusUnknown"
    if state.get("OOMKilled"):
        return "OOMKilled"
    return "Completed" if exit_code(state) == 0 else "Error"


def stopped_with_engine(state: Inspected, about: Circumstances) -> bool:
    """Whether it terminated while the engine was away: an engine ends its containers after it has hung up.

    An exit 0 is no success then: programs that write a checkpoint when they are told to stop exit so. A job that had
    succeeded is run once more at worst, where the other way round it would never be finished.
    """
    finished = moment(state.get("FinishedAt", ""))
    if not ended(state) or finished is None:
        return False
    return any(since - _STOPPED_SLACK <= finished <= until for since, until in about.outages)
