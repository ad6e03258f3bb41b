"""`slipway`: the commands."""

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Final

import click
from click.shell_completion import CompletionItem

from slipway.api.nesting import allow_any_nesting
from slipway.version import VERSION

COMMANDS: Final = {
    "build": "images",
    "cancel": "lifecycle",
    "cluster": "cluster",
    "completion": "completion",
    "delete": "lifecycle",
    "demo": "demo",
    "describe": "describe",
    "doctor": "doctor",
    "events": "events",
    "exec": "pods",
    "list": "list",
    "local": "local",
    "logs": "logs",
    "operator": "operator",
    "port-forward": "pods",
    "push": "images",
    "render": "render",
    "resume": "lifecycle",
    "run": "run",
    "submit": "submit",
    "suspend": "lifecycle",
    "top": "top",
    "types": "types",
    "validate": "submit",
    "version": "version",
    "wait": "wait",
    "why": "why",
}
"""The module below `slipway.cli` that each command is in."""
_HELP: Final = {
    "build": "Build an image for a job.",
    "cancel": "End jobs for good, and keep their records.",
    "cluster": "A Kubernetes cluster with TPU node pools on this machine.",
    "completion": "Print the completion for bash, zsh or fish.",
    "delete": "Delete jobs with everything that belongs to them.",
    "demo": "See a job survive a preemption, on this machine.",
    "describe": "Show one job: its attempts, where it broke, its hosts.",
    "doctor": "Check what a cluster offers: CRD, operator, rights, nodes.",
    "events": "Show the Events of a job and of its pods.",
    "exec": "Run a command in a host of a job.",
    "list": "List jobs.",
    "local": "The same jobs on this machine's Docker engine.",
    "logs": "Print what the hosts of a job wrote.",
    "operator": "Run the operator.",
    "port-forward": "Make a port of a host reachable on this machine.",
    "push": "Push an image to its registry.",
    "render": "Print the manifest that submit would send.",
    "resume": "Let suspended jobs begin another attempt.",
    "run": "Submit a job, follow it to its end, and exit as it did.",
    "submit": "Create jobs from files or flags.",
    "suspend": "Delete the pods of jobs and release their nodes.",
    "top": "Show where the time of jobs went, or what hosts use.",
    "types": "List TPU types, and which of them the cluster has.",
    "validate": "Check manifests, without creating anything.",
    "version": "Print the version of the command.",
    "wait": "Wait until jobs have ended, or are in a phase.",
    "why": "Say why a job does not run, or how it ended.",
}


class Commands(click.Group):
    """Imports the module of a command when the command runs: help and completion need none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, for help and completion."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, with its options."""
        if cmd_name not in COMMANDS:
            return None
        attribute = cmd_name.replace("-", "_")
        module = import_module(f"slipway.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, attribute if hasattr(module, attribute) else f"{attribute}_")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _HELP[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, with their help; options where it begins with a dash."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=_HELP[name]) for name in sorted(COMMANDS) if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, and with the nearest name where there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="slipway")
def main() -> None:
    """Run container jobs on TPU slices that survive preemptions."""
    allow_any_nesting()
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        # A sign that the terminal's encoding lacks ends no command; stderr escapes it by itself.
        sys.stdout.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
