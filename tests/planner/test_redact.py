"""What a program printed last stands in the status: readable, short, and without secrets."""

import pytest

from slipway.api.status import MAX_LOG_CHARACTERS
from slipway.planner.redact import HIDDEN, log_tail, redacted

from .build import World, spec

SECRET = "s3cr3t-value-0123456789abcdef"

PRINTED = {
    "name and value": f"API_TOKEN={SECRET}",
    "JSON": f'{{"password": "{SECRET}"}}',
    "header": f"Authorization: Bearer {SECRET}",
    "GitHub": "ghp_" + SECRET.replace("-", "") * 2,
    "Hugging Face": "hf_" + SECRET.replace("-", "") * 2,
    "AWS": "AKIA0123456789ABCDEF",
    "Google": f"ya29.{SECRET}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    shown = redacted(f"before {text} after", None)
    assert HIDDEN in shown
    assert SECRET not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_the_value_of_a_variable_from_a_secret_is_hidden() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    given = spec(env=[{"name": "WANDB", "valueFrom": source}, {"name": "OPEN", "value": "x"}])
    assert redacted(f"WANDB={SECRET} OPEN=x", given) == f"WANDB={HIDDEN} OPEN=x"


def test_ordinary_lines_are_left_alone() -> None:
    text = "step 12: loss 0.3, 512 tokens/s\nFileNotFoundError: /data/tokenizer.json"
    assert redacted(text, None) == text


@pytest.mark.parametrize(
    "text", ["x" * 10**6, "ü" * 10**5, "\x00\x01\x1b[31m" * 1000, "\r".join(map(str, range(10**5)))],
    ids=["long", "wide", "binary", "progress"],
)  # fmt: skip
def test_any_output_becomes_a_small_readable_tail(text: str) -> None:  # B-63
    tail = log_tail(text, None)
    assert tail is not None
    assert len(tail.encode()) <= MAX_LOG_CHARACTERS
    assert all(char.isprintable() or char in "\n\t" for char in tail)


def test_the_status_of_4096_hosts_stays_small() -> None:
    world = World(slices=64, hosts=64).begin()
    for number, handle in enumerate(world.all_pods()):
        handle.runs() if number % 2 else handle.binds().waits("ImagePullBackOff", "x" * 2000)
    world.step(seconds=6)
    for handle in world.all_pods():
        handle.exits(0) if handle.key[2] % 2 else handle.exits(1, message="y" * 10**4)
    world.settle()
    assert len(world.status.model_dump_json(by_alias=True, exclude_none=True)) < 100_000
