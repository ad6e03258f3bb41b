"""The containers that a pod of several is on this machine, and how they are told apart."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from slipway.api import names
from slipway.core.model.parts import Body

LABEL_PARTS: Final = f"{names.GROUP}/parts"
"""On the worker of a pod of several containers: the others, as KIND:NAME in the order of the pod."""
LABEL_PART_OF: Final = f"{names.GROUP}/part-of"
"""On the others: the name of the pod."""
ALWAYS: Final = "Always"


class Kind(StrEnum):
    """What a container is in its pod, beside the worker."""

    SANDBOX = "sandbox"
    """Runs nothing. It has the network, the IPC and the empty volumes that the others share, as in a pod."""
    INIT = "init"
    """Runs to its end before the next one starts."""
    SIDECAR = "sidecar"
    """Starts among those, and Docker starts it again as long as the worker runs."""
    BESIDE = "beside"
    """Starts with the worker."""


class Part(NamedTuple):
    """A container beside the worker."""

    kind: Kind
    name: str
    """That of the container in its pod; empty for the sandbox."""

    def container(self, pod: str) -> str:
        """Its name on the engine. No container of a pod has such a name, and no pod."""
        return f"{pod}.{self.name}" if self.name else f"{pod}_sandbox"


SANDBOX: Final = Part(Kind.SANDBOX, "")


def is_head(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels is a Ray head."""
    return labels.get(names.LABEL_ROLE) == names.ROLE_HEAD


def own_containers(spec: Body) -> Iterator[tuple[Part, Body]]:
    """The containers beside the worker, in the order in which they start, without the one that the engine replaces."""
    for one in spec.get("initContainers", ()):
        if one["name"] != names.WORKSPACE_CONTAINER:
            yield Part(Kind.SIDECAR if one.get("restartPolicy") == ALWAYS else Kind.INIT, one["name"]), one
    program = worker_of(spec)
    for one in spec["containers"]:
        if one is not program:
            yield Part(Kind.BESIDE, one["name"]), one


def worker_of(spec: Body) -> Body:
    """The container whose end is the end of the pod: the worker, or the driver of a Ray head, which has no worker."""
    named: dict[str, Body] = {container["name"]: container for container in spec["containers"]}
    return named.get(names.WORKER_CONTAINER) or named[names.DRIVER_CONTAINER]


def all_containers(spec: Body) -> Iterator[Body]:
    """The containers that the engine runs, the worker first."""
    yield worker_of(spec)
    yield from (one for _, one in own_containers(spec))


def label(parts: Iterable[Part]) -> str:
    """The value of LABEL_PARTS."""
    return ",".join(f"{part.kind}:{part.name}" for part in parts)


def parts_of(labels: Mapping[str, Any]) -> tuple[Part, ...]:
    """The containers beside a worker by its labels, the sandbox first; none for a pod of one container."""
    said = str(labels.get(LABEL_PARTS, ""))
    pairs = (one.partition(":") for one in said.split(",") if one)
    return tuple(Part(Kind(kind), name) for kind, _, name in pairs)
