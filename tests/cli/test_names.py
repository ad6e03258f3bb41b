"""Names that no job and no namespace can have: in a URL they would mean another job, or all of them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from slipway.cli.main import main
from slipway.client.cluster_client import AsyncClient
from slipway.client.errors import NotFound, Refused
from tests.cli.api_server import ApiServer, job
from tests.serving import kubeconfig

NOWHERE = "http://127.0.0.1:1"
"""No API server listens there: a command that sends a request ends with another exit code."""
NO_NAMES = {
    "a query": "train?",
    "a fragment": "train#2",
    "a path": "a/../train",
    "an escape": "tr%61in",
    "another selector": "train,x=y",
    "nothing": "",
}
VERBS = {
    "describe": (),
    "describe --env": (),
    "describe --history": (),
    "why": (),
    "events": (),
    "logs": (),
    "logs --follow": (),
    "wait": (),
    "cancel": (),
    "suspend": (),
    "resume": (),
    "delete --yes": (),
    "top": (),
    "exec": ("ls",),
    "port-forward": ("8080",),
}
NO_NAMESPACES = {
    "a query": "a?b",
    "a fragment": "a#b",
    "a path": "x/../team-a/slicejobs/train?",
    "an escape": "team%2da",
    "a space": "a b",
    "upper case": "Team-A",
    "a subdomain": "team.a",
    "a newline behind": "team-a\n",
    "a letter too many": "a" * 64,
}
WORDS = "is not valid: at most 63 lower-case letters, digits and -, beginning and ending with a letter or a digit"
OTHER_VERBS = {
    "list": (),
    "list --selector": ("a=b",),
    "top": (),
    "submit": ("--image", "a:1", "--name", "train"),
    "submit --dry-run server": ("--image", "a:1", "--name", "train"),
    "run": ("--image", "a:1", "--name", "train"),
    "render": ("--image", "a:1", "--name", "train"),
}
"""Those without the name of a job."""


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize(("verb", "rest"), VERBS.items(), ids=VERBS)
def test_no_verb_asks_the_api_server_for_a_name_that_no_job_can_have(
    tmp_path: Path, verb: str, rest: tuple[str, ...], name: str
) -> None:
    where = ("-n", "team-a", "--kubeconfig", str(kubeconfig(tmp_path, NOWHERE, {"token": "t"})))
    done = CliRunner().invoke(main, [*verb.split(), *where, name, *rest])
    assert done.exit_code == 4, done.output
    assert done.output == f"Error: there is no SliceJob {name!r} in namespace team-a: no job can have that name\n"


def first(of: AsyncIterator[Any]) -> Awaitable[Any]:
    return anext(of)


READS: dict[str, Callable[[AsyncClient, str], Awaitable[Any]]] = {
    "get": lambda client, name: client.get(name),
    "manifest": lambda client, name: client.manifest(name),
    "history": lambda client, name: client.history(name),
    "pods": lambda client, name: client.pods(name),
    "watch": lambda client, name: first(client.watch(name)),
    "watch_pods": lambda client, name: first(client.watch_pods(name)),
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_nor_does_a_client_without_the_commands(
    tmp_path: Path, read: Callable[[AsyncClient, str], Awaitable[Any]], name: str
) -> None:
    async with AsyncClient("team-a", kubeconfig(tmp_path, NOWHERE, {"token": "t"})) as client:
        with pytest.raises(NotFound, match="in namespace team-a: no job can have that name"):
            await read(client, name)


@pytest.mark.parametrize("namespace", NO_NAMESPACES.values(), ids=NO_NAMESPACES)
@pytest.mark.parametrize(
    ("verb", "rest"),
    [*((verb, ("train", *rest)) for verb, rest in VERBS.items()), *OTHER_VERBS.items()],
    ids=[*(f"{verb} NAME" for verb in VERBS), *OTHER_VERBS],
)
def test_no_verb_asks_the_api_server_for_a_namespace_that_cannot_be(
    tmp_path: Path, verb: str, rest: tuple[str, ...], namespace: str
) -> None:
    where = ("-n", namespace, "--kubeconfig", str(kubeconfig(tmp_path, NOWHERE, {"token": "t"})))
    command, *options = verb.split()
    done = CliRunner().invoke(main, [command, *where, *options, *rest])
    assert done.output == f"Error: namespace {namespace!r} {WORDS}\n"
    assert done.exit_code == 2


@pytest.mark.parametrize("option", ["--namespace", "--operator-namespace"])
def test_nor_does_the_doctor(api_server: ApiServer, option: str) -> None:
    done = CliRunner().invoke(main, ["doctor", option, "a?b"])
    assert (done.exit_code, done.output) == (2, f"Error: namespace 'a?b' {WORDS}\n")
    assert not [one for one in api_server.asked if "namespaces/a" in one]


def test_an_empty_namespace_is_that_of_the_context(api_server: ApiServer) -> None:
    api_server.put(job("train", "Running"))
    assert CliRunner().invoke(main, ["list", "-n", "", "-o", "name"]).output == "slicejob.slipway.dev/train\n"


def test_a_context_may_name_a_namespace_that_cannot_be(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, NOWHERE, {"token": "t"})
    content = yaml.safe_load(path.read_text())
    content["contexts"][0]["context"]["namespace"] = "a?b"
    path.write_text(yaml.safe_dump(content))
    done = CliRunner().invoke(main, ["list", "--kubeconfig", str(path)])
    assert (done.exit_code, done.output) == (2, f"Error: namespace 'a?b' {WORDS}\n")


BODY = {"metadata": {"name": "train", "namespace": "a?b"}, "spec": {"image": "a:1"}}
CALLS: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "get": lambda client: client.get("train", namespace="a?b"),
    "submit": lambda client: client.submit(BODY),
    "submit, not stored": lambda client: client.submit(BODY, dry_run=True),
    "check_profile": lambda client: client.check_profile(BODY),
    "list": lambda client: replace(client, namespace="a?b").list(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_client_refuses_such_a_namespace_wherever_it_is_given(
    tmp_path: Path, call: Callable[[AsyncClient], Awaitable[Any]]
) -> None:
    async with AsyncClient("team-a", kubeconfig(tmp_path, NOWHERE, {"token": "t"})) as client:
        with pytest.raises(Refused, match=r"namespace 'a\?b' is not valid"):
            await call(client)


NO_PROFILES = {"a query": "team?", "a path": "../slicejobs/train", "a space": "a b", "254 letters": "x" * 254}


@pytest.mark.parametrize("name", NO_PROFILES.values(), ids=NO_PROFILES)
def test_no_profile_is_looked_for_that_cannot_be(api_server: ApiServer, name: str) -> None:
    stored = job("train", "Running")
    stored["spec"]["profile"] = name
    api_server.put(stored)
    done = CliRunner().invoke(main, ["describe", "train", "-o", "json"])
    assert json.loads(done.stdout)["profile"]["problem"] == "there is none of that name"
    assert not [one for one in api_server.asked if "slicejobprofiles" in one]
