"""What is said when no TPU slice shape answers to a request, and what is offered instead."""

import difflib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from slipway.api.tpu_generations import (
    BY_SPELLING,
    Dims,
    Generation,
    canonical_type,
    default_topologies,
    host_choices,
    topologies,
)

_VERY_SIMILAR: Final = 0.85
_SIMILAR: Final = 0.5
"""Least similarity of two names, from 0 to 1: a slip of the finger, and a guess (difflib)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One way to ask for a shape: the arguments of `resolve`, and the form in which errors offer corrections."""

    type: str | None = None
    generation: str | None = None
    topology: str | None = None
    chips_per_host: int | None = None
    label: str | None = None
    chips: int | None = None

    def __str__(self) -> str:
        words = (
            ("type", self.type),
            ("generation", self.generation),
            ("topology", self.topology),
            ("chipsPerHost", self.chips_per_host),
            ("label", self.label),
            ("chips", self.chips),
        )
        first, *rest = (f"{word} {value}" for word, value in words if value is not None)
        return f"{first} with {' and '.join(rest)}" if rest else first


class AcceleratorError(ValueError):
    """No shape, or more than one, answers to what was asked.

    The message names the field as the resource spells it, its value, what is allowed, and what is nearest to it.
    """

    def __init__(self, message: str, *, field: str = "", suggestions: tuple[Wanted, ...] = ()) -> None:
        super().__init__(message)
        self.field: Final = field
        """The field to change, as the resource spells it: `type`, `topology`, `chipsPerHost` …"""
        self.suggestions: Final = suggestions
        """What could be asked instead; `resolve` accepts each of them."""


def refusal(field: str, value: object, problem: str, offers: Sequence[Wanted] = ()) -> AcceleratorError:
    """The error for one field; `value` is None when it is not set."""
    subject = f"{field} is not set" if value is None else f"{field} {shown(value)}"
    advice = f"; try {' or '.join(str(offer) for offer in offers)}" if offers else ""
    return AcceleratorError(f"{subject}: {problem}{advice}", field=field, suggestions=tuple(offers))


def offer(known: Generation, shapes: Iterable[Dims], wanted: Wanted) -> list[Wanted]:
    """Requests for these topologies, in the words in which the refused one was made."""
    offers: list[Wanted] = []
    for dims in shapes:
        if wanted.type is None:
            request = Wanted(generation=known.name, topology=spell(dims))
        else:
            default = default_topologies(known)[prod(dims)] == dims
            request = Wanted(canonical_type(known, prod(dims)), topology=None if default else spell(dims))
        choices = host_choices(known, dims)
        if len(choices) == 1:
            offers.append(request)
        elif wanted.chips_per_host in choices:
            offers.append(replace(request, chips_per_host=wanted.chips_per_host))
        elif request.type is not None and wanted.chips_per_host is None:
            # TYPE-HOSTS says it wherever a type can be said, chipsPerHost in manifests only.
            offers += [replace(request, type=f"{request.type}-{prod(dims) // n}") for n in choices]
        else:
            offers += [replace(request, chips_per_host=n) for n in choices]
    return offers


def offer_similar(name: str, number: int | None, dims: Dims | None, wanted: Wanted) -> list[Wanted]:
    """Requests, at most three, for the nearest size of the generations whose names look most like this one."""
    spellings = difflib.get_close_matches(name, BY_SPELLING, n=1, cutoff=_VERY_SIMILAR)
    spellings = spellings or difflib.get_close_matches(name, BY_SPELLING, n=len(BY_SPELLING), cutoff=_SIMILAR)
    offers: list[Wanted] = []
    for generation in dict.fromkeys(BY_SPELLING[spelling] for spelling in spellings):
        if dims is not None:
            shapes = near_topologies(generation, dims)
        elif number is not None:
            shapes = near_sizes(generation, number / generation.cores_per_chip)
        else:
            shapes = smallest(generation)
        offers += offer(generation, shapes[:1], wanted)
    return offers[:3]


def near_sizes(known: Generation, chips: float) -> list[Dims]:
    """Default topologies of the nearest size below and of the nearest above, where they exist; the nearer first."""
    sizes = sorted(default_topologies(known))
    below, above = [n for n in sizes if n <= chips][-1:], [n for n in sizes if n > chips][:1]
    near = sorted(below + above, key=lambda n: abs(n - chips))
    return [default_topologies(known)[n] for n in near]


def near_topologies(known: Generation, dims: Dims, chips: int | None = None) -> list[Dims]:
    """Up to three topologies, of so many chips if that is stated, nearest first in chips and then in sides."""

    def distance(other: Dims) -> tuple[int, int, Dims]:
        sides = zip(sorted((*dims, 1)[:3]), sorted((*other, 1)[:3]), strict=True)
        return abs(prod(other) - prod(dims)), sum(abs(a - b) for a, b in sides), other

    return heapq.nsmallest(
        3, (topology for topology in topologies(known) if chips in (None, prod(topology))), key=distance
    )


def smallest(known: Generation) -> list[Dims]:
    """The two smallest topologies: what a size looks like."""
    return list(topologies(known)[:2])


def spell(numbers: Iterable[int], by: str = "x") -> str:
    """Numbers as a topology, or by commas as TPU environment variables have them."""
    return by.join(str(number) for number in numbers)


def shown(value: object) -> str:
    """A value as messages show it, cut where it is too long to be meant."""
    return repr(f"{value[:60]}…" if isinstance(value, str) and len(value) > 60 else value)


def count(number: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
