"""`slipway local`: the same jobs on this machine's Docker engine."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import Any, Final

import click

from slipway.cli.common import code_of, retargeted, run
from slipway.cli.engine_options import OPTIONS, OVERLAY, wishes_of
from slipway.client.errors import SlipwayError
from slipway.client.pictures.console import console
from slipway.local.client.client import AsyncLocalClient
from slipway.local.client.target import LocalTarget

_VERBS: Final = ("cancel", "delete", "describe", "events", "list", "logs", "resume", "suspend", "wait", "why")
_SUBMITTING: Final = ("run", "submit")
_OF_CLUSTERS: Final = ("all_namespaces", "place", "spot", "service_account", "priority_class")
"""Options without a meaning on one machine."""
_HELP: Final = {
    "run": "Run a job on this machine, show its progress until it ends, and exit as it did.\n\n"
    "For example: slipway local run --image IMAGE --hosts 2 -- python train.py\n\n"
    "Images are pulled first, which costs no retry. Ctrl-C leaves the job running. Exit codes: 0 succeeded, 1 the job "
    "failed, 2 it was refused, 3 no Docker engine, 130 interrupted.",
    "submit": "Begin jobs on this machine from manifests, or one from flags, and return.\n\n"
    "A process is left behind that looks after the job. The same job again changes nothing. Exit codes: 0 every job "
    "exists, 2 a manifest is wrong or cannot run here, or another job has its name, 3 no Docker engine.",
    "events": "Show what was told of a job, oldest first. It is kept with the job.",
    "list": "List the jobs of this machine: phase, why they do not run, slices, attempts.",
}


def _verb(name: str) -> click.Command:
    module = import_module(f"slipway.cli.{'lifecycle' if name in ('cancel', 'delete', 'resume', 'suspend') else name}")
    command: click.Command = getattr(module, name if hasattr(module, name) else f"{name}_")
    return command


def _submitting(command: click.Command) -> click.Command:
    """A copy of a command that makes jobs, with what an engine on this machine can give them besides."""
    made = retargeted(command, LocalTarget, _OF_CLUSTERS)

    def callback(**given: Any) -> Any:
        wishes = wishes_of(given, given["files"])
        again = retargeted(command, lambda: LocalTarget(wishes=wishes, console=console(stderr=True)), _OF_CLUSTERS)
        assert again.callback is not None
        return again.callback(**given)

    found = copy(made)
    found.callback = callback
    found.params = [*OPTIONS, OVERLAY, *made.params]
    return found


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def prune(names: tuple[str, ...]) -> None:
    """Delete jobs that have ended, of these names or all, with their containers, networks and logs.

    Whatever belongs to jobs that are gone is removed, too. What runs is left alone. Exit code 1 where something could
    not be removed; the rest is.
    """

    async def work() -> list[SlipwayError]:
        errors: list[SlipwayError] = []
        async with AsyncLocalClient() as client:
            for name, outcome in await client.prune(names):
                if isinstance(outcome, SlipwayError):
                    click.echo(f"Error: {outcome}", err=True)
                    errors.append(outcome)
                else:
                    click.echo(f"{name} {outcome}")
        return errors

    if errors := run(work()):
        raise SystemExit(code_of(errors[0]))


_OWN: Final[dict[str, Callable[[], click.Command]]] = {"prune": lambda: prune}


class LocalCommands(click.Group):
    """The verbs of the cluster's commands for this machine."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, for help and completion."""
        return sorted((*_VERBS, *_SUBMITTING, *_OWN))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name in _OWN:
            return _OWN[cmd_name]()
        if cmd_name not in (*_VERBS, *_SUBMITTING):
            return None
        command = _verb(cmd_name)
        found = _submitting(command) if cmd_name in _SUBMITTING else retargeted(command, LocalTarget, _OF_CLUSTERS)
        found.help = _HELP.get(cmd_name, found.help)
        return found


@click.command(cls=LocalCommands)
def local() -> None:
    """Run the same jobs on this machine's Docker engine.

    Attempts, causes, retries, logs and exit codes are those of a cluster; see docs/local.md for what differs.
    """
