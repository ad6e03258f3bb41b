"""Generates the CustomResourceDefinitions from the models: `python -m slipway.api.crd | kubectl apply -f -`.

The models are the one source. This module only translates: JSON Schema as pydantic writes it into the
structural schema Kubernetes wants, with the rules about change that no single field can hold.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from slipway.api.base import Model, rule
from slipway.api.names import GROUP, KIND, PLURAL, VERSION
from slipway.api.profile import PROFILE_KIND, PROFILE_PLURAL, ProfileSpec
from slipway.api.slicejob import CHANGEABLE, CHANGEABLE_WHILE_SUSPENDED, DEFAULTABLE, NAME_RULE, SliceJobSpec
from slipway.api.status import UNSEEN, SliceJobStatus
from slipway.api.workspace import NAME_RULE as WORKSPACE_NAME_RULE

_NEVER_BEGAN: Final = (
    "has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase in ['Invalid', 'Suspended']"
    " && !has(oldSelf.status.attempt)"
)
_SUSPENDED: Final = "has(oldSelf.spec.suspend) && oldSelf.spec.suspend"
_DROPPED: Final = ("title", "const", "discriminator", "$defs", "propertyNames")

PRINTER_COLUMNS: Final = (
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Running')].reason"},
    {"name": "Accelerator", "type": "string", "jsonPath": ".status.resolved.type"},
    {"name": "Slices", "type": "string", "jsonPath": ".status.readySlices", "description": "Ready / requested"},
    {"name": "Attempt", "type": "integer", "jsonPath": ".status.attempt"},
    {"name": "Failures", "type": "integer", "jsonPath": ".status.failures"},
    {"name": "Preemptions", "type": "integer", "jsonPath": ".status.preemptions"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Started", "type": "date", "jsonPath": ".status.startTime", "priority": 1},
    {"name": "Completed", "type": "date", "jsonPath": ".status.completionTime", "priority": 1},
)
PROFILE_COLUMNS: Final = (
    {"name": "Image", "type": "string", "jsonPath": ".spec.defaults.image"},
    {"name": "Max-Slices", "type": "integer", "jsonPath": ".spec.limits.maxSlices"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
SELECTABLE_FIELDS: Final = (".status.phase", ".spec.accelerator.type")
"""Fields by which the API server can select, from Kubernetes 1.31 on."""


def transition_rules() -> list[dict[str, str]]:
    """CEL rules about what may change after creation; they stand at the root to see status as well."""
    aliases = [field.alias or name for name, field in SliceJobSpec.model_fields.items()]
    late = [alias for alias in aliases if alias in CHANGEABLE_WHILE_SUSPENDED]
    fixed = [alias for alias in aliases if alias not in CHANGEABLE | CHANGEABLE_WHILE_SUSPENDED]
    changed = " + ".join(f"({_unchanged(alias)} ? '' : '{alias}, ')" for alias in (*fixed, *late))
    hint = f"({_all_unchanged(fixed)}) ? 'suspend the job first' : 'delete the SliceJob and create it again'"
    return [
        rule(
            "!has(oldSelf.spec.cancel) || !oldSelf.spec.cancel || (has(self.spec.cancel) && self.spec.cancel)",
            "cancel cannot be taken back: create a new SliceJob",
            path=".spec.cancel",
        ),
        rule(
            # One rule for all fields, which begins with what holds at each write of a status: to look up a field costs
            # the API server time in proportion to the number of fields, and a rule for each would look up two hundred.
            f"self.spec == oldSelf.spec || ({_NEVER_BEGAN})"
            f" || ({_all_unchanged(fixed)}) && (({_SUSPENDED}) || ({_all_unchanged(late)}))",
            computed=f"({changed} + 'cannot change after creation: ').replace(', cannot', ' cannot') + ({hint})",
            path=".spec",
        ),
    ]


def _unchanged(field: str) -> str:
    return _same(f"self.spec.{field}", f"oldSelf.spec.{field}")


def _same(new: str, old: str) -> str:
    # Optional field selection would say it in half the words, but the API server estimates its cost as unbounded.
    return f"(has({new}) ? has({old}) && {new} == {old} : !has({old}))"


def _all_unchanged(fields: list[str]) -> str:
    return " && ".join(map(_unchanged, fields))


def structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One JSON Schema node as a structural schema: references inlined, null and titles gone."""
    node = _inlined(schema, definitions)
    if node.get("x-kubernetes-int-or-string"):
        node.pop("type", None)
        node.pop("maxLength", None)
    values = node.pop("additionalProperties", None)
    if values is True:
        node["x-kubernetes-preserve-unknown-fields"] = True
    elif isinstance(values, dict):
        node["additionalProperties"] = structural(values, definitions)
    for key in _DROPPED:
        node.pop(key, None)
    if "properties" in node:
        node["properties"] = {key: structural(value, definitions) for key, value in node["properties"].items()}
    if "items" in node:
        node["items"] = structural(node["items"], definitions)
    _place_default(node)
    return node


def _inlined(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    node = dict(schema)
    if reference := node.pop("$ref", None):
        node = {**definitions[reference.rsplit("/", 1)[1]], **node}
    for option in node.pop("anyOf", None) or ():
        if option.get("type") != "null":
            node = {**structural(option, definitions), **node}
    return node


def _place_default(node: dict[str, Any]) -> None:
    """Keep the defaults of scalars, and of objects made of such; an empty list or map is no default."""
    default = node.pop("default", None)
    if isinstance(default, dict):
        parts = {key: value["default"] for key, value in node.get("properties", {}).items() if "default" in value}
        if parts:
            node["default"] = parts
    elif default is not None and not isinstance(default, list | tuple):
        node["default"] = default


def _schema_of(model: type[Model]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    return structural(schema, schema.pop("$defs", {}))


def _spec() -> dict[str, Any]:
    schema = _schema_of(SliceJobSpec)
    for name, node in schema["properties"].items():
        _say(node, _change(name))
        if name in DEFAULTABLE:
            # Set by the API server, it would hide whether the SliceJob says anything about the field.
            node.pop("default", None)
    written = schema["x-kubernetes-validations"]
    schema["x-kubernetes-validations"] = [_of_what_is_new(one, schema["properties"]) for one in written]
    return schema


def _of_what_is_new(entry: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """A rule that lets be what is stored already: by an older CRD, or under a higher bound.

    Such a job must run on and be stopped and deleted, which takes changes of its status, spec and metadata. The API
    server makes that exception by itself only for an unchanged spec, and takes none with preserved fields for
    unchanged. The comparison stands last: as long as the rule holds, it costs nothing.
    """
    read = dict.fromkeys(re.findall(r"\bself\.(\w+)", entry["rule"]))
    stored = " && ".join(_as_stored(name, fields[name]) for name in read)
    return entry | {"rule": f"({entry['rule']}) || oldSelf.hasValue() && {stored}", "optionalOldSelf": True}


def _as_stored(field: str, node: dict[str, Any]) -> str:
    """Whether a field of the spec is as before."""
    new, old = f"self.{field}", f"oldSelf.value().{field}"
    # CEL has an optional oldSelf without its schema, in which preserved fields and null are never equal to themselves.
    blind = "x-kubernetes-preserve-unknown-fields", "nullable"
    if any(f'"{word}": true' in json.dumps(node) for word in blind):
        return f"has({new}) == has({old})"
    return _same(new, old)


def _change(name: str) -> str:
    """When a field of the spec, and all below it, may change."""
    if name == "cancel":
        return "Can change to true only."
    if name in CHANGEABLE:
        return "Can change at any time."
    return "Can change while the phase is Suspended." if name in CHANGEABLE_WHILE_SUSPENDED else "Immutable."


def _say(node: dict[str, Any], change: str) -> None:
    """Add to the description of a field, and of those below, its default and when it may change."""
    if not isinstance(node.get("default", {}), dict):
        node["description"] += f" Default {json.dumps(node['default'])}."
    node["description"] += f" {change}"
    for child in (node.get("properties") or node.get("items", {}).get("properties") or {}).values():
        _say(child, change)


def _without_defaults(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_defaults(value) for key, value in node.items() if key != "default"}
    return [_without_defaults(value) for value in node] if isinstance(node, list) else node


def openapi_schema() -> dict[str, Any]:
    """The structural schema of a SliceJob."""
    status = _without_defaults(_schema_of(SliceJobStatus))
    status["properties"]["conditions"].update({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})
    # kstatus takes an object without a status for settled; no operator has seen this one yet.
    status["default"] = {"observedGeneration": UNSEEN}
    status["properties"]["attempts"].update({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["number"]})
    return {
        "description": "A SliceJob runs one container job on TPU slices, restarts it as a whole when a slice is "
        "preempted or a program fails, and keeps the account of why.",
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": [NAME_RULE, WORKSPACE_NAME_RULE, *transition_rules()],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Bounded, or the API server takes the rule about the name for too costly.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "spec": _spec(),
            "status": status,
        },
    }


def profile_schema() -> dict[str, Any]:
    """The structural schema of a SliceJobProfile; of what it gives defaults for, SliceJobs have the rules."""
    spec = _without_defaults(_schema_of(ProfileSpec))
    return {
        "description": "A SliceJobProfile holds defaults and limits of the SliceJobs of a namespace. SliceJobs name "
        "one in spec.profile, or have the one named default.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    }


def custom_resource_definitions() -> dict[str, dict[str, Any]]:
    """The CRDs by plural, ready for `kubectl apply --server-side`."""
    job = {
        "subresources": {"status": {}},
        "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
        "selectableFields": [{"jsonPath": path} for path in SELECTABLE_FIELDS],
        "schema": {"openAPIV3Schema": openapi_schema()},
    }
    profile = {
        "additionalPrinterColumns": [dict(column) for column in PROFILE_COLUMNS],
        "schema": {"openAPIV3Schema": profile_schema()},
    }
    return {
        PLURAL: _definition(KIND, PLURAL, "sj", {"categories": ["all"]}, job),
        PROFILE_PLURAL: _definition(PROFILE_KIND, PROFILE_PLURAL, "sjp", {}, profile),
    }


def _definition(kind: str, plural: str, short: str, names: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [short]} | names,
            "versions": [{"name": VERSION, "served": True, "storage": True} | version],
        },
    }


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(plural: str) -> str:
    """A CRD as it stands in `crds/`."""
    header = "# Generated by `make generate` from slipway.api; do not edit.\n"
    content = custom_resource_definitions()[plural]
    return header + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=110)


if __name__ == "__main__":
    # Into files of the folders that are named, or as one stream.
    for folder in sys.argv[1:]:
        for name in custom_resource_definitions():
            (Path(folder) / f"{GROUP}_{name}.yaml").write_text(to_yaml(name))
    if not sys.argv[1:]:
        sys.stdout.write("---\n".join(map(to_yaml, custom_resource_definitions())))
