"""This machine's engine is a place of jobs like any other."""

import io

import pytest

from slipway.client.target import Target
from slipway.local.client.target import LocalTarget
from tests.cli.contract import Contract
from tests.local_engine.engine import IMAGE, Engine, User

OBEDIENT = "slipway.local/obedient:1"
"""The image whose containers end as soon as they are asked to: a shell that is PID 1 ignores SIGTERM."""


class TestThisMachine(Contract):
    """What every place of jobs does, done by containers."""

    image = OBEDIENT

    @pytest.fixture
    def target(self, user: User, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Target:
        dockerfile = io.BytesIO(f"FROM {IMAGE}\nSTOPSIGNAL SIGKILL\n".encode())
        engine.client.images.build(fileobj=dockerfile, tag=OBEDIENT)
        for name in ("XDG_STATE_HOME", "DOCKER_HOST"):
            monkeypatch.setenv(name, user.variables[name])
        return LocalTarget()
