"""Building images on a Docker engine and pushing them to a registry."""

from slipway.docker_engine.errors import ImageBuildError
from slipway.docker_engine.images import build_and_push_docker_image

__all__ = ["ImageBuildError", "build_and_push_docker_image"]
