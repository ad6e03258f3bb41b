"""What the limits of a site refuse in a job, however its pods come to it: by the spec or by the pod template.

Each check yields where it stands, what stands there, and the limit that refuses it.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from slipway.api.gpus import is_gpu
from slipway.api.names import TPU_RESOURCE
from slipway.api.profile import Limits
from slipway.api.resources import amount
from slipway.api.slicejob import SliceJobSpec
from slipway.api.words import LONGEST_SHOWN, shown
from slipway.api.workspace import WorkspaceVolume
from slipway.core.manifests.containers import Container, containers, objects, part, texts, volumes
from slipway.core.manifests.images import pulled
from slipway.core.manifests.redact import printable
from slipway.core.model.parts import Body
from slipway.core.model.site import CHART, LimitsOf, Site
from slipway.core.validation.refusals import engine_place

FORBIDDEN: Final = "ForbiddenBySite"
_BASELINE_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""What Pod Security's baseline lets a container add."""
_SAFE_SYSCTLS: Final = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    }
)
_CONTAINER_TYPES: Final = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SYSTEM: Final = "system-"
_ONLY_ACCELERATORS: Final = "by default only jobs on TPUs or GPUs may have it: remove it"


class Excess(NamedTuple):
    """Something that a limit does not allow."""

    field: str
    """Where it stands in the SliceJob."""
    value: object
    limit: str
    """The field of the limits."""
    allowed: str
    """What is allowed, in words."""


def forbidden(
    spec: SliceJobSpec, template: Body, site: Site, accelerator: str | None, hosts: int, *, keeps_network: bool = False
) -> str | None:
    """One sentence on the first thing that the limits of a site refuse; None when they refuse nothing.

    Args:
        spec: the spec with the defaults of the site.
        template: the PodSpec of its pod template, which has the lists that a PodSpec has.
        site: who limits what.
        accelerator: the canonical accelerator type; None for CPU jobs.
        hosts: the hosts of a slice.
        keeps_network: whether the job was accepted with what it asks of the network of the nodes: the chart's default
            about that came later.
    """
    for limit in site.limits:
        excess = next(_excesses(spec, template, limit, site, accelerator, hosts, keeps_network=keeps_network), None)
        if excess is not None:
            return _sentence(excess, limit)
    return None


def _sentence(excess: Excess, by: LimitsOf) -> str:
    where = f"{by.source}, site.limits.{excess.limit}" if by.source == CHART else f"{by.source}, limits.{excess.limit}"
    return f"{excess.field} {_shown(excess.value)} is not allowed here ({where}): {excess.allowed}"


def _shown(value: Any) -> str:
    return printable(value) if isinstance(value, str) and len(value) <= LONGEST_SHOWN else shown(value)


def _excesses(
    spec: SliceJobSpec,
    template: Body,
    by: LimitsOf,
    site: Site,
    accelerator: str | None,
    hosts: int,
    *,
    keeps_network: bool,
) -> Iterator[Excess]:
    limits, given = by.limits, tuple(containers(spec, template))
    yield from _size(spec, limits, accelerator, hosts)
    own = frozenset(site.gpus.resources.values())
    if limits.accelerator_types is not None:
        # What a host of a known accelerator may have is checked with the accelerator.
        unknown = given if accelerator is None else tuple(container for container in given if not container.on_host)
        yield from _devices(unknown, limits.accelerator_types, own)
        if accelerator is None and template.get("resourceClaims"):
            allowed = _of(limits.accelerator_types)
            yield Excess("spec.podTemplate.spec.resourceClaims", "of devices", "acceleratorTypes", allowed)
    on_accelerators = accelerator is not None or _on_accelerators(given, own)
    open_by_default = keeps_network or by.source != CHART or on_accelerators
    yield from _network(spec, template, given, limits, open_by_default=open_by_default)
    yield from _of_the_node(spec, template, limits, site)
    if limits.privileged is False:
        yield from _beyond_baseline(spec, template, given)
    yield from _names(spec, template, limits, of_chart=by.source == CHART)
    if limits.registries is not None:
        yield from _images(_references(spec, template, given, site), limits.registries, site.mirrors)


def _size(spec: SliceJobSpec, limits: Limits, accelerator: str | None, hosts: int) -> Iterator[Excess]:
    types, slices = limits.accelerator_types, spec.most_slices
    if types is not None and accelerator is not None and not _listed(accelerator, types):
        yield Excess("spec.accelerator", accelerator, "acceleratorTypes", _of(types))
    if limits.max_slices is not None and slices > limits.max_slices:
        field = "spec.acceptableSlices" if spec.acceptable_slices else "spec.slices"
        yield Excess(field, slices, "maxSlices", f"at most {limits.max_slices}")
    if limits.max_hosts is not None and slices * hosts > limits.max_hosts:
        yield Excess("spec.slices", f"{slices} x {hosts} hosts", "maxHosts", f"at most {limits.max_hosts} hosts")


def _devices(given: tuple[Container, ...], allowed: tuple[str, ...], own: frozenset[str]) -> Iterator[Excess]:
    for place, name, _ in _accelerators(given, own):
        if not _listed(name, allowed):
            yield Excess(place, name, "acceleratorTypes", _of(allowed))


def _accelerators(given: tuple[Container, ...], own: frozenset[str]) -> Iterator[tuple[str, str, object]]:
    """Accelerators that a job asks for in Kubernetes' own words: where, which and how many.

    Args:
        given: the containers.
        own: the resources that the site has named.
    """
    for container in given:
        for kind in ("limits", "requests"):
            for name, quantity in part(part(container.fields, "resources"), kind).items():
                if name == TPU_RESOURCE or name in own or is_gpu(name):
                    yield f"{container.path}.resources.{kind}", name, quantity


def _on_accelerators(given: tuple[Container, ...], own: frozenset[str]) -> bool:
    on_hosts = tuple(container for container in given if container.on_host)
    return any(amount(quantity) for _, _, quantity in _accelerators(on_hosts, own))


def _of_the_node(spec: SliceJobSpec, template: Body, limits: Limits, site: Site) -> Iterator[Excess]:
    if limits.host_processes is False:
        for word in ("hostPID", "hostIPC"):
            if template.get(word):
                yield Excess(f"spec.podTemplate.spec.{word}", "true", "hostProcesses", "remove it")
    if limits.host_paths is not None:
        for field, folder in _folders(spec, template, site):
            yield from _host_path(field, folder, limits.host_paths)


def _network(
    spec: SliceJobSpec, template: Body, given: tuple[Container, ...], limits: Limits, *, open_by_default: bool
) -> Iterator[Excess]:
    """What of the network of the node the pods use: all of it, or single ports."""
    unsaid = limits.host_network is None
    whole = open_by_default if unsaid else limits.host_network
    ports = whole if limits.host_ports is None else limits.host_ports
    for field, value in ("spec", spec.host_network), ("spec.podTemplate.spec", template.get("hostNetwork")):
        if value and not whole:
            yield Excess(f"{field}.hostNetwork", "true", "hostNetwork", _ONLY_ACCELERATORS if unsaid else "remove it")
    allowed = _ONLY_ACCELERATORS if unsaid and limits.host_ports is None else "remove it"
    for container in given if not ports else ():
        for port in objects(container.fields, "ports"):
            if port.get("hostPort"):
                yield Excess(f"{container.path}.ports.hostPort", port["hostPort"], "hostPorts", allowed)


def _folders(spec: SliceJobSpec, template: Body, site: Site) -> Iterator[tuple[str, Any]]:
    """The folders of nodes that the pods show, each with the field that says so."""
    for path, volume in volumes(spec, template):
        if isinstance(source := volume.get("hostPath"), dict):
            yield f"{path}.hostPath.path", source.get("path", "")
    if spec.workspace is not None:
        given: list[tuple[str, WorkspaceVolume]] = [("spec.workspace", spec.workspace)]
        if spec.workspace.source() is None and site.workspace is not None:
            given = [("defaults.workspace", site.workspace)]
        yield from ((f"{field}.hostPath.path", one.host_path.path) for field, one in given if one.host_path is not None)
    for name, data_set in site.data_sets.get(spec.study or "", {}).items():
        if data_set.host_path is not None:
            yield f"dataSets.{spec.study}.{name}.hostPath.path", data_set.host_path.path


def _host_path(field: str, folder: Any, allowed: tuple[str, ...]) -> Iterator[Excess]:
    path = posixpath.normpath("/" + str(folder).lstrip("/"))
    roots = (posixpath.normpath(one) for one in allowed)
    if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots):
        yield Excess(field, folder, "hostPaths", _of(allowed, "no folder of a node"))
    elif (place := engine_place(path)) is not None:
        yield Excess(field, folder, "hostPaths", f"no path to the socket of the node's container engine ({place})")


def _beyond_baseline(spec: SliceJobSpec, template: Body, given: tuple[Container, ...]) -> Iterator[Excess]:
    own = spec.pod_security_context.model_dump(by_alias=True) if spec.pod_security_context else None
    metadata = spec.pod_template.metadata if spec.pod_template is not None else None
    for name, profile in (metadata.annotations if metadata is not None else {}).items():
        if name.startswith(_APPARMOR) and profile == "unconfined":
            yield Excess(f"spec.podTemplate.metadata.annotations[{name}]", profile, "privileged", "remove it")
    for field, context in (
        ("spec.podSecurityContext", own),
        ("spec.podTemplate.spec.securityContext", template.get("securityContext")),
        *((f"{container.path}.securityContext", container.fields.get("securityContext")) for container in given),
    ):
        if isinstance(context, dict):
            for word, value in _unsafe(context):
                yield Excess(f"{field}.{word}", value, "privileged", "at most what Pod Security calls baseline")


def _unsafe(context: Body) -> Iterator[tuple[str, object]]:
    """Fields of a security context beyond Pod Security's baseline, each with its value.

    What has another form than in Kubernetes, the API server names in the dry run.
    """
    yield from _beyond_options(context)
    if context.get("privileged"):
        yield "privileged", "true"
    for capability in texts(part(context, "capabilities"), "add"):
        if capability not in _BASELINE_CAPABILITIES:
            yield "capabilities.add", capability
    if context.get("procMount") not in (None, "Default"):
        yield "procMount", context["procMount"]
    for word in ("seccompProfile", "appArmorProfile"):
        if part(context, word).get("type") == "Unconfined":
            yield f"{word}.type", "Unconfined"
    for sysctl in objects(context, "sysctls"):
        if isinstance(name := sysctl.get("name"), str) and name not in _SAFE_SYSCTLS:
            yield "sysctls", name


def _beyond_options(context: Body) -> Iterator[tuple[str, object]]:
    options = part(context, "seLinuxOptions")
    beyond = [options.get("user"), options.get("role"), options.get("type")]
    if beyond[2] in _CONTAINER_TYPES:
        beyond.pop()
    yield from (("seLinuxOptions", one) for one in beyond if one)
    if part(context, "windowsOptions").get("hostProcess"):
        yield "windowsOptions.hostProcess", "true"


def _names(spec: SliceJobSpec, template: Body, limits: Limits, *, of_chart: bool) -> Iterator[Excess]:
    accounts, classes = limits.service_accounts, limits.priority_classes
    named = spec.service_account_name or template.get("serviceAccountName") or template.get("serviceAccount")
    if accounts is not None and not named and _asks_for_token(spec, template) and not _listed("default", accounts):
        yield Excess("the token of service account", "default", "serviceAccounts", _of(accounts))
    for field, name in (
        ("spec.serviceAccountName", spec.service_account_name),
        ("spec.podTemplate.spec.serviceAccountName", template.get("serviceAccountName")),
        ("spec.podTemplate.spec.serviceAccount", template.get("serviceAccount")),
    ):
        if accounts is not None and name and not _listed(str(name), accounts):
            yield Excess(field, name, "serviceAccounts", _of(accounts))
    for field, name in (
        ("spec.priorityClassName", spec.priority_class_name),
        ("spec.podTemplate.spec.priorityClassName", template.get("priorityClassName")),
    ):
        if classes is not None and name and not _listed(str(name), classes):
            yield Excess(field, name, "priorityClasses", _of(classes))
        if classes is None and of_chart and name and str(name).startswith(_SYSTEM):
            yield Excess(field, name, "priorityClasses", f"any that does not begin with {_SYSTEM}")


def _asks_for_token(spec: SliceJobSpec, template: Body) -> bool:
    given = (part(volume, "projected") for _, volume in volumes(spec, template))
    projected = any("serviceAccountToken" in source for one in given for source in objects(one, "sources"))
    return projected or bool(template.get("automountServiceAccountToken"))


def _references(
    spec: SliceJobSpec, template: Body, given: tuple[Container, ...], site: Site
) -> Iterator[tuple[str, Any]]:
    """The images that the pods pull, for containers and for volumes, each with the field that says so."""
    yield from ((f"{container.path}.image", container.fields.get("image")) for container in given)
    for path, volume in volumes(spec, template):
        if isinstance(source := volume.get("image"), dict):
            yield f"{path}.image.reference", source.get("reference")
    for name, data_set in site.data_sets.get(spec.study or "", {}).items():
        if data_set.image is not None:
            reference = data_set.image.model_dump(by_alias=True).get("reference")
            yield f"dataSets.{spec.study}.{name}.image.reference", reference


def _images(given: Iterable[tuple[str, Any]], allowed: tuple[str, ...], mirrors: Mapping[str, str]) -> Iterator[Excess]:
    for field, image in given:
        if isinstance(image, str) and not _comes_from(pulled(image, mirrors), allowed):
            yield Excess(field, image, "registries", _of(allowed))


def _comes_from(image: str, allowed: tuple[str, ...]) -> bool:
    return any(_is_below(image, one.rstrip("/")) for one in allowed)


def _is_below(image: str, entry: str) -> bool:
    # What follows the name of a registry after a colon is a port, and another registry.
    return image == entry or image.startswith(tuple(entry + end for end in ("/:@" if "/" in entry else "/")))


def _listed(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allowed)


def _of(allowed: tuple[str, ...], none: str = "none") -> str:
    return f"allowed: {', '.join(allowed) or none}"
