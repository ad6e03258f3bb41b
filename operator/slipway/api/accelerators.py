"""TPU slice shapes: every way in which people name one, and the single shape that it means.

The same slice is called `v5litepod-16`, `v5e-16`, `v5e-4x4`, and label `tpu-v5-lite-podslice` with topology `4x4`.
`resolve` accepts all of them and answers with one `Shape`; what it refuses, it refuses with the nearest that it
would accept.

Names are compared without regard to case, because no two differ by case alone. The sides of a known generation's
topology may come in any order, because GKE makes slices in rising order only: `8x4x4` is `4x4x8`.
"""

import re
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from slipway.api.accelerator_errors import (
    AcceleratorError,
    Wanted,
    count,
    near_sizes,
    near_topologies,
    offer,
    offer_similar,
    refusal,
    shown,
    smallest,
    spell,
)
from slipway.api.tpu_generations import (
    BY_SPELLING,
    GENERATIONS,
    Dims,
    Generation,
    canonical_type,
    default_topologies,
    host_choices,
    topologies_by_sides,
)

__all__ = ["AcceleratorError", "Shape", "Wanted", "known_types", "resolve"]

CHIPS_OF_A_HOST: Final = (1, 2, 4, 8)
"""How many chips a host can have (GKE's TPU device plugin)."""

MAX_UNKNOWN_CHIPS: Final = 65_536
"""Most chips in a slice of an unknown generation: seven times the largest known one, to catch slips."""

_SIZED: Final = re.compile(
    r"(?P<name>.+?)-(?:(?P<number>0|[1-9][0-9]{0,17})|(?P<topology>[0-9]+(?:x[0-9]+)+))(?:-(?P<hosts>[1-9][0-9]{0,4}))?"
)
"""Name, size, and at times the number of hosts: axlearn and Ray call the 2x4 on one host `v6e-8-1`."""
_TOPOLOGY: Final = re.compile(r"[1-9][0-9]{0,4}(?:x[1-9][0-9]{0,4}){1,2}")
_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,19}")
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SELF_LABELLED: Final = re.compile(r"tpu(?:[7-9]|[1-9][0-9])[a-z]?")
"""Generations whose name is their label (GKE's TPU device plugin); those before 7 have other labels."""
_KNOWN: Final = ", ".join(one.name for one in GENERATIONS)


@dataclass(frozen=True, slots=True)
class Shape:
    """One TPU slice: how many hosts it has, and how its chips lie."""

    generation: str
    """Short name (`v5e`); for a generation outside the catalogue the name it was asked by."""
    type: str
    """Canonical type (TPU_ACCELERATOR_TYPE): `v5litepod-16`, `v5p-16`, `tpu7x-128`."""
    label: str
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    topology: str
    """Chips along each side (TPU_TOPOLOGY; node label cloud.google.com/gke-tpu-topology): `4x4`, `2x2x2`."""
    hosts: int
    """Hosts (VMs) of the slice."""
    chips_per_host: int
    """Chips of one host: what its worker requests as google.com/tpu."""
    chips: int
    """Chips of the slice."""


def known_types() -> tuple[str, ...]:
    """Every named size of every generation in the catalogue, in canonical spelling, fewest chips first."""
    return tuple(
        canonical_type(generation, chips)
        for generation in GENERATIONS
        for chips in sorted(default_topologies(generation))
    )


def resolve(
    type: str | None = None,
    *,
    generation: str | None = None,
    topology: str | None = None,
    chips_per_host: int | None = None,
    label: str | None = None,
    chips: int | None = None,
) -> Shape:
    """The one shape that all arguments together name.

    A stated topology goes before the one that a bare name stands for: `v5p-768` is 4x8x12, and with topology
    4x4x24 it is that. A generation outside the catalogue is accepted when topology and chips_per_host are stated,
    and the label too unless GKE's pattern for new generations (`tpu8i`) gives it; the number in its type is taken
    as stated, and counts chips when there is none.

    Args:
        type: `v5litepod-16`, `v5e-16`, `v6e-4x8`, `tpu7x-128`; without a size when another argument gives it.
        generation: `v5p`, an alias of it, or its node label.
        topology: chips along each side of the slice, `4x8` or `2x2x4`.
        chips_per_host: chips of one host (VM); needed for 2x4 of v5e and v6e.
        label: value of the node label cloud.google.com/gke-tpu-accelerator.
        chips: chips of the whole slice.

    Raises:
        AcceleratorError: when no shape fits, or more than one.
    """
    asked = _read(Wanted(type, generation, topology, chips_per_host, label, chips))
    known = _generation(asked)
    return _known_shape(known, asked) if known else _unknown_shape(asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked, with its type and topology taken apart."""

    wanted: Wanted
    name: str | None = None
    """The generation's part of the type, in lower case."""
    number: int | None = None
    """The number in the type."""
    hosts: int | None = None
    """The hosts that the type states after its size."""
    dims: Dims | None = None
    """The topology, from its own field or from the type."""

    @property
    def names(self) -> list[tuple[str, str, str]]:
        """Every stated name of the generation: its field, the field's value, the name in it."""
        names = (
            ("type", self.wanted.type, self.name),
            ("generation", self.wanted.generation, _lower(self.wanted.generation)),
            ("label", self.wanted.label, self.wanted.label),
        )
        return [(field, text, name) for field, text, name in names if text is not None and name is not None]

    @property
    def topology_field(self) -> tuple[str, str | None]:
        """The field that states the topology, or should, and its value."""
        by_type = self.wanted.type is not None and self.wanted.topology is None
        return ("type", self.wanted.type) if by_type else ("topology", self.wanted.topology)


def _read(wanted: Wanted) -> _Asked:
    name, number, hosts, inner = _read_type(wanted.type)
    if wanted.topology is None:
        return _Asked(wanted, name, number, hosts, inner)
    dims = _read_topology("topology", wanted.topology, wanted.topology)
    if inner and sorted(inner) != sorted(dims):
        problem = f"type {shown(wanted.type)} says {spell(inner)}; leave one of them out"
        raise refusal("topology", wanted.topology, problem)
    return _Asked(wanted, name, number, hosts, dims)


def _read_type(text: str | None) -> tuple[str | None, int | None, int | None, Dims | None]:
    """Name, number, hosts and topology in a type."""
    if text is None:
        return None, None, None, None
    sized = _SIZED.fullmatch(text.lower())
    if sized is None:
        return text.lower(), None, None, None
    hosts = int(sized["hosts"]) if sized["hosts"] else None
    if sized["number"]:
        return sized["name"], int(sized["number"]), hosts, None
    return sized["name"], None, hosts, _read_topology("type", text, sized["topology"])


def _read_topology(field: str, value: str, text: str) -> Dims:
    if _TOPOLOGY.fullmatch(text.lower()) is None:
        problem = "a topology is two or three whole numbers of at least 1, such as 4x8 or 2x2x4"
        raise refusal(field, value, problem)
    return tuple(int(side) for side in text.lower().split("x"))


def _generation(asked: _Asked) -> Generation | None:
    """The generation on which all stated names agree; None for one outside the catalogue."""
    found = [(field, value, BY_SPELLING.get(name)) for field, value, name in asked.names]
    first = next(((field, value, generation) for field, value, generation in found if generation), None)
    if first is None:
        return None
    generation = first[2]
    for field, value, other in found:
        if other is not generation or (field == "label" and value not in generation.labels):
            allowed = " or ".join(generation.labels) if field == "label" else generation.name
            problem = f"{first[0]} {shown(first[1])} is {generation.name}, so this is {allowed} or left out"
            raise refusal(field, value, problem)
    return generation


# Generations of the catalogue


def _known_shape(known: Generation, asked: _Asked) -> Shape:
    dims = _known_dims(known, asked, _stated_chips(known, asked))
    chips, label = prod(dims), _known_label(known, asked)
    per_host = _known_chips_per_host(known, asked, dims, label)
    kind = canonical_type(known, chips)
    return Shape(known.name, kind, label, spell(dims), chips // per_host, per_host, chips)


def _stated_chips(known: Generation, asked: _Asked) -> int | None:
    """The chips that the type's number and `chips` state: one size, and one that the generation has."""
    wanted, cores, sizes = asked.wanted, known.cores_per_chip, default_topologies(known)
    chips = None
    if asked.number is not None:
        chips, rest = divmod(asked.number, cores)
        if rest or chips not in sizes:
            counted = "chips" if cores == 1 else f"TensorCores ({cores} to a chip)"
            problem = f"{known.name} has no slice of {asked.number} {counted}"
            near = near_sizes(known, asked.number / cores)
            raise refusal("type", wanted.type, problem, offer(known, near, wanted))
    if wanted.chips is None or wanted.chips == chips:
        return chips
    if chips is not None:
        problem = f"type {shown(wanted.type)} has {chips}; leave one of them out"
        raise refusal("chips", wanted.chips, problem)
    if wanted.chips not in sizes:
        problem = f"{known.name} has no slice of {wanted.chips} chips"
        raise refusal("chips", wanted.chips, problem, offer(known, near_sizes(known, wanted.chips), wanted))
    return wanted.chips


def _known_dims(known: Generation, asked: _Asked, chips: int | None) -> Dims:
    wanted, (field, value) = asked.wanted, asked.topology_field
    if asked.dims is None:
        if chips is None:
            problem = f"no size of {known.name} is stated"
            raise refusal(field, value, problem, offer(known, smallest(known), wanted))
        return default_topologies(known)[chips]
    dims = topologies_by_sides(known).get(tuple(sorted(asked.dims)))
    if dims is None:
        offers = offer(known, near_topologies(known, asked.dims, chips), wanted)
        raise refusal(field, value, f"{known.name} has no such topology", offers)
    if chips not in (None, prod(dims)):
        stated = "chips" if asked.number is None else f"type {shown(wanted.type)}"
        offers = offer(known, (*near_topologies(known, dims, chips)[:1], dims), wanted)
        raise refusal(field, value, f"it has {prod(dims)} chips, but {stated} says {chips}", offers)
    return dims


def _known_label(known: Generation, asked: _Asked) -> str:
    legacy = known.single_host_label
    by_legacy = legacy in (asked.name, _lower(asked.wanted.generation))
    return asked.wanted.label or (legacy if legacy and by_legacy else known.label)


def _known_chips_per_host(known: Generation, asked: _Asked, dims: Dims, label: str) -> int:
    wanted, chips, offers = asked.wanted, prod(dims), offer(known, (dims,), asked.wanted)
    choices = host_choices(known, dims)
    hosts = " or ".join(f"{count(chips // n, 'host')} of {count(n, 'chip')}" for n in choices)
    problem = f"{spell(dims)} of {known.name} is {hosts}"
    if label == known.single_host_label:
        choices = tuple(n for n in choices if n == chips)
        if not choices:
            problem = f"its nodes are slices of one host, which {spell(dims)} is not"
            raise refusal("label", label, problem, offers)
    if asked.hosts is not None:
        choices = tuple(n for n in choices if n * asked.hosts == chips)
        if not choices:
            raise refusal("type", wanted.type, problem, offers)
    if wanted.chips_per_host in choices:
        return wanted.chips_per_host
    if wanted.chips_per_host is None and len(choices) == 1:
        return choices[0]
    raise refusal("chipsPerHost", wanted.chips_per_host, problem, offers)


# Generations outside the catalogue


def _unknown_shape(asked: _Asked) -> Shape:
    wanted, dims, per_host = asked.wanted, asked.dims, asked.wanted.chips_per_host
    name, label = _unknown_name(asked)
    if dims is None or per_host is None:
        field = "topology" if dims is None else "chipsPerHost"
        problem = f"{name} is not in the catalogue ({_KNOWN}), so topology and chipsPerHost have to be stated"
        raise refusal(field, None, problem, offer_similar(name, asked.number, dims, wanted))
    chips, hosts = prod(dims), _unknown_hosts(asked, dims, per_host)
    if wanted.chips not in (None, chips):
        problem = f"topology {spell(dims)} has {chips}; leave one of them out"
        raise refusal("chips", wanted.chips, problem)
    number = chips if asked.number is None else asked.number
    if number == 0 or number % chips or asked.hosts not in (None, hosts):
        offers = (replace(wanted, type=f"{name}-{chips}", topology=spell(dims)),)
        problem = f"{spell(dims)} is {chips} chips on {count(hosts, 'host')}, and the number counts chips or cores"
        raise refusal("type", wanted.type, problem, offers)
    return Shape(name, f"{name}-{number}", label, spell(dims), hosts, per_host, chips)


def _unknown_name(asked: _Asked) -> tuple[str, str]:
    """Name and label of a generation outside the catalogue."""
    if not asked.names:
        raise refusal("type", None, "state a type such as v5litepod-16, or generation and topology")
    (field, value, name), *others = asked.names
    for other_field, other_value, other in others:
        if other_field == "generation" and other != name:
            problem = f"type {shown(value)} is of {shown(name)}; leave one of them out"
            raise refusal(other_field, other_value, problem)
    label = asked.wanted.label
    named_by_user = field != "label" and label is not None and _NAME.fullmatch(name)
    if not named_by_user and not _SELF_LABELLED.fullmatch(name):
        problem = f"not in the catalogue ({_KNOWN}); a new generation needs label, topology and chipsPerHost too"
        raise refusal(field, value, problem, offer_similar(name, asked.number, asked.dims, asked.wanted))
    if label is not None and not _LABEL.fullmatch(label):
        raise refusal("label", label, "no node label can have this value")
    return name, label or name


def _unknown_hosts(asked: _Asked, dims: Dims, chips_per_host: int) -> int:
    chips = prod(dims)
    if chips > MAX_UNKNOWN_CHIPS:
        field, value = asked.topology_field
        raise refusal(field, value, f"it has {chips} chips; at most {MAX_UNKNOWN_CHIPS} are possible")
    possible = [n for n in CHIPS_OF_A_HOST if chips % n == 0]
    if chips_per_host not in possible:
        problem = f"a host of {spell(dims)} can have {' or '.join(str(n) for n in possible)} chips"
        raise refusal("chipsPerHost", chips_per_host, problem)
    return chips // chips_per_host


def _lower(text: str | None) -> str | None:
    return text.lower() if text is not None else None
