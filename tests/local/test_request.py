"""What is checked before any engine is asked, and the docker commands that do the same."""

from pathlib import Path

import pytest

from slipway.local.engine.errors import ImageBuildError
from slipway.local.images.building import build_and_push_docker_image
from slipway.local.images.references import full_name, login_command, split
from slipway.local.images.request import build_request, push_argv


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dockerfile, and no engine: what is refused here is refused without one."""
    (tmp_path / "Dockerfile").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    return tmp_path


# E1-46
@pytest.mark.parametrize(
    ("image", "registry", "full"),
    [
        ("my-app:v1.0", "gcr.io/my-project", "gcr.io/my-project/my-app:v1.0"),
        ("my-app:v1.0", None, "my-app:v1.0"),
        ("app", "127.0.0.1:5000", "127.0.0.1:5000/app"),
        ("team/app:V2", "Registry.Example", "Registry.Example/team/app:V2"),
    ],
)
def test_the_full_name(image: str, registry: str | None, full: str) -> None:
    assert full_name(image, registry) == full


@pytest.mark.parametrize(
    ("image", "registry", "sentence"),
    [
        ("app", "https://gcr.io/acme", "has a scheme.*\nHint: Write 'gcr.io/acme'"),
        ("app", "gcr.io/acme/", "ends with a slash.*\nHint: Write 'gcr.io/acme'"),
        ("app", "", "'/app' does not name an image"),
        ("My-App", None, "upper case in its repository.*\nHint: Write 'my-app'"),
        ("app", "gcr.io/Acme", "upper case in its repository"),
        ("", None, "is empty"),
        (" ", None, "is empty"),
        ("app:", None, "does not name an image"),
        ("app:a b", None, "does not name an image"),
        ("app\n", None, "does not name an image"),
        ("app@sha256:" + "a" * 64, None, "has a digest"),
    ],
)
@pytest.mark.row("E1-46", "B-38")
def test_a_wrong_name_is_refused_before_any_build(image: str, registry: str | None, sentence: str) -> None:
    with pytest.raises(ImageBuildError, match=sentence) as caught:
        build_and_push_docker_image("Dockerfile", image, registry)
    assert caught.value.stage == "check"


# E1-47: this command, in this order.
def test_the_docker_command(folder: Path) -> None:
    request = build_request(
        f"{folder}/Dockerfile", "my-app:v1.0", "gcr.io/my-project", {"Z": "1", "A": "two words", "E": ""}
    )
    assert request.argv == [
        "docker", "build", "-t", "gcr.io/my-project/my-app:v1.0", "--build-arg", "Z=1", "--build-arg", "A=two words",
        "--build-arg", "E=", "-f", f"{folder}/Dockerfile", f"{folder}",
    ]  # fmt: skip
    # E1-49
    assert push_argv(request.name) == ["docker", "push", "gcr.io/my-project/my-app:v1.0"]


# E1-48
def test_the_context_of_a_bare_file_name_is_the_current_folder() -> None:
    assert build_request("Dockerfile", "app").argv == ["docker", "build", "-t", "app", "-f", "Dockerfile", "."]


# E1-47
def test_another_context(folder: Path) -> None:
    assert build_request("Dockerfile", "app", context=folder).argv[-1] == str(folder)
    with pytest.raises(ImageBuildError, match="context nowhere is not a folder"):
        build_request("Dockerfile", "app", context="nowhere")


@pytest.mark.row("B-38")
def test_a_dockerfile_that_is_not_there(folder: Path) -> None:
    with pytest.raises(ImageBuildError, match=r"There is no Dockerfile sub/Dockerfile\."):
        build_and_push_docker_image("sub/Dockerfile", "app")
    with pytest.raises(ImageBuildError, match="There is no Dockerfile"):
        build_and_push_docker_image(folder, "app")


@pytest.mark.parametrize("name", ["", "A B", "A=B"])
def test_a_build_argument_needs_a_name(name: str) -> None:
    with pytest.raises(ImageBuildError, match="is not a name of a build argument"):
        build_request("Dockerfile", "app", build_args={name: "x"})


def test_the_parts_of_a_name() -> None:
    assert split("127.0.0.1:5000/app") == ("127.0.0.1:5000/app", "latest")
    assert split("127.0.0.1:5000/app:1") == ("127.0.0.1:5000/app", "1")
    assert login_command("localhost/app") == "docker login localhost"
    assert login_command("acme/app:1") == "docker login"
