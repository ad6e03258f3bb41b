"""What runs in the pods of a job: the user's containers, or a Ray cluster around the user's entrypoint."""

from functools import lru_cache

from slipway.api.places import Place, worker
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import RayState
from slipway.core.manifests.containers import memory_limit
from slipway.core.manifests.hardware import Hardware, Variable
from slipway.core.manifests.peers import Peers
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod


class Runtime:
    """Containers: every pod is a worker that runs the user's program."""

    needs_shm: bool = False
    """Whether /dev/shm must be larger than the 64 MB that a container has by default; Ray keeps its objects there."""
    waits_for_clients: bool = False
    """Whether the job runs no program of its own."""

    def problem(self, template: Body, coordinator_port: int) -> tuple[str, str] | None:
        """Reason and message of what no rule of the schema can see in a spec."""
        return None

    def places(self, slices: int, hosts: int) -> frozenset[Place]:
        """The places of the pods of an attempt."""
        return workers(slices, hosts)

    def runs_program(self, pod: Pod) -> bool:
        """Whether the user's program runs in that pod, and its end is that of the pod."""
        return True

    def memory_limit(self, pod: Pod, spec: SliceJobSpec) -> str | int | None:
        """The most memory that the container may use whose end is the end of that pod."""
        return memory_limit(spec)

    def objects(self, job: Job) -> tuple[Body, ...]:
        """The objects that must exist before the first pod of an attempt, besides host lists."""
        return ()

    def token(self, job: Job) -> Body | None:
        """The Secret, without its token, that must exist before the first pod as well; after `objects`."""
        return None

    def services(self, peers: Peers) -> tuple[Body, ...]:
        """The Services of an attempt."""
        return peers.services()

    def state(self, job: Job) -> RayState | None:
        """What the status says of the cluster around the program."""
        return None

    def running(self, attempt: int, hosts: int) -> str:
        """Message of an attempt all of whose pods run."""
        return f"all {hosts} hosts of attempt {attempt} run"

    def succeeded(self, attempt: int, hosts: int) -> str:
        """Message of an attempt that has succeeded."""
        return f"all {hosts} hosts of attempt {attempt} exited 0" if hosts > 1 else "the host exited 0"

    def volumes(self, job: Job) -> list[Body]:
        """Volumes of every pod besides the job's own."""
        return []

    def mounts(self) -> list[Body]:
        """Where these are mounted."""
        return []

    def worker_variables(self, peers: Peers, slice_index: int, hardware: Hardware) -> list[Variable]:
        """Variables that the workers of a slice have besides those of any worker."""
        return []

    def worker_fields(self) -> Body:
        """Further fields of the workers' container."""
        return {}

    def worker_command(self, peers: Peers, place: Place, hardware: Hardware) -> list[str] | None:
        """The command of a worker; None where the spec gives it."""
        return None

    def head(self, peers: Peers, hardware: Hardware, common: Body, container: Body) -> Body:
        """The PodSpec of the head, given what it shares with the workers' pods, and with their container."""
        raise ValueError("only a Ray cluster has a head")


@lru_cache(maxsize=64)
def workers(slices: int, hosts: int) -> frozenset[Place]:
    """The places of the workers of an attempt."""
    return frozenset(worker(slice_index, host) for slice_index in range(slices) for host in range(hosts))
