"""What people should know of a spec that is accepted all the same."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from slipway.api.names import WORKER_CONTAINER
from slipway.api.resources import amount
from slipway.api.slicejob import SliceJobSpec
from slipway.core.manifests import datasets
from slipway.core.manifests.containers import Container, containers, part, template_spec
from slipway.core.manifests.merge import malformed
from slipway.core.manifests.redact import is_secret
from slipway.core.model.site import NO_SITE, Site

IGNORED: Final = "ReservedFieldsIgnored"
_NAMES: Final = re.compile(r"SECRET|PASSWORD|TOKEN", re.IGNORECASE)
"""Those of which nobody is surprised to read."""


class Notice(NamedTuple):
    """What is said of a spec."""

    reason: str
    """One CamelCase word."""
    message: str
    warning: bool = False


def notices(spec: SliceJobSpec, site: Site = NO_SITE) -> tuple[Notice, ...]:
    """What is told of a spec, warnings mostly: Events when its first attempt begins."""
    template = template_spec(spec)
    if malformed(template) is not None:
        return ()
    given = tuple(containers(spec, template))
    return (*_reserved(site), *_data_sets(spec, site), *_literal_secrets(spec, given), *_shared_memory(spec, given))


def sidecars(spec: SliceJobSpec) -> str:
    """A clause on each container of the template that is not the worker."""
    template = spec.pod_template.spec if spec.pod_template is not None else None
    beside = (
        [container.name for container in template.containers if container.name != WORKER_CONTAINER]
        if template is not None
        else []
    )
    return "".join(f"; container {name} of podTemplate runs as a sidecar beside the worker" for name in beside)


def _reserved(site: Site) -> Iterator[Notice]:
    """Fields beside `workspace` that have no effect, or none unless the job is refused (F-49)."""
    if not site.ignored:
        return
    fields = ", ".join(f"spec.{key}" for key in site.ignored)
    if site.known:
        words = f"{fields}: without effect beside spec.workspace, which decides on it (reservedKeys: Ignore); remove it"
    else:
        words = (
            f"{fields}: spec.workspace decides on it; the operator refuses the job, or ignores the fields where the "
            "SliceJobProfile or the chart says reservedKeys: Ignore; remove them"
        )
    yield Notice(IGNORED, words, warning=True)


def _data_sets(spec: SliceJobSpec, site: Site) -> Iterator[Notice]:
    if words := datasets.told(spec.study, site.data_sets):
        yield Notice("DataSetsMounted", words)


def _literal_secrets(spec: SliceJobSpec, given: tuple[Container, ...]) -> Iterator[Notice]:
    found = [
        f"{container.path}.env[{variable['name']}]"
        for container in given
        for variable in container.fields.get("env", ())
        if _is_secret(variable["name"], variable.get("value"))
    ]
    variables = spec.ray.runtime_env.env_vars if spec.ray is not None and spec.ray.runtime_env is not None else {}
    found += [f"spec.ray.runtimeEnv.env_vars[{name}]" for name, value in variables.items() if _is_secret(name, value)]
    if found:
        yield Notice(
            "LiteralSecret",
            "use valueFrom.secretKeyRef in env, for whoever may read the SliceJob can read the literal value of "
            f"{', '.join(found)}",
            warning=True,
        )


def _is_secret(name: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value and _NAMES.search(name)) and is_secret(name, value)


def _shared_memory(spec: SliceJobSpec, given: tuple[Container, ...]) -> Iterator[Notice]:
    """What is in /dev/shm counts as the container's memory: the kernel kills a container that fills it."""
    size = amount(spec.shm_size)
    resources = [
        (container.path, part(container.fields, "resources"))
        for container in given
        if container.is_worker and container.on_host
    ]
    limits = [(path, part(asked, "limits").get("memory")) for path, asked in resources]
    path, limit = next(((path, limit) for path, limit in reversed(limits) if limit is not None), ("", None))
    most = amount(limit)
    if size is not None and most is not None and size > most:
        yield Notice(
            "ShmSizeAboveLimit",
            f"spec.shmSize {spec.shm_size} is larger than {path}.resources.limits.memory {limit}, which includes it: "
            "the container is OOM-killed before /dev/shm is full; raise the limit, or lower shmSize",
            warning=True,
        )
