"""Images of jobs are pulled before anything else, and are known by their ids from then on (T-08, T-16, E1-22)."""

from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console

from slipway.local.engine.address import connected
from slipway.local.images.building import build_and_push_docker_image
from slipway.local.images.progress import Plain
from slipway.local.images.pulls import ALWAYS, NEVER, ImageUnavailable, resolve
from tests.local.conftest import log_in
from tests.local.servers import registry_in


class Someone:
    """Who has images resolved, and reads what is said meanwhile."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.screen = StringIO()

    def resolve(self, reference: str, policy: str | None = None) -> str:
        with connected() as api:
            return resolve(api, reference, policy, Plain(Console(file=self.screen, width=200)))

    def id_of(self, reference: str) -> str:
        return str(self.client.images.get(reference).id)

    def forget(self, reference: str) -> str:
        """Delete an image of this machine; returns the id that it had."""
        known = self.id_of(reference)
        self.client.images.remove(reference, force=True)
        return known


@pytest.fixture
def someone(client: Any) -> Someone:
    return Someone(client)


def pushed(registry: str, name: str | None = None) -> str:
    """An image of the registry that is on this machine, too, and is none that was built before."""
    name = name or f"{registry}/app-{uuid4().hex[:8]}:1"
    address, _, rest = name.partition("/")
    return build_and_push_docker_image("Dockerfile", rest, address, {"WHO": uuid4().hex})


@pytest.mark.row("E1-22", "T-16")
@pytest.mark.parametrize("policy", [None, ALWAYS, "IfNotPresent"])
def test_an_image_that_is_missing_is_pulled(source: Path, someone: Someone, registry: str, policy: str | None) -> None:
    name = pushed(registry)
    known = someone.forget(name)
    assert someone.resolve(name, policy) == known == someone.id_of(name)
    assert f"Pulling {name}" in someone.screen.getvalue()
    assert "Pull complete" in someone.screen.getvalue()


@pytest.mark.row("T-16")
def test_an_image_is_pulled_with_the_credentials_of_the_docker_configuration(
    source: Path, someone: Someone, tmp_path: Path, locked_registry: str
) -> None:
    log_in(tmp_path / "docker", locked_registry)
    name = pushed(locked_registry)
    known = someone.forget(name)
    (tmp_path / "docker" / "config.json").unlink()
    with pytest.raises(ImageUnavailable, match=f"{name} cannot be pulled: .*docker login {locked_registry}"):
        someone.resolve(name)
    log_in(tmp_path / "docker", locked_registry)
    assert someone.resolve(name) == known


@pytest.mark.row("T-08", "T-16")
def test_a_tag_that_has_moved_is_followed_only_where_the_job_says_always(
    source: Path, someone: Someone, registry: str
) -> None:
    name = pushed(registry)
    old = someone.id_of(name)
    new = someone.id_of(pushed(registry, name))
    someone.client.images.get(old).tag(name)
    assert someone.resolve(name) == old
    assert someone.resolve(name, NEVER) == old
    assert someone.screen.getvalue() == ""
    assert someone.resolve(name, ALWAYS) == new


@pytest.mark.row("T-16")
def test_what_cannot_be_pulled_but_is_here_is_used_with_a_warning(
    source: Path, someone: Someone, servers_folder: Path
) -> None:
    with registry_in(servers_folder / f"gone-{uuid4().hex[:8]}") as registry:
        name = pushed(registry)
    assert someone.resolve(name, ALWAYS) == someone.id_of(name)
    assert f"Warning: image {name} cannot be pulled: " in someone.screen.getvalue()
    assert f"on this machine is used, {someone.id_of(name)[:19]}" in someone.screen.getvalue()
    someone.forget(name)
    with pytest.raises(ImageUnavailable, match=f"image {name} cannot be pulled: .*check its name, or build it here"):
        someone.resolve(name, ALWAYS)


@pytest.mark.row("T-16")
@pytest.mark.parametrize("part", [slice(None), slice(7, None), slice(7, 19)], ids=["whole", "digits", "12 digits"])
def test_an_image_that_is_named_by_its_id_is_not_pulled(
    source: Path, someone: Someone, registry: str, part: slice
) -> None:
    name = pushed(registry)
    known = someone.id_of(name)
    assert someone.resolve(known[part], ALWAYS) == known
    someone.forget(name)
    with pytest.raises(ImageUnavailable, match=f"image {known[part]} is not on this machine, and no registry knows"):
        someone.resolve(known[part], ALWAYS)
    assert someone.screen.getvalue() == ""


def test_a_name_that_no_image_can_have_is_told_as_such(someone: Someone) -> None:
    with pytest.raises(ImageUnavailable, match=r"image 'Team/app' is no name of an image: .*lowercase"):
        someone.resolve("Team/app")
