"""Quantities, as Kubernetes writes them."""

from decimal import Decimal

import pytest
from pydantic import ValidationError

from slipway.api.reading import read_spec
from slipway.api.resources import Resources, amount, docker_size


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("16Gi", 16 * 1024**3),
        ("500m", Decimal("0.5")),
        ("1e3", 1000),
        ("1E-03", Decimal("0.001")),
        (2, 2),
        ("0", 0),
        ("1e-30", Decimal("1e-9")),
        ("0.5n", Decimal("1e-9")),
        ("1e5000", None),
        ("1e999999999", None),
        ("lots", None),
    ],
)
def test_what_a_quantity_stands_for(quantity: object, number: object) -> None:
    assert amount(quantity) == number


@pytest.mark.parametrize("exponent", ["5000", "-100", "999999999"])
def test_an_exponent_that_nothing_can_count_with_is_refused(exponent: str) -> None:
    spec, said = read_spec({"image": "i", "resources": {"limits": {"memory": f"1e{exponent}"}}})
    assert said == f"spec.resources.limits.memory '1e{exponent}': must be a quantity such as 16Gi, 500m or 2"
    assert spec is not None
    assert spec.resources.limits == {}


@pytest.mark.parametrize("text", ["1\n", "1Gi\n", "\n1", "1 "])
def test_a_quantity_is_the_whole_text(text: str) -> None:
    with pytest.raises(ValidationError):
        Resources(limits={"cpu": text})
    assert amount(text) is None


SIZES = {
    "512m": "512Mi", "512M": "512Mi", "1g": "1Gi", "2GB": "2Gi", "64k": "64Ki", "1t": "1Ti", "1048576": "1048576",
    "100b": "100", "2Gi": "2Gi", "1.5Gi": "1.5Gi", "1.5g": None, "x": None, "-1g": None, "": None, "1 g": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "size"), SIZES.items(), ids=SIZES)
def test_a_size_in_docker_s_units_is_a_quantity(text: str, size: str | None) -> None:
    assert docker_size(text) == size
