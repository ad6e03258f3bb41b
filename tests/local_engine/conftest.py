"""One engine for all tests here; for each test a user of it, who leaves nothing behind."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from slipway.devcluster.programs import packages
from slipway.devcluster.progress import Silent
from tests.local.servers import PACKAGES
from tests.local_engine.engine import NETWORK_PACKAGES, Dockerd, Engine, User, engine_in, shared_folder
from tests.waiting import START_SECONDS, until


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    packages.ensure(PACKAGES | NETWORK_PACKAGES, Silent())
    # Short, because the paths of sockets may not be long.
    with (
        tempfile.TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as folder,
        engine_in(Path(folder)) as found,
    ):
        yield found


@pytest.fixture
def engine(dockerd: Dockerd) -> Iterator[Engine]:
    """What is on the engine, past Slipway."""
    client = docker.DockerClient(base_url=dockerd.host, timeout=START_SECONDS)
    yield Engine(client)
    client.close()


@pytest.fixture
def user(dockerd: Dockerd, engine: Engine, tmp_path: Path) -> Iterator[User]:
    """Whoever types the commands. In the end nothing of the jobs may be left."""
    found = User(tmp_path / "state", dockerd.host)
    yield found
    if names := found.unfinished():
        found.slipway("delete", "--yes", "--wait", *names)
    until("the end of all supervisors", lambda: not found.supervisors())
    found.slipway("prune")
    assert engine.of_jobs() == []


@pytest.fixture
def shared(tmp_path: Path) -> dict[str, Any]:
    """Fields of a job whose hosts see a folder of this machine as /shared."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return shared_folder(folder)
