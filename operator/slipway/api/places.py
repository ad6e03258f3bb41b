"""Where a pod is in its job: its role, and for a worker the slice and the host.

The name of a pod is a function of the job, the attempt and the place, so creating it twice cannot duplicate it.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from slipway.api import names

_INTERVAL: Final = re.compile(r"(\d{1,4}):(\d{1,4})(?:-(\d{1,4}))?")


class Place(NamedTuple):
    """The seat of a pod in its job: it says the name, the labels and the node pool of the pod."""

    role: str
    """`head` or `worker`."""
    slice: int = 0
    """Index of the slice of a worker."""
    host: int = 0
    """Index of a worker's host in its slice."""

    @property
    def is_head(self) -> bool:
        """Whether it is the place of the Ray head, which belongs to no slice."""
        return self.role == names.ROLE_HEAD

    @property
    def words(self) -> str:
        """The place in words."""
        return "the Ray head" if self.is_head else f"host {self.host} of slice {self.slice}"


class Rank(NamedTuple):
    """What a worker is to its program, whichever seat it has: which host of which slice its peers take it for."""

    slice: int
    """Index of the slice, as libtpu and JAX count slices."""
    host: int
    """Index of the host in its slice."""


HEAD: Final = Place(names.ROLE_HEAD)
_POD_NAME: Final = re.compile(r"-(?P<attempt>\d+)-(?:(?P<slice>\d+)-(?P<host>\d+)|head)")


def worker(slice_index: int, host: int) -> Place:
    """The place of a worker."""
    return Place(names.ROLE_WORKER, slice_index, host)


FIRST: Final = worker(0, 0)
"""The place of the worker at which all others meet."""


def pod_name(job: str, attempt: int, place: Place) -> str:
    """Name of the pod of an attempt at that place."""
    where = names.ROLE_HEAD if place.is_head else f"{place.slice}-{place.host}"
    return f"{job}-{attempt}-{where}"


def parse_pod_name(job: str, name: str) -> tuple[int, Place] | None:
    """Attempt and place of a pod by its name, the inverse of `pod_name`; None when Slipway gives no such name."""
    found = _POD_NAME.fullmatch(name, len(job)) if name.startswith(job) else None
    if found is None:
        return None
    place = HEAD if found["slice"] is None else worker(int(found["slice"]), int(found["host"]))
    return int(found["attempt"]), place


def intervals(places: Iterable[Place]) -> tuple[str, ...]:
    """Places as `slice:first-last` strings, in order; `parse_intervals` reads them back."""
    runs: list[list[int]] = []
    for _, slice_index, host in sorted(place for place in places if not place.is_head):
        if runs and runs[-1][0] == slice_index and runs[-1][2] == host - 1:
            runs[-1][2] = host
        else:
            runs.append([slice_index, host, host])
    return tuple(f"{s}:{first}" if first == last else f"{s}:{first}-{last}" for s, first, last in runs)


def parse_intervals(texts: Iterable[str]) -> frozenset[Place]:
    """The places that `intervals` wrote; any other text is ignored."""
    places: set[Place] = set()
    for found in filter(None, map(_INTERVAL.fullmatch, texts)):
        slice_index, first, last = int(found[1]), int(found[2]), int(found[3] or found[2])
        places.update(worker(slice_index, host) for host in range(first, last + 1))
    return frozenset(places)
