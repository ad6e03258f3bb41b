"""The states of one process, looked at when a scrape asks: jobs, queue, requests, watches, Lease.

A look walks over every job once, some milliseconds for ten thousand of them. Nothing here costs anything per event.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slipway.api import names
from slipway.api.status import Phase, PhaseKind, Resolved
from slipway.apiserver import paths
from slipway.apiserver.request_counts import Calls
from slipway.controller.clock import Clock
from slipway.controller.engine import Engine
from slipway.controller.lease import Lease
from slipway.controller.observability.metric_table import HARDWARE, LOST_SHARES, METRICS, Kind
from slipway.controller.observability.metrics import bounded
from slipway.controller.seen.watches import silences
from slipway.core.accounting.measures import fenced_since, lost_share
from slipway.core.model.job import Job
from slipway.core.planner.status.waiting import waiting_reason
from slipway.version import VERSION

Labels = tuple[str, ...]
Series = Mapping[Labels, float]
"""Values by the values of the labels, in the order of the table."""
_AT_REST: Final = frozenset(one for one in Phase if one.kind in (PhaseKind.RESTS, PhaseKind.REFUSED))


class Gauges(Collector):
    """What Prometheus' registry asks at each scrape."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._engine: Engine | None = None
        self._lease: Lease | None = None

    def follow(self, engine: Engine | None, lease: Lease | None) -> None:
        """Look at these from now on; at None while the operator waits for the CRD or for the API server."""
        self._engine, self._lease = engine, lease

    def describe(self) -> Iterator[Metric]:
        """Nothing: without this the registry would look at everything once more when it is made."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every metric of the table that is a state of this process."""
        for name, series in self._states().items():
            row = METRICS[name]
            kind = CounterMetricFamily if row.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(name, row.help, labels=[label.name for label in row.labels])
            for values, value in series.items():
                family.add_metric(values, value)
            yield family

    def _states(self) -> dict[str, Series]:
        age = self._lease.age if self._lease is not None else None
        found: dict[str, Series] = {
            "slipway_api_calls_total": _calls(self._calls),
            "slipway_build_info": {(VERSION,): 1.0},
            "slipway_leader": {(): float(age is not None)},
        }
        if (engine := self._engine) is None:
            return found
        found["slipway_nodes_watched"] = {(): float(engine.cache.nodes.watched)}
        found["slipway_loop_lag_seconds"] = {(): engine.lag.worst}
        found["slipway_watch_age_seconds"] = self._watch_ages(engine)
        if age is None or self._lease is None or not engine.leads:
            return found
        depth, oldest = engine.queue.backlog()
        found["slipway_lease_age_seconds"] = {(): age}
        found["slipway_lease_deadline_seconds"] = {(): self._lease.times.deadline}
        found["slipway_queue_depth"] = {(): depth}
        found["slipway_queue_age_seconds"] = {(): oldest}
        return found | of_jobs(engine.cache.jobs.all(), self._clock.now())

    def _watch_ages(self, engine: Engine) -> Series:
        ages = engine.watch_ages() | silences(engine.queues.sources, 0.0, self._clock.monotonic)
        # What a process has watched before may be served no longer, as when a namespace was deleted.
        begun = [self._calls.last_watched(paths.jobs(namespace)) for namespace in engine.namespaces]
        ages[names.PLURAL] = self._clock.monotonic() - max(min(begun), engine.started)
        return {(resource,): age for resource, age in ages.items()}


def of_jobs(jobs: Iterable[Job], now: datetime) -> dict[str, Series]:
    """The jobs of the cluster, counted in one walk."""
    phases: Counter[Labels] = Counter({(phase.value,): 0 for phase in Phase})
    waiting: Counter[Labels] = Counter()
    losing: Counter[Labels] = Counter({(str(share),): 0 for share in LOST_SHARES})
    wanted: Counter[Labels] = Counter({(kind,): 0 for kind in HARDWARE})
    ready = Counter(wanted)
    fenced = [0.0]
    for job in jobs:
        status = job.status
        phases[_only("slipway_jobs", phase=status.phase or Phase.PENDING)] += 1
        if (reason := waiting_reason(status)) is not None:
            waiting[_only("slipway_jobs_waiting", reason=reason)] += 1
        if (since := fenced_since(status)) is not None:
            fenced.append((now - since).total_seconds())
        if job.spec is None or status.resolved is None or status.final or status.phase in _AT_REST:
            continue
        share = lost_share(job.created, status, now)
        losing.update((str(one),) for one in LOST_SHARES if share > one)
        kind = (_hardware(status.resolved),)
        wanted[kind] += job.spec.most_slices
        ready[kind] += status.slices.ready if status.slices is not None else 0
    return {
        "slipway_jobs": phases,
        "slipway_jobs_waiting": waiting,
        "slipway_jobs_losing_time": losing,
        "slipway_slices_wanted": wanted,
        "slipway_slices_ready": ready,
        "slipway_jobs_fenced": {(): len(fenced) - 1},
        "slipway_fence_held_seconds": {(): max(fenced)},
    }


def _hardware(resolved: Resolved) -> str:
    if resolved.gpu_resource is not None:
        return "gpu"
    return "tpu" if resolved.chips_per_host else "cpu"


def _calls(calls: Calls) -> Series:
    found: Counter[Labels] = Counter()
    for (verb, code), count in calls.counts.items():
        found[_only("slipway_api_calls_total", verb=verb, code=code)] += count
    return found


def _only(name: str, **labels: str) -> Labels:
    return tuple(bounded(name, labels).values())
