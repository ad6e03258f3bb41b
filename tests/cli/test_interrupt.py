"""What `slipway run` says at Ctrl-C, by what is known of the job."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import JOBS, NAMESPACE, ApiServer, job
from tests.cli.terminal import Terminal
from tests.serving import kubeconfig
from tests.waiting import until

FLAGS = ("--image", "a:1", "--name", "train", "--", "true")
CREATION = f"POST {JOBS}"
FOLLOWED = f"GET {JOBS}/train"
WORDS = {
    "it was created": (
        (), True, "slicejob train goes on by itself. Follow it with `slipway logs train -f -n team-a` or `slipway wait "
        "train -n team-a`, end it with `slipway cancel train -n team-a`.",
    ),
    "there was no answer": (
        (), False, "slicejob train may exist or not: there was no answer to its creation yet. Find out with `slipway "
        "describe train -n team-a`, end it with `slipway cancel train -n team-a`.",
    ),
    "it was created, and is to be cancelled": (("--cancel-on-interrupt",), True, "slicejob train was cancelled"),
    "there was no answer, and it is to be cancelled": (
        ("--cancel-on-interrupt",), False, "slicejob train does not exist, so there is nothing to cancel",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "answered", "words"), WORDS.values(), ids=WORDS)
def test_ctrl_c_tells_what_is_known_of_the_job(
    api_server: ApiServer, options: tuple[str, ...], answered: bool, words: str
) -> None:
    api_server.takes_jobs = answered
    with Terminal("run", *options, *FLAGS) as terminal:
        asked(api_server, FOLLOWED if answered else CREATION)
        terminal.interrupt()
        assert terminal.end() == 130
        assert f"{words}\n" in terminal.written
    assert any(one.startswith("PATCH") for one in api_server.asked) == (answered and bool(options))


PRESENT: dict[str, tuple[dict[str, Any], str, bool]] = {
    "the job itself": ({"image": "a:1", "command": ["true"]}, "slicejob train was cancelled", True),
    "another job": (
        {"image": "b:1", "command": ["true"]}, "slicejob train was not cancelled: SliceJob train in team-a exists with "
        "another image: choose another name, or delete it", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "words", "cancelled"), PRESENT.values(), ids=PRESENT)
def test_a_job_whose_creation_was_not_answered_is_told_from_another_of_its_name(
    api_server: ApiServer, spec: dict[str, Any], words: str, cancelled: bool
) -> None:
    api_server.takes_jobs = False
    api_server.put(job("train", "Running") | {"spec": spec})
    with Terminal("run", "--cancel-on-interrupt", *FLAGS) as terminal:
        asked(api_server, CREATION)
        terminal.interrupt()
        assert terminal.end() == 130
        assert f"{words}\n" in terminal.written
    assert any(one.startswith("PATCH") for one in api_server.asked) == cancelled


def test_a_later_job_of_its_name_is_not_followed(api_server: ApiServer) -> None:
    later = job("train", "Succeeded")
    later["metadata"]["uid"] = "later"
    api_server.meanwhile[FOLLOWED] = lambda: api_server.put(later)
    done = CliRunner().invoke(main, ["run", *FLAGS])
    assert (done.exit_code, done.stderr) == (4, "Error: SliceJob train in team-a was deleted\n"), done.output


def test_the_commands_lead_to_where_the_job_is(
    api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_server.takes_jobs = False
    (tmp_path / "my files").mkdir()
    other = kubeconfig(tmp_path / "my files", api_server.url, namespace="default")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    where = ("-n", NAMESPACE, "--context", "it", "--kubeconfig", str(other))
    with Terminal("run", *where, *FLAGS) as terminal:
        asked(api_server, CREATION)
        terminal.interrupt()
        assert terminal.end() == 130
        for verb in ("describe", "cancel"):
            assert f"`slipway {verb} train -n team-a --context it --kubeconfig '{other}'`" in terminal.written


def asked(api_server: ApiServer, request: str) -> None:
    """Wait until the server is asked for that."""
    until(request, lambda: request in api_server.asked, every=0.02)
