"""What other programs wrote reaches status and Events short, on one line, and without secrets."""

import json
import string
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import MAX_LOG_CHARACTERS
from slipway.client.environment_listing import listing
from slipway.core.manifests import redact
from slipway.core.manifests.redact import HIDDEN, brief, foreign, log_tail, named, printable, redacted
from slipway.core.model.job import Settings
from slipway.core.planner.diagnosis import evidence
from slipway.core.validation.warnings import notices
from tests.core.build import PodHandle, World, spec

SECRET = "s3cr3t-value-0123456789abcdef"
ONE_WORD = SECRET.replace("-", "") * 2

PRINTED = {
    "name and value": f"API_TOKEN={SECRET}",
    "several words in quotes": f'secret="two words {SECRET}"',
    "several words in single quotes": f"password: 'two words {SECRET}'",
    "an escaped quote": f'password="a\\" {SECRET}"',
    "JSON": f'{{"password": "{SECRET}"}}',
    "header": f"Authorization: Bearer {SECRET}",
    "basic header": f"Authorization: Basic {SECRET}",
    "header in JSON": f'{{"authorization": "Basic {SECRET}"}}',
    "header of an unknown scheme": f"Proxy-Authorization: Custom {SECRET}",
    "bearer alone": f"bearer {SECRET}",
    "database": f"postgres://user:{SECRET}@db/name",
    "database with a slash": f"amqp://user:a/b{SECRET}@mq:5672",
    "token in an address": f"https://{SECRET}@github.com/acme/train",
    "option": f"--hf-token {SECRET}",
    "option with =": f"--api-key={SECRET}",
    "option in quotes": f'--password "two words {SECRET}"',
    "GitHub": "ghp_" + ONE_WORD,
    "GitHub, fine-grained": "github_pat_" + ONE_WORD,
    "GitLab": f"glpat-{SECRET}",
    "Slack": f"xoxb-{SECRET}",
    "Hugging Face": "hf_" + ONE_WORD,
    "AWS": "AKIA0123456789ABCDEF",
    "Google": f"ya29.{SECRET}",
    "Google's API key": f"AIza{ONE_WORD}",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    shown = redacted(f"before {text} after", None)
    assert HIDDEN in shown
    assert not any(part in shown for part in (SECRET, ONE_WORD, "two words", "0123456789ABCDEF", "c2lnbmF0dXJl"))
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@given(
    form=st.sampled_from([form for form in PRINTED.values() if SECRET in form]),
    secret=st.text(string.ascii_letters + string.digits + "-_./+=", min_size=16).filter(lambda text: text[0].isalnum()),
    before=st.text(string.printable, max_size=20),
)
def test_no_secret_survives_behind_any_form(form: str, secret: str, before: str) -> None:
    if form.startswith(("glpat-", "xoxb-", "ya29.", "https:")):
        secret = "".join(char for char in secret if char.isalnum()) + "x" * 16
    printed = f"{before.replace('Zq9', '')} {form}".replace(SECRET, f"Zq9{secret}")
    assert "Zq9" not in redacted(printed, None)


def test_the_value_of_a_variable_from_a_secret_is_hidden() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    given = spec(env=[{"name": "WANDB", "valueFrom": source}, {"name": "OPEN", "value": "x"}])
    assert redacted(f"WANDB={SECRET} OPEN=x", given) == f"WANDB={HIDDEN} OPEN=x"
    assert redacted(f'WANDB="a b {SECRET}" OPEN=x', given) == f'WANDB="{HIDDEN}" OPEN=x'


def test_the_value_of_a_variable_with_a_secret_name_is_hidden_wherever_it_appears() -> None:
    sidecar = {"name": "log", "env": [{"name": "DB_PASSWORD", "value": "hunter22"}]}
    init = {"name": "fetch", "env": [{"name": "MIRROR_PASSWORD", "value": "hunter23"}]}
    template = {"spec": {"containers": [sidecar], "initContainers": [init]}}
    job = spec(env=[{"name": "MY_API_KEY", "value": 'say "x"'}], podTemplate=template)
    found = redacted("hunter22 and hunter23 and " + json.dumps('say "x"'), job)
    assert found == f'{HIDDEN} and {HIDDEN} and "{HIDDEN}"'


def test_so_is_that_of_a_variable_of_rays_runtime_environment() -> None:
    ray = {"entrypoint": "train", "runtimeEnv": {"env_vars": {"DB_PASSWORD": "hunter22", "OPEN": "plainly"}}}
    assert redacted("hunter22 plainly", spec(ray=ray)) == f"{HIDDEN} plainly"


@pytest.mark.parametrize("inits", ["x", ["x"], [{"env": "x"}], [{"env": ["x", {"name": 1, "value": "longer"}]}]])
def test_a_template_that_was_not_checked_yet_hides_nothing_more(inits: Any) -> None:
    assert redacted("x", spec(podTemplate={"spec": {"initContainers": inits}})) == "x"


def test_the_api_server_repeats_no_value_of_the_environment() -> None:
    refused = 'Pod "train-0-0-0" is invalid: spec.containers[0].env[16].value: Invalid value: "hunter22": too short'
    assert "hunter22" not in redacted(refused, None)
    assert redacted(refused, None).endswith(": too short")


PATHS = {
    "a variable": ("spec.containers[0].env[1].valueFrom: bad", "spec.containers[worker].env[B].valueFrom: bad"),
    "a container": ("spec.containers[0].image: bad", "spec.containers[worker].image: bad"),
    "an init container": ("initContainers[0].image is bad", "initContainers[fetch].image is bad"),
    "a mount": (
        'spec.containers[0].volumeMounts[1].name: Not found: "x"',
        'spec.containers[worker].volumeMounts[/data].name: Not found: "x"',
    ),
    "a volume": ("spec.volumes[1].hostPath: bad", "spec.volumes[data].hostPath: bad"),
    "a toleration": ("spec.tolerations[0].operator: bad", "spec.tolerations[a].operator: bad"),
    "two of them": ("spec.volumes[0], spec.volumes[1]: bad", "spec.volumes[slipway-shm], spec.volumes[data]: bad"),
    "no such container": ("spec.containers[7].image: bad", "spec.containers[7].image: bad"),
    "a list without names": ("spec.containers[0].args[0]: bad", "spec.containers[0].args[0]: bad"),
    "no field": ("a.b[0] and x[3]", "a.b[0] and x[3]"),
}


@pytest.mark.parametrize(("said", "meant"), PATHS.values(), ids=PATHS.keys())
def test_what_slipway_adds_to_a_pod_is_not_counted_in_messages(said: str, meant: str) -> None:
    worker = {
        "name": "worker",
        "args": ["a"],
        "env": [{"name": "A"}, {"name": "B"}],
        "volumeMounts": [{"name": "slipway-shm", "mountPath": "/dev/shm"}, {"name": "x", "mountPath": "/data"}],
    }
    pod = {
        "metadata": {"name": "train-0-0-0"},
        "spec": {
            "containers": [worker],
            "initContainers": [{"name": "fetch"}],
            "volumes": [{"name": "slipway-shm"}, {"name": "data"}],
            "tolerations": [{"key": "a"}],
        },
    }
    refused = 'Pod "train-0-0-0" is invalid: '
    assert named(refused + said, [pod]) == refused + meant
    assert named(refused + said, []) == refused + said


def test_a_name_that_is_put_into_a_message_stays_on_its_line() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"volumes": [{"name": "x\ny"}]}}
    assert named('"a": spec.volumes[0].name: bad', [pod]) == '"a": spec.volumes[x\\ny].name: bad'


ORDINARY = {
    "training": "step 12: loss 0.3, 512 tokens/s",
    "a file": "FileNotFoundError: /data/tokenizer.json",
    "an option with a number": "--max-tokens 512",
    "an address": "GET https://example.com:8080/a/b@main 200",
    "a number of tokens": "max_tokens: 4096, TOKENS=1048576, 'token_count': '12'",
    "Hugging Face on its tokenizers": "set the variable TOKENIZERS_PARALLELISM=(true | false)",
    "a requirement": "git+https://github.com/acme/train@main",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_lines_are_left_alone(text: str) -> None:
    assert redacted(text, None) == text


VARIABLES: dict[str, tuple[str, str, bool]] = {
    "a number of tokens": ("MAX_TOKENS", "1024", False),
    "whether tokenizers run in parallel": ("TOKENIZERS_PARALLELISM", "true", False),
    "a token": ("HF_TOKEN", SECRET, True),
    "a token of digits": ("API_TOKEN", "12345678", True),
    "a password of digits": ("DB_PASSWORD", "1024", True),
    "a secret beside a token": ("TOKEN_SECRET", "1024", True),
}


@pytest.mark.parametrize(("name", "value", "hidden"), VARIABLES.values(), ids=VARIABLES)
def test_a_setting_is_no_secret_wherever_it_is_written(name: str, value: str, hidden: bool) -> None:
    world = World(env=[{"name": name, "value": value}])
    job = world.job.spec
    assert job is not None
    assert (HIDDEN in redacted(f"step {value}0 loss 2.1", job)) is hidden
    assert (HIDDEN in redacted(f"{name}={value}", None)) is hidden
    listed = {one.name: one.first for one in listing(world.job, Settings()).workers}
    assert (listed[name] == HIDDEN) is hidden
    assert bool(notices(job)) is hidden


@given(st.text())
def test_a_message_is_one_line_whatever_other_programs_write(text: str) -> None:
    assert printable(text).isprintable()


def test_a_forged_line_and_colours_are_seen_for_what_they_are() -> None:
    assert foreign("no\n2026-11-22 INFO all \x1b[32mwell", None) == "no\\n2026-11-22 INFO all \\x1b[32mwell"


def test_what_a_kubelet_says_of_a_host_that_waits_is_redacted_in_the_list_of_hosts_too() -> None:
    world = World().begin()
    said = 'exec: "python train.py --hf-token hf_abcdefghijklmnopqrstuvwx": executable file not found in $PATH'
    world.pod(0, 0).binds().waits("RunContainerError", said)
    world.now += timedelta(seconds=30)
    world.settle()
    [host] = world.status.hosts
    assert host.message is not None
    assert "hf_abc" not in host.message
    assert "--hf-token [redacted]" in host.message


def test_what_ray_said_of_the_end_is_redacted_in_the_message_as_in_the_log() -> None:
    world = World(ray={"entrypoint": "python a.py"}).run()
    line = f"ray.exceptions.NodeDiedError: node was preempted, token={SECRET}"
    head = world.pod(-1, -1)
    head.exits(1, message=line)
    world.settle()
    assert SECRET not in world.status.model_dump_json()


KEPT = "DB_PASSWORD"
ENDS: dict[str, Callable[[PodHandle], object]] = {
    "its program fails": lambda pod: pod.exits(1, message=f"connecting with {SECRET}\nbye, {SECRET}"),
    "it could not be started": lambda pod: pod.exits(128, reason="StartError", message=f"exec: {SECRET}: not found"),
    "it runs out of memory": lambda pod: pod.exits(137, reason="OOMKilled", message=f"loading {SECRET}"),
    "its node refuses it": lambda pod: pod.fails("UnexpectedAdmissionError", f"no room for {SECRET}"),
    "it is evicted for what it used": lambda pod: pod.exits(137).ends_as("Failed", "Evicted", f"of {SECRET}"),
    "it fails without a reason": lambda pod: pod.fails("", f"because of {SECRET}"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("hosts", [1, 3])
def test_what_is_said_of_the_end_of_a_pod_is_redacted_when_it_ends_and_when_it_is_judged(
    end: Callable[[PodHandle], object], hosts: int
) -> None:
    world = World(hosts=hosts, env=[{"name": KEPT, "value": SECRET}]).run()
    for handle in world.all_pods():
        end(handle)
    while world.attempt.number == 0 and world.status.result is None:
        decision = world.step()
        assert SECRET not in decision.status.model_dump_json()
        world.obey()
        world.now += timedelta(seconds=100)
    assert world.status.attempts[-1].cause is not None
    assert HIDDEN in world.status.model_dump_json()


def test_of_hosts_that_crash_together_one_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str, given: SliceJobSpec | None) -> str | None:
        read.append(text)
        return log_tail(text, given)

    monkeypatch.setattr(evidence, "log_tail", counted)
    world = World(hosts=64).run()
    for handle in world.all_pods():
        handle.exits(1, message=f"boom on {handle.key[2]}")
    world.plan()
    # When it ends, and when it is judged.
    assert read == ["boom on 0"] * 2


@pytest.mark.row("B-63")
@pytest.mark.parametrize(
    "text", ["x" * 10**6, "ü" * 10**5, "\x00\x01\x1b[31m" * 1000, "\r".join(map(str, range(10**5)))],
    ids=["long", "wide", "binary", "progress"],
)  # fmt: skip
def test_any_output_becomes_a_small_readable_tail(text: str) -> None:
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


PAIRS = {
    "JSON": f'{{"name": "DB_PASSWORD", "value": "{SECRET}"}}',
    "JSON the other way round": f'{{"value": "{SECRET}", "name": "DB_PASSWORD"}}',
    "Python": f"{{'name': 'DB_PASSWORD', 'value': '{SECRET}'}}",
    "Go": f'v1.EnvVar{{Name:"DB_PASSWORD", Value:"{SECRET}", ValueFrom:nil}}',
    "YAML in one line": f"{{name: DB_PASSWORD, value: {SECRET}}}",
}


@pytest.mark.parametrize("text", PAIRS.values(), ids=PAIRS)
def test_the_value_of_a_variable_whose_name_says_that_it_is_secret_is_hidden(text: str) -> None:
    shown = redacted(f"before {text} after", None)
    assert HIDDEN in shown
    assert SECRET not in shown
    assert shown.endswith(" after")


@pytest.mark.parametrize("left", [5, 12, len(SECRET) - 1], ids=lambda left: f"{left} characters are left")
def test_a_secret_whose_beginning_a_kubelet_cut_off_is_hidden(left: int) -> None:
    hidden = spec(env=[{"name": "API_TOKEN", "value": SECRET}])
    begins = SECRET[-left:] + " is wrong"
    assert SECRET[-left:] in redacted(begins, hidden)
    # At most 2 KiB are kept of the end of a log, so that this one was cut by the kubelet alone.
    said = log_tail(begins + "\n" + "x" * 2010, hidden)
    assert said is not None
    assert said.startswith(f"{HIDDEN} is wrong")


def test_the_secrets_of_a_spec_are_collected_once_for_all_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[SliceJobSpec] = []
    variables = redact._variables

    def counted(one: SliceJobSpec) -> Any:
        collected.append(one)
        return variables(one)

    monkeypatch.setattr(redact, "_variables", counted)
    hidden = spec(env=[{"name": "API_TOKEN", "value": SECRET}])
    said = {redacted(f"{number % 4}: {SECRET}", hidden) for number in range(100)}
    assert said == {f"{number}: {HIDDEN}" for number in range(4)}
    assert collected == [hidden]


def test_words_of_others_are_cut_when_their_secrets_are_hidden() -> None:
    hidden = spec(env=[{"name": "API_TOKEN", "value": SECRET}])
    said = brief("x" * 500 + " " + SECRET + "y" * 500, hidden)
    assert len(said) == 512
    assert not any(SECRET[at : at + 6] in said for at in range(len(SECRET) - 6))


def test_slipway_s_own_warning_of_a_literal_secret_is_readable() -> None:
    [event] = notices(spec(env=[{"name": "API_TOKEN", "value": SECRET}]))
    line = f"{event.reason}: {event.message}"
    assert redacted(line, None) == line
    assert SECRET not in redacted(f"clientSecret: {SECRET}", None)
