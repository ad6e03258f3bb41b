"""What a call runs on."""

import json
import operator
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any, Final

from pydantic import ValidationError

from slipway.api.accelerators import Shape, resolve
from slipway.api.reading import describe
from slipway.api.slicejob import Accelerator, SliceJobSpec
from slipway.client.manifests.reading import nearest

GPU_RESOURCE: Final = "nvidia.com/gpu"
_GPU_LABEL: Final = "cloud.google.com/gke-accelerator"


@dataclass(frozen=True)
class TPU:
    """TPU slices; `num_slices` and `pod_count` are other names for `slices`, and `tpu_version` for `type`."""

    type: str = None  # type: ignore[assignment]
    """Type of one slice in any common spelling: v5litepod-16, v5e-16, v6e-4x8."""
    slices: int = None  # type: ignore[assignment]
    """Number of slices, 1 when not given."""
    spot: bool = False
    """Spot capacity."""
    num_slices: InitVar[int | None] = None
    pod_count: InitVar[int | None] = None
    tpu_version: InitVar[str | None] = None

    def __post_init__(self, num_slices: int | None, pod_count: int | None, tpu_version: str | None) -> None:
        slices = _one(slices=self.slices, num_slices=num_slices, pod_count=pod_count)
        object.__setattr__(self, "slices", 1 if slices is None else slices)
        object.__setattr__(self, "type", _one(type=self.type, tpu_version=tpu_version))
        _whole(slices=self.slices)
        if not self.type:
            raise ValueError("type is missing: give one such as v5litepod-16")

    @property
    def kind(self) -> str:
        """TPU."""
        return "TPU"

    def fields(self) -> Mapping[str, Any]:
        """Fields of a SliceJob's spec."""
        return {"accelerator": {"type": self.type, "spot": self.spot}, "slices": self.slices}


@dataclass(frozen=True)
class CPU:
    """CPU nodes."""

    hosts: int = 1
    """Hosts of one slice."""
    slices: int = 1
    """Number of slices."""

    def __post_init__(self) -> None:
        _whole(hosts=self.hosts, slices=self.slices)

    @property
    def kind(self) -> str:
        """CPU."""
        return "CPU"

    def fields(self) -> Mapping[str, Any]:
        """Fields of a SliceJob's spec."""
        return {"hosts": self.hosts, "slices": self.slices}


@dataclass(frozen=True)
class GPU:
    """Nodes with GPUs."""

    type: str = ""
    """Model, as GKE names it: nvidia-tesla-v100, nvidia-l4; any when empty."""
    count: int = 1
    """GPUs of each host."""
    hosts: int = 1
    """Hosts of one slice."""
    slices: int = 1
    """Number of slices."""
    vendor: str = "nvidia"
    """nvidia, amd or intel, or auto for the only vendor of the site."""

    def __post_init__(self) -> None:
        if self.count == 0:
            raise ValueError("count must be at least 1, not 0: use CPU() for none")
        _whole(count=self.count, hosts=self.hosts, slices=self.slices)

    @property
    def kind(self) -> str:
        """GPU."""
        return "GPU"

    def fields(self) -> Mapping[str, Any]:
        """Fields of a SliceJob's spec."""
        model = {"model": self.type} if self.type else {}
        gpu = {"vendor": self.vendor, "count": self.count, **model}
        return {"hosts": self.hosts, "slices": self.slices, "accelerator": {"gpu": gpu}}


AcceleratorConfig = TPU | CPU | GPU


def _one(**given: Any) -> Any:
    """The one value that is given, by whichever of its names."""
    named = {name: value for name, value in given.items() if value is not None}
    if len(set(named.values())) > 1:
        told = ", ".join(f"{name}={value}" for name, value in named.items())
        raise ValueError(f"{told} contradict each other: they are names of one value")
    return next(iter(named.values()), None)


def _whole(**counts: object) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")


def checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a spec as JSON has them, if they keep the rules that are known without a cluster.

    Raises:
        ValueError: when a field does not fit the schema, or no TPU slice has such a type or topology.
    """
    try:
        # As they are written they are sent: the API server knows no other spelling.
        asked = SliceJobSpec.model_validate(fields, by_alias=True, by_name=False).accelerator
    except ValidationError as error:
        # Its own words show the values of variables, which may be secrets.
        raise ValueError(describe(error, "spec", fields) + next(nearest(error), "")) from None
    if asked is not None and asked.gpu is None:
        shape_of(asked)
    try:
        # NumPy's integers fit the schema too.
        written: dict[str, Any] = json.loads(json.dumps(fields, default=operator.index))
    except TypeError as error:
        raise ValueError(f"spec has a value that JSON cannot hold: {error}") from None
    return written


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """In what two specs differ in image and shape, each field with both values."""
    mine, other = _image_and_shape(here), _image_and_shape(there)
    names = [name for name in mine | other if mine.get(name) != other.get(name)]
    return [f"{name} {other.get(name)!r} and not {mine.get(name)!r}" for name in names]


def _image_and_shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {"image": spec.get("image"), "slices": spec.get("slices", 1), "hosts": spec.get("hosts", 1)}
    found["acceptableSlices"] = sorted(spec.get("acceptableSlices", ()))
    found["gpus"] = str(spec.get("resources", {}).get("limits", {}).get(GPU_RESOURCE, 0))
    found["gpu type"] = spec.get("nodeSelector", {}).get(_GPU_LABEL)
    if (given := spec.get("accelerator")) is not None:
        found |= {"spot": bool(given.get("spot")), "gpu": given.get("gpu")}
        if given.get("gpu") is None:
            shape = shape_of(Accelerator.model_validate(given))
            found |= {"type": shape.type, "topology": shape.topology, "chipsPerHost": shape.chips_per_host}
    return found


def shape_of(asked: Accelerator) -> Shape:
    """The one shape of a slice that it names, however it is spelled."""
    return resolve(
        asked.type, generation=asked.generation, topology=asked.topology, chips_per_host=asked.chips_per_host,
        label=asked.label,
    )  # fmt: skip


def merged(fields: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec with what was given: maps are merged and lists of objects joined, the rest is replaced.

    So a request does not cost the limit beside it, nor a variable the others.
    """
    both = {name: _joined(value, given[name]) for name, value in fields.items() if name in given}
    return {**fields, **given, **both}


def _joined(mine: Any, given: Any) -> Any:
    if isinstance(mine, Mapping) and isinstance(given, Mapping):
        return merged(mine, given)
    if isinstance(mine, list) and isinstance(given, list | tuple):
        both = [*mine, *given]
        return both if all(isinstance(one, Mapping) for one in both) else list(given)
    return given
