"""The directories of a job in folders of this machine: what an init container does in a cluster is done here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slipway.api import names
from slipway.docker_engine.containers import answered
from slipway.planner.actions import Body
from slipway.workspace_check import Refused, check

if TYPE_CHECKING:
    from docker import APIClient


class WorkspaceRefused(Exception):
    """A directory of the job may not be mounted: it is a link, or cannot be made."""


def make_directories(api: APIClient, pod: Body) -> None:
    """Make the directories of a pod, as its init container would.

    Raises:
        WorkspaceRefused: naming the directory and what is wrong with it.
    """
    for container in pod["spec"].get("initContainers", ()):
        if container["name"] != names.WORKSPACE_CONTAINER:
            continue
        seen_at = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        for order in json.loads(container["command"][-1]):
            try:
                check(order | {"root": _folder(api, pod, seen_at[order["root"]])})
            except Refused as error:
                raise WorkspaceRefused(str(error)) from error


def _folder(api: APIClient, pod: Body, volume: str) -> str:
    """Where a volume of a pod is on this machine."""
    source = next(one for one in pod["spec"]["volumes"] if one["name"] == volume)
    if (path := source.get("hostPath")) is not None:
        return str(path["path"])
    name = source["persistentVolumeClaim"]["claimName"]
    with answered():
        return str(api.create_volume(name)["Mountpoint"])
