"""`slipway top`: where the time of the jobs and of their chips went, or what the hosts of one job use now."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import click
import msgspec
from rich.table import Table

from slipway.api import names
from slipway.cli.common import NOTHING_TO_TALK_TO, Failure, job_names, output_option, print_data, run, targeted
from slipway.client.api_errors import as_client_errors
from slipway.client.cluster_client import ClusterTarget
from slipway.client.errors import NotFound, NotStarted
from slipway.client.model import JobState
from slipway.client.pictures.chip_hours import accounts, shares
from slipway.client.pictures.console import console


class _Usage(msgspec.Struct):
    usage: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    name: str


class Metrics(msgspec.Struct):
    """What the metrics server measured of a pod."""

    metadata: _Metadata
    containers: list[_Usage] = []


@click.command()
@click.argument("name", required=False, shell_complete=job_names)
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the jobs of every namespace.")
@click.option("-l", "--selector", default="", help="Show jobs with these labels only, as kubectl does.")
@output_option("json", "yaml")
@targeted
def top(target: ClusterTarget, name: str | None, all_namespaces: bool, selector: str, output: str | None) -> None:
    """Show where the time of the jobs and of their chips went.

    With NAME: what the hosts of that job use of CPU and memory, as the cluster's metrics server measured it.
    """
    if name is None:
        _top_of_jobs(target, all_namespaces, selector, output)
        return
    if all_namespaces or selector:
        raise click.UsageError("NAME names one job: it does not go with --all-namespaces or --selector.")
    rows = usage(run(_measured(target, name)))
    if output:
        print_data(rows, output)
    else:
        console().print(usage_table(rows))


def _top_of_jobs(target: ClusterTarget, all_namespaces: bool, selector: str, output: str | None) -> None:
    async def work() -> tuple[JobState, ...]:
        async with target.client() as client:
            return await client.list(all_namespaces=all_namespaces, label_selector=selector)

    found = shares(run(work()), datetime.now(UTC))
    if output:
        print_data([one.as_data() for one in found], output)
    else:
        console().print(accounts(found, namespaces=all_namespaces))


async def _measured(target: ClusterTarget, name: str) -> list[Metrics]:
    async with target.client() as client:
        job = await client.get(name)
        if job.status.attempt is None:
            raise NotStarted(f"SliceJob {name} is {job.phase}: it has no attempt{'' if job.over else ' yet'}")
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{client.resolved_namespace}/pods"
        selector = f"{names.LABEL_JOB_NAME}={name},{names.LABEL_ATTEMPT}={job.status.attempt}"
        try:
            with as_client_errors():
                return (await client.api.list(path, Metrics, label_selector=selector)).items
        except NotFound:
            raise Failure("this cluster has no metrics server", NOTHING_TO_TALK_TO) from None


def usage(metrics: Iterable[Metrics]) -> list[dict[str, str]]:
    """A row for each pod, by name: its CPU and memory, or those of each container where there are several."""
    rows = (
        {
            "pod": metric.metadata.name,
            "cpu": " + ".join(container.usage.get("cpu", "-") for container in metric.containers),
            "memory": " + ".join(container.usage.get("memory", "-") for container in metric.containers),
        }
        for metric in metrics
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
