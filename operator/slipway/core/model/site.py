"""The site of a job: the defaults and limits of its SliceJobProfile and of the chart."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from propcache.api import cached_property

from slipway.api.gpus import ANY_SITE, GpuSite
from slipway.api.gpus import UNKNOWN_SITE as UNKNOWN_GPUS
from slipway.api.pod_parts import EnvVar
from slipway.api.profile import PROFILE_KIND, Limits, ProfileSpec
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import AppliedDefaults, DefaultValue
from slipway.api.workspace import DataSet, WorkspaceVolume

CHART: Final = "the chart's values"
BUILT_IN: Final = Limits(host_paths=(), host_processes=False, privileged=False, service_accounts=("default",))
"""The chart's limits where its values say nothing; those on the network of the nodes depend on the job."""
DEFAULT_PYTHON: Final = "/usr/local/bin/python"


@dataclass(frozen=True)
class Profile:
    """A SliceJobProfile as it was last read, or what holds for all jobs, which has the same parts."""

    name: str
    """Of the object; of what holds for all jobs the words for it."""
    generation: int = 0
    spec: ProfileSpec = field(default_factory=ProfileSpec)
    problem: str = ""
    """Field, value and fault of what cannot be read in it."""
    for_all: bool = False
    """Whether it holds for all jobs, as the chart's values do."""

    @cached_property
    def digest(self) -> str:
        """One word that is the same for the same defaults; empty where there are none."""
        content = self.spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"limits"})
        if not any(content.values()):
            return ""
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def source(self) -> str:
        """In which words to name it."""
        return self.name if self.for_all else f"{PROFILE_KIND} {self.name}"

    @cached_property
    def limits(self) -> "LimitsOf":
        """Its limits. Where what holds for all jobs says nothing, the built-in ones hold."""
        limits = self.spec.limits
        if not self.for_all:
            return LimitsOf(self.source, limits)
        said = {name for name in limits.model_fields_set if getattr(limits, name) is not None}
        return LimitsOf(self.source, BUILT_IN.model_copy(update={name: getattr(limits, name) for name in said}))


@dataclass(frozen=True, slots=True)
class LimitsOf:
    """Limits, and in which words to name who set them."""

    source: str
    limits: Limits


class Choice(NamedTuple):
    """Under which profile a job is."""

    profile: Profile | None = None
    problem: tuple[str, str] | None = None
    """Reason and message of why no attempt may begin under it."""
    superseded: bool = False
    """Whether the profile has changed since the attempt began whose profile this is."""
    bare: bool = False
    """Whether no defaults and limits of the site apply: the attempt began without any, or with a version of the profile
    that this process has never seen.

    `profile` is then the current version, which says only which values are secret."""


NO_CHOICE: Final = Choice()


@dataclass(frozen=True, slots=True)
class Site:
    """What a site says of one job."""

    choice: Choice = NO_CHOICE
    applied: AppliedDefaults | None = None
    """Which defaults are in the job's spec; None where the site has none."""
    values: tuple[DefaultValue, ...] = ()
    """The fields of the job's spec that it has from the site."""
    limits: tuple[LimitsOf, ...] = (LimitsOf(CHART, BUILT_IN),)
    mirrors: Mapping[str, str] = field(default_factory=dict)
    """Where images of a registry are pulled from instead."""
    gpus: GpuSite = ANY_SITE
    """What the nodes with GPUs have."""
    workspace: WorkspaceVolume | None = None
    """Volume of the workspaces of jobs that name none."""
    data_sets: Mapping[str, Mapping[str, DataSet]] = field(default_factory=dict)
    """Study, data set, volume."""
    python: str = DEFAULT_PYTHON
    """Python executable of jobs with a Python module that name none."""
    ignored: tuple[str, ...] = ()
    """Fields below `spec` that the workspace decides on and that are left out of the job's spec; sorted."""
    hidden: tuple[EnvVar, ...] = ()
    """Variables that the spec does not have and pods of the attempt may have: what they are set to is secret, too."""
    known: bool = True
    """False for a client, which cannot say what the site of the operator has."""

    def hiding(self, spec: SliceJobSpec | None) -> SliceJobSpec | None:
        """The spec with the variables of all secrets that programs may print; for `redact` alone."""
        return spec.model_copy(update={"env": (*spec.env, *self.hidden)}) if spec and self.hidden else spec


NO_CHART: Final = Profile(CHART, for_all=True)
"""Values of a chart that say nothing about the site."""
NO_SITE: Final = Site()
"""A site without defaults whose chart says nothing."""
UNKNOWN_SITE: Final = Site(limits=(), gpus=UNKNOWN_GPUS, known=False)
"""The site of a job of which only the SliceJob is known."""
