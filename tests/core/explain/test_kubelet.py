"""What is said of pods that have nodes and do not start."""

import pytest

from slipway.core.explain.kubelet import START_REASONS, of_event
from slipway.core.planner.status.events import cursor_of, news
from tests.core.build import World, spec

NOT_FOUND = (
    'failed to pull and unpack image "docker.io/library/busybox:typo": failed to resolve reference '
    '"docker.io/library/busybox:typo": docker.io/library/busybox:typo: not found'
)
DENIED = (
    'failed to pull and unpack image "registry.example/a:1": failed to resolve reference: pull access denied, '
    "repository does not exist or may require authorization: authorization failed: no basic auth credentials"
)
AWAY = (
    'failed to pull and unpack image "registry.example/a:1": failed to do request: '
    'Head "https://registry.example/v2/": dial tcp: lookup registry.example: no such host'
)
RUNC = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
TABLE: dict[str, tuple[str, str, str, str]] = {
    "E1-22 a misspelt tag": ("ErrImagePull", NOT_FOUND, "ImageUnavailable", "busybox:typo does not exist"),
    "while the kubelet backs off": (
        "ImagePullBackOff",
        f'Back-off pulling image "busybox:typo": ErrImagePull: {NOT_FOUND}',
        "ImageUnavailable",
        "correct the name or the tag",
    ),
    "an image for another platform, says Docker": (
        "ErrImagePull",
        'failed to pull and unpack image "reg/x:1": no matching manifest for linux/amd64 in the manifest list '
        "entries: not found",
        "ImageUnavailable",
        "reg/x:1 is not built for the platform of its node; build it for that platform",
    ),
    "an image for another platform, says containerd": (
        "ErrImagePull",
        'failed to pull and unpack image "reg/x:1": no match for platform in manifest: not found',
        "ImageUnavailable",
        "reg/x:1 is not built for the platform of its node",
    ),
    "an image for another platform, says CRI-O": (
        "ErrImagePull",
        'choosing image instance: no image found in image index for architecture amd64, variant "", OS linux',
        "ImageUnavailable",
        "is not built for the platform of its node",
    ),
    "a command that is built for another platform": (
        "RunContainerError",
        f'{RUNC}exec: "/train": exec format error: unknown',
        "WrongPlatform",
        "is built for another platform than that of its node",
    ),
    "a registry that is away, says CRI-O": (
        "RegistryUnavailable",
        "pinging container registry reg",
        "ImageUnavailable",
        "cannot be reached from the nodes: pinging container registry reg",
    ),
    "a signature that the node does not accept": (
        "SignatureValidationFailed",
        "A signature was required, but no signature exists",
        "ImageUnavailable",
        "do not accept the signature of the image busybox:1: A signature was required",
    ),
    "an image that the kubelet cannot read": (
        "ImageInspectError",
        "layer not known",
        "ImageUnavailable",
        "cannot read the image busybox:1 on its node: layer not known",
    ),
    "a lifecycle hook that fails": (
        "PostStartHookError",
        "Exec lifecycle hook failed",
        "HookFailed",
        "a lifecycle hook of the container failed: Exec lifecycle hook failed; correct the lifecycle",
    ),
    "a reason that no row has": (
        "ErasureCodingFailed",
        "3 of 5 stripes",
        "ErasureCodingFailed",
        "the kubelet cannot start the container: ErasureCodingFailed: 3 of 5 stripes; see kubectl describe pod",
    ),
    "no credentials": ("ErrImagePull", DENIED, "ImageUnavailable", "imagePullSecrets"),
    "a registry that is away": ("ErrImagePull", AWAY, "ImageUnavailable", "cannot be reached"),
    "a rate limit": ("ErrImagePull", "429 Too Many Requests: toomanyrequests", "ImageUnavailable", "wait"),
    "an unknown trouble of a registry": ("ErrImagePull", "short read", "ImageUnavailable", "short read"),
    "an image that must not be pulled": (
        "ErrImageNeverPull",
        'Container image "a:1" is not present with pull policy of Never',
        "ImageUnavailable",
        "a:1 is not on the node",
    ),
    "B-24 a missing Secret": (
        "CreateContainerConfigError",
        'secret "token" not found',
        "MissingObjects",
        "Secret token is missing; create it",
    ),
    "a missing ConfigMap": (
        "CreateContainerConfigError",
        'configmap "settings" not found',
        "MissingObjects",
        "ConfigMap settings is missing",
    ),
    "a key that is missing": (
        "CreateContainerConfigError",
        "couldn't find key user in Secret ml/token",
        "MissingObjects",
        "key user of Secret token is missing",
    ),
    "a command that is not there": (
        "RunContainerError",
        f'{RUNC}exec: "trian.py": executable file not found in $PATH: unknown',
        "CommandNotFound",
        "the command trian.py is not in the image busybox:1",
    ),
    "a command that may not be executed": (
        "CreateContainerError",
        f'{RUNC}exec: "/train.py": permission denied: unknown',
        "CommandNotExecutable",
        "make it executable",
    ),
}


def stuck(reason: str, message: str) -> World:
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).binds().waits(reason, message)
    world.pod(0, 1).runs()
    world.step(seconds=6)
    world.step(seconds=6)
    return world


@pytest.mark.parametrize(("kubelet", "message", "reason", "words"), TABLE.values(), ids=TABLE)
def test_a_start_that_is_held_up_says_by_what(kubelet: str, message: str, reason: str, words: str) -> None:
    running = stuck(kubelet, message).condition("Running")
    assert running is not None
    assert (running.status, running.reason) == ("False", reason)
    assert running.message.startswith("attempt 0: 1 of 2 pods wait: ")
    assert words in running.message


SCHEDULER: dict[str, tuple[str, str, str, str]] = {
    "B-24 a missing PersistentVolumeClaim": (
        '0/5 nodes are available: persistentvolumeclaim "data" not found. not found',
        "MissingObjects",
        "2 of 2 pods cannot be scheduled: PersistentVolumeClaim data is missing; create it",
        "Pending",
    ),
    "a PersistentVolumeClaim that is not bound": (
        "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "VolumeNotBound",
        "its StorageClass",
        "Pending",
    ),
    "a volume in another zone": (
        "0/5 nodes are available: 5 node(s) had volume node affinity conflict.",
        "VolumeElsewhere",
        "in the zone of the nodes",
        "WaitingForCapacity",
    ),
}


@pytest.mark.parametrize(("message", "reason", "words", "phase"), SCHEDULER.values(), ids=SCHEDULER)
def test_what_the_scheduler_says_of_volumes_is_no_lack_of_nodes(
    message: str, reason: str, words: str, phase: str
) -> None:
    world = World(slices=1, hosts=2)
    # A slice that is pinned to a node pool in another zone leaves it.
    world.free_pools = {0: "np-1"} if phase == "Pending" else {}
    world.begin()
    for handle in world.all_pods():
        handle.unschedulable(message)
    world.step(seconds=6)
    world.step(seconds=60)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason, world.status.attempt) == (phase, reason, 0)
    assert words in running.message


NAMES = [
    "reg.example.com/ml/train:429",
    "reg.example.com/ml/train:401",
    "reg.example.com/ml/train:v1.403",
    "reg.example.com/ml/train:502",
    "reg.example.com/forbidden/unauthorized:1",
    "reg.example.com/timeout:1",
    f"reg.example.com/rate-limit/tls@sha256:{'0a' * 32}",
    "docker.io/library/forbidden:latest",
]
ANSWERS = {
    "containerd": 'failed to pull and unpack image "{0}": failed to resolve reference "{0}": {0}: not found',
    "containerd, by the address": "unexpected status from HEAD request to https://reg.example.com/v2/ml/train/"
    'manifests/401: failed to resolve reference "{0}": 404 Not Found',
    "CRI-O": 'initializing source docker://{0}: reading manifest 429 in reg.example.com/403/train: manifest "unknown": '
    "manifest unknown",
    "Docker Hub": 'failed to resolve reference "{0}": manifest unknown: manifest tagged by "{1}" is not found',
    "a repository that is not there": "failed to pull image \"{0}\": name unknown: The repository with name '{2}' does "
    "not exist in the registry",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("image", NAMES)
def test_the_name_of_an_image_is_not_taken_for_the_answer_of_its_registry(image: str, answer: str) -> None:
    repository, _, tag = image.partition("@")[0].partition(":")
    message = answer.format(image, tag, repository.partition("/")[2] if repository.count("/") > 1 else "train")
    found = of_event("ErrImagePull", message, image)
    assert found is not None
    assert found.message == f"the image {image} does not exist"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("429 Too Many Requests", "answers too many requests"),
        ("401 Unauthorized", "does not let the nodes pull"),
        ("unexpected status code 403 Forbidden", "does not let the nodes pull"),
        ("dial tcp: i/o timeout", "cannot be reached"),
    ],
)
@pytest.mark.parametrize("image", NAMES)
def test_what_the_registry_answers_is_heard_whatever_the_name(image: str, said: str, words: str) -> None:
    found = of_event("ErrImagePull", f'failed to resolve reference "{image}": {said}', image)
    assert found is not None
    assert words in found.message


def test_every_reason_is_met() -> None:
    met = {reason for _, _, reason, _ in TABLE.values()} | {reason for _, reason, _, _ in SCHEDULER.values()}
    met |= {"VolumeNotMounted", "SandboxFailed"}  # in test_holdups
    assert START_REASONS - met - set(NEVER_REASONS) == {"ContainerConfigError", "ContainerCannotStart"}


NEVER_REASONS = ("ImageRunsAsRoot", "ImageUserNotNumeric", "InvalidImageName")
NEVER: dict[str, tuple[str, str, str]] = {
    "an image whose USER is a name": (
        "CreateContainerConfigError",
        "container has runAsNonRoot and image has non-numeric user (trainer), cannot verify user is non-root",
        "the image names its user trainer, and the kubelet cannot tell whether that is root; set "
        "securityContext.runAsUser to the number of that user",
    ),
    "an image name that cannot be read": (
        "InvalidImageName",
        'Failed to apply default image tag "Busybox": couldn\'t parse image name "Busybox"',
        "the image Busybox cannot be read; write it as registry/repository:tag",
    ),
    "root, where that is forbidden": (
        "CreateContainerConfigError",
        "container has runAsNonRoot and image will run as root",
        "the securityContext forbids that; set securityContext.runAsUser",
    ),
}


@pytest.mark.parametrize(("reason", "message", "words"), NEVER.values(), ids=NEVER)
def test_what_can_never_start_ends_the_attempt_at_once(reason: str, message: str, words: str) -> None:
    world = stuck(reason, message)
    assert world.attempt.reason == "CannotStart"
    assert words in (world.attempt.message or "")
    world.until_restarted()
    assert (world.status.attempts[-1].cause, world.status.failures) == ("failure", 1)


def test_a_pod_that_is_being_made_is_no_trouble() -> None:
    running = stuck("ContainerCreating", "").condition("Running")
    assert running is not None
    assert running.reason == "Starting"


def test_an_older_kubelet_that_backs_off_does_not_hide_what_is_wrong() -> None:
    world = stuck("ErrImagePull", NOT_FOUND)
    before = world.status
    world.pod(0, 0).waits("ImagePullBackOff", 'Back-off pulling image "busybox:typo"')
    world.step(seconds=20)
    assert world.condition("Running") == before.conditions[[one.type for one in before.conditions].index("Running")]


def test_each_change_of_the_trouble_has_one_event() -> None:
    world = stuck("ErrImagePull", NOT_FOUND)
    assert world.told.count("ImageUnavailable") == 1
    world.pod(0, 0).waits("CreateContainerConfigError", 'secret "token" not found')
    world.step(seconds=20)
    world.step(seconds=20)
    assert world.told[-2:] == ["ImageUnavailable", "MissingObjects"]
    assert news(cursor_of(world.status), world.status, spec()) == ()


def test_secrets_in_the_words_of_a_registry_are_hidden() -> None:
    running = stuck("ErrImagePull", "bad answer to https://me:hunter2@registry.example/v2/").condition("Running")
    assert running is not None
    assert "hunter2" not in running.message
