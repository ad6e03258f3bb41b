"""Where each value of a job comes from: its author, the API server's defaults, or the operator."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slipway.api.crd import openapi_schema
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.client.manifests.reading import Manifest, check, typed
from slipway.core.manifests.redact import HIDDEN, foreign, is_secret
from slipway.core.model.site import Profile

SERVER: Final = "API server"
OPERATOR: Final = "operator"
"""Whose default it is."""

_LITERAL: Final = (("spec", "command"), ("spec", "env"))
"""What flags give as text that Kubernetes is not to expand."""

Scalar = str | int | float | bool | None
Path = tuple[str, ...]
"""Where a value stands: names of fields, and names or indices of items in brackets."""
Sources = dict[Path, str]
"""Who says what, by paths or their beginnings."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a job."""

    field: str
    value: Scalar
    """As it is, or as text; what is secret is hidden."""
    source: str
    """Who says so."""


def values(body: Manifest, sources: Sources, profile: Profile | None = None) -> tuple[Value, ...]:
    """Every value of a job: those that are sent, those that the API server adds, and what the operator makes of them.

    Args:
        sources: who gave what is sent, by its path or the beginning of it; the longest one counts.
        profile: the profile of the job.

    Raises:
        InvalidManifest: when the job could never run.
    """
    resolved = check(body, profile=profile)
    spec = SliceJobSpec.model_validate(body["spec"])
    added = _missing(openapi_schema()["properties"]["spec"], body["spec"])
    given = _leaves({part: body[part] for part in ("metadata", "spec")})
    made = _resolutions(resolved, body["spec"])
    found = [
        *((path, value, _source(path, sources)) for path, value in given),
        *((("spec", *path), value, SERVER) for path, value in added),
        *((("status", "resolved", name), value, origin) for name, value, origin in made),
    ]
    shown = ((path, _shown(path, value, spec), origin) for path, value, origin in found)
    # Of variables the name is shown and never the value.
    site = (
        Value(default.field, HIDDEN if default.value is None else default.value, default.source)
        for default in resolved.defaults or ()
    )
    return (*(Value(_written(path), _as_given(path, value, sources), origin) for path, value, origin in shown), *site)


def _source(path: Path, sources: Sources) -> str:
    return next(sources[path[:end]] for end in range(len(path), -1, -1) if path[:end] in sources)


def _leaves(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values of an object, each with its path; a list without objects is one value."""
    if isinstance(node, Mapping) and node:
        if path[-2:-1] == ("env",) and "valueFrom" not in node:
            yield path, node.get("value", "")
            return
        for name, child in node.items():
            if not (path and path[-1] == f"[{child}]"):
                yield from _leaves(child, (*path, str(name)))
    elif isinstance(node, list) and any(isinstance(one, Mapping) for one in node):
        for index, child in enumerate(node):
            yield from _leaves(child, (*path, f"[{_name(child, index)}]"))
    else:
        yield path, node


def _name(item: Any, index: int) -> object:
    known = item if isinstance(item, Mapping) else {}
    return known.get("name") or known.get("mountPath") or index


def _missing(schema: Mapping[str, Any], node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What the API server adds to an object: the defaults of its schema."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _missing(schema.get("items", {}), item, (*path, f"[{_name(item, index)}]"))
    if not isinstance(node, Mapping):
        return
    for name, field in schema.get("properties", {}).items():
        if name in node:
            yield from _missing(field, node[name], (*path, name))
        elif isinstance(field.get("default"), Mapping):
            yield from _missing(field, {}, (*path, name))
        elif "default" in field:
            yield (*path, name), field["default"]


_FROM_ACCELERATOR: Final = ("type", "label", "topology", "hosts", "chipsPerHost")
"""What the shape of TPU slices decides."""
_FROM_FIELDS: Final = {
    "hosts": "hosts",
    "coordinatorPort": "coordinator.port",
    "scheduleSeconds": "timeouts.scheduleSeconds",
    "startSeconds": "timeouts.startSeconds",
    "gracePeriodSeconds": "terminationGracePeriodSeconds",
}
"""The field of the spec that a resolved value is taken from, unless the accelerator decides it."""
_FROM_TEMPLATE: Final = {"gracePeriodSeconds": "podTemplate.spec.terminationGracePeriodSeconds"}
"""The field of the template that wins over it."""
_OF_GPUS: Final = {
    "type": "accelerator.gpu.model",
    "gpuVendor": "accelerator.gpu.vendor",
    "gpuResource": "",
    "gpusPerHost": "accelerator.gpu.count",
}
"""The same of what only GPU jobs have."""


def _resolutions(resolved: Resolved, spec: Mapping[str, Any]) -> Iterator[tuple[str, Scalar, str]]:
    """The effective values, each with what it follows from."""
    of_tpus = resolved.label is not None
    fields = _FROM_FIELDS | {name: field for name, field in _FROM_TEMPLATE.items() if _says(spec, field)}
    fields |= _OF_GPUS if resolved.gpus_per_host else {}
    for name, value in resolved.model_dump(mode="json", by_alias=True, exclude={"template_hash"}).items():
        if of_tpus and name in _FROM_ACCELERATOR:
            yield name, value, "spec.accelerator"
        elif name in fields:
            yield name, value, f"spec.{fields[name]}" if _says(spec, fields[name]) else OPERATOR


def _says(spec: Mapping[str, Any], field: str) -> bool:
    """Whether the spec decides it by that field; by `auto` it leaves it to the site."""
    return _given(spec, field) not in (None, "auto")


def _given(spec: Mapping[str, Any], field: str) -> Any:
    here: Any = spec
    for name in field.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here


def _written(path: Path) -> str:
    return ".".join(path).replace(".[", "[")


def _shown(path: Path, value: Any, spec: SliceJobSpec) -> Scalar:
    if isinstance(value, str) and _is_secret(path, value):
        return HIDDEN
    if isinstance(value, list):
        value = shlex.join(map(str, value))
    elif isinstance(value, Mapping):
        value = "{}"
    return foreign(value, spec) if isinstance(value, str) else value


def _as_given(path: Path, value: Scalar, sources: Sources) -> Scalar:
    """The value as who gave it has written it: a file as it stands there, flags without what Kubernetes is told."""
    from_flags = () not in sources and path[:2] in _LITERAL
    return typed(value) if from_flags and isinstance(value, str) else value


def _is_secret(path: Path, value: str) -> bool:
    """Whether the name of a variable or of a field says so; names of Secrets are none."""
    return is_secret(path[-1], value) and path[-1] != "secretName"
