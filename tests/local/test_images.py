"""Building and pushing from Python, on a real engine and to a real registry."""

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from slipway.local.engine.address import connected
from slipway.local.engine.errors import ImageBuildError
from slipway.local.images.building import build_and_push_docker_image, push_image
from slipway.local.images.progress import Silent
from tests.local.conftest import Contents, log_in
from tests.local.servers import PASSWORD, USER, Breakable, Engine


def fresh() -> str:
    """A name that no other test uses."""
    return f"app-{uuid4().hex[:8]}"


def output_of(client: Any, image: str, command: list[str] | None = None) -> str:
    said: bytes = client.containers.run(image, command, remove=True, network_mode="none")
    return said.decode().strip()


# E1-45: only the Dockerfile and the name are needed; the full name comes back. E1-49: no registry, no push.
def test_an_image_without_a_registry_is_built_and_stays_here(source: Path, client: Any) -> None:
    name = f"{fresh()}:v1.0"
    assert build_and_push_docker_image("Dockerfile", name) == name
    assert output_of(client, name) == "made for nobody"


# E1-45, E1-46, E1-47, E1-49
def test_with_a_registry_the_image_is_built_and_pushed_under_the_full_name(
    source: Path, client: Any, registry: str, contents: Contents
) -> None:
    name = fresh()
    full = build_and_push_docker_image(str(source / "Dockerfile"), f"{name}:v1.0", f"{registry}/team", {"WHO": "us"})
    assert full == f"{registry}/team/{name}:v1.0"
    assert contents.tags(f"team/{name}") == ["v1.0"]
    assert output_of(client, full) == "made for us"


# E1-46: the name stays as it was given; what is pushed is its usual tag and no other of the same name.
def test_without_a_tag_only_the_latest_is_pushed(
    source: Path, engine: Engine, registry: str, contents: Contents
) -> None:
    name = fresh()
    build_and_push_docker_image("Dockerfile", f"{registry}/{name}:other")
    assert build_and_push_docker_image("Dockerfile", name, registry) == f"{registry}/{name}"
    assert contents.tags(name) == ["latest"]


# E1-47: the context is the folder of the Dockerfile, wherever the caller is, unless it says otherwise.
def test_the_context_is_the_folder_of_the_dockerfile(
    source: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    first, second = fresh(), fresh()
    build_and_push_docker_image("source/Dockerfile", first)
    assert output_of(client, first) == "made for nobody"
    (source / "docker").mkdir()
    moved = (source / "Dockerfile").rename(source / "docker" / "Dockerfile")
    build_and_push_docker_image(moved, second, context="source")
    assert output_of(client, second) == "made for nobody"
    with pytest.raises(ImageBuildError, match="COPY"):
        build_and_push_docker_image(moved, fresh())


# E1-47
def test_what_dockerignore_names_is_left_out(source: Path, client: Any) -> None:
    (source / "secret.txt").write_text("x")
    (source / "data.txt").write_text("x")
    (source / ".dockerignore").write_text("# not for others\nsecret.*\n")
    with (source / "Dockerfile").open("a") as file:
        file.write("COPY . /all\n")
    name = fresh()
    build_and_push_docker_image("Dockerfile", name)
    assert output_of(client, name, ["/bin/busybox", "ls", "/all"]).split() == ["Dockerfile", "busybox", "data.txt"]


@pytest.mark.row("E1-49", "E1-50", "B-38")
def test_a_failed_step_is_told_with_its_code_and_its_last_lines_and_nothing_is_pushed(
    source: Path, engine: Engine, registry: str, contents: Contents
) -> None:
    name = fresh()
    with pytest.raises(RuntimeError) as caught:
        build_and_push_docker_image("Dockerfile", name, registry, {"CODE": "7"})
    error = caught.value
    assert isinstance(error, ImageBuildError)
    assert (error.stage, error.exit_code) == ("build", 7)
    assert {"to stdout", "to stderr"} <= set(error.stderr.splitlines())
    assert f"The build of {registry}/{name} failed with exit code 7 in step 6/7: RUN echo" in str(error)
    assert "  to stderr\n" in str(error)
    assert "COPY" not in error.stderr
    assert contents.tags(name) == []


@pytest.mark.parametrize(
    ("dockerfile", "sentence"),
    [
        ("", "The build of .* failed with exit code 1\n  .*cannot be empty"),
        ("FROM scratch\nRUN --mount=type=cache,target=/x true\n", "(?s)--mount option requires BuildKit"),
        ("FROM scratch\nCOPI . /\n", "(?i)unknown instruction: COPI"),
        ("FROM scratch\nCOPY nothing /\n", "(?s)in step 2/2: COPY nothing /.*nothing: no such file|not found"),
    ],
)
@pytest.mark.row("E1-50", "B-38")
def test_a_dockerfile_that_makes_no_sense(source: Path, engine: Engine, dockerfile: str, sentence: str) -> None:
    (source / "Dockerfile").write_text(dockerfile)
    with pytest.raises(ImageBuildError, match=sentence) as caught:
        build_and_push_docker_image("Dockerfile", fresh())
    assert caught.value.stage == "build"


@pytest.mark.row("E1-50", "B-38")
def test_a_push_that_the_registry_denies(source: Path, engine: Engine, locked_registry: str, tmp_path: Path) -> None:
    name = fresh()
    with pytest.raises(ImageBuildError) as caught:
        build_and_push_docker_image("Dockerfile", name, locked_registry)
    error = caught.value
    assert (error.stage, error.exit_code) == ("push", 1)
    assert f"The push was denied to {locked_registry}/{name}" in str(error)
    assert f"docker login {locked_registry}" in str(error)
    assert error.stderr.splitlines()[-1] == "no basic auth credentials"
    log_in(tmp_path / "docker", locked_registry, "wrong")
    with pytest.raises(ImageBuildError, match="denied to"):
        build_and_push_docker_image("Dockerfile", name, locked_registry)


# E1-49
def test_a_push_uses_the_login_of_docker(source: Path, engine: Engine, locked_registry: str, tmp_path: Path) -> None:
    log_in(tmp_path / "docker", locked_registry)
    name = fresh()
    assert build_and_push_docker_image("Dockerfile", name, locked_registry) == f"{locked_registry}/{name}"


# E1-49: clouds hand out logins that last an hour through a program beside docker.
def test_a_push_uses_a_credential_helper(
    source: Path, engine: Engine, locked_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"ServerURL": locked_registry, "Username": USER, "Secret": PASSWORD}
    helper = tmp_path / "bin" / "docker-credential-ours"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(json.dumps({"credHelpers": {locked_registry: "ours"}}))
    name = fresh()
    assert build_and_push_docker_image("Dockerfile", name, locked_registry) == f"{locked_registry}/{name}"
    helper.write_text("#!/bin/sh\necho 'the token has expired'; exit 1\n")
    with pytest.raises(ImageBuildError, match="the token has expired"):
        build_and_push_docker_image("Dockerfile", name, locked_registry)


# E1-50
def test_a_push_of_what_was_never_built_and_to_where_nobody_listens(source: Path, engine: Engine) -> None:
    with connected() as connection, pytest.raises(ImageBuildError, match="does not exist locally") as caught:
        push_image(connection, "127.0.0.1:9/nothing:1", Silent())
    assert caught.value.stage == "push"
    with pytest.raises(ImageBuildError, match="connection refused"):
        build_and_push_docker_image("Dockerfile", fresh(), "127.0.0.1:9")


# E1-50: a build that is cut off has not succeeded.
@pytest.mark.usefixtures("forgiving")
def test_a_connection_that_breaks_in_the_middle_of_a_build(
    source: Path, engine: Engine, servers_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = 'RUN ["/bin/busybox", "sh", "-c", "echo begun; sleep 60"]'
    (source / "Dockerfile").write_text(f"FROM scratch\nCOPY busybox /bin/busybox\n{sleep}\n")
    with Breakable(servers_folder / "breakable.sock", engine.host) as way:
        monkeypatch.setenv("DOCKER_HOST", way.host)

        class Break(Silent):
            def line(self, text: str) -> None:
                if text == "begun":
                    way.cut()

        with pytest.raises(ImageBuildError) as caught:
            build_and_push_docker_image("Dockerfile", fresh(), progress=Break())
    assert caught.value.stage == "build"
    assert "in step 3/3: RUN" in str(caught.value)
    assert caught.value.stderr.splitlines()[0] == "begun"
