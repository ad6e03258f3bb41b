"""The form of each field of a pod that is converted.

On a cluster the API server refuses a pod whose fields have another form. Here nobody has looked at what a pod template
holds, and a text where a list belongs would be taken for a list of letters.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple


class Form(NamedTuple):
    """What a field has to be."""

    words: str
    accepts: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(accepts, value))


TEXT: Final = Form("a text is needed", _is_text)
FLAG: Final = Form("true or false is needed", lambda value: isinstance(value, bool))
NUMBER: Final = Form("a whole number from 0 is needed", _is_number)
QUANTITY: Final = Form("a quantity is needed", lambda value: _is_text(value) or _is_number(value))
TEXTS: Final = Form("a list of texts is needed", _list_of(_is_text))
NUMBERS: Final = Form("a list of whole numbers from 0 is needed", _list_of(_is_number))
OBJECT: Final = Form("an object is needed", lambda value: isinstance(value, dict))
OBJECTS: Final = Form("a list of objects is needed", _list_of(OBJECT.accepts))
TEXTS_BY_NAME: Final = Form(
    "an object of texts is needed", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))
)

FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        **dict.fromkeys(("name", "namespace", "uid", "hostname", "subdomain", "nodeName", "ip", "hostIP"), TEXT),
        **dict.fromkeys(("image", "workingDir", "value", "key", "protocol", "type", "procMount"), TEXT),
        **dict.fromkeys(("fieldPath", "resource", "containerName"), TEXT),
        **dict.fromkeys(("mountPath", "subPath", "subPathExpr", "recursiveReadOnly", "mountPropagation"), TEXT),
        **dict.fromkeys(("path", "medium", "claimName"), TEXT),
        **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"), FLAG),
        **dict.fromkeys(("runAsNonRoot", "privileged", "readOnlyRootFilesystem", "allowPrivilegeEscalation"), FLAG),
        **dict.fromkeys(("readOnly", "optional"), FLAG),
        **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup", "terminationGracePeriodSeconds"), NUMBER),
        **dict.fromkeys(("containerPort", "hostPort"), NUMBER),
        **dict.fromkeys(("divisor", "sizeLimit"), QUANTITY),
        **dict.fromkeys(("command", "args", "nameservers", "searches", "hostnames", "add", "drop"), TEXTS),
        **dict.fromkeys(("limits", "requests"), OBJECT),
        **dict.fromkeys(("labels", "annotations"), TEXTS_BY_NAME),
        "supplementalGroups": NUMBERS,
        "initContainers": OBJECTS,
    }
)
"""By the name of the field: what has the same name in a pod has the same form."""

NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "spec.containers[]": ("name", "image"),
        "spec.containers[].env[]": ("name",),
        "spec.containers[].env[].valueFrom.fieldRef": ("fieldPath",),
        "spec.containers[].env[].valueFrom.resourceFieldRef": ("resource",),
        "spec.containers[].env[].valueFrom.configMapKeyRef": ("name", "key"),
        "spec.containers[].env[].valueFrom.secretKeyRef": ("name", "key"),
        "spec.containers[].ports[]": ("containerPort",),
        "spec.containers[].volumeMounts[]": ("name", "mountPath"),
        "spec.volumes[]": ("name",),
        "spec.volumes[].hostPath": ("path",),
        "spec.volumes[].persistentVolumeClaim": ("claimName",),
        "spec.hostAliases[]": ("ip",),
        "spec.dnsConfig.options[]": ("name",),
        "spec.securityContext.sysctls[]": ("name", "value"),
    }
)
"""Fields that may not be missing, by the path of what has them in the table of fields."""
