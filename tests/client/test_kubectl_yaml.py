"""Manifests are read as kubectl reads them."""

import json
import subprocess
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.common import print_data
from slipway.cli.main import main
from slipway.client.manifests.reading import InvalidManifest, documents
from slipway.devcluster.programs import binaries
from slipway.devcluster.progress import Silent

HEAD = "apiVersion: slipway.dev/v1alpha1\nkind: SliceJob\nmetadata: {name: a}\nspec:\n"
WORDS = {
    "times": ("12:30", "20:15", "190:20:30", "1:30.5", "-1:30"),
    "dates": ("2026-01-02", "2026-01-02T03:04:05Z"),
    "whole numbers": ("0", "-0", "12", "+5", "-5", "1_000", "1_", "9223372036854775807"),
    "octal": ("0755", "0o755", "0O17", "+0755", "-0o7", "0_7", "00", "0o07"),
    "not octal": ("08", "0778", "-09", "0o8"),
    "binary and hexadecimal": ("0b101", "-0b101", "0x1F", "0X1f", "-0x1F", "0x07", "0b01", "0b2", "0x", "0x1G"),
    "too large for 64 bits": ("0xFFFFFFFFFFFFFFFFFF", "1e400", "-1e400"),
    "exponents": ("1e6", "1E6", "1e+6", "1.5e6", "1e-2", ".5e3", "1.e3", "01e3", "1e", "1e+", "e5", "1e3.5"),
    "fractions": ("1.", "2.0", ".5", "-.5", "+.5", "1.10", "1_000.5", ".", "1.2.3", "1,000"),
    "yes and no": ("y", "n", "Y", "N", "yes", "No", "ON", "off", "true", "FALSE", "oN", "tRue"),
    "nothing": ("", "~", "null", "Null", "NULL", "nULL"),
    "signs": ("=", "+", "_1"),
    "quoted": ('"1e6"', "'y'", '"12:30"'),
    "tagged": ("!!str 12", "!!str y", "!!int 0755", "!!float 2.0", "!!bool y"),
}


def read(words: tuple[str, ...]) -> list[tuple[str, Any]]:
    """What Slipway reads."""
    [body] = documents(HEAD + listed(words), "job.yaml")
    return typed(body["spec"]["args"])


def listed(words: tuple[str, ...]) -> str:
    return "".join(f"  {line}\n" for line in ("args:", *(f"- {word}" for word in words)))


def typed(values: list[Any]) -> list[tuple[str, Any]]:
    """With their types, for to Python True is 1."""
    return [(type(one).__name__, one) for one in values]


def kubectl_reads(text: str) -> Any:
    kubectl = binaries.ensure(["kubectl"], Silent())["kubectl"]
    # Of the commands that ask no API server; it prints what it has read, and a label.
    command = [str(kubectl), "label", "--local", "-f", "-", "-o", "json", "a=b"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_words_without_quotes_are_what_they_are_for_kubectl(words: tuple[str, ...]) -> None:
    assert read(words) == typed(kubectl_reads(HEAD + listed(words))["spec"]["args"])


@pytest.mark.parametrize("word", ["!!int 12:30", "!!int", "!!float y-", "!!bool 'maybe'"])
def test_what_is_not_as_its_tag_says_is_refused(word: str) -> None:
    with pytest.raises(InvalidManifest, match=r"job.yaml is no YAML: .* is not what its tag"):
        read((word,))


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_text_is_printed_so_that_kubectl_reads_it_as_text(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    rendered = CliRunner().invoke(main, ["render", "-n", "ml", "--image", "a:1", "--name", "a", "--", *words])
    body = kubectl_reads(rendered.stdout)
    assert body["spec"]["command"] == list(words)
    print_data(body, "yaml")
    assert kubectl_reads(capsys.readouterr().out) == body
