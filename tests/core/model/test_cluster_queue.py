"""Which quota of a ClusterQueue is unused, as a job may have it beside its own."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from slipway.core.model.cluster_queue import ClusterQueue, unused

TPU = "google.com/tpu"


def queue(
    name: str = "own",
    *,
    quota: int | str = 64,
    used: int | str = 0,
    waiting: int = 0,
    active: str = "True",
    **more: Any,
) -> ClusterQueue:
    """A ClusterQueue with quota of one flavor; `more` are limits, and the cohort in the words of either version."""
    cohort = {field: more.pop(field) for field in ("cohortName", "cohort") if field in more}
    quotas = {"name": "v5e", "resources": [{"name": TPU, "nominalQuota": quota} | more]}
    usage = [{"name": "v5e", "resources": [{"name": TPU, "total": used, "borrowed": "0"}]}]
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {"resourceGroups": [{"flavors": [quotas]}]} | cohort,
            "status": {
                "conditions": [{"type": "Active", "status": active}],
                "flavorsReservation": usage,
                "pendingWorkloads": waiting,
            },
        },
        ClusterQueue,
    )


ALL = {"cohortName": "all"}
CASES: dict[str, tuple[ClusterQueue, tuple[ClusterQueue, ...], int | None]] = {
    "nobody has any": (queue(), (), 64),
    "quantities are read": (queue(quota="1k", used="500"), (), 500),
    "a part is used": (queue(used=48), (), 16),
    "all is used": (queue(used=64), (), 0),
    "somebody waits": (queue(used=48, waiting=1), (), None),
    "it is stopped": (queue(active="False"), (), None),
    "a queue without a cohort has nothing of others": (queue(used=64), (queue("other"),), 0),
    "of another cohort": (queue(used=64, **ALL), (queue("other", cohortName="night"),), 0),
    "another of the cohort lends": (queue(used=64, **ALL), (queue("other", used=16, **ALL),), 48),
    "the cohort in the words of v1beta1": (queue(used=64, cohort="all"), (queue("other", cohort="all"),), 64),
    "another of the cohort lends a part": (queue(used=64, **ALL), (queue("other", lendingLimit=16, **ALL),), 16),
    "another of the cohort borrows": (queue(used=16, **ALL), (queue("other", used=96, **ALL),), 16),
    "it may borrow less": (queue(used=64, borrowingLimit=32, **ALL), (queue("other", **ALL),), 32),
    "it has borrowed all it may": (queue(used=96, borrowingLimit=32, **ALL), (queue("other", **ALL),), 0),
    "somebody waits in another queue of the cohort": (queue(**ALL), (queue("other", waiting=1, **ALL),), None),
}


@pytest.mark.parametrize(("own", "others", "free"), CASES.values(), ids=CASES.keys())
def test_unused_quota(own: ClusterQueue, others: tuple[ClusterQueue, ...], free: int | None) -> None:
    assert unused(own, (own, *others)) == ({"v5e": {TPU: Decimal(free)}} if free is not None else {})
