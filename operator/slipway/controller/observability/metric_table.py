"""Every metric of the operator, in one table: `metrics` makes them from it, and docs/metrics.md is generated from it.

A label has a fixed set of values, whatever users write and however large the cluster is. So no metric names a job, a
namespace or a node: `kubectl get slicejobs` and the Events do that, and the runbooks of the alerts say how.
"""

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from slipway.api import names
from slipway.api.profile import PROFILE_PLURAL
from slipway.api.status import Cause, Phase
from slipway.apiserver.request_counts import NO_ANSWER, VERBS
from slipway.core.accounting.measures import STATES, SUCCESS, TimedStep
from slipway.core.planner.status.waiting import WAITING_REASONS
from slipway.core.vocabulary.endings import ENDINGS
from slipway.version import VERSION

OTHER: Final = "other"
"""What a value that is not in the table reads as, such as a word of another version."""


class Kind(StrEnum):
    """What Prometheus makes of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and every value it may have, besides OTHER."""

    name: str
    values: tuple[str, ...]
    words: str = ""
    """The values in words, for those that are too many to list."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row."""

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in seconds."""
    of_leader: bool = True
    """Whether only the leader has it. All others are of each process."""


_CAUSE: Final = Label("cause", tuple(Cause))
_OUTCOME: Final = Label("cause", (*Cause, SUCCESS))
SUCCEEDED: Final = "Succeeded"
_REASON: Final = Label("reason", (*ENDINGS, SUCCEEDED), "the reasons of [causes.md](causes.md), `Succeeded`")
_PHASE: Final = Label("phase", tuple(Phase))
_WAITS_FOR: Final = Label("reason", WAITING_REASONS, "the reasons of [status.md](status.md)")
HARDWARE: Final = ("tpu", "gpu", "cpu")
_STATE: Final = Label("state", STATES)
_HARDWARE: Final = Label("hardware", HARDWARE)
LOST_SHARES: Final = (0.05, 0.1, 0.2, 0.5)
_MORE_THAN: Final = Label("more_than", tuple(map(str, LOST_SHARES)))
_RESULT: Final = Label("result", ("done", "api_error", "mistake"))
_VERB: Final = Label("verb", VERBS)
_CODE: Final = Label(
    "code",
    (*(str(status.value) for status in HTTPStatus), NO_ANSWER),
    f"the HTTP status, `{NO_ANSWER}` without an answer",
)
_OF_KUEUE: Final = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses")
_RESOURCE: Final = Label("resource", (names.PLURAL, PROFILE_PLURAL, "pods", "nodes", *_OF_KUEUE))
_VERSION: Final = Label("version", (VERSION,), "the version of this process")

_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SHORT: Final = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_LONG: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)

_ROWS: Final = (
    Metric("slipway_attempts_started_total", Kind.COUNTER, "Attempts that have begun."),
    Metric(
        "slipway_attempts_ended_total",
        Kind.COUNTER,
        "Attempts that have ended, by the budget that was charged and the reason; counted when the cause is final.",
        (_OUTCOME, _REASON),
    ),
    Metric(
        "slipway_restarts_total",
        Kind.COUNTER,
        "Attempts that have begun after another one of the job, by the cause of that one's end.",
        (_CAUSE,),
    ),
    Metric(
        f"slipway_{TimedStep.DETECT}_seconds",
        Kind.HISTOGRAM,
        "From the first failure of an attempt, as the cluster dates it, to the write that ends the attempt.",
        (_CAUSE,),
        _SHORT,
    ),
    Metric(
        f"slipway_{TimedStep.FENCE}_seconds",
        Kind.HISTOGRAM,
        "From the end of an attempt until no pod of it may still run, so that it is charged.",
        (_CAUSE,),
        _SHORT,
    ),
    Metric(
        f"slipway_{TimedStep.CREATE}_seconds",
        Kind.HISTOGRAM,
        "From the beginning of an attempt to the creation of its last pod.",
        (),
        _SHORT,
    ),
    Metric(
        f"slipway_{TimedStep.SCHEDULE}_seconds",
        Kind.HISTOGRAM,
        "From there until every pod has a node; this includes any wait for capacity.",
        (),
        _LONG,
    ),
    Metric(
        f"slipway_{TimedStep.START}_seconds",
        Kind.HISTOGRAM,
        "From there until every host runs. Create, schedule and start add up to the start of an attempt.",
        (),
        _SHORT,
    ),
    Metric(
        f"slipway_{TimedStep.RECOVERY}_seconds",
        Kind.HISTOGRAM,
        "From the first failure of an attempt that ran until all hosts of the job run again, by the cause of that "
        "attempt's end; not measured when the job was suspended in between.",
        (_CAUSE,),
        _LONG,
    ),
    Metric(
        "slipway_job_seconds_total",
        Kind.COUNTER,
        "Time of SliceJobs by state, as `status.ledger` accounts for it: a state is added when it is over, and time "
        "that was lost with an attempt when it is charged and when the next one runs.",
        (_STATE,),
    ),
    Metric(
        "slipway_chip_seconds_total",
        Kind.COUNTER,
        "The same, each second multiplied by the TPU chips or GPUs of the pods that were bound to nodes.",
        (_STATE,),
    ),
    Metric("slipway_jobs", Kind.GAUGE, "SliceJobs by phase.", (_PHASE,)),
    Metric("slipway_jobs_waiting", Kind.GAUGE, "SliceJobs that want to run and do not, by reason.", (_WAITS_FOR,)),
    Metric(
        "slipway_jobs_losing_time",
        Kind.GAUGE,
        "Unfinished SliceJobs that lost more than this part of their time to attempts that ended; time in which they "
        "neither ran nor were to run again is left out. A job counts for every part that it exceeds.",
        (_MORE_THAN,),
    ),
    Metric("slipway_slices_wanted", Kind.GAUGE, "Slices that unfinished, unsuspended SliceJobs request.", (_HARDWARE,)),
    Metric(
        "slipway_slices_ready",
        Kind.GAUGE,
        "Slices of those jobs in which every host runs or has succeeded.",
        (_HARDWARE,),
    ),
    Metric(
        "slipway_jobs_fenced",
        Kind.GAUGE,
        "SliceJobs whose next attempt may not begin because pods of an ended one may still run.",
    ),
    Metric(
        "slipway_fence_held_seconds",
        Kind.GAUGE,
        "For how long that has been so for the job that has waited longest; 0 when there is none.",
    ),
    Metric(
        "slipway_reconcile_seconds",
        Kind.HISTOGRAM,
        "One look at a job: the decision and all requests that carry it out. `api_error` and `mistake` are repeated; "
        "`mistake` is a fault of Slipway, with a traceback in the log.",
        (_RESULT,),
        _QUICK,
    ),
    Metric("slipway_queue_depth", Kind.GAUGE, "SliceJobs that are due to be looked at and wait for their turn."),
    Metric("slipway_queue_age_seconds", Kind.GAUGE, "For how long the first of them has been due; 0 when none is."),
    Metric(
        "slipway_api_calls_total",
        Kind.COUNTER,
        "Requests to the API server, each try counted, by Kubernetes' verb and HTTP status. A watch counts when it "
        "begins.",
        (_VERB, _CODE),
        of_leader=False,
    ),
    Metric(
        "slipway_watch_age_seconds",
        Kind.GAUGE,
        "Time since the last sign of life of the most silent watch of a resource: an event or one of the bookmarks "
        "that the API server sends each minute. Of `slicejobs`, which kopf watches, the last beginning of a watch of "
        "each served namespace, which is at least every 290 s. A resource that the role does not allow to watch is "
        "left out. So are the last five, which are Kueue's, where there is no Kueue.",
        (_RESOURCE,),
        of_leader=False,
    ),
    Metric(
        "slipway_nodes_watched",
        Kind.GAUGE,
        "1 if the role of the operator allows it to watch nodes, else 0: then a dead machine is only noticed by its "
        "pods, and no pod is force-deleted.",
        of_leader=False,
    ),
    Metric("slipway_leader", Kind.GAUGE, "1 in the process that holds the Lease, 0 in a standby.", of_leader=False),
    Metric(
        "slipway_lease_age_seconds",
        Kind.GAUGE,
        "Time since the last renewal of the Lease that was answered.",
    ),
    Metric(
        "slipway_lease_deadline_seconds",
        Kind.GAUGE,
        "The age of the Lease from which on the leader writes nothing more: the renew deadline of the settings.",
    ),
    Metric(
        "slipway_loop_lag_seconds",
        Kind.GAUGE,
        "How late the event loop was at worst in the last minute or so.",
        of_leader=False,
    ),
    Metric("slipway_build_info", Kind.GAUGE, "Always 1.", (_VERSION,), of_leader=False),
)
METRICS: Final = {row.name: row for row in _ROWS}
"""Every metric by its name."""
