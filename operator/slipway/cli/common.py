"""What commands about jobs share: which cluster, how to print, and exit codes."""

import asyncio
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import wraps
from inspect import unwrap
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from slipway.client import errors
from slipway.client.api_errors import NO_SLICEJOBS
from slipway.client.cluster_client import ClusterTarget
from slipway.client.pictures.escape import visible
from slipway.client.target import Target

P = ParamSpec("P")
T = TypeVar("T")
Command = Callable[..., Any]

FAILED: Final = 1
"""The job failed."""
USAGE: Final = 2
"""A file or an option is wrong; nothing was sent."""
NOTHING_TO_TALK_TO: Final = 3
"""No API server, no rights, no CRD; or no pod has started."""
NOT_FOUND: Final = 4
"""There is no such job."""
FINISHED: Final = 5
"""The job has ended already."""
TIMEOUT: Final = 124
"""The wait is over, and the job goes on."""
INTERRUPTED: Final = 130
"""Ctrl-C; the job goes on."""

_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (errors.WaitTimeout, TIMEOUT),
    (errors.AlreadyFinished, FINISHED),
    (errors.NotFound, NOT_FOUND),
    (errors.LogsPurged, NOT_FOUND),
    (errors.Refused, USAGE),
    (errors.AlreadyExists, USAGE),
    (errors.NotStarted, NOTHING_TO_TALK_TO),
    (errors.ClusterError, NOTHING_TO_TALK_TO),
    (errors.SlipwayError, FAILED),
)


class Failure(click.ClickException):
    """Ends a command with a sentence and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(visible(message))
        self.code = code

    def show(self, file: Any = None) -> None:
        """Print the sentence and exit."""
        super().show(file)
        sys.exit(self.code)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turns the client's errors into a sentence and an exit code."""
    try:
        yield
    except errors.SlipwayError as error:
        raise Failure(str(error), code_of(error)) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Failure("interrupted", INTERRUPTED) from None


def code_of(error: BaseException) -> int:
    """The exit code that an error of the client stands for."""
    if isinstance(error, errors.NotFound) and str(error) == NO_SLICEJOBS:
        return NOTHING_TO_TALK_TO
    return next(code for kind, code in _CODES if isinstance(error, kind))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end."""
    with exit_codes():
        return asyncio.run(work)


_CLUSTER_OPTIONS: Final = ("namespace", "context", "kubeconfig")
"""The options that `targeted` adds."""


def targeted(command: Command) -> Command:
    """Adds the options that say which cluster and namespace; the command gets them as `target`."""

    @click.option("-n", "--namespace", help="Namespace of the jobs.  [default: the context's]")
    @click.option("--context", help="Context of the kubeconfig.")
    @click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="Kubeconfig to read.")
    @wraps(command)
    def wrapped(*args: Any, namespace: str | None, context: str | None, kubeconfig: Path | None, **options: Any) -> Any:
        return command(*args, target=ClusterTarget(namespace, kubeconfig, context), **options)

    return wrapped


def retargeted(command: click.Command, make_target: Callable[[], Target], drop: Collection[str] = ()) -> click.Command:
    """A copy of a command for jobs elsewhere, names completed from there; without the options of a cluster.

    Args:
        command: one made with `targeted`.
        make_target: says where the jobs are.
        drop: names of more parameters that have no meaning there; the command gets their defaults.
    """
    rest = [param for param in command.params if param.name in drop and param.name not in _CLUSTER_OPTIONS]
    # What click makes of parameters that are not given.
    dropped = click.Command(None, params=rest, add_help_option=False)
    assert command.callback is not None
    work: Command = unwrap(command.callback)

    def callback(*args: Any, **options: Any) -> Any:
        return work(*args, target=make_target(), **dropped.make_context(None, []).params, **options)

    made = copy(command)
    made.callback = callback
    made.params = [param for param in command.params if param not in rest and param.name not in _CLUSTER_OPTIONS]
    made.context_settings = {**command.context_settings, "obj": make_target}
    return made


def say(text: str, *, err: bool = False) -> None:
    """Print a sentence in which words of others stand, such as the message of a job."""
    click.echo(visible(text), err=err)


def warn_of(out_of_reach: Mapping[str, str]) -> None:
    """Say of the jobs whose engines cannot be asked that they are shown as they were."""
    for words in dict.fromkeys(out_of_reach.values()):
        jobs = ", ".join(name for name, why in out_of_reach.items() if why == words)
        shown = f"What is shown of {jobs} is what was last known; more happens when the engine answers."
        click.echo(f"Warning: {words}. {shown}", err=True)


def program() -> str:
    """The command whose verbs are for the jobs that the running one is about: `slipway`, or `slipway local`."""
    ctx, groups = click.get_current_context(silent=True), list[str]()
    while ctx is not None and ctx.parent is not None:
        ctx = ctx.parent
        groups[:0] = [str(ctx.info_name)] if ctx.parent is not None else []
    return " ".join(("slipway", *groups))


def job_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs for the shell's completion; none where they cannot be had at once."""
    given = ctx.params
    target: Target = ClusterTarget(given.get("namespace"), given.get("kubeconfig"), given.get("context"))
    if ctx.obj is not None:
        target = ctx.obj()

    async def names() -> list[str]:
        async with asyncio.timeout(2), target.client() as client:
            return [job.name for job in await client.list() if job.name.startswith(incomplete)]

    try:
        return asyncio.run(names())
    except (errors.SlipwayError, TimeoutError, OSError):
        return []


def one_job(command: Command) -> Command:
    """Adds the argument NAME with its completion."""
    return click.argument("name", shell_complete=job_names)(command)


def some_jobs(command: Command) -> Command:
    """Adds the argument NAMES with its completion."""
    return click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=job_names)(command)


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Adds `-o` with these formats beside the one for people."""
    return click.option("-o", "--output", type=click.Choice(formats), help="Print for programs instead of people.")


def print_data(data: Any, output: str) -> None:
    """Print as JSON or YAML; what neither has, such as the words of an enum, as text."""
    if output == "json":
        import json

        click.echo(json.dumps(data, indent=2, default=str))
    else:
        click.echo(_as_yaml(data), nl=False)


def _as_yaml(data: Any) -> str:
    # It takes time to import, and most commands need none.
    import yaml

    from slipway.client.manifests import kubectl_yaml

    class Dumper(kubectl_yaml.Dumper):
        """One with a word for everything."""

    Dumper.add_multi_representer(object, lambda dumper, value: dumper.represent_str(str(value)))
    return str(yaml.dump(data, Dumper=Dumper, sort_keys=False))
