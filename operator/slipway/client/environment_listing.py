"""The environment of a job's hosts, derived from the pods that Slipway would create, so that it needs no pod.

Values of Secrets are never read, and what looks like a secret is not shown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slipway.api import names
from slipway.api.places import FIRST, HEAD, worker
from slipway.api.slicejob import SliceJobSpec
from slipway.core.manifests.containers import template_spec
from slipway.core.manifests.pods import PodFactory
from slipway.core.manifests.redact import HIDDEN, is_secret, printable, redacted
from slipway.core.model.job import Job, Settings
from slipway.core.model.parts import Body
from slipway.core.validation.acceptance import accept

RESERVED: Final = "Slipway"
DEFAULT: Final = "default of Slipway"
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Listed:
    """One variable of all hosts, or all keys of one ConfigMap or Secret."""

    name: str
    first: str
    """Its value, or where that comes from, in the first host of the job."""
    last: str
    """The same in the last host; hosts in between have what lies in between."""
    source: str
    """RESERVED, DEFAULT, or the field of the SliceJob."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The environment of the current attempt, or of the first one where none has begun."""

    attempt: int
    hosts: int
    workers: tuple[Listed, ...]
    head: tuple[Listed, ...]
    """Of the Ray head; empty without Ray."""


def listing(job: Job, settings: Settings) -> Listing:
    """What the containers of a job are given.

    Raises:
        InvalidSpec: when the job's spec cannot be accepted.
    """
    asked, attempt = accept(job, settings), job.status.attempt or 0
    factory = PodFactory(job, asked, settings)
    spec, hosts = asked.spec, asked.resolved.hosts
    first = _container(factory.pod(attempt, FIRST), names.WORKER_CONTAINER)
    last = _container(factory.pod(attempt, worker(job.granted - 1, hosts - 1)), names.WORKER_CONTAINER)
    of_spec = {variable.name: "spec.env" for variable in spec.env}
    head: tuple[Listed, ...] = ()
    if spec.ray is not None:
        ray = _container(factory.pod(attempt, HEAD), names.RAY_CONTAINER)
        head = tuple(
            _rows(spec, ray, ray, of_spec | {variable.name: "spec.ray.head.env" for variable in spec.ray.head.env})
        )
    of_template = dict.fromkeys(_of_template(spec), "spec.podTemplate")
    return Listing(attempt, job.granted * hosts, tuple(_rows(spec, first, last, of_spec | of_template)), head)


def _container(pod: Body, name: str) -> Body:
    spec = pod["spec"]
    found: Body = next(one for one in (*spec["containers"], *spec.get("initContainers", ())) if one["name"] == name)
    return found


def _of_template(spec: SliceJobSpec) -> Iterator[str]:
    for container in template_spec(spec).get("containers", ()):
        if container["name"] == names.WORKER_CONTAINER:
            yield from (one["name"] for one in container.get("env", ()))


def _rows(spec: SliceJobSpec, first: Body, last: Body, given: Mapping[str, str]) -> Iterator[Listed]:
    low, high = (dict(_values(spec, one["env"], given)) for one in (first, last))
    for name, value in low.items():
        own = RESERVED if name in (*names.RESERVED_ENV, *names.RESERVED_RAY_ENV) else DEFAULT
        yield Listed(printable(name), value, high[name], given.get(name, own))
    for index, source in enumerate(first.get("envFrom", ())):
        name, keys = f"{source.get('prefix', '')}*", _keys(source)
        yield Listed(printable(name), keys, keys, "spec.envFrom" if index < len(spec.env_from) else "spec.podTemplate")


def _values(spec: SliceJobSpec, env: Iterable[Body], given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each variable with what may be shown of it."""
    known: dict[str, str] = {}
    for one in env:
        name = one["name"]
        if one.get("valueFrom"):
            yield name, printable(_origin(one["valueFrom"]))
            continue
        value = str(one.get("value") or "")
        known[name] = HIDDEN if name in given and is_secret(name, value) else _expanded(value, known)
        yield name, printable(redacted(known[name], spec))


def _expanded(text: str, known: Mapping[str, str]) -> str:
    """The value as the kubelet makes it: with the variables before it in place of `$(NAME)`."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else known.get(found[1], found[0]), text)


def _origin(source: Any) -> str:
    """Where a value comes from that the SliceJob does not hold."""
    match source:
        case {"secretKeyRef": {"name": name, "key": key}}:
            return f"key {key} of Secret {name}"
        case {"configMapKeyRef": {"name": name, "key": key}}:
            return f"key {key} of ConfigMap {name}"
        case {"fieldRef": {"fieldPath": path}}:
            return f"field {path} of the pod"
        case {"resourceFieldRef": {"resource": resource}}:
            return f"{resource} of the container"
    return "another source"


def _keys(source: Any) -> str:
    match source:
        case {"secretRef": {"name": name}}:
            return printable(f"every key of Secret {name}")
        case {"configMapRef": {"name": name}}:
            return printable(f"every key of ConfigMap {name}")
    return "another source"
