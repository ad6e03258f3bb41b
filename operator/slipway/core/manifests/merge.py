"""Strategic merge of a partial pod over the pod Slipway makes, with Kubernetes' own merge keys."""

from typing import Any, Final, TypeGuard

from slipway.api.words import kind_of

MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""The field by which the items of a list are known; those of other lists are not."""
_RETAIN_KEYS: Final = "volumes"
"""A list whose items keep only the fields that are laid on them: a volume has one source."""
_APPENDED: Final = ("tolerations", "envFrom")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_IN_CONTAINERS: Final = ("env", "envFrom", "ports", "volumeMounts", "volumeDevices")


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it: objects and keyed lists merge, tolerations add up, the rest is replaced."""
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            result[key] = merged(current, value)
        elif key in MERGE_KEYS and _have_keys(current, key) and _have_keys(value, key):
            result[key] = _merged_list(current, value, key)
        elif isinstance(current, list) and isinstance(value, list) and key in _APPENDED:
            result[key] = current + value
        else:
            result[key] = value
    return result


def without_nulls(content: Any) -> Any:
    """JSON without the fields that are null, which Kubernetes takes for absent."""
    if isinstance(content, dict):
        return {key: without_nulls(value) for key, value in content.items() if value is not None}
    return [without_nulls(item) for item in content] if isinstance(content, list) else content


def malformed(over: dict[str, Any]) -> str | None:
    """What of a partial PodSpec cannot be merged: the field below it, its value, and what is allowed."""
    if not isinstance(selector := over.get("nodeSelector", {}), dict):
        return f"nodeSelector is {kind_of(selector)}: an object is needed"
    found = _malformed_lists(over, "", in_container=False)
    for kind in _CONTAINERS:
        for container in () if found else over.get(kind, ()):
            found = found or _malformed_lists(container, f"{kind}[{container['name']}].", in_container=True)
    return found


def _malformed_lists(part: dict[str, Any], path: str, *, in_container: bool) -> str | None:
    for field in (*MERGE_KEYS, *_APPENDED):
        if field not in part or (field in _IN_CONTAINERS) is not in_container:
            continue
        key = MERGE_KEYS.get(field)
        wanted = "a list of objects is needed" + (f", each with a {key}" if key else "")
        if not isinstance(part[field], list):
            return f"{path}{field} is {kind_of(part[field])}: {wanted}"
        for index, item in enumerate(part[field]):
            if not isinstance(item, dict):
                return f"{path}{field}[{index}] is {kind_of(item)}: {wanted}"
            if key is not None and not _is_key(field, item.get(key)):
                fault = f".{key} is {kind_of(item[key])}" if item.get(key) else f" has no {key}"
                return f"{path}{field}[{index}]{fault}: {wanted}"
    return None


def _have_keys(items: Any, field: str) -> TypeGuard[list[dict[str, Any]]]:
    """Whether these are a list whose items can be told apart; deep in a pod a list of that name may hold anything."""
    key = MERGE_KEYS[field]
    return isinstance(items, list) and all(isinstance(item, dict) and _is_key(field, item.get(key)) for item in items)


def _is_key(field: str, value: Any) -> bool:
    if field == "ports":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) and value != ""


def _replaced(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    return over


def _retained(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base` without the fields that only `base` has; a name alone changes nothing."""
    both = merged(base, over)
    return {key: value for key, value in both.items() if key in over} if len(over) > 1 else both


def _merged_list(base: list[Any], over: list[Any], field: str) -> list[Any]:
    key = MERGE_KEYS[field]
    by_key = {item[key]: item for item in over}
    # A variable with the value of one and the valueFrom of the other would be refused.
    laid = _replaced if field == "env" else _retained if field == _RETAIN_KEYS else merged
    kept = [laid(item, by_key.pop(item[key])) if item[key] in by_key else item for item in base]
    return kept + [item for item in over if item[key] in by_key]
