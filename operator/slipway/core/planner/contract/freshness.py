"""How recently pods and nodes must have been read before a step that cannot be undone.

A watch may lag without a sign, above all in a process that has only just become the leader. So a step that follows from
an absence, or from time alone, needs a read that this leader made. A step that follows from the content of an object
needs none, because that content is true however late it arrives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

FRESH: Final = timedelta(seconds=10)
"""Maximum age of the list of pods for a step that follows from time alone."""
MAX_NODE_READS: Final = 64
"""At most this many Nodes, the first by name, are read again before an attempt ends or is charged."""
EVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Horizon:
    """When this process last read from the API server, apart from its watches."""

    leading_since: datetime = EVER
    """When this process became the leader."""
    pods_as_of: datetime | None = None
    """When the job's pods were last listed: the moment of the request."""
    pods_read_at: datetime | None = None
    """When the answer to that had arrived; a list of thousands takes long."""
    creates_end: datetime = EVER
    """When the last create of a pod that got no answer can no longer be carried out."""
    nodes_as_of: Mapping[str, datetime] = field(default_factory=dict)
    """When each Node was last read with GET."""
    workload_as_of: datetime | None = None
    """When the job's Workload was last read with GET."""


class Step(Enum):
    """A step that cannot be undone."""

    END_BY_TIME = "end an attempt or a job because a time is over"
    END_START = "end an attempt because pods do not start on nodes that look ready"
    END_BY_NODE = "end an attempt because a node is gone"
    END_BY_ABSENCE = "end an attempt because a pod is not there"
    END_BY_RESTART = "end an attempt because a worker that ran waits for another run"
    CHARGE = "charge an attempt although no kubelet saw how some of its pods ended"
    FOLLOW_ON = "judge or follow an attempt although pods of it may exist that were not seen"
    END_EVICTED = "end an attempt because the queue does not admit the job any more"
    END_HELD = "end an attempt of another process because the queue does not admit the job"
    CREATE_BESIDE = "create pods beside those that another process has pinned to node pools"
    CREATE_ADMITTED = "create pods because the queue has admitted the job, perhaps before another process led"


class Since(Enum):
    """The earliest time of a read that suffices; it is never before this process became the leader."""

    LEADING = "the leadership"
    EVENT = "the event that the step answers"
    LATELY = "the event, and the last 10 s"


PODS: Final = {
    Step.END_BY_TIME: Since.LATELY,
    Step.END_START: Since.LATELY,
    Step.END_BY_NODE: Since.EVENT,
    Step.END_BY_ABSENCE: Since.EVENT,
    Step.END_BY_RESTART: Since.EVENT,
    Step.END_EVICTED: Since.LATELY,
    Step.FOLLOW_ON: Since.EVENT,
    Step.CREATE_BESIDE: Since.LEADING,
}
"""Steps that need a list of the job's pods."""
NODES: Final = {Step.CHARGE: Since.EVENT, Step.END_START: Since.EVENT}
"""Steps that need GETs of certain Nodes."""
WORKLOAD: Final = frozenset({Step.END_HELD, Step.CREATE_ADMITTED})
"""Steps that need a GET of the job's Workload by this leader: whether it is admitted changes both ways."""


def is_recent(since: Since, known: Horizon, event: datetime, now: datetime) -> bool:
    """Whether the last list of the pods suffices for a step that answers an event."""
    listed, read = known.pods_as_of, known.pods_read_at
    if listed is None or listed < needed_since(since, known, event):
        return False
    return since is not Since.LATELY or max(listed, read or listed) >= now - FRESH


def needed_since(since: Since, known: Horizon, event: datetime) -> datetime:
    """The time from which on an answer suffices."""
    return known.leading_since if since is Since.LEADING else max(known.leading_since, event)
