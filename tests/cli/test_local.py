"""`slipway local` as far as no engine is needed: what it takes, and what it refuses before anything starts."""

import asyncio
import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner, Result

from slipway.cli.advice import advice
from slipway.cli.engine_options import Device, mounted_device
from slipway.cli.local import local
from slipway.cli.main import main
from slipway.client.errors import Refused
from slipway.client.manifests.mounts import mounts
from slipway.client.manifests.reading import manifest
from slipway.local.client.blocking import LocalClient
from slipway.local.client.client import AsyncLocalClient
from slipway.local.conversion.devices import Device as DeviceNode
from slipway.local.conversion.devices import DeviceMapping, Inventory
from slipway.local.engine.address import Address
from slipway.local.jobs.job_files import folder
from slipway.local.jobs.options import Options
from slipway.local.supervisor import machine_site, supervisor

PROFILE = """\
apiVersion: slipway.dev/v1alpha1
kind: SliceJobProfile
metadata: {name: gpus}
spec:
  defaults:
    env: [{name: NCCL_DEBUG, value: WARN}]
"""
JOB = """\
apiVersion: slipway.dev/v1alpha1
kind: SliceJob
metadata: {name: train}
spec: {image: app, command: [train], PROFILE}
"""


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")


def slipway(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_the_verbs_are_those_of_a_cluster() -> None:
    shown = slipway("local", "--help").output
    verbs = [
        "run",
        "submit",
        "list",
        "describe",
        "why",
        "logs",
        "wait",
        "cancel",
        "delete",
        "events",
        "suspend",
        "resume",
        "prune",
    ]
    assert all(f"\n  {verb} " in shown for verb in verbs)


@pytest.mark.parametrize("verb", ["run", "submit", "list", "logs", "wait", "describe", "delete"])
def test_no_verb_has_options_of_a_cluster(verb: str) -> None:
    shown = slipway("local", verb, "--help").output
    assert not any(option in shown for option in ("--kubeconfig", "--context ", "--namespace", "--spot"))


REFUSED = [
    pytest.param(("--device", "dev/fuse"), "absolute", id="B-22 a device by a relative path"),
    pytest.param(("--device", "/dev/fuse:/dev/fuse:x"), "letters of r, w and m", id="B-22 a permission that is none"),
    pytest.param(("--mount", "type=device,src=/dev/fuse,x=1"), "'x' is not known", id="B-22 an unknown key"),
    pytest.param(("--mount", "type=device,src=/dev/fuse,perm=x"), "letters of r, w and m", id="B-22 perm=x"),
    pytest.param(("--mount", "type=device,dst=/dev/fuse"), "absolute", id="B-22 no source"),
    pytest.param(("--ulimit", "nofile"), "NAME=SOFT[:HARD]", id="a ulimit without a value"),
    pytest.param(("--ulimit", "files=1"), "there is no limit 'files': core, cpu, data, ", id="an unknown ulimit"),
    pytest.param(("--mount", "type=bind,src=/var/run/docker.sock,dst=/s"), "docker.sock", id="B-25 its socket"),
    pytest.param(("--network", "bridge", "--hosts", "2"), "bridge beside 2 hosts", id="K-08 hosts on the bridge"),
    pytest.param(("--network", "none", "--slices", "2"), "none beside 2 hosts", id="K-08 slices without a network"),
    pytest.param(("--type", "v5litepod-16"), "is 4 machines, and this is one", id="a slice of several machines"),
    pytest.param(("--type", "v5litepod-4"), "google.com/tpu 4 is asked for", id="TPU chips that are not there"),
    pytest.param(("--gpus", "2", "--gpu-vendor", "nvidia"), "this machine has no GPUs", id="GPUs that are not there"),
]


@pytest.mark.row("B-22", "B-25")
@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_cannot_run_here_is_refused_with_code_2(options: tuple[str, ...], words: str) -> None:
    done = slipway("local", "run", "--image", "app", *options, "--", "train")
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert slipway("local", "list", "-o", "name").output == ""


AWAY: Final = "Warning: The Docker engine is not reachable at unix://{folder}/no-engine.sock: {trouble}. "
LAST_KNOWN: Final = AWAY + "What is shown of train is what was last known; more happens when the engine answers."
WRITTEN_DOWN: Final = AWAY + "What is to become of train is written down."
WITHOUT_ENGINE = {
    "list": (("list", "-o", "name"), "slicejob.slipway.dev/train\n", LAST_KNOWN),
    "why": (("why", "train"), "train is Running: 1 of 1 hosts run\n", LAST_KNOWN),
    "describe": (("describe", "train"), "1 of 1 hosts run\n", LAST_KNOWN),
    "cancel": (("cancel", "train"), "slicejob train will be cancelled when its engine answers\n", WRITTEN_DOWN),
    "suspend": (("suspend", "train"), "slicejob train will be suspended when its engine answers\n", WRITTEN_DOWN),
    "resume": (("resume", "train"), "slicejob train will be resumed when its engine answers\n", WRITTEN_DOWN),
    "delete": (("delete", "train"), "slicejob train will be deleted when its engine answers\n", WRITTEN_DOWN),
}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a job that runs on an engine, and no supervisor that would wait for the engine."""
    monkeypatch.setattr(supervisor, "ensure_supervisor", lambda job: None)
    body = manifest("train", {"image": "app", "command": ["train"]})
    folder("train").create(body, {"options": Options(Address.configured()).to_json()})
    said = {"type": "Running", "status": "True", "reason": "Running", "message": "1 of 1 hosts run"}
    with folder("train").changing() as stored:
        condition = said | {"lastTransitionTime": "2027-01-15T12:00:00Z"}
        stored["status"] |= {"phase": "Running", "attempt": 0, "conditions": [condition]}


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(("words", "shown", "warning"), WITHOUT_ENGINE.values(), ids=WITHOUT_ENGINE)
def test_while_the_engine_is_away_a_command_says_what_is_known_and_what_will_happen(
    tmp_path: Path, words: tuple[str, ...], shown: str, warning: str
) -> None:
    with folder("train").changing() as stored:
        stored["spec"] |= {"suspend": True} if "resume" in words else {}
    done = slipway("local", *words)
    assert done.exit_code == 0, done.output
    assert shown in done.stdout
    trouble = "[Errno 2] No such file or directory"
    assert done.stderr == warning.format(folder=tmp_path, trouble=trouble) + "\n"


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("words", [("list",), ("why", "train"), ("describe", "train")], ids=" ".join)
def test_a_job_of_which_nothing_is_left_on_the_engine_needs_none(words: tuple[str, ...]) -> None:
    with folder("train").changing() as stored:
        stored["status"] |= {"phase": "Succeeded"}
    folder("train").settle()
    done = slipway("local", *words)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.usefixtures("running")
def test_an_ended_job_is_deleted_when_its_engine_answers(tmp_path: Path) -> None:
    with folder("train").changing() as stored:
        stored["status"] |= {"phase": "Succeeded"}
    folder("train").settle()
    done = slipway("local", "delete", "train")
    assert (done.exit_code, done.stdout) == (0, "slicejob train will be deleted when its engine answers\n")
    assert "is written down" in done.stderr


OF_A_JOB = ("describe", "why", "logs", "events", "cancel", "suspend", "resume", "wait")
NO_NAMES = {"a path": "../esc", "B-36 300 letters": "x" * 300, "B-36 no Latin letter": "日本", "F-25 _": "A_b.c"}
SUBMITTING = {
    "run": ("run",),
    "submit": ("submit",),
    "submit --dry-run client": ("submit", "--dry-run", "client"),
    "submit --dry-run server": ("submit", "--dry-run", "server"),
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("words", SUBMITTING.values(), ids=SUBMITTING)
@pytest.mark.row("B-36")
def test_a_name_that_no_job_can_have_is_refused_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    done = slipway("local", *words, "--image", "app", "--name", name, "--", "train")
    assert done.exit_code == 2, done.output
    assert f"metadata.name {name!r} is not valid: at most 40 lower-case letters" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
def test_a_client_without_the_commands_is_refused_as_well(tmp_path: Path, name: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(Refused, match="is not valid: at most 40 lower-case letters"):
            LocalClient().submit(manifest(name, {"image": "app"}), dry_run=dry_run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [*OF_A_JOB, "delete --yes", "prune"])
def test_no_verb_leaves_the_folder_of_jobs(tmp_path: Path, verb: str) -> None:
    outside = tmp_path / "state/slipway/esc/job.json"
    outside.parent.mkdir(parents=True)
    outside.write_text("{}")
    done = slipway("local", *verb.split(), "../esc")
    assert done.exit_code == 4, done.output
    assert "there is no job ../esc on this machine's engine" in done.output
    assert outside.read_text() == "{}"


@pytest.mark.row("B-23")
def test_only_a_container_of_this_machine_has_a_device_with_narrower_permissions() -> None:
    assert Device().convert("/dev/fuse:/dev/f:r", None, None) == DeviceMapping("/dev/fuse", "/dev/f", "r")
    with pytest.raises(ValueError, match="only an engine on this machine can pass a device through"):
        mounts(["type=device,src=/dev/fuse,permissions=r"])


@pytest.mark.parametrize(
    ("mount", "device"),
    [
        pytest.param("src=/dev/fuse", ("/dev/fuse", "/dev/fuse", "rwm"), id="T-11 its source alone"),
        pytest.param("src=/dev/fuse,dst=/dev/f,permissions=rw", ("/dev/fuse", "/dev/f", "rw"), id="T-11 every key"),
        pytest.param("src=/dev/fuse,dst=/dev/f,perm=r", ("/dev/fuse", "/dev/f", "r"), id="T-13 perm for permissions"),
        pytest.param("perm=m,target=/dev/f,source=/dev/fuse", ("/dev/fuse", "/dev/f", "m"), id="Docker's own keys"),
    ],
)
def test_a_device_among_the_mounts(mount: str, device: tuple[str, str, str]) -> None:
    assert mounted_device(f"type=device,{mount}") == DeviceMapping(*device)


def test_without_an_engine_a_job_is_refused_with_code_3(tmp_path: Path) -> None:
    """F-13, E1-33: one sentence with the cause, and nothing is stored."""
    done = slipway("local", "run", "--image", "app", "--", "train")
    assert done.exit_code == 3
    assert done.output.count("\n") == 1
    assert f"not reachable at unix://{tmp_path}/no-engine.sock" in done.output
    assert slipway("local", "list", "-o", "name").output == ""


@pytest.mark.parametrize("verb", OF_A_JOB)
def test_a_job_that_there_is_not_has_code_4(verb: str) -> None:
    done = slipway("local", verb, "nothing")
    assert done.exit_code == 4
    assert "no job nothing" in done.output


@pytest.mark.parametrize("verb", [*(f"{one} train" for one in OF_A_JOB), "delete --yes train"])
def test_a_job_of_a_newer_slipway_is_left_alone(verb: str) -> None:
    job = folder("train")
    stored = job.create(manifest("train", {"image": "app"}), {"format": 99})
    done = slipway("local", *verb.split())
    assert done.exit_code == 3, done.output
    assert "local.format 99 is of a newer Slipway, and this one reads 1: upgrade Slipway" in done.output
    assert json.loads(job.file.read_bytes()) == stored


def test_there_is_a_docker_command_for_each_host() -> None:
    done = slipway("render", "--docker", "--name", "one", "--image", "app", "--hosts", "2", "--", "run", "a b")
    first, second = map(shlex.split, done.output.splitlines())
    assert first[:3] == ["docker", "run", "--rm"]
    assert first[-4:] == ["--entrypoint", "run", "app", "a b"]
    assert first[first.index("--hostname") + 1] == "0-0-0"
    assert second[second.index("--hostname") + 1] == "0-0-1"


OF_THE_ENGINE = {
    "a device": (("--device", "/dev/fuse:/dev/f:rw"), ("--device", "/dev/fuse:/dev/f:rw")),
    "T-11 a device among the mounts": (
        ("--mount", "type=device,src=/dev/fuse"),
        ("--device", "/dev/fuse:/dev/fuse:rwm"),
    ),
    "a limit": (("--ulimit", "memlock=-1"), ("--ulimit", "memlock=-1:-1")),
    "a network": (("--network", "ours"), ("--network", "ours")),
    "E1-09 the network of this machine": (("--network", "host"), ("--add-host", "0-0-0.one:127.0.0.1")),
    "no TPU chips": (("--type", "v5litepod-4", "--without-devices"), ("--hostname", "0-0-0")),
}


@pytest.mark.parametrize(("options", "words"), OF_THE_ENGINE.values(), ids=OF_THE_ENGINE)
def test_devices_and_limits_are_in_the_docker_command(options: tuple[str, ...], words: tuple[str, str]) -> None:
    done = slipway("render", "--docker", "--name", "one", "--image", "app", *options, "--", "train")
    assert done.exit_code == 0, done.output
    command = shlex.split(done.output)
    assert words in pairwise(command)


FOUR_GPUS: Final = Inventory(
    {"nvidia": tuple(DeviceNode("nvidia", number, f"/dev/nvidia{number}", f"GPU-{number}a") for number in range(4))}
)
CHOSEN_GPUS = {
    "a count": (("--gpus", "2"), ['"device=0,1"']),
    "all": (("--gpus", "all"), ['"device=0,1,2,3"']),
    "all, for two hosts": (("--gpus", "all", "--hosts", "2"), ['"device=0,1"', '"device=2,3"']),
    "by number": (("--gpus", "1,3"), ['"device=1,3"']),
    "one by number": (("--gpus", "device=3"), ["device=3"]),
    "as Docker's documentation quotes it": (("--gpus", '"device=0,2"'), ['"device=0,2"']),
    "as Docker's documentation quotes capabilities": (
        ("--gpus", 'device=0,"capabilities=compute,utility"'),
        ['device=0,"capabilities=compute,utility"'],
    ),
    "by UUID": (("--gpus", "GPU-1a,GPU-2a"), ['"device=1,2"']),
    "by number, for two hosts": (("--gpus", "0,2", "--hosts", "2"), ["device=0", "device=2"]),
    "what of the driver": (("--gpus", "1,capabilities=compute,utility"), ['device=0,"capabilities=compute,utility"']),
    "all, and no devices": (("--gpus", "all", "--without-devices"), []),
    "one that is not there, and no devices": (("--gpus", "0,9", "--without-devices"), []),
    "the same GPU twice": (("--gpus", "1,GPU-1a"), ["device=1"]),
    "what of the driver of one": (("--gpus", "device=1,capabilities=utility"), ["device=1,capabilities=utility"]),
}


@pytest.mark.row("E1-11", "E1-12")
@pytest.mark.parametrize(("options", "expected"), CHOSEN_GPUS.values(), ids=CHOSEN_GPUS)
def test_gpus_are_chosen(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], expected: list[str]) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: FOUR_GPUS)
    monkeypatch.setattr(machine_site, "_machine", machine_site._machine.__wrapped__)
    done = slipway("render", "--docker", "--name", "one", "--image", "app", *options, "--", "train")
    assert done.exit_code == 0, done.output
    commands = [shlex.split(one) for one in done.output.splitlines()]
    assert [one[one.index("--gpus") + 1] for one in commands if "--gpus" in one] == expected


GPUS_OF_A_MANIFEST: Final = {
    "a count instead of its own": ("hosts: 2, accelerator: {gpu: {count: 2}}", ("1",), ["device=0", "device=1"]),
    "by number, for its hosts": ("hosts: 2, accelerator: {gpu: {count: 1}}", ("0,2",), ["device=0", "device=2"]),
    "by number, where it asks for none": ("hosts: 1", ("1,3",), ['"device=1,3"']),
    "all, for its slices": ("slices: 2", ("all",), ['"device=0,1"', '"device=2,3"']),
    "all, for the most of its slices": (
        "slices: 1, acceptableSlices: [1, 2], accelerator: {type: null}",
        ("all",),
        ['"device=0,1"', '"device=2,3"'],
    ),
    "of its vendor": ("accelerator: {gpu: {count: 1, vendor: nvidia}}", ("3,1",), ['"device=1,3"']),
    "none": ("accelerator: {gpu: {count: 2}}", ("0",), []),
    "all, and no devices": ("accelerator: {gpu: {count: 2}}", ("all", "--without-devices"), []),
}


NO_GPUS: Final = {
    "a count": (("--gpus", "2"), "spec.accelerator.gpu: this machine has no GPUs; --without-devices tries the job"),
    "all": (("--gpus", "all"), "--gpus all: this machine has no GPUs."),
    "by number": (("--gpus", "device=0"), "--gpus device=0: 0 is none of this machine's GPUs: it has none."),
}


@pytest.mark.parametrize(("given", "words"), NO_GPUS.values(), ids=NO_GPUS)
def test_a_machine_without_gpus_says_so(monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], words: str) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: Inventory())
    monkeypatch.setattr(machine_site, "_machine", machine_site._machine.__wrapped__)
    done = slipway("render", "--docker", "--name", "one", "--image", "app", *given, "--", "train")
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("unix:///run/docker.sock", None),
        (
            "tcp://10.0.0.1:2376",
            "nvidia.com/gpu: the engine at tcp://10.0.0.1:2376 may be another machine's, whose devices Slipway does "
            "not see: submit the job on that machine; --without-devices tries the job without them",
        ),
    ],
    ids=["of this machine", "of another machine"],
)
def test_devices_are_those_of_the_machine_of_the_engine(
    monkeypatch: pytest.MonkeyPatch, address: str, words: str | None
) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: FOUR_GPUS)
    monkeypatch.setattr(machine_site, "_machine", machine_site._machine.__wrapped__)
    monkeypatch.setenv("DOCKER_HOST", address)
    given = ("render", "--docker", "--name", "one", "--image", "app", "--gpus", "1")
    done = slipway(*given, "--", "train")
    assert done.exit_code == (2 if words else 0), done.output
    assert words is None or words in done.output
    assert slipway(*given, "--without-devices", "--", "train").exit_code == 0


@pytest.mark.parametrize(("fields", "given", "expected"), GPUS_OF_A_MANIFEST.values(), ids=GPUS_OF_A_MANIFEST)
def test_gpus_are_chosen_for_the_job_of_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: str, given: tuple[str, ...], expected: list[str]
) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: FOUR_GPUS)
    monkeypatch.setattr(machine_site, "_machine", machine_site._machine.__wrapped__)
    (tmp_path / "job.yaml").write_text(JOB.replace("PROFILE", fields))
    done = slipway("render", "--docker", "-f", str(tmp_path / "job.yaml"), "--gpus", *given)
    assert done.exit_code == 0, done.output
    commands = [shlex.split(one) for one in done.output.splitlines()]
    assert [one[one.index("--gpus") + 1] for one in commands if "--gpus" in one] == expected


WRONG_FOR_A_MANIFEST: Final = {
    "TPU chips": (
        ("local", "submit"), "accelerator: {type: v5litepod-4}", "1",
        "--gpus 1: the manifest has spec.accelerator.type 'v5litepod-4', and a host has TPU chips or GPUs",
    ),
    "one that is not there": (("local", "submit"), "hosts: 1", "0,9", "9 is none of this machine's GPUs"),
    "not evenly": (("local", "run"), "hosts: 2", "0,1,2", "2 hosts cannot share 3 GPUs evenly"),
    "on a cluster": (("submit",), "hosts: 1", "1", "-f and gpus contradict each other"),
    "without the options of this machine": (("run", "--on", "local"), "hosts: 1", "0,1", "-f and gpus contradict"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "fields", "gpus", "words"), WRONG_FOR_A_MANIFEST.values(), ids=WRONG_FOR_A_MANIFEST
)
def test_gpus_that_the_job_of_a_manifest_cannot_get_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], fields: str, gpus: str, words: str
) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: FOUR_GPUS)
    (tmp_path / "job.yaml").write_text(JOB.replace("PROFILE", fields))
    done = slipway(*command, "-f", str(tmp_path / "job.yaml"), "--gpus", gpus)
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_all_gpus_are_those_of_the_vendor_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"intel": (DeviceNode("intel", 0, "/dev/dri/renderD128"),)}
    monkeypatch.setattr(Inventory, "read", lambda: Inventory({**FOUR_GPUS.devices, **own}))
    monkeypatch.setattr(machine_site, "_machine", machine_site._machine.__wrapped__)
    given = ("--name", "one", "--image", "app", "--gpus", "all", "--gpu-vendor", "nvidia", "--", "train")
    assert "device=0,1,2,3" in slipway("render", "--docker", *given).output


WRONG_GPUS = {
    "one that is not there": ("9", "0,9", "--gpus 0,9: 9 is none of this machine's GPUs: 0 (GPU-0a), 1 (GPU-1a),"),
    "not evenly": ("2", "0,1,2", "--gpus 0,1,2: 2 hosts cannot share 3 GPUs evenly"),
    "a word": ("1", "some", "'some' is neither a count such as 2, nor all, nor GPUs by number or UUID such as 0,1"),
    "an unknown key": ("1", "all,driver=x", "'driver' is not known: capabilities, count, device are"),
    "a count and ids": ("1", "count=2,device=0", "is neither a count"),
    "nothing": ("1", ",", "is neither a count"),
    "no capability": ("1", "all,capabilities=", "capability '' is not known"),
}


@pytest.mark.row("E1-11", "E1-12")
@pytest.mark.parametrize(("hosts", "gpus", "words"), WRONG_GPUS.values(), ids=WRONG_GPUS)
def test_gpus_that_cannot_be_chosen_are_refused(
    monkeypatch: pytest.MonkeyPatch, hosts: str, gpus: str, words: str
) -> None:
    monkeypatch.setattr(Inventory, "read", lambda: FOUR_GPUS)
    done = slipway("local", "submit", "--image", "app", "--hosts", hosts, "--gpus", gpus, "--", "train")
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


@pytest.mark.row("E1-11")
def test_a_cluster_chooses_the_gpus_itself() -> None:
    done = slipway("render", "--image", "app", "--gpus", "0,1", "--", "train")
    assert done.exit_code == 2
    assert "--gpus 0,1: a cluster chooses the GPUs: give a count, such as 2" in done.output


IN_THE_CURRENT_FOLDER = {
    "render --docker": ("render", "--docker"),
    "local submit": ("local", "submit", "--dry-run", "server", "-o", "json"),
}


@pytest.mark.parametrize("words", IN_THE_CURRENT_FOLDER.values(), ids=IN_THE_CURRENT_FOLDER)
def test_a_relative_source_is_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """T-13: on a cluster nobody knows which folder is meant."""
    monkeypatch.chdir(tmp_path)
    mount = ("--image", "app", "--name", "one", "--mount", "type=bind,src=data,dst=/data", "--", "train")
    assert f"{tmp_path}/data" in slipway(*words, *mount).output
    for command in (("render",), ("submit", "--dry-run", "client")):
        done = slipway(*command, *mount)
        assert done.exit_code == 2
        assert "src 'data' is not an absolute path" in done.output


# N-01: the place of a job is a word of the command.
def test_run_takes_the_place(tmp_path: Path) -> None:
    job = ("--image", "app", "--name", "one", "--", "train")
    assert slipway("run", "--on", "local", *job).output == slipway("local", "run", *job).output
    assert f"not reachable at unix://{tmp_path}/no-engine.sock" in slipway("run", "--on", "local", *job).output
    done = slipway("run", "--on", "nowhere", *job)
    assert done.exit_code == 2
    assert "'nowhere' is not one of 'cluster', 'local'" in done.output


def test_a_profile_is_in_the_docker_command(tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    (tmp_path / "job.yaml").write_text(JOB.replace("PROFILE", "profile: gpus"))
    given = ("-f", str(tmp_path / "job.yaml"), "--profile", str(tmp_path / "profile.yaml"))
    assert "-e NCCL_DEBUG=WARN" in slipway("render", "--docker", *given).output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--ulimit", "memlock=-1"), "--ulimit is for the containers that --docker prints", id="a limit"),
        pytest.param(("--without-devices",), "--without-devices is for the containers that", id="no devices"),
        pytest.param(("--docker", "--explain"), "--explain and --docker contradict each other", id="two forms"),
        pytest.param(("--docker", "--type", "v5litepod-4"), "--without-devices tries the job", id="missing chips"),
    ],
)
def test_what_render_cannot_print_is_refused(options: tuple[str, ...], words: str) -> None:
    done = slipway("render", "--image", "app", *options, "--", "train")
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_the_record_of_a_job_has_its_containers() -> None:
    """T-39, E1-17."""
    done = slipway("render", "--docker", "-o", "json", "--name", "one", "--image", "app", "--", "train")
    record = json.loads(done.output)
    assert record["name"] == "one"
    [container] = record["containers"]
    assert container["name"] == "one-0-0-0"
    assert container["argv"][:2] == ["docker", "run"]


@pytest.mark.parametrize(
    ("content", "spec", "words"),
    [
        pytest.param(PROFILE, "profile: other", "spec.profile 'other'", id="the job names another profile"),
        pytest.param(JOB.replace(", PROFILE", ""), "hosts: 1", "only documents of kind", id="the file has no profile"),
        pytest.param(PROFILE.replace("env:", "envs:"), "hosts: 1", "envs", id="a field that a profile has not"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused(tmp_path: Path, content: str, spec: str, words: str) -> None:
    (tmp_path / "profile.yaml").write_text(content)
    (tmp_path / "job.yaml").write_text(JOB.replace("PROFILE", spec))
    done = slipway("local", "run", "-f", str(tmp_path / "job.yaml"), "--profile", str(tmp_path / "profile.yaml"))
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_advice_names_the_command_for_the_place() -> None:
    assert advice("Suspended", "train") == "slipway resume train lets it go on"
    root = click.Context(main, info_name="slipway")
    group = click.Context(local, parent=root, info_name="local")
    with click.Context(local, parent=group):
        assert advice("Suspended", "train") == "slipway local resume train lets it go on"
        assert "API server" not in advice("PodDeleted", "train")
        assert "node" not in advice("TPUUnavailable", "train")


SELECTED = {
    "": ["a", "b", "c"],
    "team=red": ["a"],
    "team==red": ["a"],
    "team!=red": ["b", "c"],
    "team": ["a", "b"],
    "!team": ["c"],
    "team in (red, blue)": ["a", "b"],
    "team notin (red)": ["b", "c"],
    "team in (red,blue), example.com/tier!=gold": ["b"],
    "team=": [],
}


@pytest.mark.parametrize(("selector", "expected"), SELECTED.items(), ids=SELECTED)
def test_jobs_are_listed_by_their_labels(selector: str, expected: list[str]) -> None:
    for name, labels in {"a": {"team": "red", "example.com/tier": "gold"}, "b": {"team": "blue"}, "c": {}}.items():
        body = manifest(name, {"image": "app"})
        folder(name).create(body | {"metadata": body["metadata"] | {"labels": labels}}, {"options": {}})
    client = AsyncLocalClient()
    found = asyncio.run(client.list(label_selector=selector))
    assert [one.name for one in found] == expected


@pytest.mark.parametrize("selector", ["team=a b", "team in red", "=red", "team,,tier", "team,"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    done = slipway("local", "list", "-l", selector)
    assert done.exit_code == 2
    assert f"{selector!r} is no label selector" in done.output
