"""The directories of jobs on real kubelets: whose they are, what outlives a pod, what no job gets at."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_workspace import example
from tests.kubectl import Kubectl
from tests.operator_image import IMAGE
from tests.running import Jobs

PYTHON = "/usr/bin/python3"
USER = 12345
MOUNTED = "/var/tmp/slicejob/workspace"

PROBE = """
import errno, getpass, json, os, sys
from pathlib import Path

root = Path.cwd().parent


def tried(path):
    try:
        Path(path).mkdir()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "made"


found = {
    "cwd": str(Path.cwd()), "uid": os.getuid(), "user": getpass.getuser(), "home": os.environ["HOME"],
    "arguments": sys.argv[1:], "top": tried(root / "store"), "startup": tried(root / "startup/a"),
    "local": tried(root / "local/a"), "seen": sorted(one.name for one in root.iterdir()),
    "config": (root / "startup/config").read_text(),
}
Path(f"found-{os.environ['SLIPWAY_RANK']}").write_text(json.dumps(found))
"""


@dataclass
class Volume:
    """A folder of this machine, which all its nodes share, as a PersistentVolume and its claim."""

    folder: Path
    claim: str = "shared"

    def create(self, kubectl: Kubectl) -> None:
        name = f"{kubectl.namespace}-{self.claim}"
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        capacity = {"storage": "1Gi"}
        kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": common
                | {
                    "capacity": capacity,
                    "hostPath": {"path": str(self.folder)},
                    "claimRef": {"namespace": kubectl.namespace, "name": self.claim},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": self.claim},
                "spec": common | {"resources": {"requests": capacity}, "volumeName": name},
            },
        )

    def fill(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


@pytest.fixture
def volume(real_jobs: Jobs, operator_image: str, tmp_path: Path) -> Iterator[Volume]:
    """A volume that the user of the tests may write to; the jobs' namespace has a claim of it."""
    folder = tmp_path / "volume"
    folder.mkdir()
    os.chown(folder, USER, USER)
    made = Volume(folder)
    made.create(real_jobs.kubectl)
    yield made
    real_jobs.kubectl("delete", "pv", f"{real_jobs.kubectl.namespace}-{made.claim}", "--wait=false")


def restricted(**fields: Any) -> dict[str, Any]:
    """A job that the Pod Security Standard `restricted` admits, as the user of the tests."""
    return {
        "image": IMAGE,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "podTemplate": {
            "spec": {
                "securityContext": {
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                }
            }
        },
    } | fields


CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "shared"}}


@pytest.mark.row("B-30")
def test_a_job_works_in_a_directory_of_its_own(real_jobs: Jobs, volume: Volume) -> None:
    """F-31, F-34 to F-38, F-43, F-45, F-46, K-05: in a restricted namespace, as a user that no image knows."""
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    real_jobs.kubectl("label", "namespace", real_jobs.kubectl.namespace, enforce)
    volume.fill({"startup/config": "shared by all", "local/lib/probe.py": PROBE, "other/secret": "of another job"})
    real_jobs.apply(
        **restricted(
            hosts=2,
            workspace=CLAIM | {"startup": True, "local": True, "pythonPaths": ["local/lib"]},
            pythonModule={
                "module": "probe",
                "python": PYTHON,
                "args": [{"name": "--epochs", "value": 3}, {"name": "--none", "value": None}],
                "set": ["a=1"],
            },
        )
    )
    real_jobs.until("Succeeded")
    assert {one.name for one in (volume.folder / "train").iterdir()} == {"found-0", "found-1"}
    for rank in range(2):
        file = volume.folder / f"train/found-{rank}"
        assert file.stat().st_uid == USER
        assert json.loads(file.read_text()) == {
            "cwd": f"{MOUNTED}/train",
            "uid": USER,
            "user": "slicejob",
            "home": "/tmp",
            "arguments": ["--epochs", "3", "--set", "a=1"],
            "top": "made",
            "startup": "EROFS",
            "local": "EROFS",
            "seen": ["local", "startup", "store", "train"],
            "config": "shared by all",
        }
    # What was made beside the job's directory was in memory.
    assert {one.name for one in volume.folder.iterdir()} == {"local", "other", "startup", "train"}


@pytest.mark.thorough
def test_a_directory_outlives_its_pods(real_jobs: Jobs, volume: Volume) -> None:  # F-37
    script = '[ "$SLIPWAY_ATTEMPT" = 0 ] && { echo saved > here; echo lost > ../top; exit 1; }; cat here; ! cat ../top'
    real_jobs.apply(**restricted(workspace=CLAIM, command=["sh", "-c", script]))
    status = real_jobs.until("Succeeded")
    assert status["failures"] == 1
    assert (volume.folder / "train/here").read_text() == "saved\n"


LINKS = {
    "to another job's directory": ("train", "other"),
    "to a folder outside": ("train", "/etc"),
    "in the place of startup": ("startup", "other"),
}


@pytest.mark.parametrize(("name", "target"), LINKS.values(), ids=LINKS)
@pytest.mark.row("B-32")
def test_a_link_in_the_place_of_a_directory_ends_the_job(
    real_jobs: Jobs, volume: Volume, name: str, target: str
) -> None:
    """F-41, F-42."""
    volume.fill({"other/file": "of another job"})
    (volume.folder / name).symlink_to(target)
    startup = {"startup": True} if name == "startup" else {}
    real_jobs.apply(**restricted(workspace=CLAIM | startup, command=["touch", "written"]))
    result = real_jobs.until("Failed")["result"]
    assert result["reason"] == "WorkspaceSymlink"
    words = f"could not start: directory {name} in the volume of spec.workspace is a symbolic link to {target}"
    assert words in result["message"]
    assert [one.name for one in (volume.folder / "other").iterdir()] == ["file"]


@pytest.mark.thorough
def test_a_folder_that_is_missing_is_named(real_jobs: Jobs, volume: Volume) -> None:
    real_jobs.apply(
        **restricted(workspace=CLAIM | {"startup": True}, command=["true"], retries={"maxStartFailures": 1})
    )
    result = real_jobs.until("Failed")["result"]
    assert result["reason"] == "StartFailureLimitExceeded"
    assert "directory startup in the volume of spec.workspace does not exist" in result["message"]
    assert list(volume.folder.iterdir()) == []


OWNERS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "a user and a volume of its own": (USER, 0o755, {"securityContext": {"runAsUser": USER}}),
    "root and a volume of root's": (0, 0o755, {"image": "slipway.local/busybox:1"}),
    "the image's user and a volume for all": (0, 0o777, {"image": IMAGE}),
}


@pytest.mark.parametrize(("owner", "mode", "fields"), OWNERS.values(), ids=OWNERS)
@pytest.mark.thorough
def test_each_attempt_keeps_its_output(
    real_jobs: Jobs, tmp_path: Path, owner: int, mode: int, fields: dict[str, Any]
) -> None:  # N-37
    folder = tmp_path / "results"
    folder.mkdir()
    os.chown(folder, owner, owner)
    folder.chmod(mode)
    script = 'ls "$SLIPWAY_OUTPUT_DIR" > /tmp/seen; cat /tmp/seen; cp /tmp/seen "$SLIPWAY_OUTPUT_DIR/seen"'
    real_jobs.apply(
        **{"image": IMAGE} | fields,
        command=["sh", "-c", f'{script}; echo kept > "$SLIPWAY_OUTPUT_DIR/result"; exit $((1 - SLIPWAY_ATTEMPT))'],
        volumes=[{"name": "results", "hostPath": {"path": str(folder)}}],
        output={"volume": "results", "path": "/output", "perAttempt": True},
    )
    real_jobs.until("Succeeded")
    found = {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}
    assert found == {
        f"train/{attempt}/{name}": text for attempt in range(2) for name, text in (("seen", ""), ("result", "kept\n"))
    }


def test_data_sets_are_readable_and_not_writable_unless_their_site_says_so(real_jobs: Jobs, volume: Volume) -> None:
    """F-55, F-56, on a real kubelet."""
    volume.fill({"a": "read me\n"})
    notes = volume.folder.parent / "notes"
    notes.mkdir()
    notes.chmod(0o777)
    content = {
        "heart": {"mri": CLAIM, "notes": {"hostPath": {"path": str(notes)}, "mode": "rw"}},
        "lung": {"ct": {"hostPath": {"path": "/etc"}}},
    }
    profile = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": "default"}}
    real_jobs.kubectl.apply(profile | {"spec": {"dataSets": content}})
    script = "cat /data/heart/mri/a; ls /data /data/heart; echo b > /data/heart/notes/b && ! echo b > /data/heart/mri/b"
    real_jobs.apply(**restricted(study="heart", command=["sh", "-c", script]))
    real_jobs.until("Succeeded")
    log = real_jobs.kubectl("logs", "train-0-0-0").stdout
    assert log.splitlines()[0] == "read me", log
    assert "lung" not in log
    assert (notes / "b").read_text() == "b\n"
    assert not (volume.folder / "b").exists()


@pytest.mark.thorough
def test_the_example_of_the_page_runs(real_jobs: Jobs, volume: Volume) -> None:
    body = yaml.safe_load(example("job", "yaml"))
    folder, module = "startup/lib", body["spec"]["pythonModule"]["module"]
    assert body["spec"]["workspace"]["pythonPaths"] == [folder]
    program = example("program", "python")
    volume.fill({f"{folder}/{module.replace('.', '/')}.py": program, "startup/config.json": '{"seed": "1"}'})
    body["spec"]["workspace"] |= CLAIM
    body["spec"]["pythonModule"]["python"] = PYTHON
    del body["spec"]["accelerator"]
    real_jobs.apply("finetune", **(body["spec"] | restricted()))
    real_jobs.until("Succeeded", "finetune")
    assert (volume.folder / "finetune/epoch").read_text() == "3"
    assert "epoch 2 with {'seed': '7', 'lr': '0.1'}" in real_jobs.kubectl("logs", "finetune-0-0-0").stdout
