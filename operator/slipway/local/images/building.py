"""Building an image on the engine, and pushing it to its registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slipway.local.engine.address import connected
from slipway.local.engine.errors import ImageBuildError, Stage
from slipway.local.images.progress import BuildReporter, Silent
from slipway.local.images.references import checked, login_command, split
from slipway.local.images.request import BuildRequest, build_request, laid_over, overlay_dockerfile
from slipway.local.images.transcript import Transcript

if TYPE_CHECKING:
    from docker import APIClient

_IGNORE: Final = ".dockerignore"
_OVERLAY: Final = ".slipway.Dockerfile"
_REFUSALS: Final = ("denied", "unauthorized", "authentication required", "no basic auth credentials")
"""An engine tells in words only that the registry did not let it in."""


def build_and_push_docker_image(
    dockerfile_path: str | PathLike[str],
    image_name: str,
    registry: str | None = None,
    build_args: Mapping[str, str] | None = None,
    *,
    context: str | PathLike[str] | None = None,
    progress: BuildReporter | None = None,
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


def build_image(engine: APIClient, request: BuildRequest, progress: BuildReporter) -> str:
    """Build, and return the id of the image."""
    transcript = Transcript(progress)
    what = request.dockerfile if request.base is None else f"{request.context} over {request.base}"
    progress.step(f"Building {request.name} from {what}")
    with _failures("build", request.name, transcript), _sources(request) as sources:
        events = engine.build(
            **sources,
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


def lay_over(engine: APIClient, image: str, folder: Path, progress: BuildReporter) -> str:
    """Lay a folder over the working directory of an image, and return the id of what comes of it.

    What .dockerignore names is left out. The same files over the same image are the same image: the engine has it
    cached (T-02, T-44).
    """
    # The engine takes a bare id for the name of an image.
    base = image.removeprefix("sha256:")
    return build_image(engine, laid_over(base, f"slipway.local/patched:{base[:12]}", folder), progress)


@contextmanager
def _sources(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Where the engine finds the Dockerfile and what it copies."""
    if request.base is None:
        # The SDK looks for a relative one below the context, the docker command below the current folder.
        yield {"path": str(request.context), "dockerfile": str(request.dockerfile.absolute())}
        return
    from docker.utils.build import tar

    # By the SDK's own name for such a Dockerfile, which is another each time, nothing would ever be cached.
    left_out = [*_ignored(request.context), _IGNORE]
    with closing(tar(request.context, left_out, (_OVERLAY, overlay_dockerfile(request.base)))) as context:
        yield {"fileobj": context, "custom_context": True, "dockerfile": _OVERLAY}


def _ignored(folder: Path) -> list[str]:
    try:
        lines = (folder / _IGNORE).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def push_image(engine: APIClient, name: str, progress: BuildReporter) -> str:
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
