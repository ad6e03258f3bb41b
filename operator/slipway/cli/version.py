"""`slipway version`."""

import click

from slipway.version import VERSION


@click.command()
def version() -> None:
    """Print the version of the command."""
    click.echo(f"slipway {VERSION}")
