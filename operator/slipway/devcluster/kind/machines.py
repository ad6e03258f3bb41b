"""The containers that are a cluster's machines, and the fake chips in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.kind.programs import docker, engine_id, run
from slipway.devcluster.native.chips import PLUGIN
from slipway.devcluster.spec import TPU_RESOURCE, NodePlan
from slipway.devcluster.state import ClusterState

_PROGRAM: Final = f"/usr/local/bin/{PLUGIN}"
_BROKEN: Final = f"/var/lib/{PLUGIN}"
"""Folder in a node with a file for each unhealthy chip."""
_TAKEN: Final = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""What a kubelet remembers of which pod has which chips."""
_UNIT: Final = f"""\
[Unit]
Description=Fake chips
Before=kubelet.service

[Service]
# A machine that comes back is a new one: its chips are healthy, and nobody has them.
ExecStartPre=/bin/sh -c 'test -e /run/{PLUGIN} || rm -f {_BROKEN}/chip-* {_TAKEN}; touch /run/{PLUGIN}'
ExecStart={_PROGRAM} {{resource}} {{count}} {_BROKEN}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
_CLUSTER_LABEL: Final = "io.x-k8s.kind.cluster"
_LOAD_SECONDS: Final = 600.0


def check_engine_of(state: ClusterState) -> None:
    """Refuse to touch containers of another engine than the cluster's: there its name may be that of another.

    Raises:
        LocalClusterError: says how to come back to the engine.
    """
    if state.engine and engine_id() != state.engine:
        raise LocalClusterError(
            f"The cluster {state.spec.name!r} is in another Docker engine than the one that `docker` leads to now.",
            hint="Go back to that engine with `docker context use`, or with DOCKER_HOST. If it is gone for good, "
            f"delete {state.folder}.",
        )


def running(name: str) -> set[str]:
    """Return the containers of a cluster that run."""
    return set(_containers(name))


def exist(name: str) -> bool:
    """Whether the engine has containers of a kind cluster of that name, made by Slipway or by others."""
    return bool(_containers(name, "--all"))


def remove(name: str) -> None:
    """Remove all containers of a cluster, and their disks."""
    if found := _containers(name, "--all"):
        docker("rm", "--force", "--volumes", *found)


def _containers(name: str, *options: str) -> list[str]:
    return docker("ps", *options, "--filter", f"label={_CLUSTER_LABEL}={name}", "--format", "{{.Names}}").split()


def load(state: ClusterState, archives: Iterable[Path]) -> None:
    """Load image archives into every machine that runs."""
    for archive in archives:
        if not archive.is_file():
            raise LocalClusterError(f"There is no image archive {archive}.")
        command = [str(state.binaries["kind"]), "load", "image-archive", str(archive), "--name", state.spec.name]
        run([*command, "--nodes", ",".join(sorted(running(state.spec.name)))], _LOAD_SECONDS)


def put_chips(state: ClusterState, plan: NodePlan, container: str) -> None:
    """Install the device plugin in a machine, and start it."""
    docker("cp", str(state.binaries[PLUGIN]), f"{container}:{_PROGRAM}")
    unit = state.folder / f"{container}.service"
    unit.write_text(_UNIT.format(resource=TPU_RESOURCE, count=plan.tpus))
    docker("cp", str(unit), f"{container}:/etc/systemd/system/{PLUGIN}.service")
    docker("exec", container, "mkdir", "-p", _BROKEN)
    docker("exec", container, "systemctl", "enable", "--now", PLUGIN)


def kill(container: str) -> None:
    """End a machine without warning, as if its power went."""
    docker("kill", "--signal=KILL", container)


def start(container: str) -> None:
    """Start a machine that was killed; all that ran in it is gone."""
    docker("start", container)


def damage(container: str, chips: Iterable[int]) -> None:
    """Make chips of a machine unhealthy."""
    docker("exec", container, "touch", *(f"{_BROKEN}/chip-{chip}" for chip in chips))


def mend(container: str) -> None:
    """Make all chips of a machine healthy."""
    docker("exec", container, "sh", "-c", f"rm -f {_BROKEN}/chip-*")
