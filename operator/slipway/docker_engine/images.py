"""Building an image on the engine, and pushing it to its registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Final

from slipway.docker_engine.engine import connected
from slipway.docker_engine.errors import ImageBuildError, Stage
from slipway.docker_engine.progress import Progress, Silent
from slipway.docker_engine.references import checked, login_command, split
from slipway.docker_engine.request import BuildRequest, build_request
from slipway.docker_engine.transcript import Transcript

if TYPE_CHECKING:
    from docker import APIClient

_REFUSALS: Final = ("denied", "unauthorized", "authentication required", "no basic auth credentials")
"""An engine tells in words only that the registry did not let it in."""


def build_and_push_docker_image(
    dockerfile_path: str | PathLike[str],
    image_name: str,
    registry: str | None = None,
    build_args: Mapping[str, str] | None = None,
    *,
    context: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> str:
    """Build an image, push it when a registry is given, and return its full name.

    Raises ImageBuildError for everything that goes wrong; nothing is pushed after a failed build.
    """
    request = build_request(dockerfile_path, image_name, registry, build_args, context)
    with connected() as engine:
        build_image(engine, request, progress or Silent())
        if registry is not None:
            push_image(engine, request.name, progress or Silent())
    return request.name


def build_image(engine: APIClient, request: BuildRequest, progress: Progress) -> str:
    """Build, and return the id of the image."""
    transcript = Transcript(progress)
    progress.step(f"Building {request.name} from {request.dockerfile}")
    with _failures("build", request.name, transcript):
        events = engine.build(
            path=str(request.context),
            # The SDK looks for a relative one below the context, the docker command below the current folder.
            dockerfile=str(request.dockerfile.absolute()),
            tag=request.name,
            buildargs=dict(request.build_args),
            rm=True,
            forcerm=True,
            decode=True,
        )
        for event in events:
            transcript.add(event)
        _end(transcript, transcript.image)
    return transcript.image


def push_image(engine: APIClient, name: str, progress: Progress) -> str:
    """Push, and return the digest by which the registry knows the image."""
    repository, tag = split(checked(name))
    transcript = Transcript(progress)
    progress.step(f"Pushing {repository}:{tag}")
    with _failures("push", name, transcript):
        for event in engine.push(repository, tag=tag, stream=True, decode=True):
            transcript.add(event)
        _end(transcript, transcript.digest)
    return transcript.digest


def _end(transcript: Transcript, result: str) -> None:
    transcript.end()
    if not transcript.error and not result:
        raise ConnectionError("the engine broke off before it was done")
    if transcript.error:
        raise _EngineSaysNo


class _EngineSaysNo(Exception):
    """The stream ended with an error that the transcript holds."""


@contextmanager
def _failures(stage: Stage, name: str, transcript: Transcript) -> Iterator[None]:
    """Turn whatever the engine, the SDK and the connection raise into the one error."""
    from docker.errors import APIError, DockerException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except _EngineSaysNo:
        raise _failed(stage, name, transcript) from None
    except APIError as error:
        transcript.error = str(error.explanation or error)
        raise _failed(stage, name, transcript) from error
    except (DockerException, HTTPError, OSError, ValueError) as error:
        transcript.error = str(error)
        raise _failed(stage, name, transcript) from error


def _failed(stage: Stage, name: str, transcript: Transcript) -> ImageBuildError:
    code, said = transcript.exit_code, transcript.said()
    if stage == "build":
        place = f" in step {transcript.step}" if transcript.step else ""
        return ImageBuildError(stage, code, said, f"The build of {name} failed with exit code {code}{place}")
    if any(word in transcript.error.lower() for word in _REFUSALS):
        hint = f"Log in with `{login_command(name)}`, as someone who may push there."
        return ImageBuildError(stage, code, said, f"The push was denied to {split(name)[0]} (exit code {code})", hint)
    return ImageBuildError(stage, code, said, f"The push of {name} failed with exit code {code}")
