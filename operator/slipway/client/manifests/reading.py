"""SliceJobs as people write them, in files and in flags; and what is wrong with them, before anything is sent."""

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from slipway.api import names
from slipway.api.nesting import too_deep
from slipway.api.profile import ProfileSpec
from slipway.api.reading import describe
from slipway.api.resources import docker_size
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.client.manifests import kubectl_yaml
from slipway.client.manifests.mounts import mounts
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import UNKNOWN_OPERATOR, Job, Settings
from slipway.core.model.reading import read_job
from slipway.core.model.site import NO_CHART, Choice, Profile
from slipway.core.validation.acceptance import accept
from slipway.core.validation.site import site_of, unknown_site_of
from slipway.core.validation.warnings import IGNORED, notices

Manifest = dict[str, Any]
_M = TypeVar("_M", bound=BaseModel)
_SUFFIX_BYTES: Final = 3


class InvalidManifest(ValueError):
    """A manifest, or what flags come to, is no SliceJob that could run; the message names the field."""


@dataclass(frozen=True)
class Flags:
    """A job without a file: what the options of `slipway run` say."""

    image: str
    command: Sequence[str] = ()
    """What the container runs in place of the image's entrypoint."""
    name: str | None = None
    type: str | None = None
    """TPU type; None for a CPU or GPU job."""
    gpus: int | None = None
    """GPUs of each host; None for none, or where the model or the vendor says that there are some."""
    gpu_vendor: str | None = None
    gpu_model: str | None = None
    slices: int | None = None
    hosts: int | None = None
    """Hosts of a CPU or GPU job."""
    spot: bool = False
    env: Mapping[str, str] | None = None
    mounts: Sequence[str] = ()
    """As `docker run --mount` takes them."""
    folder: Path | None = None
    """Where relative sources of mounts begin; None where they are refused."""
    shm_size: str | None = None
    working_dir: str | None = None
    service_account: str | None = None
    priority_class: str | None = None
    max_failures: int | None = None
    max_preemptions: int | None = None

    def spec(self) -> Manifest:
        """The spec, with the fields that were given.

        Raises:
            InvalidManifest: for a mount that a pod cannot have, and for spot without TPUs or GPUs.
        """
        volumes, places = mounts(self.mounts, self.folder)
        retries = {"maxFailures": self.max_failures, "maxPreemptions": self.max_preemptions}
        found: Manifest = {
            "accelerator": self._accelerator(),
            "slices": self.slices,
            "hosts": self.hosts,
            "image": self.image,
            "command": [literal(word) for word in self.command],
            "env": [{"name": name, "value": literal(value)} for name, value in (self.env or {}).items()],
            "volumes": volumes,
            "volumeMounts": places,
            "shmSize": self._shm_size(),
            "workingDir": self.working_dir,
            "serviceAccountName": self.service_account,
            "priorityClassName": self.priority_class,
            "retries": {name: value for name, value in retries.items() if value is not None},
        }
        return {name: value for name, value in found.items() if value not in (None, [], {})}

    def _shm_size(self) -> str | None:
        """Flags are read as those of Docker, to which 512m is half a gibibyte; to Kubernetes it is half a byte."""
        if self.shm_size is None:
            return None
        if (size := docker_size(self.shm_size)) is None:
            raise InvalidManifest(f"--shm-size {self.shm_size} is not a size: write for example 512m, 2g or 2Gi")
        return size

    def _accelerator(self) -> Manifest:
        asked = {"vendor": self.gpu_vendor, "count": self.gpus, "model": self.gpu_model}
        gpu = {name: value for name, value in asked.items() if value is not None}
        found = ({"type": self.type} if self.type else {}) | ({"gpu": gpu} if gpu else {})
        if self.spot and not found:
            beside = "--type, --gpus, --gpu-vendor or --gpu-model"
            raise InvalidManifest(f"--spot chooses among nodes of TPUs or GPUs: give {beside}, too")
        return found | ({"spot": True} if self.spot else {})


def literal(text: str) -> str:
    """The text as Kubernetes must be told it, which expands `$(NAME)` and reads `$$` as `$`."""
    return text.replace("$", "$$")


def typed(text: str) -> str:
    """The text that `literal` has made this of."""
    return text.replace("$$", "$")


def manifest(name: str, spec: Manifest, namespace: str | None = None) -> Manifest:
    """A SliceJob of that name."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec}


def new_name(base: str) -> str:
    """A name of its own for a job that does what `base` says."""
    word = re.sub(r"[^a-z0-9]+", "-", base.lower()).strip("-")
    word = word if word[:1].isalpha() else f"job-{word}"
    suffix = secrets.token_hex(_SUFFIX_BYTES)
    return f"{word[: names.MAX_NAME_LENGTH - len(suffix) - 1].rstrip('-')}-{suffix}"


def last_word(image: str) -> str:
    """The image's own name, without its registry, repository, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def documents(text: str, source: str, kinds: Sequence[str] = (names.KIND,)) -> list[Manifest]:
    """The SliceJobs of a file of YAML or JSON documents.

    Args:
        source: name of the file, for messages.
        kinds: what it may hold besides.

    Raises:
        InvalidManifest: when it cannot be read, holds none, or holds something else.
    """
    try:
        found = [document for document in kubectl_yaml.documents(text) if document is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidManifest(f"{source} is no YAML: {' '.join(str(error).split())}") from error
    if not found:
        raise InvalidManifest(f"{source} is empty: it needs a SliceJob")
    for number, one in enumerate(found):
        where = f"{source}, document {number + 1}" if len(found) > 1 else source
        kind = one.get("kind") if isinstance(one, Mapping) else type(one).__name__
        if kind not in kinds:
            raise InvalidManifest(f"{where} is a {kind}: only documents of kind {' or '.join(kinds)} are taken")
        if one.get("apiVersion") != names.API_VERSION:
            version = one.get("apiVersion")
            raise InvalidManifest(f"{where}: apiVersion {version!r} is not known: write {names.API_VERSION}")
        if not isinstance(one.get("metadata"), Mapping) or not one["metadata"].get("name"):
            raise InvalidManifest(f"{where} has no metadata.name")
        if problem := next(_metadata_problems(one["metadata"]), None):
            raise InvalidManifest(f"{where}: {problem}")
    return found


def _metadata_problems(metadata: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with fields that are read here before the API server is asked."""
    namespace = metadata.get("namespace")
    if not isinstance(namespace, str | None):
        yield f"metadata.namespace {namespace!r} is not valid: write the name of a namespace, or leave the field out"
    # It becomes part of a URL, and an empty one is that of the command.
    elif namespace and (problem := names.namespace_problem(namespace, "metadata.namespace")):
        yield problem
    for field in ("labels", "annotations"):
        given = metadata.get(field) or {}
        if not isinstance(given, Mapping):
            yield f"metadata.{field} {given!r} is not valid: it maps names to text"
            continue
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, str | None):
                yield f"metadata.{field}[{name}] {value!r} is not valid: names and values are text, so quote them"


def check_profile(body: Manifest) -> Profile:
    """Refuse a SliceJobProfile that could not be applied, as the operator would; only the API server checks CEL rules.

    Raises:
        InvalidManifest: naming the field, its value and what is allowed.
    """
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        raise InvalidManifest("spec is missing: a SliceJobProfile has defaults, limits, or both")
    try:
        return Profile(str(body["metadata"]["name"]), spec=_read(ProfileSpec, spec))
    except ValidationError as error:
        near = next(nearest(error, ProfileSpec), "")
        raise InvalidManifest(describe(error, "spec", spec) + near) from error


def _read(model: type[_M], spec: Mapping[str, Any]) -> _M:
    """The spec as the API server takes it: no text for a number, no number for text, and no Python's spelling.

    Raises:
        InvalidManifest: when it is no JSON, or nested too deep.
        ValidationError: when it is no such spec.
    """
    if problem := too_deep(spec):
        raise InvalidManifest(problem)
    try:
        content = json.dumps(spec, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        # Half a surrogate is no text. The error holds the whole spec, secrets included.
        why = "text that is no Unicode" if isinstance(error, UnicodeError) else str(error)
        raise InvalidManifest(f"spec has what JSON cannot say: {why}") from None
    return model.model_validate_json(content, strict=True, by_alias=True, by_name=False)


def check(body: Manifest, settings: Settings = UNKNOWN_OPERATOR, profile: Profile | None = None) -> Resolved:
    """Refuse what can never run, as the operator would, and return what it comes to.

    Of the CEL rules only that of the name is checked here.

    Args:
        settings: of the operator; by default those of one of which nothing is known.
        profile: that of the job. Without it neither limits are known nor what the job has from its profile.

    Raises:
        InvalidManifest: naming the field, its value and what is allowed.
    """
    if unfit := names.name_problem(body["metadata"].get("name")):
        raise InvalidManifest(unfit)
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        raise InvalidManifest("spec is missing: a SliceJob needs at least spec.image")
    try:
        _read(SliceJobSpec, spec)
    except ValidationError as error:
        near = next(nearest(error), "")
        raise InvalidManifest(describe(error, "spec", spec) + near) from error
    try:
        return accept(_sited(read_job(_stored(body)), profile), settings).resolved
    except InvalidSpec as error:
        raise InvalidManifest(error.message) from error


def warnings(body: Manifest, profile: Profile | None = None) -> tuple[str, ...]:
    """What has no effect in a job that `check` has found valid with the same profile."""
    job = _sited(read_job(_stored(body)), profile)
    assert job.spec is not None
    return tuple(notice.message for notice in notices(job.spec, job.site) if notice.reason == IGNORED)


def _sited(job: Job, profile: Profile | None) -> Job:
    """The job as its profile makes it; what the chart says only the operator knows."""
    assert job.spec is not None
    if profile is None:
        spec, site = unknown_site_of(job.spec)
    else:
        spec, site = site_of(job.spec, NO_CHART, Choice(profile))
        site = replace(site, limits=site.limits[:-1])
    return replace(job, spec=spec, given=job.spec, site=site)


def _stored(body: Manifest) -> Manifest:
    """The manifest as the API server would store it."""
    now = datetime.now(UTC).isoformat()
    own = {"uid": "-", "resourceVersion": "0", "namespace": "default", "creationTimestamp": now}
    return body | {"metadata": own | dict(body["metadata"])}


def nearest(error: ValidationError, root: type[BaseModel] = SliceJobSpec) -> Iterator[str]:
    """The field that was meant where one is not known (B-07)."""
    first = error.errors()[0]
    if first["type"] == "extra_forbidden":
        *parents, unknown = [one for one in first["loc"] if isinstance(one, str)]
        known = _fields(parents, root)
        camel = str(unknown).replace("_", "").lower()
        folded = {name.lower(): name for name in known}
        near = get_close_matches(camel, folded, 1, cutoff=0.7)
        yield f": did you mean {folded[near[0]]}?" if near else f": it may be {', '.join(sorted(known))}"


def _fields(path: Sequence[str], model: type[BaseModel]) -> set[str]:
    """The fields of the model at a path below another."""
    for name in path:
        field = next((one for one in model.model_fields.values() if one.alias == name), None)
        inner = _model_of(field.annotation) if field is not None else None
        if inner is None:
            break
        model = inner
    return {one.alias or name for name, one in model.model_fields.items()}


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_of(one) for one in getattr(annotation, "__args__", ()))
    return next((one for one in inner if one is not None), None)


def environment(lines: str, source: str) -> dict[str, str]:
    """Variables of an env file: `NAME=VALUE` lines, `#` comments and blank lines, as `docker run --env-file` reads it.

    Raises:
        InvalidManifest: for a line without `=`, by its number.
    """
    found = {}
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise InvalidManifest(f"{source}, line {number}: {name.strip()!r} is not of the form NAME=VALUE")
        found[name.strip()] = value
    return found
