"""What the pods of a slice need of their nodes: labels, tolerations, devices, and the variables that tell of them."""

from typing import Any, Final

from slipway.api import names
from slipway.api.slicejob import Accelerator
from slipway.api.status import Resolved

UNKNOWN: Final = "EMPTY"
"""What TPU programs expect where a name cannot be known before scheduling."""

Variable = dict[str, Any]
"""An environment variable of a container, as in a PodSpec."""


def literal(name: str, value: object) -> Variable:
    """A variable with a literal value; `$(` is kept as it is written."""
    return {"name": name, "value": str(value).replace("$(", "$$(")}


class Hardware:
    """Nodes of which CPU and memory are enough; each kind of accelerator is a subclass."""

    accelerated: bool = False
    """Whether the nodes have devices, all of which one pod takes."""
    process_addresses: bool = False
    """Whether a program needs the addresses of the processes of its slice."""
    head_resource: str | None = None
    """The Ray resource of host 0 by which Ray programs find a slice."""

    def __init__(self, resolved: Resolved) -> None:
        """`resolved` has the shape of a slice."""
        self.hosts = resolved.hosts

    @property
    def own_pool(self) -> bool:
        """Whether each slice takes a whole node pool, as multi-host TPU slices do."""
        return self.accelerated and self.hosts > 1

    def node_selector(self) -> dict[str, str]:
        """Node labels of such nodes."""
        return {}

    def tolerations(self) -> list[dict[str, Any]]:
        """Tolerations of the taints that such nodes have."""
        return []

    def resources(self) -> dict[str, str]:
        """Extended resources of a pod."""
        return {}

    def ray_resources(self) -> dict[str, int]:
        """What a Ray worker offers of its devices."""
        return {}

    def job_variables(self, slices: int) -> list[Variable]:
        """Variables that are the same in all pods of a job."""
        return []

    def slice_variables(self, slice_name: str, slices: int) -> list[Variable]:
        """Variables that all workers of a slice share."""
        return []

    def ray_variables(self) -> list[Variable]:
        """Variables of which Ray makes the labels of its node."""
        return []


class Tpu(Hardware):
    """TPU VMs of one shape."""

    accelerated = True

    def __init__(self, accelerator: Accelerator, resolved: Resolved) -> None:
        """`resolved` has the type and the shape that the accelerator stands for."""
        super().__init__(resolved)
        self._asked = accelerator
        self._type, self._label = resolved.type or "", resolved.label or ""
        self._topology, self._chips = resolved.topology or "", resolved.chips_per_host
        self.process_addresses = self._type.startswith("tpu")
        self.head_resource = names.head_resource(self._type)

    def node_selector(self) -> dict[str, str]:
        """The labels that GKE gives to the nodes of such a slice, and those of `accelerator.nodeSelector`."""
        shape = {
            names.NODE_ACCELERATOR: self._label,
            names.NODE_TOPOLOGY: self._topology,
            names.NODE_CHIPS: str(self._chips),
        }
        spot = {names.NODE_SPOT: "true"} if self._asked.spot else {}
        return shape | spot | self._asked.node_selector

    def tolerations(self) -> list[dict[str, Any]]:
        """TPU nodes, and spot nodes if requested."""
        keys = (names.TPU_RESOURCE, *([names.NODE_SPOT] if self._asked.spot else []))
        return [{"key": key, "operator": "Exists"} for key in keys]

    def resources(self) -> dict[str, str]:
        """All chips of a node."""
        return {names.TPU_RESOURCE: str(self._chips)}

    def ray_resources(self) -> dict[str, int]:
        """The chips, by the name that Ray gives them."""
        return {"TPU": self._chips}

    def job_variables(self, slices: int) -> list[Variable]:
        """The type, and how many slices there are."""
        return [literal("TPU_VERSION", self._type), literal("TPU_POD_COUNT", slices)]

    def slice_variables(self, slice_name: str, slices: int) -> list[Variable]:
        """What GKE's plug-ins and libtpu read."""
        return [
            literal("TPU_NAME", slice_name),
            literal("TPU_ZONE", UNKNOWN),
            *self.job_variables(slices),
            literal("TPU_NUM_DEVICES", self._chips),
        ]

    def ray_variables(self) -> list[Variable]:
        """Ray labels its node by the TPU's type and topology."""
        return [literal("TPU_ACCELERATOR_TYPE", self._type), literal("TPU_TOPOLOGY", self._topology)]
