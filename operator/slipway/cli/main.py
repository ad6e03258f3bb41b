"""`slipway`: the commands."""

import click

from slipway.cli.cluster import cluster
from slipway.cli.demo import demo
from slipway.cli.images import build, push
from slipway.cli.operator import operator


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slipway")
def main() -> None:
    """Run container jobs on TPU slices that survive preemptions."""


main.add_command(build)
main.add_command(cluster)
main.add_command(demo)
main.add_command(operator)
main.add_command(push)

if __name__ == "__main__":
    main()
