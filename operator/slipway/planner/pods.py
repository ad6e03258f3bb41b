"""What the objects of a job look like: worker pods, the headless Service, long host lists."""

from typing import Any

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Resolved
from slipway.planner import environment, placement
from slipway.planner.acceptance import resolve, template_spec
from slipway.planner.actions import Body
from slipway.planner.merge import merged
from slipway.planner.snapshot import Job, Settings, Slot

_SHM_VOLUME = "slipway-shm"


def _metadata(job: Job, name: str, labels: dict[str, str]) -> Body:
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own = {
        names.LABEL_JOB_NAME: job.name,
        names.LABEL_JOB_UID: job.uid,
        names.LABEL_MANAGED_BY: names.MANAGER,
    }
    return {"name": name, "namespace": job.namespace, "labels": own | labels, "ownerReferences": [owner]}


def service(job: Job) -> Body:
    """The headless Service that gives every worker of every attempt its name; never edited."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.name, {}),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB_UID: job.uid, names.LABEL_ROLE: names.ROLE_WORKER},
        },
    }


def config_maps(job: Job, attempt: int, slices: int, resolved: Resolved) -> tuple[Body, ...]:
    """One immutable host list for each slice, when the lists are long."""
    if resolved.hosts <= environment.LONGEST_INLINE_LIST:
        return ()
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(
                job,
                environment.config_map_name(job, attempt, index),
                {names.LABEL_ATTEMPT: str(attempt), names.LABEL_SLICE: str(index)},
            ),
            "immutable": True,
            "data": environment.config_map_data(job, attempt, index, resolved.hosts),
        }
        for index in range(slices)
    )


class PodFactory:
    """Makes the worker pods of a job.

    What all hosts of a slice share is built once, so that a pod costs microseconds.
    """

    def __init__(self, job: Job, settings: Settings) -> None:
        if job.spec is None:
            raise ValueError(f"SliceJob {job.namespace}/{job.name} has no readable spec: {job.problem}")
        self._job = job
        self._spec: SliceJobSpec = job.spec
        self._settings = settings
        self._resolved = resolve(job.spec, settings)
        self._slices: dict[tuple[int, int], tuple[Body, Body]] = {}

    def pod(self, attempt: int, slot: Slot) -> Body:
        """The body of one worker pod, ready to be posted."""
        slice_index, host = slot
        key = (attempt, slice_index)
        if key not in self._slices:
            self._slices[key] = self._slice_template(attempt, slice_index)
        metadata, spec = self._slices[key]
        containers = list(spec["containers"])
        place = next(i for i, one in enumerate(containers) if one["name"] == names.WORKER_CONTAINER)
        given = containers[place]["env"]
        # User variables come last in the list: they may refer to Slipway's by $(NAME).
        containers[place] = {
            **containers[place],
            "env": environment.host_variables(slice_index, host, self._resolved) + given,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **metadata,
                "name": names.pod_name(self._job.name, attempt, slice_index, host),
                "labels": {**metadata["labels"], names.LABEL_HOST: str(host)},
            },
            "spec": {
                **spec,
                "hostname": names.hostname(attempt, slice_index, host),
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
        metadata = _metadata(self._job, "", labels)
        metadata["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        template = self._spec.pod_template
        if template is not None and template.metadata is not None:
            metadata["labels"] = template.metadata.labels | metadata["labels"]
            metadata["annotations"] = metadata["annotations"] | template.metadata.annotations
        spec = merged(self._pod_spec(attempt, slice_index), template_spec(self._spec))
        return metadata, spec | {"restartPolicy": "Never", "subdomain": self._job.name}

    def _pod_spec(self, attempt: int, slice_index: int) -> Body:
        spec, resolved = self._spec, self._resolved
        body: Body = {
            "enableServiceLinks": False,
            "automountServiceAccountToken": spec.service_account_name is not None,
            "terminationGracePeriodSeconds": resolved.grace_period_seconds,
            "nodeSelector": placement.node_selector(spec, resolved),
            "tolerations": placement.tolerations(spec),
            "affinity": placement.affinity(self._job, slice_index, resolved, self._settings),
            "topologySpreadConstraints": placement.spread(self._job, resolved),
            "serviceAccountName": spec.service_account_name,
            "priorityClassName": spec.priority_class_name,
            "imagePullSecrets": [one.model_dump() for one in spec.image_pull_secrets],
            "volumes": _volumes(spec),
            "containers": [self._container(attempt, slice_index)],
        }
        if spec.host_network:
            body |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        return {key: value for key, value in body.items() if value not in (None, [], {})}

    def _container(self, attempt: int, slice_index: int) -> Body:
        spec, resolved = self._spec, self._resolved
        own = environment.slice_variables(self._job, attempt, slice_index, self._job.granted, resolved)
        given = [one.model_dump(by_alias=True, exclude_none=True) for one in spec.env]
        overridden = {one["name"] for one in given}
        body: Body = {
            "name": names.WORKER_CONTAINER,
            "image": spec.image,
            "imagePullPolicy": spec.image_pull_policy,
            "command": list(spec.command),
            "args": list(spec.args),
            "workingDir": spec.working_dir,
            "env": [one for one in own if one["name"] not in overridden] + given,
            "envFrom": [one.model_dump(by_alias=True, exclude_none=True) for one in spec.env_from],
            "resources": _resources(spec, resolved),
            "volumeMounts": _mounts(spec),
            "securityContext": _dumped(spec.security_context),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        return {key: value for key, value in body.items() if value not in (None, [], {})}


def _dumped(part: Any) -> Body | None:
    return None if part is None else part.model_dump(by_alias=True, exclude_none=True)


def _resources(spec: SliceJobSpec, resolved: Resolved) -> Body:
    body: Body = spec.resources.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    if resolved.chips_per_host:
        chips = {names.TPU_RESOURCE: str(resolved.chips_per_host)}
        body = {
            "limits": body.get("limits", {}) | chips,
            "requests": body.get("requests", {}) | chips,
        }
    return body


def _volumes(spec: SliceJobSpec) -> list[Body]:
    volumes = [one.model_dump(by_alias=True, exclude_none=True) for one in spec.volumes]
    if spec.shm_size is not None:
        volumes.append({"name": _SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": spec.shm_size}})
    return volumes


def _mounts(spec: SliceJobSpec) -> list[Body]:
    mounts = [one.model_dump(by_alias=True, exclude_none=True) for one in spec.volume_mounts]
    if spec.shm_size is not None:
        mounts.append({"name": _SHM_VOLUME, "mountPath": "/dev/shm"})
    return mounts
