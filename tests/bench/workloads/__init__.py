"""What systems are put through: one module for each kind."""

from tests.bench.workloads.base import Turn, Workload
from tests.bench.workloads.create import Create
from tests.bench.workloads.finish import Finish
from tests.bench.workloads.rest import Rest
from tests.bench.workloads.restart import Restart
from tests.bench.workloads.steady import Steady

__all__ = ["Create", "Finish", "Rest", "Restart", "Steady", "Turn", "Workload"]
