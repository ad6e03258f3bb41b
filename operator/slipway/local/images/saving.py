"""Writing an image of the engine to an archive, for who has no way to the engine: the nodes of a local cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slipway.local.containers.containers import EngineLost, EngineRefuses, as_engine_errors, image_id
from slipway.local.engine.errors import ImageBuildError, refuse
from slipway.local.images.references import split

if TYPE_CHECKING:
    from docker import APIClient


def save_image(engine: APIClient, name: str, folder: Path) -> Path:
    """Write an image to a file of the folder, as `docker save` does; the file's name is another for another image.

    Raises:
        ImageBuildError: when the engine has no such image, or does not give it.
    """
    try:
        if (found := image_id(engine, name)) is None:
            raise refuse(f"There is no file {name}, and the Docker engine has no image of that name.")
        path = folder / f"{name.replace('/', '_')}-{found.removeprefix('sha256:')[:12]}.tar"
        with as_engine_errors(), path.open("wb") as archive:
            archive.writelines(engine.get_image(":".join(split(name))))
    except (EngineLost, EngineRefuses) as error:
        raise ImageBuildError("save", 1, str(error), f"The image {name} cannot be saved") from error
    return path
