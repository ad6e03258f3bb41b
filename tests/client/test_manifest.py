"""Jobs as people write them: what flags and files become, and what is refused before anything is sent."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from slipway.cli.main import main
from slipway.client.manifests.mounts import mounts
from slipway.client.manifests.reading import (
    Flags,
    InvalidManifest,
    check,
    check_profile,
    documents,
    environment,
    manifest,
)
from slipway.core.model.site import Profile
from slipway.local.conversion.expansion import expanded
from tests.controller.test_jobs import nested
from tests.places import ROOT

GOOD = {"image": "busybox:1"}


def job(**spec: Any) -> dict[str, Any]:
    return manifest("train", GOOD | spec)


def test_flags_become_the_fields_that_were_given() -> None:
    flags = Flags("busybox:1", ["python", "a.py"], type="v5p-16", spot=True, slices=2, env={"A": "$1"}, max_failures=3)
    assert flags.spec() == {
        "accelerator": {"type": "v5p-16", "spot": True},
        "slices": 2,
        "image": "busybox:1",
        "command": ["python", "a.py"],
        "env": [{"name": "A", "value": "$$1"}],
        "retries": {"maxFailures": 3},
    }
    check(manifest("train", flags.spec()))


WORDS = {
    "a shell's variable": "echo $RANK",
    "the process of a shell": "echo $$",
    "a reference of Kubernetes": "--rank=$(RANK)",
    "a reference that a manifest would escape": "$$(RANK)",
    "arithmetic of a shell": "n=$((n + 1))",
    "a $ at the end": "a$",
    "a space": "a b",
    "nothing": "",
}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_a_word_of_the_command_line_reaches_the_program_as_it_is_typed(  # E1-04
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    flags = ("--image", "a:1", "--name", "train", "-e", "RANK=3", "-e", f"WORD={word}", "--", "sh", "-c", word)
    body = yaml.safe_load(CliRunner().invoke(main, ["render", *flags]).stdout)
    variables = {one["name"]: one["value"] for one in body["spec"]["env"]}
    assert [expanded(one, {"RANK": "3"}) for one in body["spec"]["command"]] == ["sh", "-c", word]
    assert expanded(variables["WORD"], {"RANK": "3"}) == word
    shown = json.loads(CliRunner().invoke(main, ["render", "--explain", "-o", "json", *flags]).stdout)
    values = {one["field"]: one["value"] for one in shown}
    assert (shlex.split(values["spec.command"]), values["spec.env[WORD]"]) == (["sh", "-c", word], word)


def test_a_file_is_explained_as_it_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    (tmp_path / "job.json").write_text(json.dumps(job(command=["--rank=$(RANK)", "$$"])))
    done = CliRunner().invoke(main, ["render", "--explain", "-o", "json", "-f", str(tmp_path / "job.json")])
    [command] = [one["value"] for one in json.loads(done.stdout) if one["field"] == "spec.command"]
    assert shlex.split(command) == ["--rank=$(RANK)", "$$"]


GPU_FLAGS: dict[str, tuple[dict[str, Any], Any]] = {
    "a count and a vendor": (
        {"gpus": 2, "gpu_vendor": "nvidia", "gpu_model": "nvidia-l4", "spot": True},
        {"gpu": {"vendor": "nvidia", "count": 2, "model": "nvidia-l4"}, "spot": True},
    ),
    "B-28 none": ({"gpus": 0}, {"gpu": {"count": 0}}),
    "not a word": ({}, None),
}


@pytest.mark.parametrize(("given", "accelerator"), GPU_FLAGS.values(), ids=GPU_FLAGS)
def test_flags_of_gpus_become_an_accelerator(given: dict[str, Any], accelerator: Any) -> None:  # E1-11
    spec = Flags("busybox:1", hosts=2, **given).spec()
    assert (spec.get("accelerator"), spec["hosts"]) == (accelerator, 2)
    check(manifest("train", spec))


def test_spot_without_tpus_or_gpus_is_refused_with_what_it_needs() -> None:
    done = CliRunner().invoke(main, ["render", "--image", "busybox:1", "--spot", "--", "a"])
    assert done.exit_code == 2
    assert "--spot chooses among nodes of TPUs or GPUs: give --type, --gpus" in done.stderr


MOUNTS = {
    "T-09 bind": (
        "type=bind,src=/data,dst=/mnt,readonly",
        {"hostPath": {"path": "/data"}},
        {"mountPath": "/mnt", "readOnly": True},
    ),
    "T-10 volume": (
        "type=volume,source=claim,target=/mnt",
        {"persistentVolumeClaim": {"claimName": "claim"}},
        {"mountPath": "/mnt"},
    ),
    "T-12 tmpfs with a size as docker run takes it": (
        "type=tmpfs,dst=/scratch,size=64m",
        {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"mountPath": "/scratch"},
    ),
    "T-12 tmpfs": (
        "type=tmpfs,dst=/scratch,size=1Gi",
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"mountPath": "/scratch"},
    ),
}


@pytest.mark.parametrize(("text", "source", "place"), MOUNTS.values(), ids=MOUNTS)
def test_a_mount_of_docker_becomes_a_volume(text: str, source: dict[str, Any], place: dict[str, Any]) -> None:
    assert mounts([text]) == ([{"name": "mount-0"} | source], [{"name": "mount-0"} | place])


def test_the_home_of_a_bind_mount_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:  # T-13
    monkeypatch.setenv("HOME", "/home/ann")
    [volume], _ = mounts(["type=bind,src=~/data,dst=/data"])
    assert volume["hostPath"]["path"] == "/home/ann/data"


RELATIVE = {
    "a name": ("data", "/home/ann/data"),
    "the folder itself": (".", "/home/ann"),
    "a folder above": ("../all/data", "/home/all/data"),
    "an absolute one": ("/data", "/data"),
    "a home": ("~/data", "/root/data"),
}


@pytest.mark.parametrize(("source", "path"), RELATIVE.values(), ids=RELATIVE)
def test_a_relative_source_begins_in_the_folder_where_there_is_one(  # T-13
    monkeypatch: pytest.MonkeyPatch, source: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/root")
    [volume], _ = mounts([f"type=bind,src={source},dst=/data"], Path("/home/ann"))
    assert volume["hostPath"]["path"] == path


def test_no_source_is_refused_wherever_the_job_runs() -> None:
    for folder in (None, Path("/home/ann")):
        with pytest.raises(ValueError, match="src '' is not an absolute path"):
            mounts(["type=bind,src=,dst=/data"], folder)


NO_MOUNTS = {
    "T-13 type is not first": ("src=/a,type=bind,dst=/a", "begins with type="),
    "T-13 an unknown type": ("type=nfs,src=/a,dst=/a", "bind, device, tmpfs, volume"),
    "T-13 an unknown key": ("type=bind,src=/a,dst=/a,mode=ro", "'mode' is not known of type=bind"),
    "a value for readonly": ("type=bind,src=/a,dst=/a,readonly=true", "readonly takes no value"),
    "a key without a value": ("type=bind,src,dst=/a", "src takes a value"),
    "no destination": ("type=bind,src=/a", "dst '' is not an absolute path"),
    "a relative source": ("type=bind,src=a,dst=/a", "src 'a' is not an absolute path"),
    "T-11 a device": ("type=device,src=/dev/accel0", "a pod gets devices from device plugins"),
    "T-10 no claim": ("type=volume,dst=/a", "it names a PersistentVolumeClaim"),
}


@pytest.mark.parametrize(("text", "words"), NO_MOUNTS.values(), ids=NO_MOUNTS)
@pytest.mark.row("B-22")
def test_what_no_pod_can_have_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="mount") as refused:
        mounts([text])
    assert words in str(refused.value)
    assert repr(text) in str(refused.value)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "B-07 a misspelt field": (job(slice=2), "spec.slice is not a known field of this version of Slipway: did you mean"),
    "B-07 Python's spelling": (job(retries={"max_failures": 2}), "did you mean maxFailures?"),
    "B-07 Python's spelling at the top": (job(node_selector={"a": "b"}), "did you mean nodeSelector?"),
    "B-07 Python's spelling deep down": (
        job(accelerator={"gpu": {"per_node": 2}}),
        "spec.accelerator.gpu.per_node is not a known field",
    ),
    "E1-30 another tool's word": (job(retries={"zzz": 2}), "it may be "),
    "B-08 no slices": (job(slices=0), "spec.slices 0: "),
    "B-05 a number in the command": (job(command=["a", 1]), "spec.command[1]"),
    "an unknown type": (job(accelerator={"type": "v7e-8"}), "v7e-8"),
    "the socket of an engine": (
        job(volumes=[{"name": "a", "hostPath": {"path": "/run"}}]),
        "gives the pods the socket",
    ),
    "B-27 an unknown vendor": (
        job(accelerator={"gpu": {"vendor": "3dfx"}}),
        "spec.accelerator.gpu.vendor '3dfx': input should be 'amd', 'intel', 'nvidia' or 'auto'",
    ),
    "too many GPUs": (job(accelerator={"gpu": {"vendor": "amd", "count": 65}}), "spec.accelerator.gpu.count 65"),
    "GPUs and TPUs": (
        job(accelerator={"type": "v5p-8", "gpu": {"vendor": "amd", "count": 1}}),
        "give exactly one of type, generation or gpu",
    ),
    "B-08 text for a number": (job(slices="2"), "spec.slices '2': input should be a valid integer"),
    "text for a number further down": (job(retries={"maxFailures": "3"}), "spec.retries.maxFailures '3': input"),
    "text for true": (job(suspend="yes"), "spec.suspend 'yes': input should be a valid boolean"),
    "a number for true": (job(suspend=1), "spec.suspend 1: input should be a valid boolean"),
    "true for a size": (job(shmSize=True), "spec.shmSize true: must be a quantity such as 16Gi"),
    "true for a quantity": (
        job(resources={"limits": {"cpu": True}}),
        "spec.resources.limits.cpu true: must be a quantity such as 16Gi",
    ),
    "a broken number for a quantity": (
        job(resources={"limits": {"cpu": 1.5}}),
        "spec.resources.limits.cpu 1.5: must be a quantity such as 16Gi",
    ),
    "no number": (job(podTemplate={"a": float("nan")}), "spec has what JSON cannot say: Out of range float values"),
    "half a character": (job(command=["a\ud83d"]), "spec has what JSON cannot say: text that is no Unicode"),
    "nested too deep": (job(podTemplate=nested(99)), "spec.podTemplate is nested more than 64 levels deep"),
    "what JSON cannot say": (job(image=b"a"), "spec has what JSON cannot say: Object of type bytes"),
    "no spec": ({"metadata": {"name": "train"}}, "spec is missing"),
}


@pytest.mark.parametrize(("body", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.row("B-05", "B-07", "B-08", "B-27")
def test_what_cannot_run_is_refused_before_anything_is_sent(body: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        check(body)
    assert words in str(refused.value)


def test_a_secret_is_not_shown_where_its_text_is_no_unicode() -> None:
    with pytest.raises(InvalidManifest) as refused:
        check(job(env=[{"name": "TOKEN", "value": "hunter2\ud83d"}]))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_valid(example: Path) -> None:
    for body in documents(example.read_text(), example.name):
        check(body)


@pytest.mark.parametrize(("written", "number"), [("2.0", 2), ("1.0e+1", 10), ("4", 4)])
def test_numbers_are_read_as_kubectl_reads_them(written: str, number: int) -> None:
    head = "apiVersion: slipway.dev/v1alpha1\nkind: SliceJob\nmetadata: {name: a}\n"
    [body] = documents(f"{head}spec: {{image: a, slices: {written}}}", "job.yaml")
    assert body["spec"]["slices"] == number
    check(body)


PROFILES = {
    "text for a number": ({"limits": {"maxSlices": "4"}}, "spec.limits.maxSlices '4': input should be a valid integer"),
    "text for true": ({"limits": {"privileged": "no"}}, "spec.limits.privileged 'no': input should be a valid boolean"),
    "true for a size": ({"defaults": {"shmSize": True}}, "spec.defaults.shmSize true: must be a quantity"),
}


@pytest.mark.parametrize(("spec", "words"), PROFILES.values(), ids=PROFILES)
def test_a_profile_of_other_types_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        check_profile({"metadata": {"name": "default"}, "spec": spec})
    assert words in str(refused.value)


def test_head_workers_may_be_of_tpus_that_only_the_profile_names() -> None:
    asked = {"image": "a", "ray": {"entrypoint": "python a.py", "headWorkers": 2}}
    assert check(manifest("train", asked)).type is None
    with pytest.raises(InvalidManifest, match="needs ray"):
        check(manifest("train", asked), profile=Profile("default"))


CLAIM: dict[str, Any] = {"workspace": {"persistentVolumeClaim": {"claimName": "jobs"}}}


def files(tmp_path: Path, profile: dict[str, Any] | None) -> str:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": "default"}}
    bodies = [job(**CLAIM, workingDir="/app")] + ([] if profile is None else [body | {"spec": profile}])
    file = tmp_path / "jobs.yaml"
    file.write_text("\n---\n".join(json.dumps(one) for one in bodies))
    return str(file)


BESIDE = "Warning: SliceJob train: spec.workingDir: "
NO_NAMES = {
    "F-25 upper case, _ and .": "A_b.c",
    "F-25 - at both ends": "--x--",
    "F-25 B-36 no Latin letter": "日本",
    "F-25 nothing": "",
    "F-26 a slash": "a/b",
    "F-26 _": "a_b",
    "B-36 300 letters": "x" * 300,
    "one letter too many": "x" * 41,
    "a path": "../esc",
    "a space": "a b",
    "a digit first": "3d",
    "a newline behind": "train\n",
    "a number": 7,
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.row("B-36")
def test_a_name_that_a_cluster_would_not_take_is_refused_with_what_is_allowed(name: Any) -> None:
    with pytest.raises(InvalidManifest) as refused:
        check(manifest(name, GOOD))
    assert str(refused.value) == (
        f"metadata.name {name!r} is not valid: at most 40 lower-case letters, digits and -, "
        "beginning with a letter and not ending with -"
    )


@pytest.mark.parametrize("name", ["a", "a-1", "x" * 40], ids=["one letter", "a digit", "40 letters"])
def test_a_name_is_taken(name: str) -> None:
    check(manifest(name, GOOD))


COMMANDS = {
    "validate": (("validate",), {"reservedKeys": "Ignore"}, "without effect beside spec.workspace"),
    "render --explain": (("render", "--explain", "-f"), {"reservedKeys": "Ignore"}, "without effect"),
    "validate without the profile": (("validate",), None, "the operator refuses the job, or ignores the fields"),
    "render": (("render", "-f"), None, "the operator refuses the job, or ignores the fields"),
    "submit": (("submit", "--dry-run", "client", "-f"), None, "the operator refuses the job"),
}


@pytest.mark.parametrize(("command", "profile", "words"), COMMANDS.values(), ids=COMMANDS)
@pytest.mark.row("B-34")
def test_fields_that_have_no_effect_beside_a_workspace_are_warned_of(
    tmp_path: Path, command: tuple[str, ...], profile: dict[str, Any] | None, words: str
) -> None:
    done = CliRunner().invoke(main, [*command, files(tmp_path, profile)])
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith(BESIDE)
    assert words in done.stderr


def test_fields_beside_a_workspace_are_refused_where_the_profile_is_known_to_refuse_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["validate", files(tmp_path, {"reservedKeys": "Refuse"})])
    assert done.exit_code == 2
    assert "spec.workingDir cannot be set beside spec.workspace" in done.stderr


MANY_PODS = {
    "validate": ("validate",),
    "submit": ("submit", "--dry-run", "client", "-f"),
    "render": ("render", "-f"),
    "render --explain": ("render", "--explain", "-f"),
}


@pytest.mark.parametrize("command", MANY_PODS.values(), ids=MANY_PODS)
def test_how_many_pods_a_job_may_have_is_left_to_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(accelerator={"type": "v5litepod-256"}, slices=300)))
    done = CliRunner().invoke(main, [*command, str(file)])
    assert done.exit_code == 0, done.output


NAMED = "kind: SliceJob\napiVersion: slipway.dev/v1alpha1\nmetadata:\n  name: train\n"
FILES = {
    "nothing": ("", "is empty"),
    "no YAML": ("a: [", "is no YAML"),
    "another kind": ("kind: Job\napiVersion: batch/v1", "is a Job: only documents of kind SliceJob"),
    "text": ("hello", "is a str"),
    "another version": ("kind: SliceJob\napiVersion: slipway.dev/v9", "apiVersion 'slipway.dev/v9' is not known"),
    "no name": ("kind: SliceJob\napiVersion: slipway.dev/v1alpha1", "has no metadata.name"),
    "a list of labels": (f"{NAMED}  labels: [a]", "metadata.labels ['a'] is not valid: it maps names to text"),
    "a number as a value": (f"{NAMED}  annotations: {{cost: 5}}", "metadata.annotations[cost] 5 is not valid"),
    "a list of namespaces": (f"{NAMED}  namespace: [a]", "metadata.namespace ['a'] is not valid"),
    "a namespace that is more in a URL": (
        f"{NAMED}  namespace: a?b",
        "metadata.namespace 'a?b' is not valid: at most 63 lower-case letters, digits and -",
    ),
    "a namespace in upper case": (f"{NAMED}  namespace: Team", "metadata.namespace 'Team' is not valid: at most 63"),
}


@pytest.mark.parametrize(("text", "words"), FILES.values(), ids=FILES)
def test_a_file_that_holds_no_job_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        documents(text, "job.yaml")
    assert words in str(refused.value)
    assert str(refused.value).startswith("job.yaml")


def test_an_empty_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{NAMED}  namespace:\n  labels: {{a: }}\nspec: {{image: busybox}}\n")
    done = CliRunner().invoke(main, ["render", "-f", str(path), "-n", "team-a"])
    assert "namespace: team-a" in done.stdout, done.output


def test_a_file_may_hold_several_jobs() -> None:
    one = "apiVersion: slipway.dev/v1alpha1\nkind: SliceJob\nmetadata: {name: %s}\n"
    assert [body["metadata"]["name"] for body in documents(f"{one % 'a'}---\n{one % 'b'}---\n", "-")] == ["a", "b"]


def test_an_env_file_has_a_variable_on_each_line() -> None:
    assert environment("# comment\n\nA=1\nB= two=2 \n", "f") == {"A": "1", "B": " two=2 "}
    with pytest.raises(InvalidManifest, match="f, line 2: 'B' is not of the form NAME=VALUE"):
        environment("A=1\nB\n", "f")
