"""The images of the pods: from which registry each is pulled."""

from collections.abc import Mapping


def pulled(image: str, mirrors: Mapping[str, str]) -> str:
    """The reference by which an image is pulled: with its registry, and by the mirror of that, if there is one."""
    registry, _, rest = image.partition("/")
    is_host = "." in registry or ":" in registry or registry == "localhost" or registry != registry.lower()
    if not rest or not is_host:
        registry, rest = "docker.io", image if "/" in image else f"library/{image}"
    return f"{mirrors.get(registry, registry)}/{rest}"


def mirrored(image: str, mirrors: Mapping[str, str]) -> str:
    """The image as a pod names it: as it was written, where its registry has no mirror."""
    return found if mirrors and (found := pulled(image, mirrors)) != pulled(image, {}) else image
