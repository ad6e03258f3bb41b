"""Mounts as `docker run --mount` takes them, as volumes of a pod."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

_KEYS: Final = {
    "bind": frozenset({"src", "dst", "readonly"}),
    "volume": frozenset({"src", "dst", "readonly"}),
    "device": frozenset({"src", "dst", "permissions"}),
    "tmpfs": frozenset({"dst", "size"}),
}
_SAME: Final = {"source": "src", "target": "dst", "destination": "dst", "perm": "permissions", "ro": "readonly"}


def mounts(texts: Sequence[str], folder: Path | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and volumeMounts for texts such as `type=bind,src=/data,dst=/data,readonly` (T-09 to T-13).

    Args:
        texts: the mounts.
        folder: where relative sources begin, on a machine that runs the job itself; None where they are refused.

    Raises:
        ValueError: naming the mount, and what is allowed.
    """
    volumes, places = [], []
    for number, text in enumerate(texts):
        fields = _read(text)
        source = _source(text, fields, folder)
        name = f"mount-{number}"
        volumes.append({"name": name} | source)
        place: dict[str, Any] = {"name": name, "mountPath": _absolute(text, "dst", fields.get("dst", ""))}
        places.append(place | ({"readOnly": True} if "readonly" in fields else {}))
    return volumes, places


def _read(text: str) -> dict[str, str]:
    first, *rest = (part.partition("=") for part in text.split(","))
    kind = first[2]
    if first[0] != "type" or kind not in _KEYS:
        raise ValueError(f"mount {text!r}: it begins with type=, which is one of {', '.join(sorted(_KEYS))}")
    fields = {"type": kind}
    for key, equals, value in rest:
        known = _SAME.get(key, key)
        if known not in _KEYS[kind]:
            raise ValueError(f"mount {text!r}: {key!r} is not known of type={kind}: {', '.join(sorted(_KEYS[kind]))}")
        if (known == "readonly") == bool(equals):
            raise ValueError(f"mount {text!r}: {key} takes {'no value' if equals else 'a value, as in ' + key + '=…'}")
        fields[known] = value
    return fields


def _source(text: str, fields: dict[str, str], folder: Path | None) -> dict[str, Any]:
    match fields["type"]:
        case "bind":
            path = str(Path(fields["src"]).expanduser()) if fields.get("src") else ""
            if path and folder is not None and not Path(path).is_absolute():
                path = str((folder / path).resolve())
            return {"hostPath": {"path": _absolute(text, "src", path)}}
        case "volume":
            if not fields.get("src"):
                raise ValueError(f"mount {text!r}: src is missing: it names a PersistentVolumeClaim")
            return {"persistentVolumeClaim": {"claimName": fields["src"]}}
        case "tmpfs":
            size = {"sizeLimit": _size(fields["size"])} if fields.get("size") else {}
            return {"emptyDir": {"medium": "Memory"} | size}
        case _:
            raise ValueError(
                f"mount {text!r}: a pod gets devices from device plugins: request them in resources.limits, TPU chips "
                "come with the accelerator; only an engine on this machine can pass a device through"
            )


def _absolute(text: str, key: str, path: str) -> str:
    if not PurePosixPath(path).is_absolute():
        raise ValueError(f"mount {text!r}: {key} {path!r} is not an absolute path")
    return path


def _size(text: str) -> str:
    """A size as Kubernetes writes it: the small units of `docker run` are binary, and there m would be a thousandth."""
    return f"{text[:-1]}{text[-1].upper()}i" if re.fullmatch("[0-9]+[kmg]", text) else text
