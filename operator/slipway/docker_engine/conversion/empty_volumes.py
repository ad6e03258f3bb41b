"""What makes the empty volumes of a container writable for whoever it runs as, as an emptyDir is."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any, Final

_EVERYBODY: Final = 0o777


def opening(mounts: Iterable[Mapping[str, Any]]) -> bytes | None:
    """A tar archive that opens the empty volumes to all users; None for a container that has none.

    Args:
        mounts: `Mounts` of its HostConfig.

    Docker makes them for root. Unpack it at / of the container once that is created and before it starts
    (`PUT /containers/{id}/archive`). Where its root can only be read Docker refuses that: then unpack it in a second
    container, never started, that has the volumes of the first (`VolumesFrom`).
    """
    places = [one["Target"] for one in mounts if one["Type"] == "volume" and not one.get("Source")]
    if not places:
        return None
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for place in places:
            folder = tarfile.TarInfo(place.strip("/"))
            folder.type, folder.mode = tarfile.DIRTYPE, _EVERYBODY
            archive.addfile(folder)
    return content.getvalue()
