"""`slipway submit`, `render`, `validate`: jobs from files and flags."""

import asyncio
import fnmatch
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from slipway.cli.common import USAGE, Failure, code_of, output_option, print_data, run, targeted
from slipway.client.asynchronous import AsyncClient, Submitted
from slipway.client.errors import SlipwayError
from slipway.client.manifest import Flags, InvalidManifest, Manifest, check, documents, environment, manifest
from slipway.client.operators import unserved
from slipway.client.target import Target
from slipway.cluster.errors import SlipwayClusterError

Command = Callable[..., Any]
_STDIN: Final = "-"


def job_options(command: Command) -> Command:
    """Adds the options that describe a job without a file; the command gets them as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Final = (
    click.option("-f", "--filename", "files", multiple=True, help="Manifest of SliceJobs; - is standard input."),
    click.option("--image", help="Container image."),
    click.option("--name", help="Name of the job.  [default: the image's name and a suffix]"),
    click.option("--type", "type_", help="TPU type of a slice, such as v5litepod-16.  [default: CPU nodes]"),
    click.option("--slices", type=click.IntRange(1), help="Number of slices."),
    click.option("--hosts", type=click.IntRange(1), help="Hosts of a CPU job."),
    click.option("--spot", is_flag=True, help="Run on spot nodes."),
    click.option("-e", "--env", multiple=True, metavar="NAME[=VALUE]", help="Environment variable; NAME alone copies."),
    click.option("--env-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="NAME=VALUE lines."),
    click.option("--copy-env", multiple=True, metavar="PATTERN", help="Copy these variables, such as 'WANDB_*'."),
    click.option("--mount", "mounts", multiple=True, help="type=bind|volume|tmpfs,src=…,dst=…[,readonly]."),
    click.option("--shm-size", help="Size of /dev/shm, such as 16Gi."),
    click.option("--workdir", help="Working directory."),
    click.option("--service-account", help="Service account of the pods."),
    click.option("--priority-class", help="Priority class of the pods."),
    click.option("--max-failures", type=click.IntRange(0), help="Failures before the job fails."),
    click.option("--max-preemptions", type=click.IntRange(0), help="Preemptions before the job is given up."),
    click.argument("command", nargs=-1, type=click.UNPROCESSED),
)


def manifests(target: Target, files: Sequence[str], given: dict[str, Any]) -> list[Manifest]:
    """The jobs that files or flags describe, checked.

    Raises:
        Failure: with exit code 2, naming the file and the field.
    """
    try:
        if files:
            if extra := sorted(name for name, value in given.items() if value):
                raise InvalidManifest(f"-f and {', '.join(extra)} contradict each other: the manifest says it")
            bodies = [one for name in files for one in documents(_text(name), name)]
        else:
            bodies = [_from_flags(given)]
        for body in bodies:
            body["metadata"].setdefault("namespace", target.resolved_namespace)
            _check(body)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    return bodies


def _check(body: Manifest) -> None:
    try:
        check(body)
    except InvalidManifest as error:
        raise InvalidManifest(f"SliceJob {body['metadata']['name']}: {error}") from error


def _text(name: str) -> str:
    if name == _STDIN:
        return sys.stdin.read()
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidManifest(f"{name} cannot be read: {error}") from error


def _from_flags(given: dict[str, Any]) -> Manifest:
    if not given["image"]:
        raise InvalidManifest("nothing to submit: give -f FILE, or --image and the command after --")
    flags = Flags(
        image=given["image"], command=given["command"], type=given["type_"], slices=given["slices"],
        hosts=given["hosts"], spot=given["spot"], env=_environment(given), mounts=given["mounts"],
        shm_size=given["shm_size"], working_dir=given["workdir"], service_account=given["service_account"],
        priority_class=given["priority_class"], max_failures=given["max_failures"],
        max_preemptions=given["max_preemptions"],
    )  # fmt: skip
    return manifest(given["name"] or new_name(given["image"]), flags.spec())


def new_name(image: str) -> str:
    """A name of its own for a job of that image."""
    from slipway.api.names import MAX_NAME_LENGTH

    base = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    word = "".join(one if one.isalnum() else "-" for one in base.lower()).strip("-")
    word = word if word[:1].isalpha() else f"job-{word}"
    suffix = secrets.token_hex(3)
    return f"{word[: MAX_NAME_LENGTH - len(suffix) - 1].rstrip('-')}-{suffix}"


def _environment(given: dict[str, Any]) -> dict[str, str]:
    """Copied variables, then those of the file, then those given one by one: the last one wins (T-15)."""
    found = {name: os.environ[name] for name in sorted(os.environ) if _matches(name, given["copy_env"])}
    if given["env_file"] is not None:
        found |= environment(given["env_file"].read_text(), str(given["env_file"]))
    for text in given["env"]:
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise InvalidManifest(f"--env {name}: this shell has no such variable; write {name}=VALUE")
        found[name] = value if equals else os.environ[name]
    return found


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@click.command()
@job_options
@click.option("--dry-run", type=click.Choice(("client", "server")), help="Check only, here or there.")
@output_option("json", "yaml", "name")
@targeted
def submit(target: Target, files: tuple[str, ...], dry_run: str | None, output: str | None, **given: Any) -> None:
    """Create jobs from manifests, or one from flags.

    For example: slipway submit --image IMAGE --type v5litepod-16 --slices 2 -- python train.py

    The same job again changes nothing. Exit codes: 0 every job exists, 2 a manifest is wrong, 3 no API server.
    """
    bodies = manifests(target, files, given)
    if dry_run == "client":
        for body in bodies:
            click.echo(f"slicejob {body['metadata']['name']} is valid (nothing was sent)")
        return

    async def work() -> tuple[list[Any], list[str]]:
        async with AsyncClient(target.namespace, target.kubeconfig, target.context) as client:
            send = (client.submit(body, dry_run=dry_run is not None) for body in bodies)
            results = await asyncio.gather(*send, return_exceptions=True)
            return results, await _unserved(client, results)

    results, warnings = run(work())
    for words in warnings:
        click.echo(f"Warning: {words}", err=True)
    _tell(bodies, results, output, " (dry run)" if dry_run else "")


async def _unserved(client: AsyncClient, results: Sequence[Any]) -> list[str]:
    """Namespaces of these jobs that no operator serves, with the reason; a warning keeps nobody from submitting."""
    namespaces = sorted({one.job.namespace for one in results if isinstance(one, Submitted)})
    try:
        said = [await unserved(client.api, namespace, datetime.now(UTC)) for namespace in namespaces]
    except SlipwayClusterError:
        return []
    return [words for words in said if words]


def _tell(bodies: Sequence[Manifest], results: Sequence[Any], output: str | None, suffix: str) -> None:
    """Say what became of each; the exit code is that of the first that went wrong."""
    code = 0
    for body, result in zip(bodies, results, strict=True):
        name = body["metadata"]["name"]
        if isinstance(result, SlipwayError):
            click.echo(f"Error: SliceJob {name}: {result}", err=True)
            code = code or code_of(result)
        elif isinstance(result, BaseException):
            raise result
        elif output == "name":
            click.echo(f"slicejob.slipway.dev/{name}")
        elif output:
            about = {"name": name, "namespace": result.job.namespace, "uid": result.job.uid}
            print_data({"metadata": about, "spec": result.job.stored.spec}, output)
        else:
            click.echo(f"slicejob {name} {'created' if result.created else 'unchanged'}{suffix}")
    raise SystemExit(code)


@click.command()
@job_options
@output_option("json", "yaml")
@targeted
def render(target: Target, files: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Print the manifest that `submit` with the same options would send, for GitOps. Nothing is sent."""
    import yaml

    bodies = manifests(target, files, given)
    if output == "json":
        print_data(bodies[0] if len(bodies) == 1 else bodies, output)
    else:
        click.echo(yaml.safe_dump_all(bodies, sort_keys=False), nl=False)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--server", is_flag=True, help="Have the API server check them, too.")
@targeted
def validate(target: Target, files: tuple[str, ...], server: bool) -> None:
    """Check manifests as the operator would; with --server also as the API server does. Nothing is stored.

    Exit codes: 0 all are valid, 2 one is not.
    """
    given = dict.fromkeys(("image",))
    bodies = manifests(target, files, given)
    if server:

        async def work() -> None:
            async with AsyncClient(target.namespace, target.kubeconfig, target.context) as client:
                for body in bodies:
                    await client.submit(body, dry_run=True)

        run(work())
    for body in bodies:
        click.echo(f"slicejob {body['metadata']['name']} is valid")
