"""The TPU catalogue: for each generation what no rule yields, and the rules that yield the rest.

The rules, as GKE's documentation, xpk (`system_characteristics.py`) and GKE's device plugin (`util.go`) have them:

- A slice of up to 32 chips, and any slice of v5e and v6e, has one of a few fixed topologies. A larger one is 3-D,
  its sides are multiples of 4 in rising order, and each is at most 256.
- The number in a name counts TensorCores: `v4-8` is 4 chips of 2 cores, `v6e-8` is 8 chips of 1.
- A host has 1 chip in a slice of one chip and 4 otherwise; v5e and v6e also have a host of 8 chips, so that their
  2x4 is one host or two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Final

Dims = tuple[int, ...]
"""Chips along each side."""

MAX_SIDE: Final = 256
"""Most chips along one side of a 3-D slice (xpk)."""

_FLAT: Final[tuple[Dims, ...]] = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_DEEP: Final[tuple[Dims, ...]] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generation:
    """One TPU generation: what the rules need to know about it."""

    name: str
    """The short name people use."""
    prefix: str
    """What TPU_ACCELERATOR_TYPE begins with."""
    label: str
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    aliases: tuple[str, ...] = ()
    """Further spellings of the name, in lower case."""
    single_host_label: str | None = None
    """An older label, whose nodes are always slices of one host."""
    cores_per_chip: int
    """TensorCores of a chip; where it is 1, the number in a name counts chips."""
    max_chips: int
    """Chips of the largest slice."""
    machines: Mapping[int, str]
    """GCE machine type by the chips of a host."""
    fixed: tuple[Dims, ...]
    """Topologies that are not made of 4x4x4 cubes."""
    compact_chips: int = 0
    """Up to this many chips a bare name means the shape nearest to a cube, above it the flattest."""
    exceptions: Mapping[int, Dims] = field(default_factory=dict)
    """What a bare name means where that rule does not yield it, by number of chips (xpk)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The node labels its nodes may carry."""
        return (self.label, self.single_host_label) if self.single_host_label else (self.label,)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Everything that names this generation, in lower case."""
        return (self.name, self.prefix, *self.aliases, *self.labels)


_LARGE: Final[Mapping[int, Dims]] = {6912: (12, 24, 24), 8960: (16, 20, 28)}

GENERATIONS: Final = (
    Generation(
        name="v4",
        prefix="v4",
        label="tpu-v4-podslice",
        cores_per_chip=2,
        max_chips=4096,
        machines={4: "ct4p-hightpu-4t"},
        fixed=_DEEP,
        exceptions={256: (4, 8, 8), 512: (8, 8, 8), 768: (8, 8, 12), 1024: (8, 8, 16), 2048: (8, 16, 16)},
    ),
    Generation(
        name="v5e",
        prefix="v5litepod",
        label="tpu-v5-lite-podslice",
        # The last is no node's label, but Google's cluster-toolkit spells the generation so.
        aliases=("v5lite", "tpu-v5e-slice"),
        single_host_label="tpu-v5-lite-device",
        cores_per_chip=1,
        max_chips=256,
        machines={1: "ct5lp-hightpu-1t", 4: "ct5lp-hightpu-4t", 8: "ct5lp-hightpu-8t"},
        fixed=_FLAT,
    ),
    Generation(
        name="v5p",
        prefix="v5p",
        label="tpu-v5p-slice",
        cores_per_chip=2,
        max_chips=8960,
        machines={4: "ct5p-hightpu-4t"},
        fixed=_DEEP,
        compact_chips=6144,
        exceptions=_LARGE,
    ),
    Generation(
        name="v6e",
        prefix="v6e",
        label="tpu-v6e-slice",
        aliases=("trillium",),
        cores_per_chip=1,
        max_chips=256,
        machines={1: "ct6e-standard-1t", 4: "ct6e-standard-4t", 8: "ct6e-standard-8t"},
        fixed=_FLAT,
    ),
    Generation(
        name="tpu7x",
        prefix="tpu7x",
        label="tpu7x",
        aliases=("7x", "v7x", "ironwood"),
        cores_per_chip=2,
        max_chips=9216,
        machines={1: "tpu7x-standard-1t", 4: "tpu7x-standard-4t"},
        fixed=((1, 1, 1), *_DEEP),
        compact_chips=6144,
        exceptions={**_LARGE, 8192: (16, 16, 32), 9216: (16, 24, 24)},
    ),
)
"""The catalogue, oldest first."""

BY_SPELLING: Final = {spelling: one for one in GENERATIONS for spelling in one.spellings}
"""Generation by any of its spellings."""


@cache
def topologies(generation: Generation) -> tuple[Dims, ...]:
    """Every topology of a generation as GKE spells it, fewest chips first."""
    cubes = _cubes(generation.max_chips) if len(generation.fixed[0]) == 3 else []
    return tuple(sorted([*generation.fixed, *cubes], key=lambda dims: (prod(dims), dims)))


@cache
def topologies_by_sides(generation: Generation) -> Mapping[Dims, Dims]:
    """The same topologies by their sides in rising order, which is not how GKE spells 2x2x1."""
    return {tuple(sorted(dims)): dims for dims in topologies(generation)}


@cache
def default_topologies(generation: Generation) -> Mapping[int, Dims]:
    """What a bare name of a generation means, by number of chips, in rising order."""
    defaults: dict[int, Dims] = {}
    for dims in topologies(generation):
        defaults.setdefault(prod(dims), dims)
        if prod(dims) <= generation.compact_chips:
            defaults[prod(dims)] = min(defaults[prod(dims)], dims, key=sum)
    return {**defaults, **generation.exceptions}


def host_choices(generation: Generation, dims: Dims) -> tuple[int, ...]:
    """How many chips a host of such a slice may have, most first; several where the topology leaves it open."""
    chips = prod(dims)
    return tuple(n for n in sorted(generation.machines, reverse=True) if n == chips or (n == 4 and chips > 4))


def canonical_type(generation: Generation, chips: int) -> str:
    """The type (TPU_ACCELERATOR_TYPE) of a slice of so many chips."""
    return f"{generation.prefix}-{chips * generation.cores_per_chip}"


def _cubes(max_chips: int) -> list[Dims]:
    sides = range(4, min(MAX_SIDE, max_chips // 16) + 1, 4)
    return [
        (a, b, c)
        for a in sides
        for b in sides[sides.index(a) :]
        if a * b * b <= max_chips
        for c in sides[sides.index(b) :]
        if a * b * c <= max_chips
    ]
