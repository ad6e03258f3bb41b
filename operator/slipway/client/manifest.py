"""SliceJobs as people write them, in files and in flags; and what is wrong with them, before anything is sent."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from slipway.api import names
from slipway.api.profile import ProfileSpec
from slipway.api.reading import describe
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.client.mounts import mounts
from slipway.planner.acceptance import InvalidSpec, accept
from slipway.planner.notices import IGNORED, notices
from slipway.planner.site import NO_CHART, Choice, Profile, site_of, unknown_site_of
from slipway.planner.snapshot import Job, Settings
from slipway.planner.stored import read_job

Manifest = dict[str, Any]
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
            InvalidManifest: for a mount that a pod cannot have.
        """
        volumes, places = mounts(self.mounts, self.folder)
        retries = {"maxFailures": self.max_failures, "maxPreemptions": self.max_preemptions}
        found: Manifest = {
            "accelerator": self._accelerator(),
            "slices": self.slices,
            "hosts": self.hosts,
            "image": self.image,
            "command": list(self.command),
            "env": [{"name": name, "value": literal(value)} for name, value in (self.env or {}).items()],
            "volumes": volumes,
            "volumeMounts": places,
            "shmSize": self.shm_size,
            "workingDir": self.working_dir,
            "serviceAccountName": self.service_account,
            "priorityClassName": self.priority_class,
            "retries": {name: value for name, value in retries.items() if value is not None},
        }
        return {name: value for name, value in found.items() if value not in (None, [], {})}

    def _accelerator(self) -> Manifest:
        asked = {"vendor": self.gpu_vendor, "count": self.gpus, "model": self.gpu_model}
        gpu = {name: value for name, value in asked.items() if value is not None}
        found = ({"type": self.type} if self.type else {}) | ({"gpu": gpu} if gpu else {})
        return found | ({"spot": True} if self.spot and found else {})


def literal(text: str) -> str:
    """The text as Kubernetes must be told it, which expands `$(NAME)` and reads `$$` as `$`."""
    return text.replace("$", "$$")


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
        found = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
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
    return found


def check_profile(body: Manifest) -> Profile:
    """Refuse a SliceJobProfile that could not be applied, as the operator would; only the API server checks CEL rules.

    Raises:
        InvalidManifest: naming the field, its value and what is allowed.
    """
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        raise InvalidManifest("spec is missing: a SliceJobProfile has defaults, limits, or both")
    try:
        return Profile(str(body["metadata"]["name"]), spec=ProfileSpec.model_validate(spec))
    except ValidationError as error:
        near = next(_nearest(error, ProfileSpec), "")
        raise InvalidManifest(describe(error, "spec", spec) + near) from error


def check(body: Manifest, settings: Settings | None = None, profile: Profile | None = None) -> Resolved:
    """Refuse what can never run, as the operator would, and return what it comes to.

    Of the CEL rules only that of the name is checked here.

    Args:
        settings: of the operator; the built-in ones if not given.
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
        SliceJobSpec.model_validate(spec)
    except ValidationError as error:
        near = next(_nearest(error), "")
        raise InvalidManifest(describe(error, "spec", spec) + near) from error
    try:
        return accept(_sited(read_job(_stored(body)), profile), settings or Settings()).resolved
    except InvalidSpec as error:
        raise InvalidManifest(error.message) from error


def warnings(body: Manifest, profile: Profile | None = None) -> tuple[str, ...]:
    """What has no effect in a job that `check` has found valid with the same profile."""
    job = _sited(read_job(_stored(body)), profile)
    assert job.spec is not None
    return tuple(one.message for one in notices(job.spec, job.site) if one.reason == IGNORED)


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


def _nearest(error: ValidationError, root: type[BaseModel] = SliceJobSpec) -> Iterator[str]:
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
