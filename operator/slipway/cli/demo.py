"""`slipway demo`: see a job survive a preemption, on this machine."""

import sys
import time

import click
from rich.console import Console
from rich.markup import escape


@click.command()
@click.option("--keep", is_flag=True, help="Leave the cluster running afterwards.")
def demo(keep: bool) -> None:
    """Train a model on 2 TPU slices of 2 hosts, lose a node half-way, and finish.

    Everything is real but the chips: Kubernetes, nodes, containers, JAX. Needs Linux and root; the first run builds
    and caches what is missing. Exit code 0 means that the job resumed from its checkpoint and succeeded.
    """
    from slipway.cli.interruption import interruptible
    from slipway.demo.run import DemoFailed
    from slipway.demo.run import demo as run
    from slipway.devcluster import LocalClusterError
    from slipway.devcluster.errors import of_system
    from slipway.devcluster.progress import Plain

    console, start = Console(), time.monotonic()
    try:
        with interruptible():
            times = run(console, Plain(console), keep=keep)
    except LocalClusterError as error:
        console.print(f"[bold red]The cluster could not be made:[/] {escape(str(error))}")
        sys.exit(3)
    except (DemoFailed, OSError) as error:
        words = of_system(error) if isinstance(error, OSError) else str(error)
        console.print(f"[bold red]The demo failed:[/] {escape(words)}", highlight=False)
        sys.exit(1)
    console.print(
        "[bold green]The job was preempted, resumed from its checkpoint and succeeded.[/] From the node's death the "
        f"restart began after {times.to_restart_noticed:.1f} s, and all new pods existed after "
        f"{times.to_new_pods:.1f} s; {time.monotonic() - start:.0f} s in all.",
        highlight=False,
    )
