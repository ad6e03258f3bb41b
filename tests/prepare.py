"""Makes what the tests need before any test runs: `python -m tests.prepare`.

On a fresh machine this builds Kubernetes, which takes minutes. Inside a fixture nobody would see how far it is, and
the time limit of a test would end it.
"""

from rich.console import Console

from slipway.demo.run import build_image
from slipway.local_cluster import binaries, components, packages
from slipway.local_cluster.kind.programs import PROGRAMS
from slipway.local_cluster.progress import for_console
from tests.bench.programs import CEILING
from tests.chart.conftest import helm_program
from tests.docker_engine.servers import PACKAGES as ENGINE
from tests.e2e.torch_image import build_image as build_torch_image
from tests.kueue.program import KUEUE
from tests.oldest_kubernetes.programs import OLDEST, SERVERS
from tests.operator_image import build_image as build_operator_image
from tests.ray.image import build_image as build_ray_image

if __name__ == "__main__":
    progress = for_console(Console())
    packages.ensure(packages.CONTROL_PLANE | packages.NODES | ENGINE, progress)
    binaries.ensure([*components.CONTROL_PLANE, *components.SIMULATED, *components.REAL, "kind"], progress, PROGRAMS)
    binaries.ensure(SERVERS, progress, OLDEST)
    build_image(progress)
    build_ray_image(progress)
    build_torch_image(progress)
    build_operator_image(progress)
    CEILING.ensure()
    KUEUE.ensure()
    helm_program()
