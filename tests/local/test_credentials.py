"""Credentials of the Docker configuration, as the docker command uses them."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker.auth import get_config_header
from docker.credentials import StoreError
from docker.errors import DockerException

from slipway.local.engine.connection import Connection

KNOWN = "known.example"
STORED = {"auths": {KNOWN: {"auth": "dXNlcjpwYXNz"}}}
WORKS = """\
#!/bin/sh
[ $1 = list ] && echo '{"known.example": "of-helper"}' || echo '{"Username": "of-helper", "Secret": "x"}'
"""
LOCKED = "#!/bin/sh\necho the keychain is locked\nexit 1\n"


def headers(folder: Path) -> Iterator[Any]:
    """What a pull from the registry sends, and then what a build sends for it."""
    with closing(Connection(base_url=f"unix://{folder}/none.sock", version="1.41", num_pools=1)) as api:
        found = get_config_header(api, KNOWN)
        yield found and json.loads(urlsafe_b64decode(found))
        of_build: dict[str, bytes] = {}
        api._set_auth_headers(of_build)
        sent = of_build.get("X-Registry-Config")
        yield json.loads(urlsafe_b64decode(sent)).get(KNOWN) if sent else None


@pytest.mark.parametrize(
    ("configuration", "helper", "user", "said"),
    [
        pytest.param(STORED, None, "user", "", id="without a helper"),
        pytest.param({"credsStore": "mine"}, WORKS, "of-helper", "", id="a helper"),
        pytest.param({"credsStore": "mine"}, None, None, "docker-credential-mine not installed", id="a missing helper"),
        pytest.param(
            {"credHelpers": {KNOWN: "mine"}}, None, None, "docker-credential-mine not installed",
            id="a missing helper of the registry",
        ),
        pytest.param(
            STORED | {"credsStore": "mine"}, None, "user", "docker-credential-mine not installed",
            id="a missing helper beside stored credentials",
        ),
    ],
)  # fmt: skip
def test_what_a_missing_helper_would_tell_is_left_out(
    configuration: dict[str, Any],
    helper: str | None,
    user: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An image that everybody may pull is pulled all the same."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    if helper is not None:
        (tmp_path / "docker-credential-mine").write_text(helper)
        (tmp_path / "docker-credential-mine").chmod(0o755)
    for sent in headers(tmp_path):
        assert (sent.get("Username") or sent["username"] if sent else None) == user
    assert said in caplog.text
    assert (f"{tmp_path}/config.json" in caplog.text) == bool(said)


def test_a_helper_that_fails_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its person has logged in, and would wonder why the registry refuses them."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "mine"}))
    (tmp_path / "docker-credential-mine").write_text(LOCKED)
    (tmp_path / "docker-credential-mine").chmod(0o755)
    with closing(Connection(base_url=f"unix://{tmp_path}/none.sock", version="1.41", num_pools=1)) as api:
        with pytest.raises(DockerException, match="the keychain is locked"):
            get_config_header(api, KNOWN)
        with pytest.raises(StoreError, match="the keychain is locked"):
            api._set_auth_headers({})
