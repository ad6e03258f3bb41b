"""All that is known of a job, from Python and on the command line."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.api.places import worker
from slipway.apiserver.history_pages import KEY, page_name
from slipway.cli.main import main
from slipway.client.blocking import Client
from slipway.client.cluster_client import AsyncClient
from slipway.client.description import ProfileOfJob
from slipway.client.errors import NotFound
from slipway.client.manifests.reading import manifest
from slipway.controller.act import history
from tests.kubectl import Kubectl
from tests.running import Jobs

JOB = manifest("train", {"image": "a:1"})


def ended(number: int) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {"number": number, "startTime": now, "endTime": now, "cause": "failure", "reason": "ExitCode"}


def client_of(kubectl: Kubectl) -> Client:
    return Client(kubectl.namespace, kubectl.kubeconfig)


def test_a_job_is_described(jobs: Jobs) -> None:
    client = client_of(jobs.kubectl)
    job = client.job(jobs.apply(slices=2, accelerator={"type": "v5p-16", "spot": True}))
    jobs.until("Running")
    found = job.describe()
    assert found.job.phase == "Running"
    assert [one.number for one in found.attempts] == [0]
    assert found.hosts == {worker(index, host): "Running" for index in (0, 1) for host in (0, 1)}
    jobs.until_true("an Event", lambda: "Running" in {one.reason for one in client.describe("train").events})
    with pytest.raises(NotFound, match="there is no SliceJob nobody"):
        client.describe("nobody")


async def test_a_job_that_no_operator_has_seen_is_described(kubectl: Kubectl) -> None:
    kubectl.apply(JOB)
    async with AsyncClient(kubectl.namespace, kubectl.kubeconfig) as client:
        found = await client.describe("train")
    assert (found.job.phase, found.attempts, found.hosts, found.events) == ("Pending", (), {}, ())


WORDS: dict[str, tuple[ProfileOfJob, str]] = {
    "no attempt yet": (ProfileOfJob("team", 3), "team (generation 3)"),
    "the attempt has it": (ProfileOfJob("team", 3, "", 1, 3), "team (generation 3)"),
    "the attempt has an older one": (
        ProfileOfJob("team", 3, "", 1, 2), "team (generation 3; attempt 1 began with generation 2)",
    ),
    "the attempt is older than the profile": (
        ProfileOfJob("team", 3, "", 1), "team (generation 3; attempt 1 began without it)",
    ),
    "it is gone": (
        ProfileOfJob("team", None, "there is none of that name", 1, 2),
        "team (there is none of that name; attempt 1 began with generation 2)",
    ),
    "it never was": (ProfileOfJob("team", None, "there is none of that name"), "team (there is none of that name)"),
}  # fmt: skip


@pytest.mark.parametrize(("profile", "words"), WORDS.values(), ids=WORDS)
def test_the_profile_of_a_job_is_told_in_a_line(profile: ProfileOfJob, words: str) -> None:
    assert profile.words == words


def test_the_profile_of_a_job_is_described_and_the_version_that_its_attempt_began_with(kubectl: Kubectl) -> None:
    client = client_of(kubectl)
    where = ("--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace)

    def described() -> str:
        shown = CliRunner().invoke(main, ["describe", "train", *where])
        assert shown.exit_code == 0, shown.output
        return " ".join(shown.output.split())

    kubectl.apply(JOB)
    assert client.describe("train").profile is None
    assert "Profile" not in described()
    profile = {"apiVersion": JOB["apiVersion"], "kind": "SliceJobProfile", "metadata": {"name": "default"}}
    kubectl.apply(profile | {"spec": {"defaults": {"shmSize": "1Gi"}}})
    assert "Profile default (generation 1)" in described()
    attempt: dict[str, Any] = {"number": 0, "startTime": datetime.now(UTC).isoformat()}
    attempt["defaults"] = {"profile": "default", "generation": 1, "hash": "a"}
    kubectl.patch("sj", "train", {"status": {"phase": "Running", "attempt": 0, "attempts": [attempt]}}, status=True)
    kubectl.apply(profile | {"spec": {"defaults": {"shmSize": "2Gi"}}})
    assert "Profile default (generation 2; attempt 0 began with generation 1)" in described()
    kubectl("delete", "sjp", "default")
    assert "Profile default (there is none of that name; attempt 0 began with generation 1)" in described()
    data = json.loads(CliRunner().invoke(main, ["describe", "train", *where, "-o", "json"]).output)
    assert (data["profile"]["name"], data["profile"]["began"]) == ("default", 1)


def test_older_attempts_are_read_when_they_are_wanted(kubectl: Kubectl) -> None:
    kubectl.apply(JOB)
    newest = [ended(number) for number in range(24, 4, -1)]
    kubectl.patch("sj", "train", {"status": {"phase": "Restarting", "attempt": 24, "attempts": newest}}, status=True)
    packed = base64.b64encode(history.pack({number: ended(number) for number in range(5)})).decode()
    owner = {"apiVersion": JOB["apiVersion"], "kind": "SliceJob", "name": "train", "controller": True}
    owner |= {"uid": kubectl.get("sj", "train")["metadata"]["uid"]}
    metadata = {"name": page_name("train", 0), "ownerReferences": [owner]}
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {KEY: packed}}
    kubectl.apply(page)
    client = client_of(kubectl)
    assert [one.number for one in client.describe("train").attempts] == list(range(5, 25))
    assert [one.number for one in client.describe("train", history=True).attempts] == list(range(25))
    where = ("--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace)
    shown = CliRunner().invoke(main, ["describe", "train", *where, "--history", "-o", "json"])
    assert [one["number"] for one in json.loads(shown.output)["attempts"]] == list(range(25))
