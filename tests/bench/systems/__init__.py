"""What is measured: one module and one class for each system."""

from tests.bench.systems.base import Job, Loss, ReplicatedSystem, Shape, System
from tests.bench.systems.ceiling import Ceiling, CeilingWithService
from tests.bench.systems.jobset import JobSet
from tests.bench.systems.kuberay import KubeRay
from tests.bench.systems.slipway import Slipway

SYSTEMS: dict[str, type[System]] = {one.name: one for one in (Ceiling, CeilingWithService, Slipway, JobSet, KubeRay)}

__all__ = ["SYSTEMS", "Job", "Loss", "ReplicatedSystem", "Shape", "System"]
