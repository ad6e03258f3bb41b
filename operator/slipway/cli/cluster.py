"""`slipway cluster`: a Kubernetes with TPU node pools on this machine, for those without TPUs."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from slipway.cli.durations import Span
from slipway.cli.images import INTERRUPTED, exit_codes
from slipway.cli.interruption import interruptible
from slipway.demo import images as example_images
from slipway.devcluster import (
    Cluster,
    ClusterSpec,
    KindProvider,
    LocalClusterError,
    NativeProvider,
    Pool,
    Provider,
    clusters,
    state,
)
from slipway.devcluster import status as observed
from slipway.devcluster.errors import ClusterNotFound, of_system
from slipway.devcluster.progress import for_console, step
from slipway.devcluster.spec import explain, parse_pool
from slipway.local.engine.address import connected
from slipway.local.images.saving import save_image

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


class Interrupted(click.ClickException):
    """Somebody has ended the command."""

    exit_code = INTERRUPTED


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show expected faults as sentences, and exit with 1; with 4 where there is no such cluster, 130 at Ctrl-C."""
    try:
        with interruptible():
            yield
    except ValidationError as error:
        raise click.ClickException(explain(error)) from error
    except ClusterNotFound as error:
        raise NotFound(str(error)) from error
    except LocalClusterError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(of_system(error)) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None


@click.group()
def cluster() -> None:
    """Run Kubernetes with TPU node pools on this machine, without any TPU.

    Nodes are `simulated` (pods are marked Running, nothing is executed; thousands fit) or `real` (containerd and a
    kubelet each, running containers). Real nodes take Linux and root, or with --provider kind a Docker engine.
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
@click.option(
    "--provider", "made_by", type=click.Choice(["native", "kind"]), default="native", show_default=True,
    help="native: processes and namespaces of this machine. kind: containers of a Docker engine; --real only.",
)  # fmt: skip
@click.option("--node-image", default="", metavar="IMAGE", help="With kind: image of the nodes.  [default: kind's own]")
def up(
    name: str,
    real: tuple[str, ...],
    simulated: tuple[str, ...],
    spot: bool,
    images: tuple[Path, ...],
    made_by: str,
    node_image: str,
) -> None:
    """Make the cluster NAME, or do nothing if it runs already as asked.

    For a TPU type COUNT is the number of slices (node pools), for `cpu` the number of nodes. Where a type leaves open
    how many chips a host has (v5e and v6e with 8 chips), chipsPerHost says it. Without --real and --simulated the
    cluster has two v5p-16 slices and one CPU node, simulated with the provider native.
    """
    with plain_errors():
        provider = _provider(made_by, node_image)
        if not real and not simulated:
            real, simulated = (DEFAULT_POOLS, ()) if made_by == "kind" else ((), DEFAULT_POOLS)
        pools = [_pool(text, "real", spot) for text in real] + [_pool(text, "simulated", spot) for text in simulated]
        spec = ClusterSpec(name=name, pools=pools, images=[path.absolute() for path in images])
        before = provider.running(spec)
        made = before or provider.up(spec, for_console(err))
        if before is not None:
            out.print(f"The cluster {name} runs already as asked; nothing was changed.", highlight=False)
    nodes = len(spec.nodes())
    out.print(f"Cluster {name}: {nodes} node{'' if nodes == 1 else 's'} at {made.server}", highlight=False)
    out.print(f"\n  export KUBECONFIG={made.kubeconfig}\n", highlight=False)
    out.print(f"Remove it with: slipway cluster down {name}", highlight=False)


def _provider(name: str, node_image: str) -> Provider:
    if name == "kind":
        return KindProvider(node_image)
    if node_image:
        raise click.UsageError("--node-image is for --provider kind.")
    return NativeProvider()


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
        if not clusters.down(name, for_console(err)):
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
        statuses = [observed.of(each) for each in ([name] if name else state.names())]
    if output == "json":
        click.echo(json.dumps([each.model_dump(mode="json") for each in statuses], indent=2))
        return
    if not statuses:
        out.print("There are no clusters. `slipway cluster up` makes one.", highlight=False)
    for each in statuses:
        _show(each, nodes)


def _show(found: observed.ClusterStatus, all_nodes: bool) -> None:
    where = "" if found.provider == "native" else f" ({found.provider})"
    out.print(f"{found.name}: {found.state}{where} {found.server}".rstrip(), highlight=False)
    dead = [process for process, alive in found.processes.items() if not alive]
    if dead:
        logs = f"logs in {found.folder / 'logs'}" if found.provider == "native" else "docker logs tells more"
        out.print(f"  ended: {', '.join(dead)} ({logs})", highlight=False)
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
    all_healthy = node.healthy_tpus in (None, node.tpus)
    tpus = str(node.tpus or "") if all_healthy else f"{node.healthy_tpus}/{node.tpus}"
    return node.name, node.kind, node.pool, accelerator, tpus, node.state


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
        found = clusters.find(name)
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
        target = clusters.find(name, for_console(err))
        chosen = _expand(target, nodes)
        target.preempt(*chosen, notice=notice)
        _return(target, chosen, return_after, "return")
    out.print(f"{', '.join(chosen)}: {'preempted' if return_after is None else 'preempted and back'}", highlight=False)


@cluster.command("break")
@nodes_argument
@cluster_option
@click.option(
    "--chip",
    "chips",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="NUMBER",
    help="Number of a chip, from 0; may be repeated.  [default: all chips of the node]",
)
@click.option("--return-after", type=Span(), help="Wait this long, then make the chips healthy again, e.g. 20s.")
def break_(nodes: tuple[str, ...], name: str, chips: tuple[int, ...], return_after: float | None) -> None:
    """Make chips of real nodes unhealthy, as a device plugin reports them; pods that use them go on running.

    NODE may also be a node pool. `restore` makes the chips healthy again.
    """
    with plain_errors():
        target = clusters.find(name, for_console(err))
        chosen = _expand(target, nodes)
        target.damage(*chosen, numbers=chips)
        _return(target, chosen, return_after, "are healthy again")
    broken = f"chip {', '.join(map(str, chips))}" if chips else "every chip"
    out.print(f"{', '.join(chosen)}: {broken} {'is' if return_after is None else 'was'} unhealthy", highlight=False)


def _return(target: Cluster, nodes: list[str], after: float | None, words: str) -> None:
    """Restore nodes after some seconds, if that was asked for."""
    if after is not None:
        with step(target.progress, f"Waiting {after:g} s before {', '.join(nodes)} {words}"):
            time.sleep(after)
        target.restore(*nodes)


@cluster.command()
@nodes_argument
@cluster_option
def restore(nodes: tuple[str, ...], name: str) -> None:
    """Bring preempted nodes (or all of a node pool) back as fresh machines with new UIDs.

    Of nodes that are there the broken chips become healthy again.
    """
    with plain_errors():
        target = clusters.find(name, for_console(err))
        chosen = _expand(target, nodes)
        target.restore(*chosen)
    out.print(f"{', '.join(chosen)}: back", highlight=False)


def _expand(target: Cluster, names: tuple[str, ...]) -> list[str]:
    """Replace names of node pools by the names of their nodes."""
    chosen = [node for name in names for node in (target.slice_nodes(name) or [name])]
    return list(dict.fromkeys(chosen))


@cluster.command("load-image")
@click.argument("images", nargs=-1, required=True, metavar="ARCHIVE|IMAGE...")
@cluster_option
def load_image(images: tuple[str, ...], name: str) -> None:
    """Load images into every real node; nodes that have them are left alone.

    ARCHIVE is a file, OCI or from docker save. IMAGE is the name of an image of the Docker engine.

    Exit codes: 1 refused or failed, 2 wrong usage, 3 no Docker engine, 4 no such cluster.
    """
    with plain_errors(), exit_codes(), TemporaryDirectory(prefix="slipway-images-") as folder:
        target = _with_real_nodes(name)
        target.load_images([_archive(image, Path(folder), target) for image in images])
    out.print("Loaded.")


def _archive(image: str, folder: Path, target: Cluster) -> Path:
    """The archive of an image: the file of that name, or what the engine writes to the folder."""
    if Path(image).is_file():
        return Path(image).absolute()
    with step(target.progress, f"Saving {image}"), connected() as engine:
        return save_image(engine, image, folder)


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


def _with_real_nodes(name: str) -> Cluster:
    """The cluster, if it has nodes that run images."""
    found = clusters.find(name, for_console(err))
    if not found.spec.nodes("real"):
        raise LocalClusterError(
            f"The cluster {name!r} has no real nodes; simulated nodes run no images.",
            hint="`slipway cluster up NAME --real '2*v5p-16'` makes a cluster with real nodes.",
        )
    return found
