"""`slipway cluster`: a Kubernetes with TPU node pools on this machine, for those without TPUs."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from slipway.cli.span import Span
from slipway.demo import images as example_images
from slipway.local_cluster import ClusterSpec, LocalClusterError, NativeCluster, NativeProvider, Pool, state
from slipway.local_cluster import status as observed
from slipway.local_cluster.errors import ClusterNotFound
from slipway.local_cluster.progress import for_console, step
from slipway.local_cluster.spec import explain, parse_pool

DEFAULT_NAME = "slipway"
DEFAULT_POOLS = ("2*v5p-16", "1*cpu")
POOL = "COUNT*TYPE[:chipsPerHost=N]"
FEW_NODES = 20
"""Up to so many nodes `status` lists without being asked to."""
UNLIMITED = 10_000
"""Width of tables in a pipe: what reads them there expects a row on one line."""

out = Console(soft_wrap=True)
err = Console(stderr=True)


class NotFound(click.ClickException):
    """What was named does not exist."""

    exit_code = 4


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show expected faults as sentences, and exit with 1; with 4 where there is no such cluster."""
    try:
        yield
    except ValidationError as error:
        raise click.ClickException(explain(error)) from error
    except ClusterNotFound as error:
        raise NotFound(str(error)) from error
    except LocalClusterError as error:
        raise click.ClickException(str(error)) from error


@click.group()
def cluster() -> None:
    """Run Kubernetes with TPU node pools on this machine, without any TPU.

    Nodes are `simulated` (pods are marked Running, nothing is executed; thousands fit) or `real` (containerd and a
    kubelet each, running containers; Linux and root only).
    """


@cluster.command()
@click.argument("name", default=DEFAULT_NAME)
@click.option("--real", metavar=POOL, multiple=True, help="Real node pools, e.g. 2*v5p-16 or 1*cpu.")
@click.option("--simulated", metavar=POOL, multiple=True, help="Simulated node pools, e.g. 3*v6e-8:chipsPerHost=8.")
@click.option(
    "--spot/--on-demand", default=False, help="Whether the TPU pools are spot capacity.  [default: on-demand]"
)
@click.option(
    "--image", "images", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Image archive that every real node starts with.",
)  # fmt: skip
def up(name: str, real: tuple[str, ...], simulated: tuple[str, ...], spot: bool, images: tuple[Path, ...]) -> None:
    """Make the cluster NAME, or do nothing if it runs already as asked.

    For a TPU type COUNT is the number of slices (node pools), for `cpu` the number of nodes. Where a type leaves open
    how many chips a host has (v5e and v6e with 8 chips), chipsPerHost says it. Without --real and --simulated the
    cluster has two simulated v5p-16 slices and one simulated CPU node.
    """
    with plain_errors():
        if not real and not simulated:
            simulated = DEFAULT_POOLS
        pools = [_pool(text, "real", spot) for text in real] + [_pool(text, "simulated", spot) for text in simulated]
        spec = ClusterSpec(name=name, pools=pools, images=[path.absolute() for path in images])
        provider = NativeProvider()
        before = provider.running(spec)
        made = before or provider.up(spec, for_console(err))
        if before is not None:
            out.print(f"The cluster {name} runs already as asked; nothing was changed.", highlight=False)
    nodes = len(spec.nodes())
    out.print(f"Cluster {name}: {nodes} node{'' if nodes == 1 else 's'} at {made.server}", highlight=False)
    out.print(f"\n  export KUBECONFIG={made.kubeconfig}\n", highlight=False)
    out.print(f"Remove it with: slipway cluster down {name}", highlight=False)


def _pool(text: str, kind: str, spot: bool) -> Pool:
    pool = parse_pool(text, "real" if kind == "real" else "simulated")
    return pool.model_copy(update={"spot": spot and pool.type != "cpu"})


@cluster.command()
@click.argument("name", default=DEFAULT_NAME)
def down(name: str) -> None:
    """Remove the cluster NAME and everything that belongs to it; also one that is half made or broken.

    Exit code 4 means that there is no such cluster.
    """
    with plain_errors():
        if not NativeProvider().down(name, for_console(err)):
            raise state.not_found(name)
    out.print(f"The cluster {name} is removed.", highlight=False)


@cluster.command()
@click.argument("name", required=False)
@click.option("--nodes", is_flag=True, help=f"List every node, also of a cluster with more than {FEW_NODES}.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(name: str | None, nodes: bool, output: str) -> None:
    """Show one cluster, or all of them: its node pools and its nodes.

    Of a large cluster only the nodes that are not Ready are listed.
    """
    with plain_errors():
        provider = NativeProvider()
        found = [observed.of(each) for each in ([name] if name else provider.names())]
    if output == "json":
        click.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    if not found:
        out.print("There are no clusters. `slipway cluster up` makes one.", highlight=False)
    for each in found:
        _show(each, nodes)


def _show(found: observed.ClusterStatus, all_nodes: bool) -> None:
    out.print(f"{found.name}: {found.state} {found.server}".rstrip(), highlight=False)
    dead = [process for process, alive in found.processes.items() if not alive]
    if dead:
        out.print(f"  ended: {', '.join(dead)} (logs in {found.folder / 'logs'})", highlight=False)
    if found.state in ("Unfinished", "Unreadable"):
        out.print(f"  `slipway cluster down {found.name}` removes it.", highlight=False)
    if found.kubeconfig:
        out.print(f"  export KUBECONFIG={found.kubeconfig}", highlight=False)
    if found.pools:
        _print_rows(("pool", "kind", "type", "topology", "spot", "slices", "nodes"), map(_pool_row, found.pools))
    listed = found.nodes
    if len(listed) > FEW_NODES and not all_nodes:
        listed = [node for node in listed if node.state != "Ready"]
        out.print(f"  {len(listed)} of {len(found.nodes)} nodes are not Ready; --nodes lists all.", highlight=False)
    if listed:
        _print_rows(("node", "kind", "pool", "accelerator", "tpus", "state"), map(_node_row, listed))


def _pool_row(pool: observed.PoolStatus) -> tuple[str, ...]:
    names = pool.pools[0] if len(pool.pools) == 1 else f"{pool.pools[0]}…{pool.pools[-1]}"
    slices = f"{pool.ready_slices}/{pool.slices}" if pool.slices else ""
    nodes = f"{pool.ready_nodes}/{pool.nodes}"
    return names, pool.kind, pool.type, pool.topology, "spot" if pool.spot else "", slices, nodes


def _node_row(node: observed.NodeStatus) -> tuple[str, ...]:
    accelerator = node.accelerator + (" (spot)" if node.spot else "")
    return node.name, node.kind, node.pool, accelerator, str(node.tpus or ""), node.state


def _print_rows(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(*columns, box=None, pad_edge=True)
    for row in rows:
        table.add_row(*row)
    Console(width=None if out.is_terminal else UNLIMITED).print(table)


@cluster.command()
@click.argument("name", default=DEFAULT_NAME)
def env(name: str) -> None:
    """Print what makes a shell use the cluster NAME: `eval "$(slipway cluster env)"`.

    It sets KUBECONFIG, and puts a kubectl that fits the cluster in front of PATH.
    """
    with plain_errors():
        found = NativeProvider().get(name)
        kubectl = Path(found.state.binaries["kubectl"])
    click.echo(f"export KUBECONFIG={shlex.quote(str(found.kubeconfig))}")
    click.echo(f"export PATH={shlex.quote(str(kubectl.parent))}:$PATH")


nodes_argument = click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
cluster_option = click.option("--cluster", "name", default=DEFAULT_NAME, show_default=True, help="Name of the cluster.")


@cluster.command()
@nodes_argument
@cluster_option
@click.option("--return-after", type=Span(), help="Wait this long, then bring the nodes back, e.g. 20s.")
@click.option("--notice", type=Span(), default="0s", help="Announce it by GKE's taint this long before, e.g. 5s.")
def preempt(nodes: tuple[str, ...], name: str, return_after: float | None, notice: float) -> None:
    """Take nodes away as a cloud takes spot machines: killed at once, then the Node object is deleted.

    NODE may also be a node pool: all of its nodes go together, as those of a TPU slice do.
    """
    with plain_errors():
        target = NativeCluster(name, for_console(err))
        chosen = _expand(target, nodes)
        target.preempt(*chosen, notice=notice)
        if return_after is not None:
            with step(target.progress, f"Waiting {return_after:g} s before {', '.join(chosen)} return"):
                time.sleep(return_after)
            target.restore(*chosen)
    out.print(f"{', '.join(chosen)}: {'preempted' if return_after is None else 'preempted and back'}", highlight=False)


@cluster.command()
@nodes_argument
@cluster_option
def restore(nodes: tuple[str, ...], name: str) -> None:
    """Bring preempted nodes (or all of a node pool) back as fresh machines with new UIDs."""
    with plain_errors():
        target = NativeCluster(name, for_console(err))
        chosen = _expand(target, nodes)
        target.restore(*chosen)
    out.print(f"{', '.join(chosen)}: back", highlight=False)


def _expand(target: NativeCluster, names: tuple[str, ...]) -> list[str]:
    """Replace names of node pools by the names of their nodes."""
    chosen = [node for name in names for node in (target.slice_nodes(name) or [name])]
    return list(dict.fromkeys(chosen))


@cluster.command("load-image")
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@cluster_option
def load_image(archives: tuple[Path, ...], name: str) -> None:
    """Load image archives (OCI or docker save) into every real node; nodes that have them are left alone."""
    with plain_errors():
        _with_real_nodes(name).load_images([path.absolute() for path in archives])
    out.print("Loaded.")


@cluster.command("load-examples")
@click.argument("examples", nargs=-1, type=click.Choice(list(example_images.EXAMPLES)), metavar="[EXAMPLE]...")
@cluster_option
def load_examples(examples: tuple[str, ...], name: str) -> None:
    """Build the images of example jobs and load them into every real node.

    EXAMPLE is `pretrain` or `ray`; without any, both. Prints what creates their jobs.
    """
    chosen = examples or tuple(example_images.EXAMPLES)
    with plain_errors():
        target = _with_real_nodes(name)
        target.load_images([example_images.build(example, target.progress) for example in chosen])
    for example in chosen:
        out.print(f"kubectl apply -f {shlex.quote(str(example_images.manifest_of(example)))}", highlight=False)


def _with_real_nodes(name: str) -> NativeCluster:
    """The cluster, if it has nodes that run images."""
    found = NativeCluster(name, for_console(err))
    if not found.spec.nodes("real"):
        raise LocalClusterError(
            f"The cluster {name!r} has no real nodes; simulated nodes run no images.",
            hint="`slipway cluster up NAME --real '2*v5p-16'` makes a cluster with real nodes.",
        )
    return found
