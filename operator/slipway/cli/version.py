"""`slipway version`."""

from importlib.metadata import version as installed

import click

DISTRIBUTION = "slipway"


@click.command()
def version() -> None:
    """Print the version of the command."""
    click.echo(f"slipway {installed(DISTRIBUTION)}")
