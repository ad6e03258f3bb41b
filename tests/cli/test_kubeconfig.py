"""A kubeconfig that cannot be used, as commands tell of it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from slipway.cli.main import main

JOB = ("--image", "a:1", "--name", "train", "--", "true")
COMMANDS = {
    "list": ("list",),
    "describe": ("describe", "train"),
    "submit": ("submit", *JOB),
    "run": ("run", *JOB),
}
CONTENTS = {
    "no YAML": (b"contexts: [}", 'kubeconfig", line 1, column 12'),
    "no text": (b"\xff\xfe\x00", "codec can't decode"),
    "a list": (b"- a", "it is not a kubeconfig"),
    "a context without content": (b"{current-context: a, contexts: [{name: a, context: }]}", "Expected key context"),
    "contexts that are none": (b"{current-context: a, contexts: 5}", "it is not a kubeconfig"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("content", "words"), CONTENTS.values(), ids=CONTENTS)
def test_a_command_says_in_one_sentence_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], content: bytes, words: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", f":{file}")
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 3, done.output
    assert done.stderr.startswith(f"Error: cannot connect to a Kubernetes cluster: the kubeconfig :{file} cannot be us")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_rendered_needs_a_kubeconfig_that_can_be_read_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    done = CliRunner().invoke(main, ["render", *JOB])
    assert (done.exit_code, "namespace: default" in done.output) == (0, True), done.output
    (tmp_path / "kubeconfig").write_text("contexts: [}")
    done = CliRunner().invoke(main, ["render", *JOB])
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1), done.output
