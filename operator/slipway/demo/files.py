"""Where the files that the demo shows people are: beside the package in a wheel, at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def shipped(name: str) -> Path:
    """A folder of the distribution: `examples` or `crds`."""
    packaged = _PACKAGE / "_shipped" / name
    return packaged if packaged.exists() else _PACKAGE.parent.parent / name
