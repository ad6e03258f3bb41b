"""What a site says of a job: the defaults of its SliceJobProfile and of the chart, and the limits of both."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from slipway.api.gpus import ANY_SITE, DEFAULT_RESOURCES, GKE_MODEL_LABEL, GpuSite, is_gpu
from slipway.api.names import RESERVED_ENV, RESERVED_RAY_ENV
from slipway.api.pod_parts import EnvVar
from slipway.api.profile import DEFAULT_PROFILE, PROFILE_KIND, Defaults
from slipway.api.resources import Resources
from slipway.api.slicejob import DEFAULTABLE, SliceJobSpec
from slipway.api.status import AppliedDefaults, DefaultValue
from slipway.core.model.site import DEFAULT_PYTHON, NO_CHOICE, UNKNOWN_SITE, Choice, Profile, Site
from slipway.core.validation.reserved import without_reserved

_MAX_SHOWN: Final = 256
_MAX_NAMED: Final = 8


def site_of(given: SliceJobSpec, chart: Profile, choice: Choice = NO_CHOICE) -> tuple[SliceJobSpec, Site]:
    """The spec of a job with the defaults of its site, and what the site says beside these.

    Args:
        given: the spec as its author wrote it.
        chart: the defaults and limits of the chart's values.
        choice: the profile of the job, if it has one.
    """
    profile = choice.profile
    layers = [chart] if profile is None else [profile, chart]
    if choice.bare:
        return given, Site(
            choice, limits=(), hidden=tuple(variable for layer in layers for variable in layer.spec.defaults.env)
        )
    kept, ignored = without_reserved(given) if _ignores_reserved(layers) else (given, ())
    spec, values = with_defaults(kept, layers)
    defaults = [layer.spec.defaults for layer in layers]
    return spec, Site(
        choice=choice,
        applied=applied(chart, profile),
        values=values,
        limits=tuple(layer.limits for layer in layers),
        mirrors=next((default.registry_mirrors for default in defaults if default.registry_mirrors), {}),
        gpus=_gpus(layers),
        workspace=next((default.workspace for default in defaults if default.workspace is not None), None),
        data_sets=next((layer.spec.data_sets for layer in layers if layer.spec.data_sets), {}),
        python=next((default.python for default in defaults if default.python is not None), DEFAULT_PYTHON),
        ignored=ignored,
    )


def unknown_site_of(given: SliceJobSpec) -> tuple[SliceJobSpec, Site]:
    """The spec of a job of which only the SliceJob is known, without what its site may ignore; and that site."""
    spec, ignored = without_reserved(given)
    return spec, replace(UNKNOWN_SITE, ignored=ignored)


def _ignores_reserved(layers: list[Profile]) -> bool:
    """What the strongest layer says that says anything. A default of the site itself is never ignored (K-06)."""
    return (
        next((layer.spec.reserved_keys for layer in layers if layer.spec.reserved_keys is not None), None) == "Ignore"
    )


def _gpus(layers: list[Profile]) -> GpuSite:
    """What the strongest layer says of the nodes with GPUs."""
    given = next((layer.spec.gpus for layer in layers if layer.spec.gpus is not None), None)
    if given is None:
        return ANY_SITE
    resources: Mapping[str, str] = {str(vendor): name for vendor, name in given.resources.items()} or DEFAULT_RESOURCES
    return GpuSite(resources, given.per_node, given.model_label or GKE_MODEL_LABEL)


def applied(chart: Profile, profile: Profile | None) -> AppliedDefaults | None:
    """Which defaults a job has under these values of the chart and this profile."""
    if profile is None:
        return AppliedDefaults(hash=chart.digest) if chart.digest else None
    digests = [one for one in (profile.digest, chart.digest) if one]
    return AppliedDefaults(profile=profile.name, generation=profile.generation, hash="-".join(digests))


def missing_profile(name: str, namespace: str, there: tuple[str, ...]) -> tuple[str, str]:
    """Reason and message of a job that names a profile that does not exist."""
    known = ", ".join(there[:_MAX_NAMED]) + (", …" if len(there) > _MAX_NAMED else "") if there else "none"
    return (
        "ProfileNotFound",
        f"spec.profile {name!r}: namespace {namespace} has no {PROFILE_KIND} of that name (there: {known}); create "
        "it, or name another",
    )


def with_defaults(given: SliceJobSpec, layers: list[Profile]) -> tuple[SliceJobSpec, tuple[DefaultValue, ...]]:
    """A spec with the defaults of several layers, the strongest first, and which values came from which."""
    layers = [profile for profile in layers if profile.digest]
    if not layers:
        return given, ()
    changes: dict[str, Any] = {}
    values: list[DefaultValue] = []
    # Ray's ports would be open to the nodes' network; and variables are merged.
    without = {"env", "host_network"} if given.ray is not None else {"env"}
    for name, info in SliceJobSpec.model_fields.items():
        if info.alias not in DEFAULTABLE or name in without or _is_given(given, name):
            continue
        layer = next((profile for profile in layers if _is_given(profile.spec.defaults, name)), None)
        if layer is not None:
            changes[name] = value = getattr(layer.spec.defaults, name)
            shown = _shown(layer.spec.defaults, name, value)
            values.append(DefaultValue(field=f"spec.{info.alias}", value=shown, source=layer.source))
    if "resources" in changes and given.accelerator is not None and given.accelerator.gpu is not None:
        changes["resources"] = _without_gpus(changes["resources"])
    env, variables = _environment(given, layers)
    if variables:
        changes["env"] = env
    return (given.model_copy(update=changes) if changes else given), (*values, *variables)


def _without_gpus(resources: Resources) -> Resources:
    """Resources of the site for a job that says itself how many GPUs it has."""
    kinds = ("limits", "requests")
    given = {
        kind: {name: value for name, value in getattr(resources, kind).items() if not is_gpu(name)} for kind in kinds
    }
    return Resources(**given)


def _is_given(fields: SliceJobSpec | Defaults, name: str) -> bool:
    return name in fields.model_fields_set and getattr(fields, name) is not None


def _environment(given: SliceJobSpec, layers: list[Profile]) -> tuple[tuple[EnvVar, ...], tuple[DefaultValue, ...]]:
    """The variables of the site before those of the job, which may refer to them."""
    taken = {variable.name for variable in given.env} | set(RESERVED_ENV)
    taken |= set(RESERVED_RAY_ENV) if given.ray is not None else set()
    variables: list[EnvVar] = []
    values: list[DefaultValue] = []
    for layer in layers:
        new = [variable for variable in layer.spec.defaults.env if variable.name not in taken]
        taken |= {variable.name for variable in new}
        variables[:0] = new
        values += [DefaultValue(field=f"spec.env[{variable.name}]", source=layer.source) for variable in new]
    return (*variables, *given.env), tuple(values)


def _shown(defaults: Defaults, name: str, value: Any) -> str:
    """A value in few words; of volumes and sources of the environment the names only."""
    if isinstance(value, str | int):
        return str(value)
    content = defaults.model_dump(mode="json", by_alias=True, exclude_unset=True, include={name})
    (found,) = content.values()
    if isinstance(found, list) and all(isinstance(one, dict) and "name" in one for one in found):
        text = ", ".join(one["name"] for one in found)
    else:
        text = json.dumps(found)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def profile_name(spec: SliceJobSpec) -> str:
    """The profile that a job has, if there is one of that name."""
    return spec.profile or DEFAULT_PROFILE
