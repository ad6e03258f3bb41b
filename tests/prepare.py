"""Makes what the tests need before any test runs: `python -m tests.prepare`, with `--all` for those of `make test-all`.

On a fresh machine this builds Kubernetes, which takes minutes. Inside a fixture nobody would see how far it is, and
the time limit of a test would end it.
"""

import sys

from rich.console import Console

from slipway.demo.run import build_image
from slipway.devcluster.kind.programs import PROGRAMS
from slipway.devcluster.programs import binaries, components, packages
from slipway.devcluster.progress import StepReporter, for_console
from tests.bench.programs import CEILING
from tests.chart.conftest import helm_program
from tests.e2e.torch_image import build_image as build_torch_image
from tests.kueue.program import KUEUE
from tests.local.servers import PACKAGES as ENGINE
from tests.operator_image import build_image as build_operator_image
from tests.other_kubernetes.programs import OTHERS, SERVERS
from tests.ray.image import build_image as build_ray_image


def for_the_gate(progress: StepReporter) -> None:
    """What `make test` uses."""
    packages.ensure(packages.CONTROL_PLANE | packages.NODES | ENGINE, progress)
    binaries.ensure([*components.CONTROL_PLANE, *components.SIMULATED, *components.REAL], progress)
    build_image(progress)
    build_ray_image(progress)
    build_operator_image(progress)
    KUEUE.ensure()
    helm_program()


def for_the_rest(progress: StepReporter) -> None:
    """What `make test-all` uses besides."""
    binaries.ensure(["kind"], progress, PROGRAMS)
    for other in OTHERS.values():
        binaries.ensure(SERVERS, progress, other)
    build_torch_image(progress)
    CEILING.ensure()


if __name__ == "__main__":
    shown = for_console(Console())
    for_the_gate(shown)
    if "--all" in sys.argv:
        for_the_rest(shown)
