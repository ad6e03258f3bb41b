"""The API server itself refuses what the schema and its CEL rules can see, in words that help."""

from typing import Any

import pytest

from slipway.api.status import SliceJobStatus
from slipway.core.model.reading import read_status
from tests.kubectl import Kubectl
from tests.mistakes import note, refused

GOOD: dict[str, Any] = {
    "accelerator": {"type": "v5p-16"},
    "slices": 2,
    "image": "us-docker.pkg.dev/acme/train:2026-11",
}


def job(name: str = "train", **changes: Any) -> dict[str, Any]:
    """A good job with fields replaced; None removes one."""
    spec = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": name}, "spec": spec}


def env(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "value": "x"} for name in names]


def gpu(**fields: Any) -> dict[str, Any]:
    """An accelerator of two NVIDIA GPUs, and of these fields beside them."""
    return {"accelerator": {"gpu": {"vendor": "nvidia", "count": 2}, **fields}}


def template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": fields}}


def worker(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "worker", **fields}])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "B-02 image is a number": ({"image": 7}, "spec.image"),
    "B-02 image is a list": ({"image": ["a"]}, "spec.image"),
    "B-02 N-35 image is blank": ({"image": "  "}, "image is empty: set spec.image"),
    "B-03 upper-case repository": ({"image": "gcr.io/Acme/train"}, "image gcr.io/Acme/train is not an image reference"),
    "B-03 image with spaces": ({"image": "a b"}, "image a b is not an image reference"),
    "B-39 a digest": ({"image": "sha256:" + "0a" * 32}, "names no registry or repository that a node could pull it"),
    "B-39 a long id": ({"image": "0a" * 32}, "0a0a names no registry or repository"),
    "B-39 a short id": ({"image": "0123456789ab"}, "image 0123456789ab names no registry or repository"),
    "B-05 command is empty text": ({"command": [""]}, "command[0] is empty"),
    "B-05 command item is no text": ({"command": ["a", 1]}, "spec.command[1]"),
    "B-05 command is a string": ({"command": "python a.py"}, "spec.command"),
    "B-07 unknown key": ({"max_retries": 3}, "max_retries"),
    "B-07 unknown key below": ({"retries": {"maxRetries": 3}}, "maxRetries"),
    "B-08 slices 0": ({"slices": 0}, "spec.slices"),
    "B-08 slices -1": ({"slices": -1}, "spec.slices"),
    "B-08 slices 1.5": ({"slices": 1.5}, "spec.slices"),
    "B-08 slices four": ({"slices": "four"}, "spec.slices"),
    "B-10 neither type nor generation": ({"accelerator": {"spot": True}}, "give either type"),
    "B-10 both": ({"accelerator": {"type": "v4-8", "generation": "v4", "topology": "2x2x1"}}, "give either type"),
    "B-10 generation alone": ({"accelerator": {"generation": "v5p"}}, "generation needs topology"),
    "B-10 topology is no topology": ({"accelerator": {"generation": "v5p", "topology": "2by2"}}, "topology"),
    "B-09 acceptableSlices empty": ({"slices": None, "acceptableSlices": []}, "acceptableSlices"),
    "B-09 acceptableSlices with 0": ({"slices": None, "acceptableSlices": [2, 0]}, "acceptableSlices"),
    "B-09 slices not among acceptableSlices": (
        {"slices": 3, "acceptableSlices": [2, 4]},
        "is not among acceptableSlices",
    ),
    "run by another controller": ({"managedBy": "example.com/other"}, 'Unsupported value: "example.com/other"'),
    "MultiKueue beside a choice of slices": (
        {"managedBy": "kueue.x-k8s.io/multikueue", "slices": None, "acceptableSlices": [2, 4]},
        "MultiKueue does not change the number of slices",
    ),
    "hosts beside an accelerator": ({"hosts": 2}, "hosts is for CPU and GPU jobs only"),
    "one host a node beside TPUs": ({"oneHostPerNode": True}, "oneHostPerNode is for CPU and GPU jobs only"),
    "a GPU and a TPU type": (gpu(type="v5p-16"), "give exactly one of type, generation or gpu"),
    "a GPU and a TPU generation": (
        gpu(generation="v5p", topology="2x2x1"),
        "give exactly one of type, generation or gpu",
    ),
    "a topology of GPUs": (gpu(topology="2x2x1"), "topology, chipsPerHost and label are words for TPUs"),
    "B-27 an unknown vendor": ({"accelerator": {"gpu": {"vendor": "3dfx"}}}, 'Unsupported value: "3dfx"'),
    "B-27 too many GPUs": ({"accelerator": {"gpu": {"count": 65}}}, "spec.accelerator.gpu.count"),
    "B-27 fewer than none": ({"accelerator": {"gpu": {"count": -1}}}, "spec.accelerator.gpu.count"),
    "B-27 two different numbers of GPUs": (
        gpu() | {"resources": {"limits": {"nvidia.com/gpu": 3}}},
        "resources has another number of GPUs than accelerator.gpu.count",
    ),
    "B-27 two different numbers of GPUs, one as text": (
        gpu() | {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "3"}}},
        "resources has another number of GPUs than accelerator.gpu.count",
    ),
    "GPUs beside none": (
        {"accelerator": {"gpu": {"count": 0}}, "resources": {"limits": {"amd.com/gpu": "1"}}},
        "resources has another number of GPUs than accelerator.gpu.count",
    ),
    "a model of no GPUs": (
        {"accelerator": {"gpu": {"count": 0, "model": "nvidia-l4"}}},
        "model means nothing beside count 0",
    ),
    "a model that no label can have": ({"accelerator": {"gpu": {"model": "a b"}}}, "spec.accelerator.gpu.model"),
    "a reservation of spot nodes": (
        {"accelerator": {"type": "v5p-16", "spot": True, "reservation": "mine"}},
        "reservation and spot exclude each other: spot machines are never taken from a reservation",
    ),
    "a reservation that is no name": (
        {"accelerator": {"type": "v5p-16", "reservation": "projects/a"}},
        "spec.accelerator.reservation",
    ),
    "B-12 maxFailures -1": ({"retries": {"maxFailures": -1}}, "spec.retries.maxFailures"),
    "B-12 maxFailures ten": ({"retries": {"maxFailures": "ten"}}, "spec.retries.maxFailures"),
    "B-12 maxPreemptions as text": ({"retries": {"maxPreemptions": "1000000"}}, "spec.retries.maxPreemptions"),
    "backoff upside down": (
        {"retries": {"backoff": {"initialSeconds": 9, "maxSeconds": 3}}},
        "initialSeconds is greater than maxSeconds",
    ),
    "exit code twice": ({"retries": {"onExitCodes": {"fail": [3], "ignore": [3]}}}, "only one of"),
    "exit code 0": ({"retries": {"onExitCodes": {"fail": [0]}}}, "spec.retries.onExitCodes.fail"),
    "B-14 port 0": ({"coordinator": {"port": 0}}, "spec.coordinator.port"),
    "B-14 port 70000": ({"coordinator": {"port": 70000}}, "spec.coordinator.port"),
    "B-16 E2-35 MEGASCALE_SLICE_ID": ({"env": env("MEGASCALE_SLICE_ID")}, "MEGASCALE_SLICE_ID is reserved"),
    "B-16 E2-35 EXECUTOR_CALL_INDEX": ({"env": env("A", "EXECUTOR_CALL_INDEX")}, "EXECUTOR_CALL_INDEX is reserved"),
    "B-17 name begins with a digit": ({"env": env("1A")}, "environment name 1A is not valid"),
    "B-17 name is empty": ({"env": env("")}, "is not valid"),
    "B-17 name with =": ({"env": env("A=B")}, "environment name A=B is not valid"),
    "B-17 name twice": ({"env": env("A", "A")}, "Duplicate value"),
    "B-17 value is a number": ({"env": [{"name": "A", "value": 1}]}, "spec.env[0].value"),
    "B-19 nested map as value": ({"env": [{"name": "A", "value": {"B": "C"}}]}, "spec.env[0].value"),
    "B-20 relative path": ({"volumeMounts": [{"name": "v", "mountPath": "data"}]}, "mountPath data is not valid"),
    "B-20 target twice": ({"volumeMounts": [{"name": n, "mountPath": "/d"} for n in "ab"]}, "Duplicate value"),
    "B-20 unknown suffix": ({"volumeMounts": [{"name": "v", "mountPath": "/d:rx"}]}, "mountPath /d:rx is not valid"),
    "relative workingDir": ({"workingDir": "app"}, "workingDir app is not an absolute path"),
    "pull policy": ({"imagePullPolicy": "Sometimes"}, "Unsupported value"),
    "no grace for peers": ({"retries": {"gracePeriodSeconds": 0}}, "spec.retries.gracePeriodSeconds"),
    "no grace": ({"terminationGracePeriodSeconds": 0}, "spec.terminationGracePeriodSeconds"),
    "B-26 shmSize x": ({"shmSize": "x"}, "spec.shmSize x is not a size: give bytes"),
    "B-26 shmSize 2x": ({"shmSize": "2x"}, "spec.shmSize 2x is not a size: give bytes"),
    "B-26 shmSize -1g": ({"shmSize": "-1g"}, "spec.shmSize -1g is not a size: give bytes"),
    "B-26 shmSize in Docker's units": ({"shmSize": "512m"}, "spec.shmSize 512m is not a size: give bytes"),
    "shmSize of half a byte": ({"shmSize": "0.5"}, "spec.shmSize 0.5 is not a size: give bytes"),
    "memory in Docker's units": (
        {"resources": {"limits": {"cpu": "500m", "memory": "512m"}}},
        "memory is no whole number of bytes: give bytes, or a quantity such as 512Mi",
    ),
    "a request of storage of half a byte": (
        {"resources": {"requests": {"ephemeral-storage": "0.5"}}},
        "ephemeral-storage is no whole number of bytes",
    ),
    "shmSize -1": ({"shmSize": -1}, "spec.shmSize -1 is not a size: give bytes"),
    "memory lots": ({"resources": {"limits": {"memory": "lots"}}}, "spec.resources.limits.memory"),
    "GPUs beside TPUs": (
        {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "resources has GPUs, and the nodes of an accelerator have TPUs",
    ),
    "requested GPUs beside TPUs": ({"resources": {"requests": {"gpu.intel.com/i915": "1"}}}, "resources has GPUs"),
    "parts of GPUs beside TPUs": ({"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}, "resources has GPUs"),
    "too many pods": ({"accelerator": None, "hosts": 4096, "slices": 5}, "hosts x slices is above 16384"),
    "too many pods with GPUs": (gpu() | {"hosts": 4096, "slices": 5}, "hosts x slices is above 16384"),
    "headWorkers without a name beside GPUs": (
        gpu() | {"ray": {"entrypoint": "a", "headWorkers": 2}},
        "ray.headWorkers needs ray.headResourceName beside it in a job without TPUs",
    ),
    "chips for a Ray head": (
        {"ray": {"entrypoint": "a", "head": {"resources": {"requests": {"google.com/tpu": 4}}}}},
        "resources has google.com/tpu: the Ray head never runs on TPU nodes: remove it",
    ),
    "too many pods of the most slices": (
        {"accelerator": None, "hosts": 4096, "slices": None, "acceptableSlices": [1, 5]},
        "hosts x slices is above 16384",
    ),
    "containers is text": (template(containers="x"), "spec.podTemplate.spec.containers"),
    "a container is text": (template(containers=["x"]), "spec.podTemplate.spec.containers[0]"),
    "a container is null": (template(containers=[None]), "spec.podTemplate.spec.containers[0]"),
    "a container without a name": (template(containers=[{"image": "a"}]), "spec.podTemplate.spec.containers[0].name"),
    "a container's name is a list": (
        template(containers=[{"name": ["a"]}]),
        "spec.podTemplate.spec.containers[0].name",
    ),
    "two containers of one name": (template(containers=[{"name": "a"}, {"name": "a"}]), "Duplicate value"),
    "ports is text": (worker(ports="8081"), "spec.podTemplate.spec.containers[0].ports"),
    "a port is a number": (worker(ports=[8081]), "spec.podTemplate.spec.containers[0].ports[0]"),
    "env of the template is an object": (worker(env={}), "spec.podTemplate.spec.containers[0].env"),
    "a variable of the template is null": (worker(env=[None]), "spec.podTemplate.spec.containers[0].env[0]"),
    "a pattern that is no regular expression": (
        {"progress": {"pattern": "step (?P<step>[0-9]+"}},
        "error parsing regexp: missing closing )",
    ),
    "a pattern that takes more than linear time": (
        {"progress": {"pattern": r"(?P<step>\d+)(?=/)"}},
        "invalid or unsupported Perl syntax",
    ),
    "a pattern without a step": (
        {"progress": {"pattern": r"step (\d+)"}},
        "pattern has no group step: name the digits",
    ),
    "a pattern that is too long": ({"progress": {"pattern": "(?P<step>1)" + "x" * 256}}, "spec.progress.pattern"),
    "progress without a pattern": ({"progress": {"total": 5}}, "spec.progress.pattern"),
    "a total of no steps": ({"progress": {"pattern": "(?P<step>1)", "total": 0}}, "spec.progress.total"),
    "no time at all": ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
}


@pytest.mark.parametrize("mistake", REFUSED)
@pytest.mark.row(
    "B-02",
    "B-03",
    "B-05",
    "B-07",
    "B-08",
    "B-09",
    "B-10",
    "B-12",
    "B-14",
    "B-16",
    "B-17",
    "B-19",
    "B-20",
    "B-26",
    "B-27",
    "B-39",
    "N-35",
    "E2-35",
)
def test_bad_input_is_refused_by_the_api_server(kubectl_ro: Kubectl, mistake: str) -> None:
    changes, said = REFUSED[mistake]
    done = kubectl_ro("create", "--dry-run=server", "-f", "-", stdin=job(**changes), check=False)
    assert done.returncode != 0, "accepted"
    assert said in done.stderr
    note(refused(mistake, done.stderr))


@pytest.mark.parametrize("name", ["a" * 41, "1train", "Train", "my.train", "train-"])
def test_a_name_that_cannot_become_a_host_name_is_refused(kubectl_ro: Kubectl, name: str) -> None:
    assert name in kubectl_ro.refuses(job(name), "--dry-run=server")


ACCEPTED: dict[str, dict[str, Any]] = {
    "smallest": {"accelerator": None, "slices": None, "image": "busybox"},
    "B-13 maxFailures 0": {"retries": {"maxFailures": 0}},
    "B-18 any value": {"env": [{"name": "A", "value": "$(X)\n\tümlaut " + "x" * 100_000}]},
    "value from a secret": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
    "a free MEGASCALE variable": {"env": env("MEGASCALE_GRPC_INTERFACE_PREFIXES")},
    "digest": {"image": "localhost:5000/a/b_c.d:1@sha256:" + "0" * 64},
    "generation and topology": {"accelerator": {"generation": "v5p", "topology": "2x2x2"}},
    "quantities": {"shmSize": "16Gi", "resources": {"limits": {"cpu": 4, "memory": "1.5Gi"}}},
    "template": {"podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"dnsPolicy": "Default"}}},
    "GPUs without TPUs": {"accelerator": None, "resources": {"limits": {"nvidia.com/gpu": 1}}},
    "GPUs": gpu() | {"hosts": 2, "oneHostPerNode": True},
    "a network card beside GPUs": gpu() | {"resources": {"limits": {"nvidia.com/mlnxnics": 1}}},
    "a network card beside TPUs": {"resources": {"limits": {"nvidia.com/hostdev": 1}}},
    "GPUs said twice": gpu() | {"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": "2"}}},
    "GPUs in another spelling": gpu() | {"resources": {"limits": {"nvidia.com/gpu": "2000m", "cpu": 3}}},
    "GPUs by a limit, all others open": {
        "accelerator": {"gpu": {"model": "NVIDIA-H100-80GB-HBM3"}},
        "resources": {"limits": {"nvidia.com/gpu": 3}},
    },
    "GPUs for a Ray head": {
        "ray": {"entrypoint": "a", "head": {"resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 1}}}},
    },
    "headWorkers of TPUs that the profile may have": {
        "accelerator": None,
        "ray": {"entrypoint": "a", "headWorkers": 2},
    },
    "B-28 no GPUs": {"accelerator": {"gpu": {"count": 0}}, "hosts": 2},
    "progress": {
        "progress": {"pattern": r"step (?P<step>\d+)/(?P<total>\d+)|saved checkpoint (?P<checkpoint>\d+)", "total": 9}
    },
    "a reservation": {"accelerator": {"type": "v5p-16", "reservation": "mine"}},
    "a reservation of GPUs": gpu(reservation="mine"),
    "CPU hosts apart": {"accelerator": None, "hosts": 2, "oneHostPerNode": True},
    "chips as Slipway requests them": {"resources": {"limits": {"google.com/tpu": 4, "memory": "8Gi"}}},
    "16,384 pods": {"accelerator": None, "hosts": 4096, "slices": 4},
    "a sidecar": template(containers=[{"name": "log", "image": "a", "ports": [{"containerPort": 1, "name": "p"}]}]),
    "volume": {"volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED.keys())
@pytest.mark.row("B-13", "B-18")
def test_good_input_is_taken(kubectl_ro: Kubectl, changes: dict[str, Any]) -> None:
    kubectl_ro("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=job(**changes))


def test_defaults_are_in_the_stored_object(kubectl: Kubectl) -> None:  # E2-40
    kubectl.apply(job(slices=None, retries={"enabled": True}))
    spec = kubectl.get("sj", "train")["spec"]
    assert spec["slices"] == 1
    assert spec["retries"] == {
        "enabled": True,
        "gracePeriodSeconds": 5,
        "maxFailures": 10,
        "maxPreemptions": 1000000,
        "maxStartFailures": 3,
        "capacityRetrySeconds": 60,
        "backoff": {"initialSeconds": 0, "maxSeconds": 300},
    }
    assert "timeouts" not in spec


def test_what_a_user_reads(kubectl: Kubectl) -> None:
    kubectl.apply(job())
    running = {"type": "Running", "status": "True", "reason": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "readySlices": "2/2", "attempt": 3, "failures": 1, "preemptions": 2}
    status |= {"conditions": [running]}
    kubectl.patch("sj", "train", {"status": status}, status=True)
    table = kubectl("get", "sj").stdout.split()
    columns = ["NAME", "PHASE", "REASON", "ACCELERATOR", "SLICES", "ATTEMPT", "FAILURES", "PREEMPTIONS", "AGE"]
    assert table[:9] == columns
    # No operator has resolved the accelerator.
    assert table[9:16] == ["train", "Running", "Running", "2/2", "3", "1", "2"]
    assert "slicejob.slipway.dev/train" in kubectl("get", "all", "-o", "name").stdout
    explained = " ".join(kubectl("explain", "sj.spec.retries.maxFailures").stdout.split())
    assert "Number of failed attempts that ends the job. 0 means 1. Default 10. Can change at any time." in explained


def test_the_wide_form_says_when_a_job_began_and_ended(kubectl: Kubectl) -> None:
    kubectl.apply(job())
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-02T00:00:00Z"}
    kubectl.patch("sj", "train", {"status": times}, status=True)
    header, line = kubectl("get", "sj", "-o", "wide").stdout.splitlines()
    assert header.split()[-3:] == ["AGE", "STARTED", "COMPLETED"]
    assert len(line.split()[-1]) > 1
    assert "STARTED" not in kubectl("get", "sj").stdout


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("status.phase=Running", ["slicejob.slipway.dev/a"]),
        ("status.phase!=Running", ["slicejob.slipway.dev/b"]),
        ("spec.accelerator.type=v5p-8", ["slicejob.slipway.dev/b"]),
        ("spec.accelerator.type=v5p-16,status.phase=Failed", []),
    ],
)
def test_jobs_are_selected_by_phase_and_accelerator(kubectl: Kubectl, selector: str, names: list[str]) -> None:
    kubectl.apply(job("a"), job("b", accelerator={"type": "v5p-8"}))
    kubectl.patch("sj", "a", '{"status": {"phase": "Running"}}', status=True)
    assert kubectl("get", "sj", "--field-selector", selector, "-o", "name").stdout.split() == names


def test_a_job_that_no_operator_has_seen_is_not_settled_for_kstatus(kubectl: Kubectl) -> None:
    # Status is a subresource: what the user says of it counts for nothing.
    kubectl.apply(job() | {"status": {"phase": "Succeeded"}})
    stored = kubectl.get("sj", "train")
    assert stored["status"] == {"observedGeneration": -1}
    status, problem = read_status(stored["status"])
    assert (status, problem) == (SliceJobStatus(), "")


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "B-60 image": ({"image": "other:1"}, "image cannot change after creation"),
    "B-60 slices": ({"slices": 3}, "slices cannot change after creation"),
    "a field appears": ({"workingDir": "/app"}, "workingDir cannot change after creation"),
    "a field goes": ({"accelerator": None}, "accelerator cannot change after creation"),
    "nodeSelector while it runs": (
        {"nodeSelector": {"a": "b"}},
        "nodeSelector cannot change after creation: suspend the job first",
    ),
    "several, all named in one sentence": (
        {"slices": 3, "image": "other:1", "tolerations": [{"key": "a", "operator": "Exists"}]},
        "slices, image, tolerations cannot change after creation: delete the SliceJob and create it again",
    ),
}


@pytest.mark.parametrize(("changes", "said"), CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.row("B-60")
def test_what_may_not_change_is_refused(kubectl: Kubectl, changes: dict[str, Any], said: str) -> None:
    kubectl.apply(job())
    assert said in kubectl("replace", "-f", "-", stdin=job(**changes), check=False).stderr


@pytest.mark.parametrize(
    "changes",
    [{"suspend": True}, {"cancel": True}, {"retries": {"maxFailures": 3}}, {"timeouts": {"startSeconds": 9}},
     {"ttlSecondsAfterFinished": 60}, {"cancelGracePeriodSeconds": 1}, {"progress": {"pattern": "(?P<step>1)"}}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_what_may_change_is_taken(kubectl: Kubectl, changes: dict[str, Any]) -> None:
    kubectl.apply(job())
    kubectl.apply(job(**changes))


def test_a_suspended_job_that_never_began_may_be_corrected(kubectl: Kubectl) -> None:
    kubectl.apply(job(suspend=True, accelerator={"type": "v9-8"}))
    kubectl.patch("sj", "train", '{"status": {"phase": "Suspended"}}', status=True)
    kubectl.apply(job(suspend=True, accelerator={"type": "v5p-8"}))


def test_queues_may_place_a_suspended_job_and_let_it_go(kubectl: Kubectl) -> None:
    kubectl.apply(job(suspend=True))
    kubectl.apply(job(suspend=False, nodeSelector={"pool": "a"}, tolerations=[{"key": "a", "operator": "Exists"}]))
    assert "suspend the job first" in kubectl.refuses(job(suspend=False, nodeSelector={"pool": "b"}))


def test_a_cancel_cannot_be_taken_back(kubectl: Kubectl) -> None:
    kubectl.apply(job(cancel=True))
    assert "cancel cannot be taken back" in kubectl.refuses(job(cancel=False))


def test_an_invalid_job_that_never_began_may_be_corrected(kubectl: Kubectl) -> None:
    kubectl.apply(job(accelerator={"type": "v9-8"}))
    kubectl.patch("sj", "train", '{"status": {"phase": "Invalid"}}', status=True)
    kubectl.apply(job(accelerator={"type": "v5p-8"}))
