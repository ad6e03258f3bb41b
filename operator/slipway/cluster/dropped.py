"""Fields of a status that the API server does not keep, as its CRD is of another version than the operator."""

import logging
from typing import Final

from slipway.api.status import SliceJobStatus
from slipway.planner.snapshot import Job
from slipway.planner.status_patch import fields, status_patch

log = logging.getLogger(__name__)

DROPPED_SECONDS: Final = 5.0
"""After which a job is looked at again of whose status a field was dropped: that would be written again at once."""
_WARNING: Final = (
    "the API server has dropped %s of a SliceJob, so it has the CRD of another version: "
    "install the one of this version (kubectl apply --server-side -f crds/, or helm upgrade)"
)


class Dropped:
    """Warns of each field once."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def pause(self, written: Job, wanted: SliceJobStatus) -> float:
        """Seconds to wait before a job is looked at again whose status was written; none if all of it was kept."""
        if written.status == wanted or not (dropped := {*fields(status_patch(written, wanted))}):
            return 0.0
        if dropped - self._named:
            log.warning(_WARNING, ", ".join(sorted(dropped)))
            self._named |= dropped
        return DROPPED_SECONDS
