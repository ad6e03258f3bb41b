"""The data sets of a study, as volumes and mounts of the pods whose job names the study."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slipway.api.workspace import DataSet
from slipway.core.model.parts import Body

ROOT: Final = "/data"
_VOLUME: Final = "slipway-data"


def unknown_study(study: str | None, known: Mapping[str, Any]) -> str | None:
    """What is wrong with the study that a job names; None when nothing is."""
    if study is None or study in known:
        return None
    there = f"the studies of this site are {', '.join(sorted(known))}" if known else "this site has no studies"
    return f"spec.study {study!r} is not known: {there}"


def volumes(study: str | None, known: Mapping[str, Mapping[str, DataSet]]) -> list[Body]:
    """A volume for each data set of the study."""
    return [{"name": _name(index)} | _source(one) for index, _, one in _of(study, known)]


def mounts(study: str | None, known: Mapping[str, Mapping[str, DataSet]]) -> list[Body]:
    """Where these are mounted."""
    return [
        {"name": _name(index), "mountPath": f"{ROOT}/{study}/{name}"} | ({"readOnly": True} if one.mode == "ro" else {})
        for index, name, one in _of(study, known)
    ]


def told(study: str | None, known: Mapping[str, Mapping[str, DataSet]]) -> str:
    """What is mounted where, for people; empty without a study."""
    mounted = [f"{name} ({_origin(one)}) at {ROOT}/{study}/{name} ({one.mode})" for _, name, one in _of(study, known)]
    return f"study {study}: {', '.join(mounted) or 'no data sets'}" if study in known else ""


def _origin(data_set: DataSet) -> str:
    kind, where = next(iter(_source(data_set).items()))
    words = {"persistentVolumeClaim": "claimName", "hostPath": "path", "csi": "driver", "image": "reference"}
    return f"{kind} {where.get(words[kind], '')}".rstrip()


def _of(study: str | None, known: Mapping[str, Mapping[str, DataSet]]) -> Iterator[tuple[int, str, DataSet]]:
    found = known.get(study, {}) if study is not None else {}
    for index, name in enumerate(sorted(found)):
        yield index, name, found[name]


def _name(index: int) -> str:
    # Names of data sets may have characters that names of volumes may not.
    return f"{_VOLUME}-{index}"


def _source(data_set: DataSet) -> Body:
    """The volume; read-only by itself where Kubernetes has a word for that."""
    read_only = {"readOnly": True} if data_set.mode == "ro" else {}
    if data_set.persistent_volume_claim is not None:
        claim = data_set.persistent_volume_claim.claim_name
        return {"persistentVolumeClaim": {"claimName": claim} | read_only}
    if data_set.csi is not None:
        return {"csi": data_set.csi.model_dump(by_alias=True, exclude_none=True) | read_only}
    if data_set.image is not None:
        return {"image": data_set.image.model_dump(by_alias=True, exclude_none=True)}
    assert data_set.host_path is not None
    return {"hostPath": {"path": data_set.host_path.path, "type": "Directory"}}
