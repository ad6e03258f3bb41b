"""Why pods that have nodes do not start, in words for people: what is wrong, and what would help.

The kubelet says it in the waiting state of a container. Its reasons are few and its messages are those of container
runtimes and registries, so a table of patterns tells apart what a person would do something different about.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from slipway.core.model.pods import BEING_CREATED, Pod
from slipway.core.vocabulary import endings
from slipway.core.vocabulary.reasons import IMAGE_UNAVAILABLE, MISSING_OBJECTS

_PULL: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
_CONFIG: Final = frozenset({"CreateContainerConfigError"})
_START: Final = frozenset({"RunContainerError", "CreateContainerError"})
_SCHEDULER: Final = frozenset({"Unschedulable"})
_MOUNT: Final = frozenset({"FailedMount", "FailedAttachVolume"})
IMAGE_IS_THERE: Final = _CONFIG | _START
"""Reasons of the kubelet for which a container waits whose image it has pulled."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a container does not start."""

    reason: str
    """One CamelCase word, for conditions and programs."""
    message: str
    """What is wrong, in one sentence without its full stop."""
    next_step: str
    """What would help."""
    vague: bool = False
    """Whether the kubelet did not say what is wrong this time, as an older one does while it backs off."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One row of the table of what keeps a container from starting."""

    kubelet: frozenset[str]
    """Reasons of the kubelet; none in the table of what the API server refuses."""
    pattern: re.Pattern[str]
    """What its message must contain; a named group is a name in the texts."""
    reason: str
    message: str
    """What is wrong; `{image}`, `{name}`, `{key}` and `{kind}` stand for what the kubelet named."""
    next_step: str


def _row(kubelet: Iterable[str], pattern: str, reason: str, message: str, next_step: str) -> Trouble:
    return Trouble(frozenset(kubelet), re.compile(pattern, re.IGNORECASE), reason, message, next_step)


TROUBLES: Final = (
    _row(
        ["InvalidImageName"],
        "",
        "InvalidImageName",
        "the name of the image {image} cannot be read",
        "write it as registry/repository:tag",
    ),
    _row(
        ["ErrImageNeverPull"],
        "",
        IMAGE_UNAVAILABLE,
        "the image {image} is not on the node, and imagePullPolicy is Never",
        "load the image onto the nodes, or set imagePullPolicy to IfNotPresent",
    ),
    _row(
        _PULL,
        r"toomanyrequests|too many requests|\b429\b|rate limit",
        IMAGE_UNAVAILABLE,
        "the registry answers too many requests for the image {image}",
        "wait, pull with credentials of your own (imagePullSecrets), or mirror the image",
    ),
    _row(
        _PULL,
        r"unauthorized|authentication required|authorization failed|forbidden|access denied|\b40[13]\b|no basic auth",
        IMAGE_UNAVAILABLE,
        "the registry does not let the nodes pull the image {image}",
        "name a Secret with credentials in imagePullSecrets, or allow the nodes to pull",
    ),
    _row(
        _PULL | {"ImageInspectError"},
        r"no match(?:ing manifest)? for |no image found in (?:image index|manifest list) for architecture",
        IMAGE_UNAVAILABLE,
        "the image {image} is not built for the platform of its node",
        "build it for that platform (docker build --platform linux/amd64), and push it",
    ),
    _row(
        ["RegistryUnavailable"],
        "",
        IMAGE_UNAVAILABLE,
        "the registry of the image {image} cannot be reached from the nodes",
        "check the registry's name, the nodes' network and its certificate; the kubelet goes on trying",
    ),
    _row(
        ["SignatureValidationFailed"],
        "",
        IMAGE_UNAVAILABLE,
        "the nodes do not accept the signature of the image {image}",
        "sign it as the policy of the nodes' container runtime asks, or name an image that is",
    ),
    _row(
        ["ImageInspectError"],
        "",
        IMAGE_UNAVAILABLE,
        "the kubelet cannot read the image {image} on its node",
        "see the node's container runtime; the kubelet goes on trying",
    ),
    _row(
        _PULL,
        r"not found|manifest unknown|name unknown|does not exist",
        IMAGE_UNAVAILABLE,
        "the image {image} does not exist",
        "correct the name or the tag, or push the image",
    ),
    _row(
        _PULL,
        r"no such host|connection refused|timeout|timed out|dial tcp|unreachable|tls|x509|\beof\b|\b50[0234]\b",
        IMAGE_UNAVAILABLE,
        "the registry of the image {image} cannot be reached from the nodes",
        "check the registry's name, the nodes' network and its certificate; the kubelet goes on trying",
    ),
    _row(_PULL, "", IMAGE_UNAVAILABLE, "the image {image} cannot be pulled", "the kubelet goes on trying"),
    _row(
        _CONFIG,
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        MISSING_OBJECTS,
        "{kind} {name} is missing",
        "create it in the namespace of the job; the pods then start by themselves",
    ),
    _row(
        _CONFIG,
        r"couldn't find key (?P<key>\S+) in (?P<kind>secret|configmap) (?:[^/\s]+/)?(?P<name>[^\s,]+)",
        MISSING_OBJECTS,
        "key {key} of {kind} {name} is missing",
        "add it; the pods then start by themselves",
    ),
    _row(
        _CONFIG | {"VerifyNonRootError"},
        r"non-numeric user \((?P<name>[^)]*)\)",
        "ImageUserNotNumeric",
        "the image names its user {name}, and the kubelet cannot tell whether that is root",
        "set securityContext.runAsUser to the number of that user, or build the image with a numeric USER",
    ),
    _row(
        _CONFIG | {"VerifyNonRootError"},
        r"runAsNonRoot|non-root|run as root",
        "ImageRunsAsRoot",
        "the image would run as root, and the securityContext forbids that",
        "set securityContext.runAsUser, or build the image with a USER",
    ),
    _row(
        ["PostStartHookError", "PreStartHookError", "PreCreateHookError"],
        "",
        "HookFailed",
        "a lifecycle hook of the container failed",
        "correct the lifecycle of the container in podTemplate",
    ),
    _row(
        _START,
        r"exec format error",
        "WrongPlatform",
        "the command in the image {image} is built for another platform than that of its node",
        "build it for that platform (docker build --platform linux/amd64), and push it",
    ),
    _row(_CONFIG, "", "ContainerConfigError", "the kubelet cannot make the container", "correct the spec"),
    _row(
        _START,
        r'exec: "(?P<name>[^"]*)": (?:executable file not found|stat .*: no such file)',
        "CommandNotFound",
        "the command {name} is not in the image {image}",
        "correct command, or use an image that has it",
    ),
    _row(
        _START,
        r'exec: "(?P<name>[^"]*)".*permission denied',
        "CommandNotExecutable",
        "the command {name} in the image {image} may not be executed",
        "make it executable, or run it with its interpreter",
    ),
    _row(
        _MOUNT,
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        MISSING_OBJECTS,
        "{kind} {name} is missing",
        "create it in the namespace of the job; the pods then start by themselves",
    ),
    _row(
        _MOUNT,
        r"references non-existent (?P<kind>secret|config) key: (?P<key>\S+)",
        MISSING_OBJECTS,
        "key {key} of a {kind} in volumes is missing",
        "add it; the pods then start by themselves",
    ),
    _row(
        _MOUNT,
        "",
        "VolumeNotMounted",
        "a volume cannot be mounted",
        "see kubectl describe pod; the kubelet goes on trying",
    ),
    _row(
        ["FailedCreatePodSandBox"],
        "",
        endings.SANDBOX_FAILED.reason,
        "the kubelet cannot set up the pod's network or sandbox",
        "see the node's container runtime and network plug-in; the kubelet goes on trying",
    ),
    _row(
        _SCHEDULER,
        r'(?P<kind>persistentvolumeclaim) "(?P<name>[^"]+)" (?:not found|is being deleted)',
        MISSING_OBJECTS,
        "{kind} {name} is missing",
        "create it in the namespace of the job; the pods then start by themselves",
    ),
    _row(
        _SCHEDULER,
        r"unbound immediate PersistentVolumeClaims",
        "VolumeNotBound",
        "a PersistentVolumeClaim of the job is not bound to a volume",
        "see kubectl describe pvc: its StorageClass must exist and provide volumes",
    ),
    _row(
        _SCHEDULER,
        r"volume node affinity conflict",
        "VolumeElsewhere",
        "the volume of a PersistentVolumeClaim cannot be reached from the nodes that match",
        "use a volume in the zone of the nodes, or nodes in the zone of the volume",
    ),
    _row(_START, "", "ContainerCannotStart", "the container cannot be started", "correct the spec or the image"),
)
"""The first row that fits the kubelet's reason and message decides."""
START_REASONS: Final = frozenset(row.reason for row in TROUBLES)
_WORDY: Final = (
    frozenset().union(*(row.kubelet for row in TROUBLES)) - _SCHEDULER - {"ErrImageNeverPull", "InvalidImageName"}
)
"""Reasons for which the kubelet's own words help."""
_NOT_SAID: Final = BEING_CREATED | {"CrashLoopBackOff"}
"""Reasons of waiting containers that are no trouble, or follow from one that is told elsewhere."""
_NEVER_HEAL: Final = frozenset({"InvalidImageName", "ImageRunsAsRoot", "ImageUserNotNumeric"})
_IMAGE: Final = re.compile(r'image(?: name)?:? \\?"(?P<image>[^"\\]+)\\?"')
_REFERENCE: Final = re.compile(r'\b(?:image|reference)(?: name)?:? \\?"([^"\\]+)\\?"')
_ADDRESS: Final = re.compile(r'https?://[^\s"\\]+|/v2/[^\s"\\]+|\bmanifest \S+ in \S+')
"""Where a registry was asked, as containerd and CRI-O say it."""
_KINDS: Final = {
    "secret": "Secret", "configmap": "ConfigMap", "persistentvolumeclaim": "PersistentVolumeClaim",
    "config": "ConfigMap",
}  # fmt: skip


def explain(pods: Iterable[Pod], image: str) -> Explanation | None:
    """Why the first of these pods that the kubelet cannot start does not start; None when it names no trouble.

    Args:
        pods: pods of one attempt.
        image: the image of the job, for messages of kubelets that do not name it.
    """
    for pod in pods:
        if not pod.waits_to_start:
            continue
        status = pod.status
        for init, container in chain(
            ((True, one) for one in status.init_container_statuses), ((False, one) for one in status.container_statuses)
        ):
            waiting = container.state.waiting
            if waiting is None or waiting.reason in _NOT_SAID:
                continue
            explanation = of_event(waiting.reason, waiting.message, image) or _unknown(waiting.reason, waiting.message)
            return (
                replace(explanation, message=f"init container {container.name}: {explanation.message}")
                if init
                else explanation
            )
    return None


def _unknown(reason: str, message: str) -> Explanation:
    """What a kubelet says by a reason that no row has, in its own words."""
    said = f"{reason}: {message}" if message else reason
    step = "see kubectl describe pod; the kubelet goes on trying"
    return Explanation(reason, f"the kubelet cannot start the container: {said}", step, vague=True)


def hopeless(pod: Pod, image: str) -> Explanation | None:
    """Why a pod that waits will never start; None when it may."""
    explanation = explain((pod,), image)
    return explanation if explanation is not None and explanation.reason in _NEVER_HEAL else None


def of_scheduler(message: str, image: str) -> Explanation | None:
    """What a message of the scheduler says that is not about nodes."""
    return of_event("Unschedulable", message, image)


def cannot_start(message: str, image: str) -> str:
    """Why the container runtime could not start a command, and what would help."""
    explanation = of_event("RunContainerError", message, image)
    return f"{explanation.message}; {explanation.next_step}" if explanation is not None else ""


def _nameless(message: str, image: str) -> str:
    """What a registry answered, without the names in it: a tag may be 429, and a repository `forbidden`."""
    words = {word for name in (image, *_REFERENCE.findall(message)) for word in _parts(name)}
    message = _ADDRESS.sub("", message)
    for word in sorted(words, key=len, reverse=True):
        message = message.replace(word, "")
    return message


def _parts(reference: str) -> Iterator[str]:
    """The forms in which messages have a reference; no bare word, which may stand in the answer itself."""
    yield f'"{reference}"'
    name, _, _ = reference.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    yield from (f'"{tag}"', f'\\"{tag}\\"') if tag else ()
    yield from (one for one in (reference, name, repository, repository.partition("/")[2]) if set(one) & {"/", ":"})


def of_event(reason: str, message: str, image: str) -> Explanation | None:
    """What a kubelet says by that reason and message: in the status of a container, or in an Event of a pod."""
    said_of_it = _nameless(message, image) if reason in _PULL else message
    for row in TROUBLES:
        found = row.pattern.search(said_of_it) if reason in row.kubelet else None
        if found is None:
            continue
        named = _IMAGE.search(message)
        names = {"image": named["image"] if named else image, **found.groupdict()}
        names["kind"] = _KINDS.get(names.get("kind", "").lower(), "")
        # Where no row knows what is wrong, the words of the kubelet are all there is.
        words = "" if row.pattern.pattern or row.kubelet.isdisjoint(_WORDY) else message
        said = f": {words}" if words else ""
        return Explanation(row.reason, row.message.format(**names) + said, row.next_step, bool(words))
    return None
