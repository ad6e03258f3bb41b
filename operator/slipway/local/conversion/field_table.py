"""Which fields of a pod the local engine knows, and what Docker makes of each.

The table says it once, for the code and for docs/local.md: what is not in it is refused.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Answer(StrEnum):
    """What becomes of a field."""

    CONVERTED = "converted"
    REFUSED = "refused"
    NOTHING = "means nothing here"


class Row(NamedTuple):
    """A field of a pod."""

    path: str
    """Where it stands; `[]` is any item of a list."""
    answer: Answer
    words: str
    """The option of `POST /containers/create`; or why it is refused, or means nothing."""


def _rows(answer: Answer, prefix: str, fields: Mapping[str, str]) -> Iterator[Row]:
    return (Row(f"{prefix}.{field}", answer, words) for field, words in fields.items())


_ONE_MACHINE: Final = "there is one machine, and nothing to choose"
_NO_API: Final = "there is no Kubernetes API that could be asked"
_NO_PROBES: Final = "nobody asks a container of the local engine how it is"
_NOT_DOCKERS: Final = "an engine has no such volumes: use hostPath, emptyDir or persistentVolumeClaim"
_NO_CLAIMS: Final = "there is no Kubernetes API that could be asked for it: devices come from resources.limits"

_POD_CONVERTED: Final = {
    "containers": "the container `worker`, or `driver` of a Ray head; another is a container `POD.NAME`",
    "initContainers": "containers `POD.NAME` that start first, with the fields of `spec.containers[]`; `restartPolicy` "
    "Always makes one a sidecar, and `ray-head` one that is not started again; of `slipway-workspace` the local engine "
    "does the work itself",
    "volumes": "`HostConfig.Mounts`, where the container mounts them",
    "hostname": "`Hostname`, and the first alias in the network",
    "subdomain": "the further aliases in the network: `HOSTNAME.SUBDOMAIN`, `….NAMESPACE.svc`, `….svc.cluster.local`; "
    "for a Ray head also those of its Service",
    "hostNetwork": "`HostConfig.NetworkMode` host",
    "hostPID": "`HostConfig.PidMode` host",
    "hostIPC": "`HostConfig.IpcMode` host",
    "hostUsers": "true is how Docker runs containers; false is refused",
    "shareProcessNamespace": "`HostConfig.Init`: a PID 1 that reaps, as the pod's own does",
    "hostAliases[].ip": "`HostConfig.ExtraHosts`",
    "hostAliases[].hostnames": "`HostConfig.ExtraHosts`",
    "dnsConfig.nameservers": "`HostConfig.Dns`",
    "dnsConfig.searches": "`HostConfig.DnsSearch`",
    "dnsConfig.options[].name": "`HostConfig.DnsOptions`",
    "dnsConfig.options[].value": "`HostConfig.DnsOptions`, after the colon",
    "terminationGracePeriodSeconds": "`StopTimeout`",
    "nodeName": "the value of its fieldRef; without it `localhost`",
    "securityContext.runAsUser": "`User`",
    "securityContext.runAsGroup": "`User`, after the colon",
    "securityContext.runAsNonRoot": "nothing beside a runAsUser that is not 0; refused without one",
    "securityContext.supplementalGroups": "`HostConfig.GroupAdd`",
    "securityContext.fsGroup": "`HostConfig.GroupAdd`; the files of volumes keep their groups",
    "securityContext.seccompProfile.type": "`HostConfig.SecurityOpt` for Unconfined; RuntimeDefault is Docker's own",
    "securityContext.sysctls[].name": "`HostConfig.Sysctls`",
    "securityContext.sysctls[].value": "`HostConfig.Sysctls`",
}
_CONTAINER_CONVERTED: Final = {
    "name": "the worker, or the driver of a Ray head, has the name of its pod; another container has its own name "
    "behind it",
    "image": "`Image`, by the id that the engine has for it: all hosts run the same",
    "command": "`Entrypoint`, with `$(NAME)` replaced as Kubernetes does it",
    "args": "`Cmd`, with `$(NAME)` replaced",
    "workingDir": "`WorkingDir`",
    "env[].name": "`Env`",
    "env[].value": "`Env`, with `$(NAME)` replaced",
    "env[].valueFrom.fieldRef.fieldPath": "`Env`: name, uid, namespace, labels['…'], annotations['…']; nodeName",
    "env[].valueFrom.resourceFieldRef.resource": "`Env`: limits and requests of cpu and memory that the container has",
    "env[].valueFrom.resourceFieldRef.divisor": "the unit of that value",
    "env[].valueFrom.resourceFieldRef.containerName": "only the container itself is allowed",
    "env[].valueFrom.configMapKeyRef.name": "`Env` for host lists that Slipway made; others are refused",
    "env[].valueFrom.configMapKeyRef.key": "the key in it",
    "env[].valueFrom.configMapKeyRef.optional": "the variable is left out instead",
    "env[].valueFrom.secretKeyRef.name": "refused",
    "env[].valueFrom.secretKeyRef.key": "refused",
    "env[].valueFrom.secretKeyRef.optional": "the variable is left out instead",
    "envFrom[].configMapRef.name": "refused",
    "envFrom[].configMapRef.optional": "its variables are left out instead",
    "envFrom[].secretRef.name": "refused",
    "envFrom[].secretRef.optional": "its variables are left out instead",
    "ports[].containerPort": "`ExposedPorts`, for those with hostPort",
    "ports[].hostPort": "`HostConfig.PortBindings`",
    "ports[].hostIP": "`HostConfig.PortBindings`",
    "ports[].protocol": "`HostConfig.PortBindings`, after the slash",
    "resources.limits": "`HostConfig.NanoCpus`; `HostConfig.Memory` and `MemorySwap`, equal, and as much `ShmSize` "
    "where nothing is mounted at /dev/shm; for `worker` also devices",
    "resources.requests": "`HostConfig.CpuShares`, `HostConfig.MemoryReservation`",
    "volumeMounts[].name": "the volume",
    "volumeMounts[].mountPath": "`HostConfig.Mounts[].Target`",
    "volumeMounts[].readOnly": "`HostConfig.Mounts[].ReadOnly`",
    "volumeMounts[].recursiveReadOnly": "`BindOptions.ReadOnlyForceRecursive` for Enabled; Docker does it where it can",
    "volumeMounts[].subPath": "part of the path of a hostPath; `VolumeOptions.Subpath` of a claim",
    "volumeMounts[].subPathExpr": "as subPath, with `$(NAME)` replaced",
    "volumeMounts[].mountPropagation": "`BindOptions.Propagation`",
    "securityContext.runAsUser": "`User`, before that of the pod",
    "securityContext.runAsGroup": "`User`, before that of the pod",
    "securityContext.runAsNonRoot": "as that of the pod",
    "securityContext.privileged": "`HostConfig.Privileged`",
    "securityContext.capabilities.add": "`HostConfig.CapAdd`",
    "securityContext.capabilities.drop": "`HostConfig.CapDrop`",
    "securityContext.readOnlyRootFilesystem": "`HostConfig.ReadonlyRootfs`",
    "securityContext.allowPrivilegeEscalation": "`HostConfig.SecurityOpt` no-new-privileges for false",
    "securityContext.seccompProfile.type": "as that of the pod, before it",
    "securityContext.procMount": "Default is how Docker masks /proc; Unmasked is refused",
}
_VOLUME_CONVERTED: Final = {
    "name": "what mounts refer to",
    "hostPath.path": "`HostConfig.Binds`, `Mounts`; sockets of container engines, and what leads to them, are refused",
    "hostPath.type": "a missing folder is made for DirectoryOrCreate and without a type; otherwise it is an error",
    "emptyDir.medium": "a tmpfs for Memory, or a volume in memory where it holds mounts or the working directory, and "
    "`HostConfig.ShmSize` at /dev/shm; otherwise an anonymous volume; the containers of a host share it",
    "emptyDir.sizeLimit": "the size of a tmpfs; nothing for a volume on disk",
    "persistentVolumeClaim.claimName": "the Docker volume of that name",
    "persistentVolumeClaim.readOnly": "`HostConfig.Mounts[].ReadOnly`",
}
_POD_NOTHING: Final = {
    **dict.fromkeys(
        ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "schedulerName"), _ONE_MACHINE
    ),
    **dict.fromkeys(("priority", "priorityClassName", "preemptionPolicy", "schedulingGates"), _ONE_MACHINE),
    **dict.fromkeys(("overhead", "os"), _ONE_MACHINE),
    "serviceAccountName": _NO_API,
    "serviceAccount": _NO_API,
    "automountServiceAccountToken": _NO_API,
    "enableServiceLinks": "there are no Services",
    "imagePullSecrets": "the engine has the credentials of `docker login`",
    "dnsPolicy": "Docker resolves the names of its networks, and others as this machine does",
    "readinessGates": "nobody waits until a container of the local engine is ready",
    "restartPolicy": "Slipway starts containers, and Docker starts none again",
    "securityContext.fsGroupChangePolicy": "the files of volumes keep their groups",
}
_CONTAINER_NOTHING: Final = {
    "ports[].name": "there are no Services that refer to it",
    "envFrom[].prefix": "there are no variables that could have it",
    "env[].valueFrom.fieldRef.apiVersion": "fields are those of v1",
    "imagePullPolicy": "images are pulled once for all hosts, before the first container",
    "terminationMessagePath": "the status has the end of the log",
    "terminationMessagePolicy": "the status has the end of the log",
}
_POD_REFUSED: Final = {
    "activeDeadlineSeconds": "no kubelet ends the pod: use spec.timeouts",
    "ephemeralContainers": "a container that runs is looked into with `docker exec`",
    "resourceClaims": _NO_CLAIMS,
    "resources": "limits of a pod are those of its container here: set resources of the container",
    "runtimeClassName": "a RuntimeClass is an object of a cluster: set the default runtime of the engine",
    "setHostnameAsFQDN": "the host name of a container is only the first part of its names",
    "securityContext.appArmorProfile": "Docker's own profile holds",
    "securityContext.seLinuxOptions": "Docker's own labels hold",
    "securityContext.supplementalGroupsPolicy": "Docker adds the groups of the image's user",
    "securityContext.windowsOptions": "containers are those of Linux",
    "securityContext.seccompProfile.localhostProfile": "profiles are files of a node: use RuntimeDefault or Unconfined",
}
_CONTAINER_REFUSED: Final = {
    **dict.fromkeys(("startupProbe", "readinessProbe", "livenessProbe"), _NO_PROBES),
    "lifecycle": "Docker has no hooks: let the program do it",
    **dict.fromkeys(
        ("restartPolicy", "restartPolicyRules"), "a container of a job ends once; a sidecar is an init container"
    ),
    **dict.fromkeys(("stdin", "stdinOnce", "tty"), "nobody is attached to a container of the local engine"),
    "volumeDevices": "Docker has no volumes of blocks: use a hostPath of type BlockDevice",
    "resizePolicy": "limits stay as they are",
    "resources.claims": _NO_CLAIMS,
    "env[].valueFrom.fileKeyRef": "no kubelet reads the file",
    "securityContext.appArmorProfile": "Docker's own profile holds",
    "securityContext.seLinuxOptions": "Docker's own labels hold",
    "securityContext.windowsOptions": "containers are those of Linux",
    "securityContext.seccompProfile.localhostProfile": "profiles are files of a node: use RuntimeDefault or Unconfined",
}
_VOLUME_REFUSED: Final = {
    **dict.fromkeys(("configMap", "secret", "projected", "downwardAPI"), "there is no Kubernetes API to read it from"),
    **dict.fromkeys(("csi", "nfs", "iscsi", "fc", "cephfs", "rbd", "glusterfs", "ephemeral", "image"), _NOT_DOCKERS),
}

TABLE: Final = (
    Row("apiVersion", Answer.NOTHING, "the pod is not posted"),
    Row("kind", Answer.NOTHING, "the pod is not posted"),
    Row("metadata.name", Answer.CONVERTED, "the name of the container"),
    Row("metadata.namespace", Answer.CONVERTED, "part of the aliases in the network"),
    Row("metadata.uid", Answer.CONVERTED, "the value of its fieldRef"),
    Row("metadata.labels", Answer.CONVERTED, "`Labels`"),
    Row("metadata.annotations", Answer.CONVERTED, "the values of their fieldRefs"),
    Row("metadata.ownerReferences", Answer.NOTHING, "Slipway removes what it started"),
    *_rows(Answer.CONVERTED, "spec", _POD_CONVERTED),
    *_rows(Answer.CONVERTED, "spec.containers[]", _CONTAINER_CONVERTED),
    *_rows(Answer.CONVERTED, "spec.volumes[]", _VOLUME_CONVERTED),
    *_rows(Answer.NOTHING, "spec", _POD_NOTHING),
    *_rows(Answer.NOTHING, "spec.containers[]", _CONTAINER_NOTHING),
    *_rows(Answer.REFUSED, "spec", _POD_REFUSED),
    *_rows(Answer.REFUSED, "spec.containers[]", _CONTAINER_REFUSED),
    *_rows(Answer.REFUSED, "spec.volumes[]", _VOLUME_REFUSED),
)
"""Every field that is known. A field whose own fields are listed is looked into, another is taken as a whole."""

ANSWERS: Final[Mapping[str, Row]] = MappingProxyType({row.path: row for row in TABLE})
PARENTS: Final[frozenset[str]] = frozenset(
    row.path[:end]
    for row in TABLE
    for end, letter in enumerate(row.path)
    if letter == "." or row.path[end : end + 2] == "[]"
)
"""Paths of the fields that have fields in the table."""
