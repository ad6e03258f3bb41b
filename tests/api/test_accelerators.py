import csv
import dataclasses
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slipway.api.accelerators import AcceleratorError, Shape, Wanted, known_types, resolve
from slipway.api.tpu_generations import BY_SPELLING, GENERATIONS


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of tpu_shapes.csv: facts of xpk and GKE's device plugin, not of the code under test."""

    type: str
    label: str
    topology: str
    hosts: int
    chips_per_host: int
    chips: int
    default: bool
    """Whether the bare type means this topology."""

    @property
    def facts(self) -> tuple[str, str, str, int, int, int]:
        return self.type, self.label, self.topology, self.hosts, self.chips_per_host, self.chips

    @property
    def open(self) -> bool:
        """Whether only chipsPerHost tells which of two layouts is meant."""
        return self.topology == "2x4"

    @property
    def stated(self) -> dict[str, int]:
        return {"chips_per_host": self.chips_per_host} if self.open else {}


def _rows() -> Iterator[Row]:
    with Path(__file__).with_name("tpu_shapes.csv").open(newline="") as lines:
        for line in csv.DictReader(lines):
            numbers = (int(line[name]) for name in ("hosts", "chips_per_host", "chips"))
            yield Row(line["type"], line["label"], line["topology"], *numbers, line["default"] == "1")


ROWS = tuple(_rows())
NAMED = tuple(row for row in ROWS if row.default)
rows = st.sampled_from(ROWS)


def facts(shape: Shape) -> tuple[str, str, str, int, int, int]:
    return shape.type, shape.label, shape.topology, shape.hosts, shape.chips_per_host, shape.chips


def ask(wanted: Wanted) -> Shape:
    return resolve(**dataclasses.asdict(wanted))


def attempt(wanted: Wanted) -> Shape | AcceleratorError:
    try:
        return ask(wanted)
    except AcceleratorError as error:
        return error


def refused(*args: str, **kwargs: object) -> AcceleratorError:
    with pytest.raises(AcceleratorError) as caught:
        resolve(*args, **kwargs)
    return caught.value


# The catalogue against the table


def test_the_table_is_whole() -> None:
    assert len(NAMED) == 342 + 2, "342 named types, and the second layouts of v5litepod-8 and v6e-8"
    assert len(ROWS) - len(NAMED) == 707


def test_known_types_are_those_of_the_table() -> None:
    assert sorted(known_types()) == sorted({row.type for row in NAMED})
    assert len(set(known_types())) == len(known_types())


def test_every_named_type_means_its_default_topology() -> None:
    assert [facts(resolve(row.type, **row.stated)) for row in NAMED] == [row.facts for row in NAMED]


def test_every_label_and_topology_means_its_shape() -> None:
    found = [facts(resolve(generation=row.label, topology=row.topology, **row.stated)) for row in ROWS]
    assert found == [row.facts for row in ROWS]


def test_every_type_with_topology_means_that_topology() -> None:
    found = [facts(resolve(row.type, topology=row.topology, **row.stated)) for row in ROWS]
    assert found == [row.facts for row in ROWS]


def test_every_type_spelt_by_topology_means_that_topology() -> None:
    found = [facts(resolve(f"{row.type.split('-')[0]}-{row.topology}", **row.stated)) for row in ROWS]
    assert found == [row.facts for row in ROWS]


def test_no_other_topology_is_accepted() -> None:
    valid = {(row.label, row.topology) for row in ROWS}
    sides = (1, 2, 3, 4, 6, 8, 12, 16, 20, 32)
    for one in GENERATIONS:
        for dims in [(a, b) for a in sides for b in sides] + [(a, b, c) for a in sides for b in sides for c in sides]:
            if list(dims) == sorted(dims) and dims != (1, 2, 2):
                topology = "x".join(map(str, dims))
                asked = Wanted(label=one.label, topology=topology, chips_per_host=min(prod(dims), 4))
                accepted = isinstance(attempt(asked), Shape)
                assert accepted == ((one.label, topology) in valid), (one.name, topology)


def test_no_two_generations_share_a_spelling() -> None:
    assert all(BY_SPELLING[spelling] is one for one in GENERATIONS for spelling in one.spellings)
    assert all(spelling == spelling.lower() for spelling in BY_SPELLING)


# Spellings


@pytest.mark.parametrize(
    ("spelling", "type", "topology", "hosts"),
    [
        ("v4-8", "v4-8", "2x2x1", 1),
        ("v4-32", "v4-32", "2x2x4", 4),
        ("v5litepod-16", "v5litepod-16", "4x4", 4),
        ("v5e-16", "v5litepod-16", "4x4", 4),
        ("v5lite-16", "v5litepod-16", "4x4", 4),
        ("tpu-v5e-slice-16", "v5litepod-16", "4x4", 4),
        ("v5litepod-4x4", "v5litepod-16", "4x4", 4),
        ("v5e-8x4", "v5litepod-32", "4x8", 8),
        ("v5e-1", "v5litepod-1", "1x1", 1),
        ("v6e-4x8", "v6e-32", "4x8", 8),
        ("trillium-256", "v6e-256", "16x16", 64),
        ("v6e-8-1", "v6e-8", "2x4", 1),
        ("v6e-8-2", "v6e-8", "2x4", 2),
        ("v6e-2x4-2", "v6e-8", "2x4", 2),
        ("v5p-8", "v5p-8", "2x2x1", 1),
        ("v5p-16", "v5p-16", "2x2x2", 2),
        ("v5p-4x4x8", "v5p-256", "4x4x8", 32),
        ("v5p-17920", "v5p-17920", "16x20x28", 2240),
        ("tpu-v5p-slice-2x2x2", "v5p-16", "2x2x2", 2),
        ("tpu7x-2", "tpu7x-2", "1x1x1", 1),
        ("tpu7x-8", "tpu7x-8", "2x2x1", 1),
        ("tpu7x-128", "tpu7x-128", "4x4x4", 16),
        ("7x-128", "tpu7x-128", "4x4x4", 16),
        ("v7x-128", "tpu7x-128", "4x4x4", 16),
        ("Ironwood-128", "tpu7x-128", "4x4x4", 16),
        ("TPU7X-18432", "tpu7x-18432", "16x24x24", 2304),
        ("V5LitePod-4X4", "v5litepod-16", "4x4", 4),
        ("v4-8x4x4", "v4-256", "4x4x8", 32),
        ("v5p-1x2x2", "v5p-8", "2x2x1", 1),
        ("v4-8-1", "v4-8", "2x2x1", 1),
    ],
)
def test_spelling(spelling: str, type: str, topology: str, hosts: int) -> None:
    shape = resolve(spelling)
    assert (shape.type, shape.topology, shape.hosts) == (type, topology, hosts)


@pytest.mark.parametrize(
    ("asked", "type", "topology"),
    [
        ({"generation": "tpu-v5p-slice", "topology": "2x2x2"}, "v5p-16", "2x2x2"),
        ({"generation": "V5P", "topology": "2x2x2"}, "v5p-16", "2x2x2"),
        ({"generation": "v5e", "topology": "16x8"}, "v5litepod-128", "8x16"),
        ({"label": "tpu7x", "topology": "1x1x1"}, "tpu7x-2", "1x1x1"),
        ({"generation": "v5p", "chips": 512}, "v5p-1024", "8x8x8"),
        ({"type": "v5p", "topology": "4x4x4"}, "v5p-128", "4x4x4"),
        ({"type": "tpu-v6e-slice", "topology": "4x4"}, "v6e-16", "4x4"),
        ({"type": "v5p-768", "topology": "4x4x24"}, "v5p-768", "4x4x24"),
        ({"type": "v5p-4x4x8", "topology": "8x4x4"}, "v5p-256", "4x4x8"),
        ({"type": "v5p-16", "generation": "v5p", "label": "tpu-v5p-slice", "chips": 8}, "v5p-16", "2x2x2"),
        ({"type": "v5p-16", "chips_per_host": 4}, "v5p-16", "2x2x2"),
    ],
)
def test_arguments_that_agree(asked: dict[str, object], type: str, topology: str) -> None:
    shape = resolve(**asked)
    assert (shape.type, shape.topology) == (type, topology)


@pytest.mark.parametrize("spelling", ["v5litepod-8", "v5e-8", "v6e-8", "v6e-2x4", "v5e-4x2"])
def test_2x4_needs_chips_per_host(spelling: str) -> None:
    error = refused(spelling)
    assert error.field == "chipsPerHost"
    assert "1 host of 8 chips or 2 hosts of 4 chips" in str(error)
    assert [ask(one).chips_per_host for one in error.suggestions] == [8, 4]
    assert (resolve(spelling, chips_per_host=8).hosts, resolve(spelling, chips_per_host=4).hosts) == (1, 2)


def test_the_old_single_host_label_of_v5e_leaves_nothing_open() -> None:
    shape = resolve("v5e-8", label="tpu-v5-lite-device")
    assert facts(shape) == ("v5litepod-8", "tpu-v5-lite-device", "2x4", 1, 8, 8)
    assert facts(resolve(generation="tpu-v5-lite-device", topology="2x4")) == facts(shape)
    assert facts(resolve("tpu-v5-lite-device-8")) == facts(shape)


# Generations outside the catalogue


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"type": "tpu8i-4x4x4", "chips_per_host": 4}, ("tpu8i-64", "tpu8i", "4x4x4", 16, 4, 64)),
        (
            {"type": "tpu8i-128", "topology": "4x4x4", "chips_per_host": 4},
            ("tpu8i-128", "tpu8i", "4x4x4", 16, 4, 64),
        ),
        (
            {"generation": "TPU8T", "topology": "8x4x4", "chips_per_host": 4},
            ("tpu8t-128", "tpu8t", "8x4x4", 32, 4, 128),
        ),
        (
            {"generation": "tpu8i", "topology": "4x4", "chips_per_host": 8, "chips": 16},
            ("tpu8i-16", "tpu8i", "4x4", 2, 8, 16),
        ),
        ({"label": "tpu12", "topology": "2x2", "chips_per_host": 4}, ("tpu12-4", "tpu12", "2x2", 1, 4, 4)),
        (
            {"type": "tpu8i-16", "label": "tpu8i-lab", "topology": "4x4", "chips_per_host": 4},
            ("tpu8i-16", "tpu8i-lab", "4x4", 4, 4, 16),
        ),
        (
            {"type": "v9-8", "label": "tpu-v9-slice", "topology": "2x4", "chips_per_host": 4},
            ("v9-8", "tpu-v9-slice", "2x4", 2, 4, 8),
        ),
        (
            {"type": "tpu8i-16-2", "topology": "4x4", "chips_per_host": 8},
            ("tpu8i-16", "tpu8i", "4x4", 2, 8, 16),
        ),
    ],
)
def test_a_new_generation_is_taken_as_stated(asked: dict[str, object], expected: tuple[object, ...]) -> None:
    shape = resolve(**asked)
    assert facts(shape) == expected
    again = resolve(shape.type, topology=shape.topology, chips_per_host=shape.chips_per_host, label=shape.label)
    assert again == shape


# Refusals: the field, the value, what is allowed, the nearest that is


@pytest.mark.parametrize(
    ("asked", "field", "suggestions"),
    [
        ({}, "type", ""),
        ({"type": ""}, "type", ""),
        ({"type": "a100"}, "type", ""),
        ({"type": "v9-8"}, "type", "type v4-8"),
        ({"type": "v5-16"}, "type", "type v5p-16 | type v5litepod-16 | type v4-16"),
        ({"type": "tpu6e-16"}, "type", "type tpu7x-16 | type v6e-16"),
        ({"type": " v4-8"}, "type", "type v4-8"),
        ({"type": "v5p-016"}, "type", "type v5p-8"),
        ({"type": "v4-7"}, "type", "type v4-8"),
        ({"type": "v4-24"}, "type", "type v4-16 | type v4-32"),
        ({"type": "v4-0"}, "type", "type v4-8"),
        ({"type": "v4-99999999"}, "type", "type v4-8192"),
        ({"type": "tpu7x-1"}, "type", "type tpu7x-2"),
        ({"type": "tpu7x-4"}, "type", "type tpu7x-2 | type tpu7x-8"),
        ({"type": "v5p-100"}, "type", "type v5p-128 | type v5p-64"),
        ({"type": "v6e-20"}, "type", "type v6e-16 | type v6e-32"),
        (
            {"type": "v5e-7"},
            "type",
            "type v5litepod-8-1 | type v5litepod-8-2 | type v5litepod-4",
        ),
        ({"type": "v5p"}, "type", "type v5p-8 | type v5p-16"),
        (
            {"generation": "v5p"},
            "topology",
            "generation v5p with topology 2x2x1 | generation v5p with topology 2x2x2",
        ),
        ({"generation": "v5p-16"}, "generation", "generation v5p with topology 2x2x1"),
        (
            {"generation": "tpu-v5p-slcie", "topology": "2x2x2"},
            "generation",
            "generation v5p with topology 2x2x2",
        ),
        ({"label": "tpu-v6e-slize", "topology": "4x4"}, "label", "generation v6e with topology 4x4"),
        ({"type": "v5p-16", "topology": "4x4x4"}, "topology", "type v5p-16 | type v5p-128"),
        ({"type": "v5p-16", "topology": "2x2"}, "topology", "type v5p-16"),
        ({"type": "v5p-768", "topology": "4x4x6"}, "topology", "type v5p-768 | type v5p-768 with topology 4x4x24"),
        ({"type": "v5p-4x4x4", "topology": "4x4x8"}, "topology", ""),
        ({"type": "v5p-4x4"}, "type", "type v5p-32 | type v5p-16 | type v5p-8"),
        ({"type": "v5e-4x4x4"}, "type", "type v5litepod-64 | type v5litepod-32 | type v5litepod-16"),
        ({"type": "v5p-4x4x6"}, "type", "type v5p-128 | type v5p-256 | type v5p-64"),
        ({"type": "v5p-0x4"}, "type", ""),
        ({"type": "v5p-8", "topology": "2x2x"}, "topology", ""),
        ({"type": "v5p-8", "topology": "2x2x1x1"}, "topology", ""),
        ({"type": "v5p-8", "topology": ""}, "topology", ""),
        ({"type": "v5p-16", "chips_per_host": 8}, "chipsPerHost", "type v5p-16"),
        ({"type": "v5p-16", "chips_per_host": 0}, "chipsPerHost", "type v5p-16"),
        ({"type": "tpu7x-2", "chips_per_host": 4}, "chipsPerHost", "type tpu7x-2"),
        (
            {"type": "v6e-8", "chips_per_host": 1},
            "chipsPerHost",
            "type v6e-8 with chipsPerHost 8 | type v6e-8 with chipsPerHost 4",
        ),
        ({"type": "v6e-8-1", "chips_per_host": 4}, "chipsPerHost", "type v6e-8 with chipsPerHost 4"),
        (
            {"type": "v6e-8-4"},
            "type",
            "type v6e-8-1 | type v6e-8-2",
        ),
        ({"type": "v5p-8", "label": "tpu-v6e-slice"}, "label", ""),
        ({"type": "v5e-8", "label": "tpu-v5e-slice"}, "label", ""),
        ({"type": "v5p-8", "generation": "v6e"}, "generation", ""),
        ({"type": "v9-8", "generation": "v6e"}, "type", ""),
        ({"type": "v5e-16", "label": "tpu-v5-lite-device"}, "label", "type v5litepod-16"),
        ({"type": "v5p-8", "chips": 8}, "chips", ""),
        (
            {"generation": "v5p", "chips": 7},
            "chips",
            "generation v5p with topology 2x2x2 | generation v5p with topology 2x2x1",
        ),
        (
            {"generation": "v5p", "topology": "2x2x2", "chips": 4},
            "topology",
            "generation v5p with topology 2x2x1 | generation v5p with topology 2x2x2",
        ),
        ({"type": "tpu8i-128"}, "topology", "type tpu7x-128"),
        ({"type": "tpu8i-4x4x4"}, "chipsPerHost", "type tpu7x-128"),
        ({"type": "tpu8i-16", "generation": "tpu8t", "topology": "4x4", "chips_per_host": 4}, "generation", ""),
        (
            {"type": "tpu8i-100", "topology": "4x4", "chips_per_host": 4},
            "type",
            "type tpu8i-16 with topology 4x4 and chipsPerHost 4",
        ),
        ({"generation": "tpu8i", "topology": "4x4", "chips_per_host": 3}, "chipsPerHost", ""),
        ({"generation": "tpu8i", "topology": "4x4", "chips_per_host": 4, "chips": 8}, "chips", ""),
        ({"generation": "tpu8i", "topology": "999x999", "chips_per_host": 1}, "topology", ""),
        ({"type": "v9-16", "label": "tpu v9", "topology": "4x4", "chips_per_host": 4}, "label", ""),
        ({"type": "tpu6e-16", "topology": "4x4", "chips_per_host": 4}, "type", "type tpu7x-32 | type v6e-16"),
    ],
)  # fmt: skip
def test_refusal(asked: dict[str, object], field: str, suggestions: str) -> None:
    error = refused(**asked)
    assert (error.field, " | ".join(map(str, error.suggestions))) == (field, suggestions)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"type": "v4-7"}, "type 'v4-7': v4 has no slice of 7 TensorCores (2 to a chip); try type v4-8"),
        (
            {"type": "v9-8"},
            "type 'v9-8': not in the catalogue (v4, v5e, v5p, v6e, tpu7x); a new generation needs label, topology "
            "and chipsPerHost too; try type v4-8",
        ),
        (
            {"type": "v5p-16", "topology": "4x4x4"},
            "topology '4x4x4': it has 64 chips, but type 'v5p-16' says 8; try type v5p-16 or type v5p-128",
        ),
        (
            {"type": "v5p-16", "chips_per_host": 8},
            "chipsPerHost 8: 2x2x2 of v5p is 2 hosts of 4 chips; try type v5p-16",
        ),
        (
            {"type": "v5litepod-8"},
            "chipsPerHost is not set: 2x4 of v5e is 1 host of 8 chips or 2 hosts of 4 chips; try type v5litepod-8-1 or "
            "type v5litepod-8-2",
        ),
        (
            {"generation": "v6e", "topology": "2x4"},
            "chipsPerHost is not set: 2x4 of v6e is 1 host of 8 chips or 2 hosts of 4 chips; try generation v6e with "
            "topology 2x4 and chipsPerHost 8 or generation v6e with topology 2x4 and chipsPerHost 4",
        ),
        (
            {"type": "v5p-8", "label": "tpu-v6e-slice"},
            "label 'tpu-v6e-slice': type 'v5p-8' is v5p, so this is tpu-v5p-slice or left out",
        ),
    ],
)  # fmt: skip
def test_message(asked: dict[str, object], message: str) -> None:
    assert str(refused(**asked)) == message


def test_an_endless_value_is_cut_in_the_message() -> None:
    assert len(str(refused("v" * 100_000))) < 250


# Properties

spellings = st.sampled_from(sorted(BY_SPELLING))
sizes = st.one_of(
    st.integers(0, 20_000).map(str),
    st.lists(st.integers(0, 40), min_size=1, max_size=4).map(lambda sides: "x".join(map(str, sides))),
)
names = st.one_of(
    spellings, st.sampled_from(["v9", "v5", "tpu8i", "tpu-v5p-slcie"]), st.text("vtpu456e7xi", max_size=6)
)
types = st.one_of(st.builds("{}-{}".format, names, sizes), names, st.text(max_size=12))
requests = st.builds(
    Wanted,
    type=st.none() | types,
    generation=st.none() | names,
    topology=st.none() | sizes | st.sampled_from([row.topology for row in ROWS]),
    chips_per_host=st.none() | st.integers(0, 9),
    label=st.none() | spellings | st.text("tpuv59-slice", max_size=12),
    chips=st.none() | st.integers(-1, 10_000),
)


@given(requests)
def test_any_request_is_answered_or_refused_with_requests_that_are_answered(wanted: Wanted) -> None:
    answer = attempt(wanted)
    if isinstance(answer, AcceleratorError):
        assert re.match(r"(type|generation|topology|chipsPerHost|label|chips) ", str(answer))
        assert all(isinstance(attempt(suggestion), Shape) for suggestion in answer.suggestions)
    else:
        sides = map(int, answer.topology.split("x"))
        assert answer.hosts * answer.chips_per_host == answer.chips == prod(sides)
        assert int(answer.type.rpartition("-")[2]) % answer.chips == 0


@given(rows)
def test_label_topology_and_chips_per_host_round_trip(row: Row) -> None:
    shape = resolve(label=row.label, topology=row.topology, chips_per_host=row.chips_per_host)
    assert facts(shape) == row.facts
    assert resolve(shape.type, topology=shape.topology, chips_per_host=shape.chips_per_host) == shape
    assert resolve(shape.generation, chips=shape.chips, topology=shape.topology, **row.stated) == shape


@given(rows, st.data())
def test_case_and_the_order_of_sides_change_nothing(row: Row, data: st.DataObject) -> None:
    spelling = data.draw(st.sampled_from(BY_SPELLING[row.label].spellings))
    assume("device" not in spelling)
    sides = data.draw(st.permutations(row.topology.split("x")))
    asked = data.draw(st.sampled_from([str.upper, str.lower, str.title]))(f"{spelling}-{'x'.join(sides)}")
    assert facts(resolve(asked, **row.stated)) == row.facts


@given(rows, st.integers(0, 20_000))
def test_a_number_is_accepted_exactly_when_the_table_has_it(row: Row, number: int) -> None:
    asked = f"{row.type.split('-')[0]}-{number}"
    assume(asked not in ("v5litepod-8", "v6e-8"))
    answer = attempt(Wanted(asked))
    if asked in known_types():
        assert isinstance(answer, Shape)
        assert answer.type == asked
    else:
        assert isinstance(answer, AcceleratorError)
        assert answer.suggestions
