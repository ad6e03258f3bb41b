"""The directories of a job in folders of this machine: what an init container does in a cluster is done here."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from slipway.api import names
from slipway.core.model.parts import Body
from slipway.local.containers.containers import as_engine_errors
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
        seen_at = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        for order in json.loads(container["command"][-1]):
            try:
                there = {"root": _folder(api, pod, seen_at[order["root"]])}
                check(order | there | _ownership(container["securityContext"].get("runAsUser")))
            except Refused as error:
                raise WorkspaceRefused(str(error)) from error


def _ownership(user: int | None) -> dict[str, Any]:
    """Whose the directories are: this process makes them, and it need not run as the user of the pod."""
    if user is None or user == os.geteuid():
        return {}
    # Only root may give a directory away. From another user it is as where the image decides: all users may write.
    return {"owner": user} if os.geteuid() == 0 else {"mine": False}


def _folder(api: APIClient, pod: Body, volume: str) -> str:
    """Where a volume of a pod is on this machine."""
    source = next(one for one in pod["spec"]["volumes"] if one["name"] == volume)
    if (path := source.get("hostPath")) is not None:
        return str(path["path"])
    name = source["persistentVolumeClaim"]["claimName"]
    with as_engine_errors():
        return str(api.create_volume(name)["Mountpoint"])
