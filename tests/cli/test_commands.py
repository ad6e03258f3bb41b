"""Each command against a real API server with an operator, as a person at a terminal would use it."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result
from rich.text import Text

from slipway.api.names import SERVED_NAMESPACES
from slipway.cli.main import COMMANDS, main
from slipway.client import errors
from slipway.client.blocking import Client
from slipway.client.manifests.reading import manifest
from slipway.devcluster.native.provider import NativeCluster
from tests.kubectl import Kubectl
from tests.running import Jobs
from tests.waiting import ANSWER_SECONDS

RUNS = ("--image", "slipway.local/busybox:1", "--hosts", "1", "--name", "train")


def slipway(jobs: Jobs, command: str, *arguments: str, stdin: str | None = None) -> Result:
    """Run a command of the cluster and namespace of these jobs."""
    where = ("--kubeconfig", str(jobs.kubectl.kubeconfig), "--namespace", jobs.kubectl.namespace)
    return CliRunner().invoke(main, [command, *where, *arguments], input=stdin)


def said(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def client(jobs: Jobs) -> Client:
    return Client(jobs.kubectl.namespace, jobs.kubectl.kubeconfig)


def test_a_job_from_flags_runs(jobs: Jobs) -> None:
    assert "slicejob train created" in said(slipway(jobs, "submit", *RUNS, "-e", "A=1", "--", "sleep", "1h"))
    assert "slicejob train unchanged" in said(slipway(jobs, "submit", *RUNS, "-e", "A=1", "--", "sleep", "1h"))
    stored = jobs.kubectl.get("sj", "train")["spec"]
    assert (stored["command"], stored["env"]) == (["sleep", "1h"], [{"name": "A", "value": "1"}])
    jobs.until("Running")


@pytest.mark.row("B-43")
def test_a_name_that_is_taken_by_another_job_is_refused(jobs: Jobs) -> None:  # N-07
    said(slipway(jobs, "submit", *RUNS))
    output = said(slipway(jobs, "submit", *RUNS, "--", "sleep", "2h"), code=2)
    assert "SliceJob train" in output
    assert "exists with another command" in output


def test_what_is_rendered_is_what_is_submitted(jobs: Jobs, tmp_path: Path) -> None:  # T-38
    flags = (*RUNS, "--shm-size", "1Gi", "--mount", "type=bind,src=/tmp,dst=/data", "--", "sleep", "1h")
    rendered = said(slipway(jobs, "render", *flags))
    assert said(slipway(jobs, "render", *flags)) == rendered
    manifest = tmp_path / "job.yaml"
    manifest.write_text(rendered)
    said(slipway(jobs, "submit", "-f", str(manifest)))
    assert "unchanged" in said(slipway(jobs, "submit", *flags))
    assert yaml.safe_load(rendered)["spec"]["shmSize"] == "1Gi"


def explained(jobs: Jobs, *arguments: str, stdin: str | None = None) -> dict[str, tuple[Any, str]]:
    found = json.loads(said(slipway(jobs, "render", "--explain", "-o", "json", *arguments, stdin=stdin)))
    return {one["field"]: (one["value"], one["source"]) for one in found}


def test_it_is_explained_where_each_value_comes_from(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / ".env").write_text("A=file\nHF_TOKEN=abc\n")
    flags = ("--image", "a:1", "--type", "v5e-16", "--max-failures", "2", "--name", "train")
    flags += ("-e", "A=flag", "--env-file", str(tmp_path / ".env"), "--copy-env", "WANDB_*", "--", "sleep", "1h")
    found = explained(jobs, *flags)
    assert {
        "metadata.name": ("train", "--name"),
        "metadata.namespace": (jobs.kubectl.namespace, "--namespace"),
        "spec.accelerator.type": ("v5e-16", "--type"),
        "spec.command": ("sleep 1h", "the command line"),
        "spec.env[A]": ("flag", "--env"),
        "spec.env[HF_TOKEN]": ("[redacted]", f"--env-file {tmp_path / '.env'}"),
        "spec.env[WANDB_MODE]": ("offline", "--copy-env WANDB_*"),
        "spec.retries.maxFailures": (2, "--max-failures"),
        "spec.slices": (1, "API server"),
        "status.resolved.type": ("v5litepod-16", "spec.accelerator"),
        "status.resolved.startSeconds": (1800, "operator"),
    }.items() <= found.items()
    # The API server adds what was foretold, and nothing else.
    stored = said(slipway(jobs, "submit", "--dry-run", "server", "-o", "json", *flags))
    whole = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob"} | json.loads(stored)
    again = explained(jobs, "-f", "-", stdin=json.dumps(whole))
    assert {field: value for field, (value, _) in again.items() if field.startswith("spec.")} == {
        field: value for field, (value, _) in found.items() if field.startswith("spec.")
    }
    assert {source for field, (_, source) in again.items() if field.startswith("spec.")} == {"-"}


def test_several_jobs_come_from_standard_input(jobs: Jobs) -> None:
    bodies = [yaml.safe_load(said(slipway(jobs, "render", *RUNS, "--name", name))) for name in ("a", "b")]
    output = said(slipway(jobs, "submit", "-f", "-", "-o", "name", stdin=yaml.safe_dump_all(bodies)))
    assert output.split() == ["slicejob.slipway.dev/a", "slicejob.slipway.dev/b"]
    assert sorted(said(slipway(jobs, "list", "-o", "name")).split()) == output.split()


@pytest.mark.parametrize("where", ["client", "server"])
def test_a_dry_run_stores_nothing(jobs: Jobs, where: str) -> None:
    said(slipway(jobs, "submit", *RUNS, "--dry-run", where))
    assert jobs.kubectl.get("sj")["items"] == []


def test_bad_manifests_are_refused_here_and_by_the_api_server(jobs: Jobs, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    body = yaml.safe_load(said(slipway(jobs, "render", *RUNS)))
    manifest.write_text(yaml.safe_dump(body | {"spec": body["spec"] | {"max_retries": 1}}))
    assert "spec.max_retries is not a known field" in said(slipway(jobs, "validate", str(manifest)), code=2)
    # Only the API server evaluates CEL.
    manifest.write_text(yaml.safe_dump(body | {"spec": body["spec"] | {"image": "a b"}}))
    said(slipway(jobs, "validate", str(manifest)))
    assert "is not an image reference" in said(slipway(jobs, "validate", "--server", str(manifest)), code=2)


def test_profiles_are_checked_by_the_api_server_whether_they_exist_or_not(jobs: Jobs, tmp_path: Path) -> None:
    manifest = tmp_path / "profile.yaml"
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": "unused"}}
    good = body | {"spec": {"defaults": {"image": "a:1"}}}
    for exists in (False, True):
        # Only the API server evaluates CEL.
        manifest.write_text(yaml.safe_dump(body | {"spec": {"defaults": {"image": "a b"}}}))
        said(slipway(jobs, "validate", str(manifest)))
        assert "is not an image reference" in said(slipway(jobs, "validate", "--server", str(manifest)), code=2)
        manifest.write_text(yaml.safe_dump(good))
        assert "slicejobprofile unused is valid" in said(slipway(jobs, "validate", "--server", str(manifest)))
        stored = jobs.kubectl.get("sjp")["items"]
        assert [one["metadata"]["name"] for one in stored] == ["unused"] * exists
        jobs.kubectl.apply(good)
    jobs.kubectl("delete", "sjp", "unused")


def test_a_job_is_listed_described_and_explained(jobs: Jobs) -> None:
    jobs.apply(hosts=2, nodeSelector={"disk": "fast"})
    jobs.until("WaitingForCapacity")
    jobs.until_true("a reason", lambda: jobs.condition("Running")["reason"] == "SelectorMatchesNothing")
    [row] = [line.split() for line in said(slipway(jobs, "list")).splitlines()[1:]]
    assert row[:3] == ["train", "WaitingForCapacity", "SelectorMatchesNothing"]
    [found] = json.loads(said(slipway(jobs, "list", "-o", "json")))
    assert found["status"]["phase"] == "WaitingForCapacity"
    described = said(slipway(jobs, "describe", "train"))
    assert "no node has disk=fast" in described
    assert "2 unscheduled" in described
    why = said(slipway(jobs, "why", "train"))
    assert why.startswith("train is WaitingForCapacity (SelectorMatchesNothing): ")
    assert json.loads(said(slipway(jobs, "why", "train", "-o", "json")))["reason"] == "SelectorMatchesNothing"
    jobs.until_true("an Event", lambda: "WaitingForCapacity" in said(slipway(jobs, "events", "train")))


def test_the_environment_of_a_job_is_described_before_it_has_pods_and_after(jobs: Jobs) -> None:
    given = ("-e", "MASTER_PORT=12355", "-e", "HF_TOKEN=s3cr3t")
    said(slipway(jobs, "submit", *RUNS, *given, "--slices", "2", "--", "sleep", "1h"))
    jobs.until("Running")
    [pod] = [pod for pod in jobs.pods() if pod["metadata"]["name"] == "train-0-1-0"]
    created = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    described = json.loads(said(slipway(jobs, "describe", "train", "--env", "-o", "json")))
    assert (described["attempt"], described["hosts"]) == (0, 2)
    rows = {row["name"]: row for row in described["workers"]}
    assert list(rows) == list(created)
    assert rows["RANK"] == {"name": "RANK", "value": "0", "lastValue": "1", "source": "default of Slipway"}
    assert rows["MASTER_PORT"] == {"name": "MASTER_PORT", "value": "12355", "source": "spec.env"}
    assert rows["SLIPWAY_COORDINATOR_ADDRESS"]["value"] == created["SLIPWAY_COORDINATOR_ADDRESS"]
    running = said(slipway(jobs, "describe", "train", "--env"))
    assert "s3cr3t" not in running + json.dumps(described)
    said(slipway(jobs, "suspend", "train"))
    said(slipway(jobs, "wait", "train", "--for", "suspended", "--timeout", f"{ANSWER_SECONDS}s"))
    jobs.until_true("no pods", lambda: not jobs.pods())
    assert said(slipway(jobs, "describe", "train", "--env")) == running


def test_the_environment_of_a_job_that_gets_no_hosts_is_refused_in_a_sentence(jobs: Jobs) -> None:
    jobs.apply(accelerator={"type": "v9-8"})
    output = said(slipway(jobs, "describe", "train", "--env"), code=2)
    assert "SliceJob train gets no hosts: spec.accelerator: " in output


def test_a_job_is_suspended_resumed_cancelled_and_deleted(jobs: Jobs) -> None:
    said(slipway(jobs, "submit", *RUNS))
    jobs.until("Running")
    assert "slicejob train suspended" in said(slipway(jobs, "suspend", "train"))
    said(slipway(jobs, "wait", "train", "--for", "suspended", "--timeout", f"{ANSWER_SECONDS}s"))
    said(slipway(jobs, "resume", "train"))
    said(slipway(jobs, "wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s"))
    assert "slicejob train cancelled" in said(slipway(jobs, "cancel", "train", "--now"))
    assert "Cancelled" in said(slipway(jobs, "wait", "train", "--timeout", f"{ANSWER_SECONDS}s"), code=1)
    assert jobs.kubectl.get("sj", "train")["spec"]["cancelGracePeriodSeconds"] == 1
    said(slipway(jobs, "delete", "train", "--wait"))
    assert jobs.kubectl.get("sj")["items"] == []


@pytest.mark.row("B-42")
def test_a_finished_job_cannot_be_cancelled(jobs: Jobs) -> None:  # N-18, T-40
    said(slipway(jobs, "submit", *RUNS))
    jobs.until("Running")
    said(slipway(jobs, "cancel", "train"))
    said(slipway(jobs, "wait", "train", "-q"), code=1)
    for _ in range(2):
        output = said(slipway(jobs, "cancel", "train"), code=5)
        assert "SliceJob train is Cancelled already; nothing was changed" in output
    said(slipway(jobs, "cancel", "train", "--ignore-finished"))


UNKNOWN = ["describe", "why", "events", "wait", "cancel", "suspend", "resume", "delete", "top"]


@pytest.mark.parametrize("command", UNKNOWN)
@pytest.mark.row("B-41")
def test_an_unknown_job_is_not_found(jobs: Jobs, command: str) -> None:  # N-12, N-17
    output = said(slipway(jobs, command, "nobody"), code=4)
    assert f"there is no SliceJob nobody in namespace {jobs.kubectl.namespace}" in output


def test_a_wait_that_is_over_leaves_the_job_alone(jobs: Jobs) -> None:  # N-14
    said(slipway(jobs, "submit", *RUNS))
    jobs.until("Running")
    output = said(slipway(jobs, "wait", "train", "--timeout", "3s"), code=124)
    assert "SliceJob train is Running after 3 s" in output
    assert jobs.status()["phase"] == "Running"


def test_several_jobs_are_waited_for_at_once(jobs: Jobs) -> None:
    for name in ("a", "b"):
        said(slipway(jobs, "submit", *RUNS, "--name", name))
    done = slipway(jobs, "wait", "a", "b", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
    assert done.exit_code == 0, done.output
    ends = sorted(line[:21] for line in done.stdout.splitlines())
    assert ends == ["slicejob a is Running", "slicejob b is Running"]
    for name in ("a", "b"):
        assert re.search(rf"^\d\d:\d\d:\d\d {name} attempt 0 Running: ", done.stderr, re.MULTILINE)
    quiet = slipway(jobs, "wait", "a", "b", "--for", "running", "-q")
    assert (quiet.exit_code, quiet.output) == (0, "")
    said(slipway(jobs, "wait", "a", "nobody"), code=4)


def test_several_jobs_are_one_picture_on_a_terminal(jobs: Jobs) -> None:
    jobs.apply("b", hosts=1, nodeSelector={"disk": "fast"})
    jobs.until("WaitingForCapacity", "b")
    said(slipway(jobs, "submit", *RUNS, "--name", "a"))
    jobs.until("Running", "a")
    where = ("--kubeconfig", str(jobs.kubectl.kubeconfig), "--namespace", jobs.kubectl.namespace)
    program = [sys.executable, "-m", "slipway.cli.main", "wait", "a", "b", *where, "--timeout", "4s"]
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    done = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=its_end, env=os.environ | {"TERM": "xterm"})
    os.close(its_end)
    drawn = b""
    with suppress(OSError):  # Linux says so where the other end is closed.
        while read := os.read(terminal, 65536):
            drawn += read
    os.close(terminal)
    said_at_the_end, _ = done.communicate(timeout=ANSWER_SECONDS)
    assert (done.returncode, said_at_the_end) == (124, b"")
    rows = [Text.from_ansi(line).plain for line in drawn.decode().replace("\r", "\n").splitlines()]
    [names] = {tuple(re.findall(r"\S+", row)) for row in rows if row.startswith("NAME")}
    assert names == ("NAME", "PHASE", "SLICES", "ELAPSED", "REASON", "MESSAGE")
    assert any(re.match(r"a +Running +1/1 ", row) for row in rows), rows
    assert any(re.match(r"b +WaitingForCapacity +0/1 .* SelectorMatchesNothing ", row) for row in rows), rows
    assert all(len(row) <= 100 for row in rows)
    # It keeps time between two changes.
    assert len({row for row in rows if row.startswith("a ")}) > 3


def test_the_doctor_finds_the_operator_the_rights_and_the_nodes(jobs: Jobs) -> None:
    found = {one["check"]: one for one in json.loads(slipway(jobs, "doctor", "-o", "json").output)}
    assert found["CRD"]["good"]
    assert found["right to create slicejobs"]["good"]
    assert found["right to get pods/log"]["good"]
    assert "tpu-v5p-slice 2x2x2 in 4 node pool(s)" in found["TPU nodes"]["message"]
    text = slipway(jobs, "doctor").output
    assert "✓ API server: Kubernetes v1." in text


def test_the_doctor_names_all_operators_that_serve_the_namespace(
    control_plane: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]
) -> None:
    served, elsewhere = namespace_of(control_plane), namespace_of(control_plane)

    def found(*operators: tuple[Kubectl, str]) -> dict[str, tuple[bool, str]]:
        renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for kubectl, name in operators:
            metadata = {"name": name, "annotations": {SERVED_NAMESPACES: served.namespace}}
            spec = {"holderIdentity": f"of-{name}", "renewTime": renewed, "leaseDurationSeconds": 600}
            kubectl.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
        where = ("--kubeconfig", str(served.kubeconfig), "--namespace", served.namespace)
        done = CliRunner().invoke(main, ["doctor", *where, "-o", "json"])
        return {one["check"]: (one["good"], one["message"]) for one in json.loads(done.output)}

    alone = found((served, "slipway-operator"))
    leads = f"of-slipway-operator leads in namespace {served.namespace} and serves only {served.namespace}"
    assert alone["operator"] == (True, leads)
    assert "several operators" not in alone
    good, said = found((served, "slipway-operator-blue"))["several operators"]
    assert good
    assert said == (
        f"2 operators serve namespace {served.namespace}: of-slipway-operator in {served.namespace} (no operator id), "
        f"of-slipway-operator-blue in {served.namespace} (operator id blue). Each applies its limits only to the jobs "
        "with its id; in namespaces with the label slipway.dev/limits=enforced the API server applies those of all"
    )
    good, said = found((elsewhere, "slipway-operator"))["several operators"]
    assert not good
    assert said.startswith(f"3 operators serve namespace {served.namespace}: ")
    assert "Those with the same id act on the same jobs: give each an id of its own" in said


def test_what_hosts_use_is_not_known_without_a_metrics_server(jobs: Jobs) -> None:
    said(slipway(jobs, "submit", *RUNS))
    jobs.until("Running")
    assert said(slipway(jobs, "top", "train"), code=3) == "Error: this cluster has no metrics server\n"


def test_top_shows_where_the_time_of_each_job_went(jobs: Jobs) -> None:
    said(slipway(jobs, "submit", *RUNS))
    jobs.until("Running")
    (row,) = json.loads(said(slipway(jobs, "top", "-o", "json")))
    assert (row["name"], row["lost"]) == ("train", 0.0)
    assert row["seconds"] > 0.0
    assert "train" in said(slipway(jobs, "top", "-A"))
    assert "NAME names one job" in said(slipway(jobs, "top", "train", "-A"), code=2)


def test_the_types_of_the_cluster_are_listed(jobs: Jobs) -> None:
    rows = {row["type"]: row for row in json.loads(said(slipway(jobs, "types", "--cluster", "-o", "json")))}
    assert rows["v5p-16"] | {"nodePools": 4, "nodes": 8, "hosts": 2, "topology": "2x2x2"} == rows["v5p-16"]
    assert "v6e-8" in said(CliRunner().invoke(main, ["types"]))


def completed(*words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    found = BashComplete(main, {}, "slipway", "_SLIPWAY_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [one.value for one in found]


def test_names_of_jobs_are_completed(jobs: Jobs) -> None:
    said(slipway(jobs, "submit", *RUNS))
    where = ("--kubeconfig", str(jobs.kubectl.kubeconfig), "--namespace", jobs.kubectl.namespace)
    # The completion waits two seconds for the API server, and a busy one takes longer.
    jobs.until_true("a name", lambda: completed("describe", *where, "tr") == ["train"])
    assert completed("describe", *where, "other") == []


def test_commands_are_completed_and_a_cluster_that_is_away_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert completed("des") == ["describe"]
    assert "--version" in completed("--")
    assert completed("describe", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    assert "_SLIPWAY_COMPLETE" in said(CliRunner().invoke(main, ["completion", shell]))


def test_nothing_to_talk_to_is_said_in_a_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    output = said(CliRunner().invoke(main, ["list", "--kubeconfig", str(missing)]), code=3)
    assert str(missing) in output


USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "no image": (("submit",), "give -f FILE, or --image"),
    "file and flags": (("submit", "-f", "a", "--image", "b"), "contradict each other"),
    "file and no GPUs": (("submit", "-f", "a", "--gpus", "0"), "-f and gpus contradict each other"),
    "no such file": (("submit", "-f", "/nowhere"), "/nowhere cannot be read"),
    "a variable that is not there": (("render", "--image", "a:1", "-e", "NO_SUCH_THING"), "write NO_SUCH_THING=VALUE"),
    "no length of time": (("wait", "a", "--timeout", "soon"), "write for example 90s"),
    "no state": (("wait", "a", "--for", "happy"), "is none of Finished, Deleted, Pending"),
    "no such command": (("lst",), "Did you mean 'list'?"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_said_before_anything_is_sent(arguments: tuple[str, ...], words: str) -> None:
    assert words in said(CliRunner().invoke(main, [*arguments], env={"KUBECONFIG": "/nowhere"}), code=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    assert "Usage:" in said(CliRunner().invoke(main, [command, "--help"]))


def test_the_client_submits_watches_and_cancels(jobs: Jobs, client: Client) -> None:  # N-06 to N-18, F-58 to F-79
    made = client.submit(manifest("train", {"image": "slipway.local/busybox:1", "hosts": 1}))
    assert client.job("train") == made
    assert made.until("Running", timeout=ANSWER_SECONDS).phase == "Running"
    assert made.poll() is None
    assert next(client.watch("train")).phase == "Running"
    with pytest.raises(errors.WaitTimeout):
        made.wait(timeout=0.5)
    made.cancel()
    with pytest.raises(errors.JobCancelled, match="cancelled"):
        made.wait(timeout=ANSWER_SECONDS)
    assert made.poll() == 1
    with pytest.raises(errors.AlreadyFinished):
        made.cancel()
    made.delete()
    assert client.find("train") is None
    assert not client.exists("train")
    with pytest.raises(errors.NotFound):
        client.get("train")


def test_the_client_tells_refusals_apart(jobs: Jobs, client: Client) -> None:
    with pytest.raises(errors.Refused, match="image is empty"):
        client.submit(manifest("train", {"image": " "}))
    with pytest.raises(errors.NotFound):
        client.submit(manifest("train", {"image": "a:1"}, "nowhere"))


@pytest.mark.thorough
def test_a_namespace_that_no_operator_serves_is_said_to_be_one(
    own_jobs: Callable[..., Jobs], control_plane: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]
) -> None:
    jobs, kubectl = own_jobs(), namespace_of(control_plane)
    served = jobs.kubectl.namespace
    elsewhere = Jobs(kubectl, jobs.operator)
    words = f"no operator serves namespace {kubectl.namespace}: "
    only = f"the one in {served} serves only {served}"

    def shows(expected: str, where: Jobs, *command: str) -> None:
        """Wait for the words: they need a Lease that was renewed a moment ago, and a job that is not new."""
        jobs.until_true(expected, lambda: expected in " ".join(slipway(where, *command).output.split()))

    leads = f"leads in namespace {served} and serves only {served}"
    shows(leads, jobs, "doctor")
    shows(f"✗ operator: {words}", elsewhere, "doctor")
    shows(leads, jobs, "doctor", "--operator-namespace", served)
    shows("✗ operator: no operator runs: ", jobs, "doctor", "--operator-namespace", kubectl.namespace)
    shows("there is no Lease slipway-operator-blue", jobs, "doctor", "--operator-id", "blue")
    submitted = said(slipway(elsewhere, "submit", *RUNS, "--", "sleep", "1h"))
    assert "slicejob train created" in submitted
    assert f"Warning: {words}" in submitted
    assert only in submitted
    assert words not in said(slipway(jobs, "submit", *RUNS, "--", "sleep", "1h"))
    shows(words, elsewhere, "why", "train")
    why = ("why", "train", "-o", "json")
    jobs.until_true("a reason", lambda: json.loads(said(slipway(elsewhere, *why)))["reason"] == "NoOperator")
    shows(only, elsewhere, "describe", "train")
