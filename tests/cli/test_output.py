"""What programs read: every command with -o prints JSON and YAML that say the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from slipway.cli.main import COMMANDS, main
from slipway.client.manifests.reading import manifest
from tests.cli.api_server import NOW, ApiServer, failed, job

FLAGS = ("--image", "a:1", "--name", "other", "-e", "A=1", "--", "true")
OUTPUTS = {
    "why": ("why", "done"),
    "describe": ("describe", "done"),
    "describe --history": ("describe", "done", "--history"),
    "describe --env": ("describe", "done", "--env"),
    "events": ("events", "done"),
    "list": ("list",),
    "top": ("top",),
    "top NAME": ("top", "done"),
    "types": ("types",),
    "types --cluster": ("types", "--cluster"),
    "doctor": ("doctor",),
    "submit": ("submit", *FLAGS),
    "submit --dry-run server": ("submit", "--dry-run", "server", *FLAGS),
    "render": ("render", *FLAGS),
    "render --explain": ("render", "--explain", *FLAGS),
    "render --docker": ("render", "--docker", *FLAGS),
}


@pytest.mark.parametrize("words", OUTPUTS.values(), ids=OUTPUTS)
def test_json_and_yaml_say_the_same_of_a_failed_job(api_server: ApiServer, words: tuple[str, ...]) -> None:
    about = {"kind": "SliceJob", "name": "done", "uid": "uid of done"}
    api_server.put(failed("done"))
    api_server.events = [{"reason": "Failed", "type": "Warning", "lastTimestamp": NOW, "involvedObject": about}]
    command, *rest = words
    printed = [CliRunner().invoke(main, [command, "-o", kind, *rest]) for kind in ("json", "yaml")]
    for done in printed:
        # The doctor misses an operator.
        assert done.exit_code == int(command == "doctor"), done.output
    assert timeless(json.loads(printed[0].stdout)) == timeless(yaml.safe_load(printed[1].stdout))


def test_why_says_in_yaml_how_a_job_ended(api_server: ApiServer) -> None:
    api_server.put(failed("done"))
    found = yaml.safe_load(CliRunner().invoke(main, ["why", "done", "-o", "yaml"]).stdout)
    assert (found["phase"], found["cause"], found["log"]) == ("Failed", "failure", "the reason\n")


@pytest.mark.parametrize("kind", ["json", "yaml"])
@pytest.mark.parametrize("refused", [(), ("b",)], ids=["all are taken", "one is refused"])
def test_several_jobs_that_are_submitted_are_one_list(
    api_server: ApiServer, tmp_path: Path, refused: tuple[str, ...], kind: str
) -> None:
    api_server.refused = refused
    spec = {"image": "a:1", "command": ["true"]}
    bodies = [manifest(name, spec) for name in ("a", "b", "c")]
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all(bodies))
    done = CliRunner().invoke(main, ["submit", "-f", str(tmp_path / "jobs.yaml"), "-o", kind])
    assert done.exit_code == (2 if refused else 0), done.output
    found = json.loads(done.stdout) if kind == "json" else yaml.safe_load(done.stdout)
    taken = [name for name in ("a", "b", "c") if name not in refused]
    assert [(one["metadata"]["name"], one["spec"]) for one in found] == [(name, spec) for name in taken]


FORGED = {
    "why": (("why", "train"), 0),
    "wait": (("wait", "train"), 1),
    "wait in vain": (("wait", "train", "--for", "deleted", "--timeout", "0.5s"), 124),
    "run": (("run", "--image", "a:1", "--name", "train"), 1),
}


@pytest.mark.parametrize(("words", "code"), FORGED.values(), ids=FORGED)
def test_a_message_moves_no_cursor(api_server: ApiServer, words: tuple[str, ...], code: int) -> None:
    found = failed("train")
    found["status"]["result"]["message"] = "all \x1b[2Jgone"
    found["status"]["attempts"][0] |= {"message": "host 0 \u202eended"}
    found["status"]["attempts"][0]["root"]["log"] = "\x1b]0;title\x07\tlast\r words\n"
    api_server.put(found)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.output
    assert "all �[2Jgone" in done.output.splitlines()[-1 if words[0] != "why" else 0]
    assert [sign for sign in done.output if not (sign.isprintable() or sign in "\t\n")] == []
    assert words[0] != "why" or "  �]0;title�\tlast\n   words\n" in done.output


ENCODINGS = (
    (("describe", "train"), "ascii"),
    (("describe", "train"), "ascii:surrogateescape"),
    (("why", "train"), "latin-1"),
    (("list", "-o", "wide"), "latin-1"),
    (("wait", "train"), "latin-1"),
)


@pytest.mark.parametrize(("words", "encoding"), ENCODINGS, ids=[f"{words[0]}-{kind}" for words, kind in ENCODINGS])
def test_a_sign_that_the_encoding_lacks_ends_no_command(
    api_server: ApiServer, words: tuple[str, ...], encoding: str
) -> None:
    found = failed("train")
    found["status"]["result"]["message"] = "läuft ✓ nicht"
    api_server.put(found)
    program = [sys.executable, "-m", "slipway.cli.main", *words]
    done = subprocess.run(program, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False)
    assert done.returncode == int(words[0] == "wait"), done.stderr
    assert b"uft ? nicht" in done.stdout


NO_ATTEMPT = {"it waits": ("Queued", " yet"), "it was refused": ("Failed", "")}


@pytest.mark.parametrize("flags", [(), ("-o", "json")], ids=["for people", "for programs"])
@pytest.mark.parametrize(("phase", "yet"), NO_ATTEMPT.values(), ids=NO_ATTEMPT)
def test_top_says_that_a_job_has_no_attempt(
    api_server: ApiServer, phase: str, yet: str, flags: tuple[str, ...]
) -> None:
    api_server.put(job("train", phase, attempt=None))
    done = CliRunner().invoke(main, ["top", "train", *flags])
    assert (done.exit_code, done.output) == (3, f"Error: SliceJob train is {phase}: it has no attempt{yet}\n")
    assert not [one for one in api_server.asked if "metrics.k8s.io" in one]


def timeless(data: Any) -> Any:
    """Without what passes between two commands."""
    rows = data if isinstance(data, list) else []
    return [one | {"seconds": 0, "lost": round(one["lost"])} if "lost" in one else one for one in rows] or data


def test_the_commands_above_are_all_that_print_for_programs() -> None:
    commands = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    params = {name: command.params for name, command in commands.items() if command is not None}
    assert {name for name in params if any("-o" in one.opts for one in params[name])} == {
        words[0] for words in OUTPUTS.values()
    }


DATED = """\
apiVersion: slipway.dev/v1alpha1
kind: SliceJob
metadata: {name: train, annotations: {since: 2026-01-31, at: 2026-01-31 10:00:00}}
spec: {image: "a:1", env: [{name: SINCE, value: 2026-01-31}]}
"""


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_what_looks_like_a_date_in_a_manifest_is_text_as_for_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    (tmp_path / "job.yaml").write_text(DATED)
    done = CliRunner().invoke(main, ["render", "-f", str(tmp_path / "job.yaml"), "-o", kind])
    assert done.exit_code == 0, done.output
    body = json.loads(done.stdout) if kind == "json" else yaml.safe_load(done.stdout)
    assert body["metadata"]["annotations"] == {"since": "2026-01-31", "at": "2026-01-31 10:00:00"}
    assert body["spec"]["env"] == [{"name": "SINCE", "value": "2026-01-31"}]
