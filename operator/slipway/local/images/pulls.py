"""Images of a job: pulled before it begins, and named by their ids from then on, so that all hosts run the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slipway.api.slicejob import LOCAL_IMAGE
from slipway.local.containers.containers import BAD_REQUEST, EngineRefuses, as_engine_errors, image_id
from slipway.local.images.progress import BuildReporter
from slipway.local.images.references import login_command, split
from slipway.local.images.transcript import Transcript

if TYPE_CHECKING:
    from docker import APIClient

ALWAYS: Final = "Always"
NEVER: Final = "Never"
_DENIED: Final = ("denied", "unauthorized", "authentication required", "no basic auth credentials")


class ImageUnavailable(Exception):
    """An image is neither on this machine nor can it be pulled."""


def resolve(api: APIClient, reference: str, policy: str | None, progress: BuildReporter) -> str:
    """The id of an image, which is pulled where the policy says so.

    Args:
        policy: imagePullPolicy; without one an image that is missing is pulled, as `docker run` does (E1-22). With
            Always the image on this machine is taken, with a warning, when it cannot be pulled. One that is named by
            its id is not pulled (T-16).

    Raises:
        ImageUnavailable: naming the image, what the registry said, and what to do.
        EngineLost: when the engine does not answer.
    """
    try:
        known = image_id(api, reference)
    except EngineRefuses as error:
        if error.status != BAD_REQUEST:
            raise
        raise ImageUnavailable(f"image {reference!r} is no name of an image: {error}") from error
    by_id = re.match(LOCAL_IMAGE, reference) is not None
    if known is not None and (policy != ALWAYS or by_id):
        return known
    if by_id:
        raise ImageUnavailable(f"image {reference} is not on this machine, and no registry knows an image by its id")
    if policy == NEVER:
        raise ImageUnavailable(f"image {reference} is not on this machine, and imagePullPolicy is {NEVER}")
    try:
        _pull(api, reference, progress)
    except ImageUnavailable as error:
        if known is None:
            raise
        progress.line(f"Warning: {error}. The image of that name on this machine is used, {known[:19]}.")
        return known
    found = image_id(api, reference)
    if found is None:
        raise ImageUnavailable(f"image {reference} is not on this machine, although it was pulled")
    return found


def _pull(api: APIClient, reference: str, progress: BuildReporter) -> None:
    """Pull with the credentials of the Docker configuration."""
    repository, tag = (reference, None) if "@" in reference else split(reference)
    transcript = Transcript(progress)
    progress.step(f"Pulling {reference}")
    try:
        with as_engine_errors():
            # Without a tag the engine would pull every tag of the repository.
            for event in api.pull(repository, tag=tag, stream=True, decode=True):
                transcript.add(event)
    except EngineRefuses as error:
        transcript.error = str(error)
    if transcript.error:
        raise ImageUnavailable(_words(reference, transcript.error))


def _words(reference: str, said: str) -> str:
    if any(word in said.lower() for word in _DENIED):
        name = reference.partition("@")[0] if "@" in reference else reference
        return f"image {reference} cannot be pulled: {said}; log in with `{login_command(name)}`"
    return f"image {reference} cannot be pulled: {said}; check its name, or build it here"
