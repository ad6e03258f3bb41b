"""What is generated from the models is as the models say."""

from slipway.api import crd
from tests.conftest import CRD, ROOT


def test_the_generated_crd_is_up_to_date() -> None:
    assert CRD.read_text() == crd.to_yaml(), "run `make generate`"


def test_no_default_is_null_and_every_field_is_described() -> None:
    def walk(path: str, node: dict[str, object]) -> None:
        assert node.get("default", 0) is not None, path
        for name, child in (node.get("properties") or {}).items():  # type: ignore[attr-defined]
            assert child.get("description"), f"{path}.{name} has no description"
            walk(f"{path}.{name}", child)

    for part in ("spec", "status"):
        walk(part, crd.openapi_schema()["properties"][part])


def test_the_operator_folder_is_no_package() -> None:
    # A package of that name would hide Python's own module `operator`.
    assert not (ROOT / "operator/__init__.py").exists()
