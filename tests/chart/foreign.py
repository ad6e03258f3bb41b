"""CRDs of others that the chart's objects and the examples are of, from the Go modules of their projects."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.go_modules import download

CRDS: Final = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "github.com/fluxcd/kustomize-controller@v1.6.0": (
        "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    ),
    "github.com/fluxcd/source-controller@v1.8.0": ("config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",),
}
"""Files by module. Those of Flux's HelmRelease and of Argo CD are in no module that is small enough, or at all."""


def crds() -> Iterator[Any]:
    """The CRDs, as their projects publish them."""
    for module, names in CRDS.items():
        folder = download(module)
        yield from (yaml.safe_load((folder / name).read_text()) for name in names)
