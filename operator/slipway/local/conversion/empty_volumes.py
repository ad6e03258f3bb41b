"""What makes the empty volumes of a container writable for whoever it runs as, as an emptyDir is."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slipway.core.manifests.ray.cluster import TOKEN_KEY
from slipway.local.conversion.ray import TOKEN_PLACES

_EVERYBODY: Final = 0o777
_TOKEN_FOLDER: Final = 0o755
_TOKEN: Final = 0o444
"""The mode of the mounted Secret on a cluster: the container's user may read the file, whichever user that is."""


def opening(mounts: Iterable[Mapping[str, Any]], token: bytes | None = None) -> bytes | None:
    """A tar archive that opens the empty volumes to all users; None for a container that has none.

    Args:
        mounts: `Mounts` of its HostConfig.
        token: that of the job's Ray cluster, for the volume that it belongs in.

    Docker makes them for root. Unpack it at / of the container once that is created and before it starts
    (`PUT /containers/{id}/archive`). Where its root can only be read Docker refuses that: then unpack it in a second
    container, never started, that has the volumes of the first (`VolumesFrom`).
    """
    places = [
        mount["Target"]
        for mount in mounts
        if mount["Type"] == "volume" and not mount.get("Source") and not _open(mount)
    ]
    if not places:
        return None
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for place in places:
            folder = tarfile.TarInfo(place.strip("/"))
            holds_token = token is not None and place in TOKEN_PLACES
            folder.type, folder.mode = tarfile.DIRTYPE, _TOKEN_FOLDER if holds_token else _EVERYBODY
            archive.addfile(folder)
            if token is not None and holds_token:
                file = tarfile.TarInfo(f"{folder.name}/{TOKEN_KEY}")
                file.size, file.mode = len(token), _TOKEN
                archive.addfile(file, io.BytesIO(token))
    return content.getvalue()


def _open(mount: Mapping[str, Any]) -> bool:
    """Whether the volume has a driver's options, which say its mode: it lies in memory."""
    return bool((mount.get("VolumeOptions") or {}).get("DriverConfig"))
