"""`slipway completion`: what a shell needs to complete commands, options and names of jobs."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion for a shell, for instance: eval "$(slipway completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "slipway", "_SLIPWAY_COMPLETE").source())
