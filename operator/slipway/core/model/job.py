"""A SliceJob as the planner sees it, and the settings of the operator."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import ConditionType, SliceJobStatus, same_defaults
from slipway.core.model.parts import packed, unpacked
from slipway.core.model.site import NO_SITE, Site
from slipway.version import VERSION

Key = tuple[str, str]
"""(namespace, name) of a SliceJob."""

OPERATOR_IMAGE: Final = f"ghcr.io/slipway-dev/slipway:{VERSION}"
"""The image of this version of Slipway, unless the operator is told another."""


@dataclass(frozen=True, slots=True)
class Job:
    """A SliceJob as it was last read."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: datetime
    spec: SliceJobSpec | None
    """With the defaults of the site; None when the spec cannot be read, and `problem` says why."""
    status: SliceJobStatus
    problem: str = ""
    operator_id: str = ""
    """The operator that its label names; empty for the one without an id."""
    queue: str | None = None
    """The LocalQueue of Kueue that its label names; None without the label."""
    queue_priority: str = ""
    """The WorkloadPriorityClass that its label names."""
    origin: str = ""
    """The origin that its label names where MultiKueue has copied it from another cluster; else empty."""
    deleting: bool = False
    orphaning: bool = False
    """Whether its deletion leaves the dependents alone (`--cascade=orphan`)."""
    status_problem: str = ""
    """Field, value and fault of what cannot be read in the status; `status` holds the rest, and stays as it is."""
    status_lost: bool = False
    """Whether somebody has emptied the stored status: `status` is what it was before, and is to be written again."""
    stored: bytes = field(default=packed({}), compare=False, repr=False)
    """The `stored_status`, packed: of thousands of jobs that are over it is most of what is known."""
    accepted: dict["Settings", Any] = field(default_factory=dict, compare=False, repr=False)
    """What was made of the spec under these settings; all versions of the job with one spec and site share it."""
    given: SliceJobSpec | None = field(default=None, compare=False, repr=False)
    """The spec as its author wrote it, where the site has added defaults to it."""
    site: Site = NO_SITE
    """What the site says of the job."""

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    @property
    def stored_status(self) -> Mapping[str, Any]:
        """The status as it is stored, with what only another version can read."""
        return unpacked(self.stored)

    @property
    def is_as_accepted(self) -> bool:
        """Whether the status says of the spec as it is now that it is accepted."""
        accepted = self.status.condition(ConditionType.ACCEPTED)
        return accepted is not None and accepted.status == "True" and accepted.observed_generation == self.generation

    @property
    def elsewhere(self) -> bool:
        """Whether it runs in another cluster, which MultiKueue chooses."""
        return self.spec is not None and self.spec.managed_by is not None

    @property
    def written(self) -> SliceJobSpec | None:
        """The spec as its author wrote it."""
        return self.given or self.spec

    @property
    def in_attempt(self) -> bool:
        """Whether an attempt has begun and not ended."""
        return self.status.attempt is not None and not self.status.attempt_ended

    @property
    def defaults_unknown(self) -> bool:
        """Whether the newest attempt began with other defaults of the site than the spec has."""
        newest = self.status.newest
        return newest is not None and not same_defaults(newest.defaults, self.site.applied)

    @property
    def granted(self) -> int:
        """Slices of the current attempt."""
        return self.status.slices.granted if self.status.slices else self.spec.most_slices if self.spec else 0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the operator that the planner reads."""

    coordinator_port: int = names.DEFAULT_COORDINATOR_PORT
    topology_key: str = names.NODE_POOL
    """Node label whose values are TPU slices."""
    max_pods: int = names.MAX_PODS
    """Worker pods that one job may have."""
    whole_cluster: bool = False
    """Whether this operator watches all namespaces and so knows the pods of every job."""
    operator_image: str = OPERATOR_IMAGE
    """The image with Slipway in it; empty where the operator was not told."""
    maker: str = "the API server"
    """Who takes or refuses pods, in messages."""
    operator_id: str = ""
    """The id of this operator, which serves the SliceJobs that name it."""
    images_by_id: bool = False
    """Whether a job may name an image by its id, which no registry knows."""


UNKNOWN_OPERATOR: Final = Settings(max_pods=sys.maxsize)
"""What a client takes a cluster's operator to have: no bound on pods, for only the site knows its own."""
