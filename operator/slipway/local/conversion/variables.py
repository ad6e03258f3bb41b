"""The environment of a container, as the kubelet makes it of the variables of a pod."""

import math
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from slipway.api import names
from slipway.api.resources import amount
from slipway.core.model.parts import Body
from slipway.local.conversion.expansion import expanded
from slipway.local.conversion.unconvertible import Refusals

NODE: Final = "localhost"
"""The name of the node of a pod that names none."""
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_NO_OBJECT: Final = (
    "there is no Kubernetes API that could be asked for it: give the value itself, or say optional: true"
)


def environment(
    pod: Body,
    container: Body,
    path: str,
    given: Mapping[str, str],
    config_maps: Mapping[str, Mapping[str, str]],
    refusals: Refusals,
) -> dict[str, str]:
    """The values of the variables by name, in the order in which the program sees them.

    Args:
        pod: the whole pod, for its fields.
        container: the container.
        path: the container's path for people.
        given: variables that the container has without asking, as a device plugin gives them; its own are stronger.
        config_maps: data of the ConfigMaps that there are.
        refusals: where to put what cannot be had.
    """
    for index, one in enumerate(container.get("envFrom", ())):
        for kind in ("configMapRef", "secretRef"):
            if kind in one and not one[kind].get("optional"):
                refusals.add(f"{path}.envFrom[{index}].{kind}", one[kind].get("name"), _NO_OBJECT)
    found: dict[str, str] = {}
    for one in container.get("env", ()):
        if not one["name"] or "=" in one["name"]:
            refusals.add(f"{path}.env[{one['name']}].name", one["name"], "a name without = is needed")
        value = _value(pod, container, one, f"{path}.env[{one['name']}]", config_maps, refusals, found)
        if value is not None:
            found[one["name"]] = value
    return {name: value for name, value in given.items() if name not in found} | found


def pod_uid(pod: Body) -> str:
    """The UID of a pod: its own, or one that follows from its job and its name, so that it is always the same."""
    metadata = pod["metadata"]
    job = metadata.get("labels", {}).get(names.LABEL_JOB_UID, "")
    return str(metadata.get("uid") or uuid.uuid5(uuid.NAMESPACE_OID, f"{job}/{metadata['name']}"))


def _value(
    pod: Body,
    container: Body,
    variable: Body,
    path: str,
    config_maps: Mapping[str, Mapping[str, str]],
    refusals: Refusals,
    before: Mapping[str, str],
) -> str | None:
    """The value of one variable; None for one that the container does not get."""
    source = variable.get("valueFrom")
    if not source:
        return expanded(variable.get("value", ""), before)
    [(kind, wanted), *more] = source.items()
    path = f"{path}.valueFrom"
    if more:
        refusals.add(path, sorted(source), "one source is allowed")
    elif kind == "fieldRef":
        return _field(pod, wanted.get("fieldPath"), f"{path}.fieldRef.fieldPath", refusals)
    elif kind == "resourceFieldRef":
        return _resource(container, wanted, f"{path}.resourceFieldRef", refusals)
    elif kind == "configMapKeyRef" and wanted.get("key") in (data := config_maps.get(wanted.get("name"), {})):
        return data[wanted["key"]]
    elif kind in ("configMapKeyRef", "secretKeyRef") and not wanted.get("optional"):
        refusals.add(f"{path}.{kind}", wanted.get("name"), _NO_OBJECT)
    return None


def _field(pod: Body, field: Any, path: str, refusals: Refusals) -> str:
    metadata = pod["metadata"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": pod_uid(pod),
        "spec.nodeName": pod["spec"].get("nodeName", NODE),
    }
    if field in known:
        return str(known[field])
    if isinstance(field, str) and (keyed := _KEYED.fullmatch(field)):
        return str(metadata.get(keyed[1], {}).get(keyed[2], ""))
    allowed = ", ".join((*known, "metadata.labels['…']", "metadata.annotations['…']"))
    refusals.add(path, field, f"the local engine knows {allowed}")
    return ""


def _resource(container: Body, wanted: Body, path: str, refusals: Refusals) -> str:
    """A limit or a request in units of the divisor, rounded up as the kubelet does."""
    of, given = wanted.get("resource"), container.get("resources", {})
    limits, requests = given.get("limits", {}), given.get("requests", {})
    # A limit without a request is the request, by Kubernetes' own default.
    known = {
        f"{kind}.{name}": values[name]
        for kind, values in (("limits", limits), ("requests", limits | requests))
        for name in ("cpu", "memory")
        if name in values
    }
    if wanted.get("containerName", container["name"]) != container["name"]:
        refusals.add(f"{path}.containerName", wanted["containerName"], f"only {container['name']} is allowed")
    if of not in known:
        refusals.add(f"{path}.resource", of, f"the container has {', '.join(known) or 'no limits and no requests'}")
        return ""
    divisor = amount(wanted.get("divisor", "1"))
    if not divisor:
        refusals.add(f"{path}.divisor", wanted["divisor"], "a quantity above 0, such as 1m or 1Mi, is needed")
        return ""
    return str(math.ceil((amount(known[of]) or Decimal(0)) / divisor))
