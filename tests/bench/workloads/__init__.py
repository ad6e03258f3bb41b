"""What systems are put through: one module for each kind."""

from tests.bench.workloads.base import Turn, Workload
from tests.bench.workloads.churn import Churn
from tests.bench.workloads.create import Create
from tests.bench.workloads.finish import Finish
from tests.bench.workloads.mix import Mix
from tests.bench.workloads.queued import Queued
from tests.bench.workloads.rest import Rest
from tests.bench.workloads.restart import Restart
from tests.bench.workloads.rolling import Rolling
from tests.bench.workloads.steady import Steady
from tests.bench.workloads.takeover import Takeover

__all__ = [
    "Churn",
    "Create",
    "Finish",
    "Mix",
    "Queued",
    "Rest",
    "Restart",
    "Rolling",
    "Steady",
    "Takeover",
    "Turn",
    "Workload",
]
