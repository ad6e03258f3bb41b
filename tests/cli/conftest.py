"""What tests of commands share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.api_server import NAMESPACE, ApiServer, serving
from tests.serving import kubeconfig


@pytest.fixture
def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server that $KUBECONFIG leads to."""
    with serving() as found:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, found.url, namespace=NAMESPACE)))
        yield found
