"""What the API server shows of Kueue's queues and flavors, as far as decisions need it, and which quota is unused."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import msgspec

from slipway.api.resources import amount
from slipway.core.model.parts import ObjectMeta, Part

Quota = dict[str, dict[str, Decimal]]
"""Amounts by flavor, and of each by resource."""
_Amounts = dict[tuple[str, str], Decimal]
"""The same by both at once."""
_NOTHING: Final = Decimal(0)


class FlavorSpec(Part, frozen=True):
    """Which nodes a ResourceFlavor stands for."""

    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_name: str = ""


class ResourceFlavor(Part, frozen=True):
    """A kind of nodes that quota is counted for."""

    metadata: ObjectMeta
    spec: FlavorSpec = FlavorSpec()


class LocalQueueSpec(Part, frozen=True):
    """Where a LocalQueue leads to."""

    cluster_queue: str = ""


class QueueCondition(Part, frozen=True):
    """A condition of a queue."""

    type: str = ""
    status: str = ""


class LocalQueueStatus(Part, frozen=True):
    """What Kueue last said of a LocalQueue."""

    conditions: tuple[QueueCondition, ...] = ()


class LocalQueue(Part, frozen=True):
    """A queue of a namespace."""

    metadata: ObjectMeta
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class ResourceQuota(Part, frozen=True):
    """Quota of one resource in one flavor, as quantities."""

    name: str = ""
    nominal_quota: str | int = 0
    borrowing_limit: str | int | None = None
    lending_limit: str | int | None = None


class FlavorQuotas(Part, frozen=True):
    """Quotas of the resources of one flavor."""

    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Part, frozen=True):
    """Flavors that a ClusterQueue tries one after the other."""

    flavors: tuple[FlavorQuotas, ...] = ()
    covered_resources: tuple[str, ...] = ()


class ClusterQueueSpec(Part, frozen=True):
    """What a ClusterQueue has quota of, and with whom it shares that."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    cohort: str = ""
    """The cohort by the name that v1beta1 has for the field."""


class ResourceUsage(Part, frozen=True):
    """How much of a resource is reserved, with what is borrowed."""

    name: str = ""
    total: str | int = 0


class FlavorUsage(Part, frozen=True):
    """How much of the resources of a flavor is reserved."""

    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


class ClusterQueueStatus(Part, frozen=True):
    """What Kueue last said of a ClusterQueue."""

    conditions: tuple[QueueCondition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = 0


class ClusterQueue(Part, frozen=True):
    """A queue of the cluster."""

    metadata: ObjectMeta
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()

    @property
    def cohort(self) -> str:
        """Name of the cohort; empty without one."""
        return self.spec.cohort_name or self.spec.cohort


class PriorityClass(Part, frozen=True):
    """A WorkloadPriorityClass."""

    metadata: ObjectMeta
    value: int = 0


def is_active(queue: ClusterQueue | LocalQueue) -> bool:
    """Whether a queue takes Workloads: it is not stopped, and everything is there that it names."""
    return not any(condition.type == "Active" and condition.status == "False" for condition in queue.status.conditions)


def unused(queue: ClusterQueue, all_queues: Iterable[ClusterQueue]) -> Quota:
    """Quota of a ClusterQueue that nobody has reserved, with what its cohort would lend it.

    It is empty while the queue is stopped, or a Workload waits in one of the queues of the cohort. Cohort objects, with
    quota of their own and cohorts above, are not read.
    """
    if not is_active(queue):
        return {}
    name = queue.metadata.name
    others = [one for one in all_queues if one.cohort and one.cohort == queue.cohort and one.metadata.name != name]
    if any(one.status.pending_workloads for one in (queue, *others)):
        return {}
    free, found = _free(queue), Quota()
    lent = [_lent(other) for other in others]
    for flavor, quota in _quotas(queue):
        key = flavor, quota.name
        limit = amount(quota.borrowing_limit)
        room = free[key] + sum((one.get(key, _NOTHING) for one in lent), _NOTHING)
        found.setdefault(flavor, {})[quota.name] = room if limit is None else min(room, free[key] + limit)
    return found


def _quotas(queue: ClusterQueue) -> Iterable[tuple[str, ResourceQuota]]:
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                yield flavor.name, quota


def _free(queue: ClusterQueue) -> _Amounts:
    """Nominal quota less what is reserved; less than 0 where more is borrowed."""
    reserved = {
        (flavor.name, resource.name): amount(resource.total) or _NOTHING
        for flavor in queue.status.flavors_reservation
        for resource in flavor.resources
    }
    return {
        (flavor, quota.name): (amount(quota.nominal_quota) or _NOTHING) - reserved.get((flavor, quota.name), _NOTHING)
        for flavor, quota in _quotas(queue)
    }


def _lent(queue: ClusterQueue) -> _Amounts:
    """What a ClusterQueue lends to others of its cohort; less than 0 where it borrows itself."""
    free, found = _free(queue), _Amounts()
    for flavor, quota in _quotas(queue):
        key, limit = (flavor, quota.name), amount(quota.lending_limit)
        found[key] = free[key] if limit is None else min(free[key], limit)
    return found
