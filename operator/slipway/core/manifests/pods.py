"""The manifests of the pods of a job."""

from collections.abc import Mapping
from typing import Any, Final

from propcache.api import cached_property

from slipway.api import names
from slipway.api.places import HEAD, Place, pod_name, worker
from slipway.api.slicejob import SliceJobSpec
from slipway.core.manifests import environment, placement
from slipway.core.manifests.accepted import Effective
from slipway.core.manifests.containers import program, template_spec
from slipway.core.manifests.directories import Directories, directories
from slipway.core.manifests.hardware import Hardware
from slipway.core.manifests.images import mirrored
from slipway.core.manifests.merge import merged
from slipway.core.manifests.metadata import metadata
from slipway.core.manifests.peers import Peers
from slipway.core.manifests.runtime import Runtime
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node
from slipway.core.model.parts import Body

_SHM_VOLUME = "slipway-shm"
_LAST_WORDS: Final = "FallbackToLogsOnError"
"""The terminationMessagePolicy with which the status of a pod has the end of the log of what failed."""
_WORKERS_ONLY = frozenset(
    {
        "affinity",
        "containers",
        "initContainers",
        "nodeSelector",
        "resourceClaims",
        "resources",
        "tolerations",
        "topologySpreadConstraints",
    }
)
"""Fields of podTemplate.spec that apply to the workers and not to a Ray head."""


class PodFactory:
    """Makes the pods of a job: its workers, and its Ray head if it has one.

    What the hosts of a slice share is built once when they are made one after another: a pod costs microseconds.
    """

    def __init__(
        self, job: Job, effective: Effective, settings: Settings, pools: Mapping[int, str] | None = None
    ) -> None:
        """`pools` are the node pools of pinned slices; a slice that is missing there, or has "", gets affinity."""
        self._job = job
        self._spec = effective.spec
        self._settings = settings
        self._resolved, self._hardware, self._runtime = effective.resolved, effective.hardware, effective.runtime
        self._pools = {index: pool for index, pool in (pools or {}).items() if pool}
        self._slice: tuple[tuple[int, int], Peers, tuple[Body, Body]] | None = None
        """Attempt and slice of the template that was used last, the workers of the attempt, and the template."""
        self._offered: tuple[object, object] | None = None
        """Taints and sizes of the node that was looked at last, of which `_taken` is what was found."""
        self._taken = False

    @property
    def pool_hosts(self) -> int:
        """Number of hosts of the node pool that a slice may be pinned to; 0 when slices are not pinned."""
        return self._resolved.hosts if self._hardware.own_pool and not self._decided_elsewhere else 0

    @property
    def least_nodes(self) -> int:
        """Nodes that the job needs at least; 0 for pods that may share nodes."""
        slices = min(self._spec.acceptable_slices, default=self._spec.slices)
        return slices * self._resolved.hosts if self._hardware.whole_nodes or self.alone else 0

    @property
    def alone(self) -> bool:
        """Whether no two workers may be on one node."""
        return self._on_the_nodes_network or bool(self._spec.one_host_per_node)

    @property
    def _on_the_nodes_network(self) -> bool:
        return bool(template_spec(self._spec).get("hostNetwork", self._spec.host_network))

    @property
    def _decided_elsewhere(self) -> bool:
        """Whether the spec gives the placement to a queue, to a priority or to affinity of its own.

        A queue may hold the pods until the node pool is taken. Pods with a priority may preempt others in any pool.
        """
        says = template_spec(self._spec).keys() & {"affinity", "schedulingGates", "priorityClassName", "priority"}
        return bool(says) or self._spec.priority_class_name is not None

    def suits(self, node: Node) -> bool:
        """Whether workers of slices that are not pinned may run on a node when it is empty."""
        return placement.is_open(node, self.needs) and self._takes(node)

    def _takes(self, node: Node) -> bool:
        """One node of a node pool after the other: what was found of one holds for the next that offers the same."""
        offers = (node.spec.taints, node.status.allocatable)
        if self._offered != offers:
            self._offered, self._taken = offers, placement.takes(node, self.needs)
        return self._taken

    @cached_property
    def needs(self) -> placement.Needs:
        """What workers of slices that are not pinned ask of their nodes."""
        return placement.Needs.of(self._slice_template(0, 0)[1])

    def pod(self, attempt: int, place: Place) -> Body:
        """The body of one pod, ready to be posted."""
        if place.is_head:
            return self._head(attempt)
        key = (attempt, place.slice)
        if self._slice is None or self._slice[0] != key:
            self._slice = key, self.peers(attempt), self._slice_template(*key)
        _, peers, (metadata, spec) = self._slice
        containers = list(spec["containers"])
        at = _index_of_worker(containers)
        shared = containers[at]["env"]
        containers[at] = {**containers[at], "env": environment.host_variables(peers, place) + shared}
        command = self._runtime.worker_command(peers, place, self._hardware)
        if command is not None:
            containers[at]["command"] = command
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **metadata,
                "name": pod_name(self._job.name, attempt, place),
                "labels": {**metadata["labels"], names.LABEL_HOST: str(place.host)},
            },
            "spec": {
                **spec,
                "hostname": names.hostname(attempt, place.slice, place.host),
                "containers": containers,
            },
        }

    def _slice_template(self, attempt: int, slice_index: int) -> tuple[Body, Body]:
        labels = {
            names.LABEL_ATTEMPT: str(attempt),
            names.LABEL_SLICE: str(slice_index),
            names.LABEL_ROLE: names.ROLE_WORKER,
            names.LABEL_SLICE_KEY: placement.slice_key(self._job, slice_index),
        }
        if slice_index in self._pools:
            labels[names.LABEL_NODE_POOL] = self._pools[slice_index]
        peers = self.peers(attempt)
        labels |= peers.service_label(service := peers.service(slice_index))
        spec = merged(self._pod_spec(attempt, slice_index), template_spec(self._spec))
        spec = _with_last_words(_pulled(spec, self._job.site.mirrors))
        spec["containers"] = self._with_variables(spec["containers"], peers, slice_index)
        return self._metadata(labels), spec | {"restartPolicy": "Never", "subdomain": service}

    def _head(self, attempt: int) -> Body:
        labels = {names.LABEL_ATTEMPT: str(attempt), names.LABEL_ROLE: names.ROLE_HEAD}
        common = self._common_spec(attempt) | {"tolerations": placement.common_tolerations(self._spec)}
        template = {key: value for key, value in template_spec(self._spec).items() if key not in _WORKERS_ONLY}
        common, container = merged(_without_empty(common), template), self._common_container(attempt)
        spec = self._runtime.head(self.peers(attempt), self._hardware, common, container)
        spec = _with_last_words(_pulled(spec, self._job.site.mirrors))
        head = self._metadata(labels) | {"name": pod_name(self._job.name, attempt, HEAD)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": _without_empty(spec)}

    def peers(self, attempt: int) -> Peers:
        """The workers of an attempt."""
        return Peers(self._job, attempt, self._job.granted, self._resolved)

    def _metadata(self, labels: dict[str, str]) -> Body:
        body = metadata(self._job, "", labels)
        body["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        template, said = self._spec.pod_template, dict[str, str]()
        if template is not None and template.metadata is not None:
            said = template.metadata.labels
            body["annotations"] = body["annotations"] | template.metadata.annotations
        # What dashboards group pods by, unless the job says something else.
        application = {names.LABEL_APP_NAME: names.APP_NAME, names.LABEL_APP_INSTANCE: self._job.name}
        body["labels"] = application | said | body["labels"]
        return body

    def _pod_spec(self, attempt: int, slice_index: int) -> Body:
        spec = self._spec
        selector, affinity = self._place(slice_index)
        body = self._common_spec(attempt) | {
            "nodeSelector": selector,
            "tolerations": self._hardware.tolerations() + placement.common_tolerations(spec),
            "affinity": affinity,
            "topologySpreadConstraints": placement.spread(
                self._job, self._spec, self._hardware, pinned=slice_index in self._pools
            ),
            "containers": [self._container(attempt)],
        }
        if spec.host_network:
            body |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        return _without_empty(body)

    def _place(self, slice_index: int) -> tuple[dict[str, str], Body | None]:
        """The node selector and the affinity of a slice's pods."""
        selector = self._hardware.node_selector() | self._spec.node_selector
        if pool := self._pools.get(slice_index):
            return selector | {self._settings.topology_key: pool}, None
        if self._on_the_nodes_network and not self._hardware.is_tpu:
            # They would take each other's ports.
            return selector, placement.apart(self._job, {})
        if self._spec.one_host_per_node:
            # A Ray head may be beside a worker.
            return selector, placement.apart(self._job, {names.LABEL_ROLE: names.ROLE_WORKER})
        promised = self._pools.values()
        return selector, placement.affinity(self._job, slice_index, self._hardware, self._settings, promised)

    def _directories(self, attempt: int) -> Directories:
        return directories(self._job, self._spec, template_spec(self._spec), attempt, self._settings)

    def _common_spec(self, attempt: int) -> Body:
        """What is the same in every pod of an attempt."""
        spec, kept = self._spec, self._directories(attempt)
        return {
            "enableServiceLinks": False,
            "automountServiceAccountToken": spec.service_account_name is not None,
            "terminationGracePeriodSeconds": self._resolved.grace_period_seconds,
            "serviceAccountName": spec.service_account_name,
            "priorityClassName": spec.priority_class_name,
            "securityContext": _dumped(spec.pod_security_context),
            "imagePullSecrets": [secret.model_dump() for secret in spec.image_pull_secrets],
            "volumes": [*_volumes(spec, self._runtime), *self._runtime.volumes(self._job), *kept.volumes],
            "initContainers": list(kept.init_containers),
        }

    def _container(self, attempt: int) -> Body:
        spec = self._spec
        body: Body = self._common_container(attempt) | {
            "name": names.WORKER_CONTAINER,
            **program(spec, self._job.site),
            "resources": _resources(spec, self._hardware),
            **self._runtime.worker_fields(),
        }
        return _without_empty(body)

    def _with_variables(self, containers: list[Body], peers: Peers, slice_index: int) -> list[Body]:
        """The containers of a slice, and in the worker the variables that its hosts share."""
        at, hardware = _index_of_worker(containers), self._hardware
        given = {one["name"]: one for one in containers[at].get("env", ())}
        beside = (port for one in containers[:at] + containers[at + 1 :] for port in one.get("ports", ()))
        taken = {self._resolved.coordinator_port, *(port["containerPort"] for port in beside)}
        megascale = hardware.is_tpu and peers.slices > 1
        own = [
            *environment.slice_variables(peers, peers.rank(worker(slice_index, 0)).slice, hardware),
            *environment.group_variables(peers, given, taken, megascale=megascale),
            *self._runtime.worker_variables(peers, slice_index, hardware),
        ]
        # The job's own come last, because $(NAME) can only refer to variables before it.
        env = [one for one in own if one["name"] not in given] + list(given.values())
        return [*containers[:at], {**containers[at], "env": env}, *containers[at + 1 :]]

    def _common_container(self, attempt: int) -> Body:
        """What is the same in the containers that run the user's program."""
        spec, kept = self._spec, self._directories(attempt)
        own = {one.name for one in spec.env}
        return _without_empty(
            {
                "image": spec.image,
                "imagePullPolicy": spec.image_pull_policy,
                "workingDir": kept.working_dir or spec.working_dir,
                "env": [
                    *(variable for variable in kept.variables if variable["name"] not in own),
                    *(one.model_dump(by_alias=True, exclude_none=True) for one in spec.env),
                ],
                "envFrom": [one.model_dump(by_alias=True, exclude_none=True) for one in spec.env_from],
                "volumeMounts": [*_mounts(spec, self._runtime), *self._runtime.mounts(), *kept.mounts],
                "securityContext": _dumped(spec.security_context),
                "terminationMessagePolicy": _LAST_WORDS,
            }
        )


def _index_of_worker(containers: list[Body]) -> int:
    return next(index for index, one in enumerate(containers) if one["name"] == names.WORKER_CONTAINER)


def _pulled(spec: Body, mirrors: Mapping[str, str]) -> Body:
    """A PodSpec whose images are named as the mirrors of the site have them."""
    if not mirrors:
        return spec
    kinds = [kind for kind in ("containers", "initContainers", "volumes") if kind in spec]
    return spec | {kind: [_from_mirror(one, mirrors) for one in spec[kind]] for kind in kinds}


def _with_last_words(spec: Body) -> Body:
    """A PodSpec whose init containers tell why they failed, as the worker does, unless they say otherwise."""
    own = {"terminationMessagePolicy": _LAST_WORDS}
    inits = [own | container for container in spec.get("initContainers", ())]
    return spec | {"initContainers": inits} if inits else spec


def _from_mirror(part: Body, mirrors: Mapping[str, str]) -> Body:
    """A container or a volume; what has no image stays as it is."""
    image = part.get("image")
    if isinstance(image, str):
        return part | {"image": mirrored(image, mirrors)}
    if isinstance(image, dict) and isinstance(reference := image.get("reference"), str) and reference:
        return part | {"image": {**image, "reference": mirrored(reference, mirrors)}}
    return part


def _without_empty(body: Body) -> Body:
    return {key: value for key, value in body.items() if value not in (None, [], {})}


def _dumped(part: Any) -> Body | None:
    return None if part is None else part.model_dump(by_alias=True, exclude_none=True)


def _resources(spec: SliceJobSpec, hardware: Hardware) -> Body:
    body: Body = spec.resources.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    devices = hardware.resources()
    if devices:
        body = {"limits": body.get("limits", {}) | devices, "requests": body.get("requests", {}) | devices}
    return body


def _volumes(spec: SliceJobSpec, runtime: Runtime) -> list[Body]:
    volumes = [volume.model_dump(by_alias=True, exclude_none=True) for volume in spec.volumes]
    if spec.shm_size is not None:
        volumes.append({"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": spec.shm_size}})
    elif runtime.needs_shm:
        volumes.append({"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory"}})
    return volumes


def _mounts(spec: SliceJobSpec, runtime: Runtime) -> list[Body]:
    mounts = [mount.model_dump(by_alias=True, exclude_none=True) for mount in spec.volume_mounts]
    if spec.shm_size is not None or runtime.needs_shm:
        mounts.append({"name": _SHM_VOLUME, "mountPath": "/dev/shm"})
    return mounts
