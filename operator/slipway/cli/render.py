"""`slipway render`: what `submit` would send, and what an engine on this machine would be asked for."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from slipway.api.names import KIND
from slipway.api.profile import PROFILE_KIND
from slipway.cli.common import USAGE, Failure, output_option, print_data, targeted
from slipway.cli.engine_options import OPTIONS, wishes_of
from slipway.cli.submit import bodies_of, described, job_options, manifests
from slipway.cli.value_sources import Value, values
from slipway.client.manifests import kubectl_yaml
from slipway.client.pictures.console import console
from slipway.client.target import Target


@click.command()
@job_options
@click.option("--explain", is_flag=True, help="Print each value and where it comes from; secrets are hidden.")
@click.option("--docker", is_flag=True, help="Print the docker commands of its containers, one for each host.")
@output_option("json", "yaml")
@targeted
def render(
    target: Target, files: tuple[str, ...], explain: bool, docker: bool, output: str | None, **given: Any
) -> None:
    """Print the manifest that `submit` with the same options would send, for GitOps. Nothing is sent.

    --explain prints its values instead, and those that the API server and the operator add; and those of its
    SliceJobProfile, where that is among the files.

    --docker prints what `slipway local` would ask this machine's engine for, and takes the options of that: --network,
    --ulimit, --device, --profile and --without-devices.
    """
    import yaml

    if docker:
        if explain:
            raise click.UsageError("--explain and --docker contradict each other: give one.")
        _print_docker(files, given, output)
        return
    for option in OPTIONS:
        if given.pop(str(option.name)) not in (None, (), False):
            raise click.UsageError(f"{option.opts[0]} is for the containers that --docker prints: give --docker, too.")
    if explain:
        jobs, _ = described(target, files, given, (KIND, PROFILE_KIND))
        bodies_of(jobs)
        _explain([values(*job) for job in jobs], output)
        return
    bodies = manifests(target, files, given)
    if output == "json":
        print_data(bodies[0] if len(bodies) == 1 else bodies, output)
    else:
        click.echo(yaml.dump_all(bodies, Dumper=kubectl_yaml.Dumper, sort_keys=False), nl=False)


# The options that `slipway local` has, too.
render.params += OPTIONS


def _print_docker(files: Sequence[str], given: dict[str, Any], output: str | None) -> None:
    """The commands that `slipway local` would have the engine carry out; as data one record for each job (T-39)."""
    from slipway.local.client.target import LocalTarget
    from slipway.local.conversion.docker_run import docker_run
    from slipway.local.submission import Refused, rendered

    wishes = wishes_of(given, files)
    try:
        found = {body["metadata"]["name"]: rendered(body, wishes) for body in manifests(LocalTarget(), files, given)}
    except Refused as error:
        raise Failure(str(error), USAGE) from error
    if not output:
        click.echo("\n".join(shlex.join(docker_run(request)) for ones in found.values() for request in ones))
        return
    records = [
        {"name": name, "containers": [{"name": request.name, "argv": docker_run(request)} for request in ones]}
        for name, ones in found.items()
    ]
    print_data(records[0] if len(records) == 1 else records, output)


def _explain(jobs: Sequence[Sequence[Value]], output: str | None) -> None:
    if output:
        rows = [[asdict(value) for value in job] for job in jobs]
        print_data(rows[0] if len(rows) == 1 else rows, output)
        return
    out = console()
    for number, job in enumerate(jobs):
        if number:
            out.print()
        out.print(explanation(job))


def explanation(job: Sequence[Value]) -> Table:
    """The values of a job as a table: field, value, who says so."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("FIELD", "VALUE", "FROM"):
        shown.add_column(column, no_wrap=column == "FIELD", overflow="fold")
    for one in job:
        value = one.value if isinstance(one.value, str) else json.dumps(one.value)
        shown.add_row(Text(one.field), Text(value), Text(one.source))
    return shown
