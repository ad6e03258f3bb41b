"""What the pods of a slice need of their nodes: labels, tolerations, devices, and the variables that tell of them."""

from typing import Any, Final

from slipway.api import names
from slipway.api.gpus import ANY_SITE, GpuSite
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

    is_tpu: bool = False
    """Whether the nodes have TPUs: one pod takes all chips of its node, and labels tell their shape."""
    process_addresses: bool = False
    """Whether a program needs the addresses of the processes of its slice."""
    head_resource: str | None = None
    """The Ray resource of host 0 by which Ray programs find a slice."""
    taints: tuple[str, ...] = ()
    """Keys of the taints that such nodes have, spot or not."""

    def __init__(self, resolved: Resolved, asked: Accelerator | None = None) -> None:
        """`resolved` has the shape of a slice; `asked` is `spec.accelerator`."""
        self.hosts = resolved.hosts
        self._asked = asked or _NO_ACCELERATOR

    @property
    def whole_nodes(self) -> bool:
        """Whether a pod takes all devices of its node, so that no two pods share one."""
        return self.is_tpu

    @property
    def own_pool(self) -> bool:
        """Whether each slice takes a whole node pool, as multi-host TPU slices do."""
        return self.is_tpu and self.hosts > 1

    def labels(self) -> dict[str, str]:
        """The node labels that follow from the accelerator; no other selector may contradict them."""
        spot = {names.NODE_SPOT: "true"} if self._asked.spot else {}
        reserved = {names.NODE_RESERVATION: self._asked.reservation} if self._asked.reservation is not None else {}
        return spot | reserved

    def node_selector(self) -> dict[str, str]:
        """Node labels of such nodes, and those of `accelerator.nodeSelector`."""
        return self.labels() | self._asked.node_selector

    def tolerations(self) -> list[dict[str, Any]]:
        """Tolerations of the taints that such nodes have, and spot nodes if requested."""
        keys = (*self.taints, *([names.NODE_SPOT] if self._asked.spot else []))
        return [{"key": key, "operator": "Exists"} for key in keys]

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


_NO_ACCELERATOR: Final = Accelerator()


class Tpu(Hardware):
    """TPU VMs of one shape."""

    is_tpu = True
    taints = (names.TPU_RESOURCE,)

    def __init__(self, accelerator: Accelerator, resolved: Resolved) -> None:
        """`resolved` has the type and the shape that the accelerator stands for."""
        super().__init__(resolved, accelerator)
        self._type, self._label = resolved.type or "", resolved.label or ""
        self._topology, self._chips = resolved.topology or "", resolved.chips_per_host
        self.process_addresses = self._type.startswith("tpu")
        self.head_resource = names.head_resource(self._type)

    def labels(self) -> dict[str, str]:
        """Those that GKE gives to the nodes of such a slice."""
        shape = {
            names.NODE_ACCELERATOR: self._label,
            names.NODE_TOPOLOGY: self._topology,
            names.NODE_CHIPS: str(self._chips),
        }
        return shape | super().labels()

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


class Gpu(Hardware):
    """Nodes with GPUs, of which a pod may take some and leave others to other pods.

    No variables follow from it: the device plugin tells the container which GPUs it has.
    """

    def __init__(self, accelerator: Accelerator, resolved: Resolved, site: GpuSite = ANY_SITE) -> None:
        """`resolved` has the resource and the number of GPUs that the accelerator stands for at the site."""
        super().__init__(resolved, accelerator)
        self._resource, self._count = resolved.gpu_resource or "", resolved.gpus_per_host or 0
        self._model = accelerator.gpu.model if accelerator.gpu is not None else None
        self._site = site
        # As GKE taints its GPU nodes, and as Kubernetes' ExtendedResourceToleration expects.
        self.taints = (self._resource,)

    @property
    def whole_nodes(self) -> bool:
        """Whether it takes as many GPUs as the site says that a node has."""
        return self._count == self._site.per_node

    def labels(self) -> dict[str, str]:
        """The model."""
        model = {self._site.model_label: self._model} if self._model is not None else {}
        return model | super().labels()

    def resources(self) -> dict[str, str]:
        """The GPUs of a host."""
        return {self._resource: str(self._count)}

    def ray_resources(self) -> dict[str, int]:
        """The GPUs, by the name that Ray gives those of every vendor."""
        return {"GPU": self._count}
