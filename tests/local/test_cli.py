"""`slipway build` and `slipway push` as people and scripts use them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from slipway.api.slicejob import IMAGE_PATTERN
from tests.local.conftest import Contents, log_in, slipway
from tests.local.servers import Engine
from tests.waiting import START_SECONDS, until

SLEEPS = 'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "sh", "-c", "echo begun; sleep 600"]\n'


# E1-45, E1-49: the name alone goes to stdout, all else to stderr.
def test_build_push_and_write_into_a_job(source: Path, engine: Engine, registry: str, contents: Contents) -> None:
    name, job = f"app-{uuid4().hex[:8]}", source / "job.yaml"
    job.write_text("# ours\nkind: SliceJob\nspec:\n  image: old  # see below\n  slices: 2\n")
    command = ("build", "--image", f"{name}:1", "--registry", registry, "--build-arg", "WHO=a=b")
    result = slipway(*command, "--push", "--write", "job.yaml")
    assert result.exit_code == 0, result.output
    reference = f"{registry}/{name}:1@{contents.digest(name, '1')}"
    assert result.stdout == f"{reference}\n"
    assert f"Building {registry}/{name}:1 from Dockerfile\nStep 1/7 : FROM scratch\n" in result.stderr
    assert f"Pushing {registry}/{name}:1\n" in result.stderr
    assert ": Pushed\n" in result.stderr
    assert job.read_text() == f"# ours\nkind: SliceJob\nspec:\n  image: {reference}  # see below\n  slices: 2\n"


# E1-49: a registry names the image; only --push pushes it. `slipway push` does so later.
def test_push_on_its_own(source: Path, engine: Engine, registry: str, contents: Contents) -> None:
    name = f"app-{uuid4().hex[:8]}"
    built = slipway("build", "--image", name, "--registry", registry)
    assert built.stdout == f"{registry}/{name}\n"
    assert contents.tags(name) == []
    pushed = slipway("push", f"{registry}/{name}")
    assert pushed.exit_code == 0, pushed.output
    assert pushed.stdout == f"{registry}/{name}@{contents.digest(name, 'latest')}\n"
    # What it prints is what a job's image may be.
    assert re.fullmatch(IMAGE_PATTERN, pushed.stdout.strip())


# E1-47, E1-48, E1-49: nothing is asked of an engine.
def test_dry_run(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    name = ("--image", "my-app:v1.0", "--registry", "gcr.io/my-project")
    result = slipway("build", *name, "--build-arg", "A=1 2", "--push", "--dry-run")
    assert result.stdout == (
        "docker build -t gcr.io/my-project/my-app:v1.0 --build-arg 'A=1 2' -f Dockerfile .\n"
        "docker push gcr.io/my-project/my-app:v1.0\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["build", "--image", "app", "-f", "No"], 1, "Error: There is no Dockerfile No."),
        (["build", "--image", "App"], 1, "upper case"),
        (["build", "--image", "a", "--registry", "http://r"], 1, "has a scheme"),
        (["build", "--image", "a", "--registry", "r/"], 1, "ends with a slash"),
        (["build", "--image", "a", "--build-arg", "CODE=9"], 1, r"(?s)exit code 9 in step 6/7.*\n  to stderr\n"),
        (["build", "--image", "a", "--write", "no.yaml"], 1, "cannot be written to no.yaml"),
        (["build", "--image", "a", "--push"], 2, "--push needs --registry"),
        (["build", "--image", "a", "--build-arg", "A"], 2, "'A' is not of the form NAME=VALUE"),
        (["build"], 2, "--image"),
        (["push", "App"], 1, "upper case"),
        (["push", "127.0.0.1:9/none"], 1, "does not exist locally"),
    ],
)
@pytest.mark.row("E1-46", "E1-50", "B-38")
def test_what_goes_wrong_is_told(source: Path, engine: Engine, arguments: list[str], code: int, sentence: str) -> None:
    result = slipway(*arguments)
    assert result.exit_code == code, result.output
    assert re.search(sentence, result.stderr), result.stderr
    assert result.stdout == ""


# the job stays as it was when its image could not be pushed.
@pytest.mark.row("E1-50", "B-38")
def test_a_denied_push_leaves_the_job_alone(source: Path, engine: Engine, locked_registry: str, tmp_path: Path) -> None:
    job = source / "job.yaml"
    job.write_text("{kind: SliceJob, spec: {image: old}}")
    command = ("build", "--image", "app", "--registry", locked_registry, "--push", "--write", "job.yaml")
    result = slipway(*command)
    assert result.exit_code == 1
    assert f"denied to {locked_registry}/app" in result.stderr
    assert job.read_text() == "{kind: SliceJob, spec: {image: old}}"
    log_in(tmp_path / "docker", locked_registry)
    assert slipway(*command).exit_code == 0
    assert yaml.safe_load(job.read_text())["spec"]["image"].startswith(f"{locked_registry}/app@sha256:")


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("unix:///nowhere/engine.sock", "No such file or directory"),
        ("tcp://127.0.0.1:9", "Connection refused"),
        ("nonsense://x", "nonsense"),
    ],
)
@pytest.mark.row("B-44")
def test_no_engine(source: Path, monkeypatch: pytest.MonkeyPatch, host: str, sentence: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    for command in (["build", "--image", "app"], ["push", "app"]):
        result = slipway(*command)
        assert result.exit_code == 3, result.output
        assert f"Error: The Docker engine is not reachable at {host}." in result.stderr
        assert sentence in result.stderr
        assert "DOCKER_HOST" in result.stderr


@pytest.mark.row("B-44")
def test_an_engine_that_one_may_not_use(source: Path, engine: Engine) -> None:
    socket = Path(engine.host.removeprefix("unix://"))
    assert slipway("build", "--image", "app").exit_code == 0
    # A stranger may come as far as the socket and no further.
    socket.parent.chmod(0o755)
    os.seteuid(65534)
    try:
        result = slipway("push", "app")
    finally:
        os.seteuid(0)
    assert result.exit_code == 3, result.output
    assert "Permission denied" in result.stderr
    assert "group `docker`" in result.stderr


@pytest.mark.row("B-44")
def test_without_the_sdk_everything_else_works(source: Path) -> None:
    assert run_without_the_extra("build", "--image", "app", "--dry-run").returncode == 0
    refused = run_without_the_extra("build", "--image", "app")
    assert refused.returncode == 3
    assert "pip install 'slipway-tpu[docker]'" in refused.stderr


def run_without_the_extra(*arguments: str) -> Any:
    missing = "sys.modules['docker'] = sys.modules['watchfiles'] = None"
    code = f"import sys; {missing}; from slipway.cli.main import main; main(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["local run", "local submit", "run --on local"])
def test_without_the_sdk_no_job_is_stored(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-12, E1-33: one sentence with what to install."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    refused = run_without_the_extra(*command.split(), "--image", "app", "--", "train")
    assert refused.returncode == 3
    assert refused.stderr.count("\n") == 1
    assert "pip install 'slipway-tpu[docker]'" in refused.stderr
    assert run_without_the_extra("local", "list", "-o", "name").stdout == ""


def test_without_the_sdk_docker_commands_are_printed() -> None:
    printed = run_without_the_extra("render", "--docker", "--image", "app", "--", "train")
    assert printed.stdout.startswith("docker run")


def test_an_interrupted_build_ends_at_once_and_on_the_engine_too(source: Path, engine: Engine, client: Any) -> None:
    (source / "Dockerfile").write_text(SLEEPS)
    command = [sys.executable, "-m", "slipway.cli.main", "build", "--image", "sleeps"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("begun" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=START_SECONDS) == 130
    until("no container runs", lambda: not client.containers.list())
