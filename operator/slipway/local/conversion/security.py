"""What a container may do, and as whom it runs: its securityContext and that of its pod."""

from typing import Any, Final

from slipway.core.model.parts import Body
from slipway.local.conversion.unconvertible import Refusals

_SECCOMP: Final = {"RuntimeDefault": (), "Unconfined": ("seccomp=unconfined",)}


def security(spec: Body, container: Body, path: str, refusals: Refusals) -> tuple[str | None, Body]:
    """The user, None where the image decides, and the fields of the HostConfig.

    Args:
        spec: the PodSpec.
        container: the container.
        path: the container's path for people.
        refusals: where to put what Docker cannot do.
    """
    own, of_pod = container.get("securityContext") or {}, spec.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    groups = [*of_pod.get("supplementalGroups", ()), *([of_pod["fsGroup"]] if "fsGroup" in of_pod else [])]
    options: list[str] = []
    if own.get("allowPrivilegeEscalation") is False:
        options.append("no-new-privileges:true")
    options += _seccomp(own, of_pod, path, refusals)
    if own.get("procMount", "Default") != "Default":
        refusals.add(f"{path}.securityContext.procMount", own["procMount"], "Default is allowed")
    fields: Body = {
        "Privileged": own.get("privileged"),
        "CapAdd": capabilities.get("add"),
        "CapDrop": capabilities.get("drop"),
        "ReadonlyRootfs": own.get("readOnlyRootFilesystem"),
        "SecurityOpt": options,
        "GroupAdd": [str(group) for group in dict.fromkeys(groups)],
        "Sysctls": {sysctl["name"]: sysctl["value"] for sysctl in of_pod.get("sysctls", ())},
    }
    return _user(own, of_pod, path, refusals), {name: value for name, value in fields.items() if value}


def _strongest(own: Body, of_pod: Body, field: str, path: str) -> tuple[Any, str]:
    """The value of a field that the pod and the container have, and the path of the one that counts."""
    if own.get(field) is not None:
        return own[field], f"{path}.securityContext.{field}"
    return of_pod.get(field), f"spec.securityContext.{field}"


def _user(own: Body, of_pod: Body, path: str, refusals: Refusals) -> str | None:
    user, _ = _strongest(own, of_pod, "runAsUser", path)
    group, group_path = _strongest(own, of_pod, "runAsGroup", path)
    not_root, not_root_path = _strongest(own, of_pod, "runAsNonRoot", path)
    if not_root and not user:
        has = "is 0" if user == 0 else "is not set, and Docker does not look whether the image's user is root"
        refusals.add(not_root_path, not_root, f"runAsUser {has}: set runAsUser to a number other than 0")
    if group is not None and user is None:
        refusals.add(group_path, group, "Docker takes a group with a user only: set runAsUser as well")
    if user is None:
        return None
    return str(user) if group is None else f"{user}:{group}"


def _seccomp(own: Body, of_pod: Body, path: str, refusals: Refusals) -> tuple[str, ...]:
    profile, profile_path = _strongest(own, of_pod, "seccompProfile", path)
    kind = (profile or {}).get("type", "RuntimeDefault")
    if kind not in _SECCOMP:
        refusals.add(f"{profile_path}.type", kind, f"{' and '.join(_SECCOMP)} are allowed")
    return _SECCOMP.get(kind, ())
