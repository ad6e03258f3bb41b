"""`slipway exec`, `port-forward`: into the hosts of a job."""

import os
import shutil
import sys
from typing import Any

import click

from slipway.api import names
from slipway.api.places import HEAD, pod_name, worker
from slipway.cli.common import NOTHING_TO_TALK_TO, Failure, one_job, run, targeted
from slipway.client.cluster_client import ClusterTarget
from slipway.client.errors import NotStarted


async def _pod(target: ClusterTarget, name: str, slice_index: int, host: int, head: bool) -> str:
    async with target.client() as client:
        job = await client.get(name)
        if job.status.attempt is None or job.over:
            raise NotStarted(f"SliceJob {name} is {job.phase}: it has no pods that run")
        if not head and (slice_index >= job.slices or host >= job.hosts):
            raise Failure(f"SliceJob {name} has slices 0 to {job.slices - 1} and hosts 0 to {job.hosts - 1}", 2)
        return pod_name(name, job.status.attempt, HEAD if head else worker(slice_index, host))


def _kubectl(target: ClusterTarget, *arguments: str) -> None:
    """Become kubectl: terminals, signals and upgrades of connections are its trade."""
    program = shutil.which("kubectl")
    if program is None:
        raise Failure("kubectl is not on the PATH, and this command runs it", NOTHING_TO_TALK_TO)
    where = ["--namespace", target.resolved_namespace]
    where += ["--kubeconfig", str(target.kubeconfig)] if target.kubeconfig else []
    where += ["--context", target.context] if target.context else []
    os.execv(program, [program, *where, *arguments])


def _placed(command: Any) -> Any:
    """Adds the options that choose a host."""
    command = click.option("--slice", "slice_index", type=click.IntRange(0), default=0, help="Slice.")(command)
    command = click.option("--host", type=click.IntRange(0), default=0, help="Host in the slice.")(command)
    return click.option("--head", is_flag=True, help="The Ray head.")(command)


@click.command("exec")
@one_job
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_placed
@targeted
def exec_(target: ClusterTarget, name: str, command: tuple[str, ...], slice_index: int, host: int, head: bool) -> None:
    """Run COMMAND in a host of a job: slipway exec train --slice 1 -- nvidia-smi. Runs kubectl exec.

    It exits as kubectl does; 3 where there is no kubectl, or no pod that runs.
    """
    pod = run(_pod(target, name, slice_index, host, head))
    terminal = ["-it"] if sys.stdin.isatty() else ["-i"]
    container = names.RAY_CONTAINER if head else names.WORKER_CONTAINER
    _kubectl(target, "exec", *terminal, pod, "-c", container, "--", *command)


@click.command("port-forward")
@one_job
@click.argument("ports", nargs=-1, required=True)
@_placed
@targeted
def port_forward(
    target: ClusterTarget, name: str, ports: tuple[str, ...], slice_index: int, host: int, head: bool
) -> None:
    """Make ports of a host reachable here, such as 6006 or 8080:80. Runs kubectl port-forward.

    It exits as kubectl does; 3 where there is no kubectl, or no pod that runs.
    """
    pod = run(_pod(target, name, slice_index, host, head))
    _kubectl(target, "port-forward", f"pod/{pod}", *ports)
