"""The pods of a Ray cluster without what a kubelet does for them on a cluster, and the local engine here.

The Secret with the token becomes an empty volume, into which the token is written before the container starts. Of the
probes the planner needs to know only whether all workers have joined, which the engine is asked for. What a job itself
asks for stays in the pod, to be converted or refused as in any other.
"""

from typing import Any, Final

from slipway.api import names
from slipway.core.manifests.ray.cluster import TOKEN_FOLDER, TOKEN_VOLUME, worker_probes
from slipway.core.model.parts import Body
from slipway.local.conversion.containers_of_pod import is_head
from slipway.local.conversion.pod_sandbox import VOLUMES

TOKEN_PLACES: Final = (TOKEN_FOLDER, f"{VOLUMES}/{TOKEN_VOLUME}")
"""Where a container, or the sandbox of a host, has the volume of the token."""
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")


def without_kubelet(pod: Body) -> Body:
    """A pod of a Ray cluster as containers can have it; any other is returned as it is."""
    labels, spec = pod["metadata"].get("labels", {}), pod["spec"]
    own = names.ray_token_secret(labels.get(names.LABEL_JOB_NAME, ""), labels.get(names.LABEL_JOB_UID, ""))
    volumes = spec.get("volumes")
    if not isinstance(volumes, list) or own not in map(_secret_of, volumes):
        return pod
    changed = {"volumes": [{"name": TOKEN_VOLUME} if _secret_of(volume) == own else volume for volume in volumes]}
    head = is_head(labels)
    for kind in ("containers", "initContainers") if head else ("containers",):
        changed[kind] = [_adapted(one, head=head) for one in spec[kind]]
    return pod | {"spec": spec | changed}


def _secret_of(volume: Any) -> Any:
    """Name of the Secret of a volume that has the name of the token's."""
    source = volume.get("secret") if isinstance(volume, dict) and volume.get("name") == TOKEN_VOLUME else None
    return source.get("secretName") if isinstance(source, dict) else None


def _adapted(container: Body, *, head: bool) -> Body:
    """A container without the probes that are Slipway's, as all of a head are; what the job has changed is refused."""
    own = worker_probes()
    dropped = [kind for kind in _PROBES if head or container.get(kind) == own[kind]]
    kept = {key: value for key, value in container.items() if key not in dropped}
    if isinstance(mounts := container.get("volumeMounts"), list):
        kept["volumeMounts"] = [_writable(mount) for mount in mounts]
    return kept


def _writable(mount: Any) -> Any:
    # The engine writes no file into a volume that is mounted to be read only; its mode keeps it from users.
    if not isinstance(mount, dict) or mount.get("name") != TOKEN_VOLUME:
        return mount
    return {key: value for key, value in mount.items() if key != "readOnly"}
