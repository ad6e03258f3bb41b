"""Strategic merge of a partial pod over the pod Slipway makes, with Kubernetes' own merge keys."""

from typing import Any, Final

_MERGE_KEYS: Final = {
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
_APPENDED: Final = ("tolerations", "envFrom")


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it: objects and keyed lists merge, tolerations add up, the rest is replaced."""
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            result[key] = merged(current, value)
        elif isinstance(current, list) and isinstance(value, list) and key in _MERGE_KEYS:
            result[key] = _merged_list(current, value, _MERGE_KEYS[key])
        elif isinstance(current, list) and isinstance(value, list) and key in _APPENDED:
            result[key] = current + value
        else:
            result[key] = value
    return result


def _merged_list(base: list[Any], over: list[Any], key: str) -> list[Any]:
    by_key = {item[key]: item for item in over if isinstance(item, dict) and key in item}
    kept = [merged(item, by_key.pop(item[key])) if item.get(key) in by_key else item for item in base]
    return kept + [item for item in over if not isinstance(item, dict) or item.get(key) in by_key or key not in item]
