"""The logs of containers: while there is a container from the engine, afterwards from a file of the job."""

from pathlib import Path

from slipway.docker_engine.containers import Containers


def keep_log(containers: Containers, container: str, path: Path) -> None:
    """Write the whole log of a container that has ended to a file, each line after its time.

    The engine bounds it: no container has more than `convert.LOG_BYTES` of log.
    """
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".part")
    with fresh.open("wb") as file:
        for piece in containers.log(container):
            file.write(piece)
    fresh.replace(path)
