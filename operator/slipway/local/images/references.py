"""Names of images: what they are made of, and which are refused before anything is built."""

from __future__ import annotations

import re
from typing import Final

from slipway.api.slicejob import IMAGE_PATTERN
from slipway.local.engine.errors import refuse

DEFAULT_TAG: Final = "latest"


def full_name(image_name: str, registry: str | None = None) -> str:
    """Return `registry/image_name`, or the image's name alone when there is no registry."""
    if registry is None:
        return checked(image_name)
    if "://" in registry:
        raise refuse(f"The registry {registry!r} has a scheme.", f"Write {registry.split('://', 1)[1].rstrip('/')!r}.")
    if registry.endswith("/"):
        raise refuse(f"The registry {registry!r} ends with a slash.", f"Write {registry.rstrip('/')!r}.")
    return checked(f"{registry}/{image_name}")


def checked(name: str) -> str:
    """Return a name that an image can be built and pushed under, or say what is wrong with it."""
    if not name.strip():
        raise refuse("The name of the image is empty.")
    if "@" in name:
        raise refuse(f"The image {name!r} has a digest, which only a finished image can have.", "Give a tag instead.")
    repository, _ = split(name)
    _, path = _host(repository)
    if path != path.lower():
        raise refuse(f"The image {name!r} has upper case in its repository.", f"Write {path.lower()!r} there.")
    if not re.fullmatch(IMAGE_PATTERN.strip("^$"), name):
        raise refuse(f"{name!r} does not name an image.", "A name looks like registry.example/team/app:v1.0.")
    return name


def split(name: str) -> tuple[str, str]:
    """Return repository and tag. The engine takes no tag for all tags, so the usual one is filled in."""
    repository, colon, tag = name.rpartition(":")
    # A colon before a slash belongs to the registry's port.
    if not colon or "/" in tag:
        return name, DEFAULT_TAG
    return repository, tag


def login_command(name: str) -> str:
    """Return the command that logs in to the registry that a name leads to; docker has one for names without."""
    return f"docker login {_host(split(name)[0])[0]}".rstrip()


def _host(repository: str) -> tuple[str, str]:
    first, slash, rest = repository.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if named else ("", repository)
