"""The counters and histograms of one process, and what a scrape gets.

They are raised where things happen: each costs microseconds. What is a state rather than an event is not kept here but
looked at when a scrape asks (`gauges`). A new process begins at zero, which `rate` and `increase` expect.
"""

from collections.abc import Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from slipway.controller.observability.metric_table import METRICS, OTHER, SUCCEEDED, Kind
from slipway.core.accounting.measures import SUCCESS, Begun, Ended, Measure, Passed, Took
from slipway.core.vocabulary.endings import ENDINGS

# When each series began would be a gauge beside each counter; a process says it once, in process_start_time_seconds.
disable_created_metrics()  # type: ignore[no-untyped-call]  # The client has no types for it.


class Metrics:
    """What has happened in this process."""

    def __init__(self, *states: Collector) -> None:
        """`states` are asked for the rest of the table at each scrape."""
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for row in METRICS.values():
            labels = [label.name for label in row.labels]
            if row.kind is Kind.HISTOGRAM:
                made = Histogram(row.name, row.help, labels, buckets=row.buckets, registry=self._registry)
                self._histograms[row.name] = made
            elif row.kind is Kind.COUNTER and row.of_leader:
                self._counters[row.name] = Counter(row.name, row.help, labels, registry=self._registry)
        for collector in states:
            self._registry.register(collector)
        self._begin_at_zero()

    def count(self, found: Iterable[Measure]) -> None:
        """Count what has happened to the attempts of a job."""
        for one in found:
            match one:
                case Begun(after):
                    self._raise("slipway_attempts_started_total")
                    if after is not None:
                        self._raise("slipway_restarts_total", cause=after)
                case Ended(outcome, reason):
                    self._raise("slipway_attempts_ended_total", cause=outcome, reason=reason)
                case Passed(state, seconds, chips):
                    self._raise("slipway_job_seconds_total", seconds, state=state)
                    self._raise("slipway_chip_seconds_total", chips, state=state)
                case Took(step, seconds, cause):
                    self._observe(f"slipway_{step}_seconds", seconds, **({} if cause is None else {"cause": cause}))

    def reconciled(self, seconds: float, result: str) -> None:
        """One look at a job is over."""
        self._observe("slipway_reconcile_seconds", seconds, result=result)

    async def answer(self, request: web.Request) -> web.Response:
        """All metrics in the format that the scraper prefers."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    def _begin_at_zero(self) -> None:
        """Show every series before its first event, which `rate` would not see otherwise."""
        for name, made in (*self._counters.items(), *self._histograms.items()):
            if len(METRICS[name].labels) == 1:
                for value in METRICS[name].labels[0].values:
                    made.labels(value)
        outcomes = {(SUCCESS, SUCCEEDED), *((ending.cause, ending.reason) for ending in ENDINGS.values())}
        for outcome, reason in outcomes:
            self._counters["slipway_attempts_ended_total"].labels(outcome, reason)

    def _raise(self, name: str, by: float = 1.0, **labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(**bounded(name, labels)) if labels else counter).inc(by)

    def _observe(self, name: str, seconds: float, **labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(**bounded(name, labels)) if labels else histogram).observe(seconds)


def bounded(name: str, labels: dict[str, str]) -> dict[str, str]:
    """The labels of a metric with no other value than the table has."""
    allowed = {label.name: label.values for label in METRICS[name].labels}
    return {label: value if value in allowed[label] else OTHER for label, value in labels.items()}
