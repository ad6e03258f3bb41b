"""Building images on a Docker engine and pushing them to a registry, and running jobs on one.

Names are imported when they are used: each job has a process of its own, which builds nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.docker_engine.errors import ImageBuildError
    from slipway.docker_engine.images import build_and_push_docker_image

_HOMES = {"ImageBuildError": "errors", "build_and_push_docker_image": "images"}

__all__ = ["ImageBuildError", "build_and_push_docker_image"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
