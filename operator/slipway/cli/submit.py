"""`slipway submit` and `validate`: jobs from files and flags."""

import asyncio
import fnmatch
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click

from slipway.api.gpus import GpuVendor
from slipway.api.names import KIND
from slipway.api.profile import DEFAULT_PROFILE, PROFILE_KIND
from slipway.cli.common import USAGE, Failure, code_of, output_option, print_data, run, targeted
from slipway.cli.gpus import ChosenGpus, Gpus, give
from slipway.cli.value_sources import Sources
from slipway.client.cluster_client import ClusterTarget
from slipway.client.errors import ClusterError, SlipwayError
from slipway.client.manifests.reading import (
    Flags,
    InvalidManifest,
    Manifest,
    check,
    check_profile,
    documents,
    environment,
    last_word,
    manifest,
    new_name,
    warnings,
)
from slipway.client.target import Target
from slipway.client.verbs import Submitted, Verbs
from slipway.core.model.site import Profile

T = TypeVar("T")
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
    click.option("--gpus", type=Gpus(), help="GPUs of each host; on this machine also which, such as 0,1."),
    click.option("--gpu-vendor", type=click.Choice((*get_args(GpuVendor), "auto")), help="Vendor of the GPUs."),
    click.option("--gpu-model", help="Model of the GPUs by its node label, such as nvidia-l4."),
    click.option("--hosts", type=click.IntRange(1), help="Hosts of a CPU or GPU job."),
    click.option("--spot", is_flag=True, help="Run on spot nodes, with --type or --gpus."),
    click.option("-e", "--env", multiple=True, metavar="NAME[=VALUE]", help="Environment variable; NAME alone copies."),
    click.option("--env-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="NAME=VALUE lines."),
    click.option("--copy-env", multiple=True, metavar="PATTERN", help="Copy these variables, such as 'WANDB_*'."),
    click.option("--mount", "mounts", multiple=True, help="type=bind|volume|tmpfs,src=…,dst=…[,readonly]."),
    click.option("--shm-size", help="Size of /dev/shm in Docker's units, such as 512m or 16g."),
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
        Failure: with exit code 2, naming the file and the field; with 3 where the kubeconfig cannot be read.
    """
    return bodies_of(described(target, files, given)[0])


Described = tuple[Manifest, Sources, Profile | None]
"""A job, who says what of it by the beginnings of paths, and its profile where that is among the files."""


def bodies_of(jobs: Sequence[Described]) -> list[Manifest]:
    """The jobs alone; what has no effect in them is told on standard error."""
    for body, _, profile in jobs:
        for words in warnings(body, profile):
            click.echo(f"Warning: SliceJob {body['metadata']['name']}: {words}", err=True)
    return [body for body, *_ in jobs]


def described(
    target: Target, files: Sequence[str], given: dict[str, Any], kinds: Sequence[str] = (KIND,)
) -> tuple[list[Described], list[Manifest]]:
    """The jobs, and the profiles that stand beside them in the files."""
    try:
        if files:
            gpus = _gpus_for(target, given)
            if extra := sorted(name for name, value in given.items() if value not in (None, ()) and value is not False):
                raise InvalidManifest(f"-f and {', '.join(extra)} contradict each other: the manifest says it")
            found = [
                (document, Sources({(): name})) for name in files for document in documents(_text(name), name, kinds)
            ]
            for body, sources in found:
                if gpus is not None and body["kind"] == KIND:
                    give(body.get("spec"), gpus)
                    sources["spec", "accelerator", "gpu", "count"] = "--gpus"
        else:
            found = [(_from_flags(given, target.folder), _options(given))]
        for body, sources in found:
            if not body["metadata"].get("namespace"):
                body["metadata"]["namespace"] = target.resolved_namespace
                sources["metadata", "namespace"] = "--namespace" if target.namespace else "the context"
        profiles = {_key(body): (body, _of(body, check_profile)) for body, _ in found if body["kind"] == PROFILE_KIND}
        jobs = [(body, sources, _profile_of(body, profiles)) for body, sources in found if body["kind"] == KIND]
        for body, _, profile in jobs:
            _of(body, partial(check, settings=target.settings, profile=profile))
    except ClusterError as error:
        raise Failure(str(error), code_of(error)) from error
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    return jobs, [body for body, _ in profiles.values()]


def _gpus_for(target: Target, given: dict[str, Any]) -> int | ChosenGpus | None:
    """Takes the GPUs of this machine out of the flags, which jobs of its manifests get; None where there are none."""
    gpus: int | ChosenGpus | None = given.get("gpus")
    if target.folder is None or (isinstance(gpus, ChosenGpus) and not gpus.taken):
        return None
    given.pop("gpus", None)
    return gpus


def _key(body: Manifest) -> tuple[str, str]:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _profile_of(job: Manifest, profiles: dict[tuple[str, str], tuple[Manifest, Profile]]) -> Profile | None:
    spec = job.get("spec")
    name = spec.get("profile") if isinstance(spec, dict) else None
    _, profile = profiles.get((job["metadata"]["namespace"], str(name or DEFAULT_PROFILE)), (None, None))
    return profile


def _of(body: Manifest, checked: Callable[[Manifest], T]) -> T:
    """What a check finds; what it refuses with the name of the object."""
    try:
        return checked(body)
    except InvalidManifest as error:
        raise InvalidManifest(f"{body['kind']} {body['metadata']['name']}: {error}") from error


def _text(name: str) -> str:
    if name == _STDIN:
        return sys.stdin.read()
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidManifest(f"{name} cannot be read: {error}") from error


def _from_flags(given: dict[str, Any], folder: Path | None) -> Manifest:
    if not given["image"]:
        raise InvalidManifest("nothing to submit: give -f FILE, or --image and the command after --")
    if isinstance(given["gpus"], ChosenGpus):
        raise InvalidManifest(f"--gpus {given['gpus'].text}: a cluster chooses the GPUs: give a count, such as 2")
    flags = Flags(
        image=given["image"], command=given["command"], type=given["type_"], gpus=given["gpus"],
        gpu_vendor=given["gpu_vendor"], gpu_model=given["gpu_model"], slices=given["slices"],
        hosts=given["hosts"], spot=given["spot"], env=_environment(given), mounts=given["mounts"], folder=folder,
        shm_size=given["shm_size"], working_dir=given["workdir"], service_account=given["service_account"],
        priority_class=given["priority_class"], max_failures=given["max_failures"],
        max_preemptions=given["max_preemptions"],
    )  # fmt: skip
    return manifest(given["name"] or new_name(last_word(given["image"])), flags.spec())


_FIELDS: Final = {
    "accelerator.type": "--type",
    "accelerator.gpu.count": "--gpus",
    "accelerator.gpu.vendor": "--gpu-vendor",
    "accelerator.gpu.model": "--gpu-model",
    "accelerator.spot": "--spot",
    "command": "the command line",
    "volumes": "--mount",
    "volumeMounts": "--mount",
    "workingDir": "--workdir",
    "serviceAccountName": "--service-account",
    "priorityClassName": "--priority-class",
    "retries.maxFailures": "--max-failures",
    "retries.maxPreemptions": "--max-preemptions",
    "slices": "--slices",
    "hosts": "--hosts",
    "image": "--image",
    "shmSize": "--shm-size",
}
"""The option that gives a field of the spec."""


def _options(given: dict[str, Any]) -> Sources:
    """The option that gives each value, by the beginning of its path."""
    found: Sources = {("spec", *field.split(".")): option for field, option in _FIELDS.items()}
    found |= {("spec", "env", f"[{name}]"): option for name, _, option in _variables(given)}
    return found | {("metadata", "name"): "--name" if given["name"] else "made from --image"}


def _environment(given: dict[str, Any]) -> dict[str, str]:
    """The last of several values wins (T-15)."""
    return {name: value for name, value, _ in _variables(given)}


def _variables(given: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Copied variables, then those of the file, then those given one by one; each with the option that says so."""
    for name in sorted(os.environ):
        for pattern in given["copy_env"]:
            if fnmatch.fnmatchcase(name, pattern):
                yield name, os.environ[name], f"--copy-env {pattern}"
    if (file := given["env_file"]) is not None:
        for name, value in environment(file.read_text(), str(file)).items():
            yield name, value, f"--env-file {file}"
    for text in given["env"]:
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise InvalidManifest(f"--env {name}: this shell has no such variable; write {name}=VALUE")
        yield name, value if equals else os.environ[name], "--env"


@click.command()
@job_options
@click.option("--dry-run", type=click.Choice(("client", "server")), help="Check only, here or there.")
@output_option("json", "yaml", "name")
@targeted
def submit(target: Target, files: tuple[str, ...], dry_run: str | None, output: str | None, **given: Any) -> None:
    """Create jobs from manifests, or one from flags.

    For example: slipway submit --image IMAGE --type v5litepod-16 --slices 2 -- python train.py

    The same job again changes nothing. Exit codes: 0 every job exists, 2 a manifest is wrong or another job has its
    name, 3 no API server.
    """
    bodies = manifests(target, files, given)
    if dry_run == "client":
        for body in bodies:
            click.echo(f"slicejob {body['metadata']['name']} is valid (nothing was sent)")
        return

    async def work() -> tuple[list[Any], list[str]]:
        async with target.client() as client:
            send = (client.submit(body, dry_run=dry_run is not None) for body in bodies)
            results = await asyncio.gather(*send, return_exceptions=True)
            return results, await _unserved(client, results)

    results, unserved_words = run(work())
    for words in unserved_words:
        click.echo(f"Warning: {words}", err=True)
    _tell(bodies, results, output, " (dry run)" if dry_run else "")


async def _unserved(client: Verbs, results: Sequence[Any]) -> list[str]:
    """Why no operator serves some of these jobs; a warning keeps nobody from submitting."""
    kinds = sorted(
        {(result.job.namespace, result.job.operator_id) for result in results if isinstance(result, Submitted)}
    )
    try:
        said = [await client.unserved(space, datetime.now(UTC), operator) for space, operator in kinds]
    except ClusterError:
        return []
    return [words for words in said if words]


def _tell(bodies: Sequence[Manifest], results: Sequence[Any], output: str | None, suffix: str) -> None:
    """Say what became of each; the exit code is that of the first that went wrong."""
    code, stored = 0, []
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
            stored.append({"metadata": about, "spec": result.job.stored.spec})
        else:
            click.echo(f"slicejob {name} {'created' if result.created else 'unchanged'}{suffix}")
    if output and stored:
        # One document: a list where several jobs were asked for, however many were taken.
        print_data(stored if len(bodies) > 1 else stored[0], output)
    raise SystemExit(code)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--server", is_flag=True, help="Have the API server check them, too.")
@targeted
def validate(target: ClusterTarget, files: tuple[str, ...], server: bool) -> None:
    """Check manifests as the operator would; with --server also as the API server does. Nothing is stored.

    SliceJobs are checked with the SliceJobProfiles that are among the files.

    Exit codes: 0 all are valid, 2 one is not.
    """
    given = dict.fromkeys(("image",))
    jobs, profiles = described(target, files, given, (KIND, PROFILE_KIND))
    bodies = bodies_of(jobs)
    if server:

        async def work() -> None:
            async with target.client() as client:
                for profile in profiles:
                    await client.check_profile(profile)
                for body in bodies:
                    await client.submit(body, dry_run=True)

        run(work())
    for body in (*profiles, *bodies):
        click.echo(f"{body['kind'].lower()} {body['metadata']['name']} is valid")
