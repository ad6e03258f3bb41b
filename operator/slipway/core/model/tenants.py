"""Which pods occupy a node: those of SliceJobs, which the operator watches, and others, which it reads on demand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Tenant:
    """A SliceJob or a pod that takes up a node."""

    kind: str
    """`SliceJob` or `Pod`."""
    namespace: str
    name: str
    uid: str = ""
    """UID of the SliceJob."""
    priority: int = 0
    priority_class: str = ""
    """Its PriorityClass, if it names one."""
    since: datetime | None = None
    """Since when it has the node."""

    @property
    def title(self) -> str:
        """Its name, for people."""
        return f"{'pod ' if self.kind == 'Pod' else ''}{self.namespace}/{self.name}"

    @property
    def words(self) -> str:
        """Who it is, for people."""
        more = [f"priority {self.priority}"] if self.priority or self.priority_class else []
        more += [f"class {self.priority_class}"] if self.priority_class else []
        more += [f"since {self.since:%Y-%m-%dT%H:%M:%SZ}"] if self.since is not None else []
        return self.title + (f" ({', '.join(more)})" if more else "")


@dataclass(frozen=True, slots=True)
class Use:
    """What a pod requests of its node."""

    tenant: Tenant
    """Whose pod it is."""
    sizes: Mapping[str, Decimal]
    """Quantities by resource; one of `pods`."""


@dataclass(frozen=True, slots=True)
class Visitors:
    """The pods on one node, as they were read."""

    read_at: datetime
    pods: tuple[Tenant, ...] = ()
    """Those of others that request TPUs."""
    uses: tuple[Use, ...] = ()
    """What all pods that have not ended request, those of SliceJobs too."""
    unknown: bool = False
    """Whether they could not be read."""


class Tenants:
    """Who has which node, and which node pool. Nothing is known of it unless the pods of all jobs are seen."""

    def __init__(self, visitors: Mapping[str, Visitors] = MappingProxyType({})) -> None:
        """`visitors` are pods of others by node, where they were read."""
        self.visitors = visitors

    def on(self, node: str, since: datetime) -> Iterable[Tenant]:
        """The SliceJobs that have pods on a node, and the pods of others if they were read since that time."""
        visitors = self.visitors.get(node)
        return visitors.pods if visitors is not None and visitors.read_at >= since else ()

    def in_pool(self, pool: str, nodes: Sequence[str], since: datetime) -> Iterable[Tenant]:
        """Who has a node of a node pool, or pods that are pinned to it; `nodes` are the names of its nodes."""
        return chain.from_iterable(self.on(node, since) for node in nodes)


NOBODY: Final = Tenants()
"""Where it is not known who has the nodes."""
