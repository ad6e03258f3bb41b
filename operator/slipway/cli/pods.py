"""`slipway exec`, `port-forward`, `top`: into the hosts of a job."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click
import msgspec
from rich.table import Table

from slipway.api import names
from slipway.api.places import HEAD, pod_name, worker
from slipway.cli.common import NOTHING_TO_TALK_TO, Failure, one_job, output_option, print_data, run, targeted
from slipway.client.errors import NotFound, NotStarted
from slipway.client.pictures.output import console
from slipway.client.target import ClusterTarget, answered


class _Usage(msgspec.Struct):
    usage: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    name: str


class Metrics(msgspec.Struct):
    """What the metrics server measured of a pod."""

    metadata: _Metadata
    containers: list[_Usage] = []


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
    """Run COMMAND in a host of a job: slipway exec train --slice 1 -- nvidia-smi. Runs kubectl exec."""
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
    """Make ports of a host reachable here, such as 6006 or 8080:80. Runs kubectl port-forward."""
    pod = run(_pod(target, name, slice_index, host, head))
    _kubectl(target, "port-forward", f"pod/{pod}", *ports)


@click.command()
@one_job
@output_option("json", "yaml")
@targeted
def top(target: ClusterTarget, name: str, output: str | None) -> None:
    """Show what the hosts of a job use of CPU and memory, as the cluster's metrics server measured it."""

    async def work() -> list[Metrics]:
        async with target.client() as client:
            job = await client.get(name)
            path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{client.resolved_namespace}/pods"
            selector = f"{names.LABEL_JOB_NAME}={name},{names.LABEL_ATTEMPT}={job.status.attempt}"
            try:
                with answered():
                    return (await client.api.list(path, Metrics, label_selector=selector)).items
            except NotFound:
                raise Failure("this cluster has no metrics server", NOTHING_TO_TALK_TO) from None

    rows = usage(run(work()))
    if output:
        print_data(rows, output)
    else:
        console().print(usage_table(rows))


def usage(metrics: Iterable[Metrics]) -> list[dict[str, str]]:
    """A row for each pod, by name: its CPU and memory, or those of each container where there are several."""
    rows = (
        {
            "pod": one.metadata.name,
            "cpu": " + ".join(container.usage.get("cpu", "-") for container in one.containers),
            "memory": " + ".join(container.usage.get("memory", "-") for container in one.containers),
        }
        for one in metrics
    )
    return sorted(rows, key=lambda row: row["pod"])


def usage_table(rows: Iterable[Mapping[str, str]]) -> Table:
    """The rows for people."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("pod", "cpu", "memory"):
        shown.add_column(column.upper(), no_wrap=True)
    for row in rows:
        shown.add_row(*row.values())
    return shown
