"""The alerts and the dashboard ask only for what the operator serves, and the chart hands both on as they are."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import promql_parser as promql
import pytest
import yaml

from slipway.controller.gauges import of_jobs
from slipway.controller.observability.metric_table import METRICS, Kind, Metric
from tests.chart.conftest import CHART, Helm
from tests.places import ROOT

RULES = yaml.safe_load((CHART / "files/rules.yaml").read_text())
ALERTS = {one["alert"]: one for group in RULES["groups"] for one in group["rules"]}
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
PANELS = {one["title"]: one for one in DASHBOARD["panels"]}
EXPRESSIONS = {name: [one["expr"]] for name, one in ALERTS.items()} | {
    title: [target["expr"] for target in one["targets"]] for title, one in PANELS.items()
}
OF_TARGETS = {"pod", "namespace", "job"}
"""Labels that the scrape adds."""


def parsed(expression: str) -> promql.Expr:
    """The expression, with an interval in place of Grafana's own."""
    return promql.parse(expression.replace("$__rate_interval", "5m").replace("$__range", "1d"))


def within(node: Any) -> Iterator[Any]:
    """An expression and all that it is made of."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "args", "vector_selector"):
        below = getattr(node, name, None)
        for one in below if isinstance(below, list) else [below]:
            if one is not None:
                yield from within(one)


def row_of(name: str) -> tuple[Metric, set[str]]:
    """The row of a sample, and the labels that it has."""
    found = METRICS.get(name) or METRICS[re.sub(r"_(bucket|count|sum)$", "", name)]
    assert (found.name == name) == (found.kind is not Kind.HISTOGRAM)
    return found, {label.name for label in found.labels} | ({"le"} if name.endswith("_bucket") else set())


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_every_expression_asks_for_metrics_labels_and_values_of_the_table(title: str) -> None:
    for expression in EXPRESSIONS[title]:
        parts = list(within(parsed(expression)))
        selectors = [one for one in parts if isinstance(one, promql.VectorSelector)]
        assert selectors
        labels = set(OF_TARGETS)
        for selector in selectors:
            row, allowed = row_of(selector.name)
            labels |= allowed
            for matcher in selector.matchers.matchers:
                values = next(label.values for label in row.labels if label.name == matcher.name)
                assert any(re.fullmatch(matcher.value, value) for value in values), matcher.value
        grouped = [one.modifier.labels for one in parts if isinstance(one, promql.AggregateExpr) and one.modifier]
        assert {label for some in grouped for label in some} <= labels


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_words_and_a_runbook(name: str) -> None:
    alert = ALERTS[name]
    said = alert["annotations"]
    assert said.keys() == {"summary", "description", "runbook"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    page, _, chapter = said["runbook"].partition("#")
    assert chapter == name.lower()
    assert f"\n### {name}\n" in (ROOT / page).read_text()
    labels = set(re.findall(r"\$labels\.(\w+)", said["description"]))
    rows = [row_of(one.name)[1] for one in within(parsed(alert["expr"])) if isinstance(one, promql.VectorSelector)]
    assert all(labels <= row for row in rows)


PROMISED: dict[str, tuple[list[float], str | None]] = {
    "SlipwayJobLosesTime": ([0.0], "30m"),
    "SlipwayFenceIsHeld": ([600.0], None),
    # A watch that broke and was begun anew is heard after 136 s; the kubelet restarts the operator after 210 s.
    "SlipwayWatchIsSilent": ([140.0, 600.0], None),
    "SlipwayLeaseIsLate": ([0.6], "10m"),
}
"""What each of these alerts compares with, and for how long."""


@pytest.mark.parametrize(("name", "promised"), PROMISED.items(), ids=PROMISED)
def test_an_alert_fires_when_its_words_say(name: str, promised: tuple[list[float], str | None]) -> None:
    numbers = [one.val for one in within(parsed(ALERTS[name]["expr"])) if isinstance(one, promql.NumberLiteral)]
    assert (numbers, ALERTS[name].get("for")) == promised


def test_an_operator_without_a_leader_is_noticed_beside_one_that_has_a_leader() -> None:
    expression = parsed(ALERTS["SlipwayHasNoLeader"]["expr"])
    of_each, of_none = expression.lhs, expression.rhs
    assert (str(expression.op), str(of_each.op), of_each.rhs.val) == ("or", "==", 0.0)
    # The pods of one operator have these labels in common; one pod of them leads.
    assert (str(of_each.lhs.op), of_each.lhs.modifier.labels) == ("max", ["namespace", "job"])
    assert (of_none.func.name, of_none.args[0].matchers.matchers) == ("absent", [])


def test_the_requests_of_an_operator_are_judged_beside_many_that_succeed() -> None:
    parts = [*within(parsed(ALERTS["SlipwayApiServerErrors"]["expr"]))]
    sums = [one for one in parts if isinstance(one, promql.AggregateExpr)]
    assert [one.modifier and one.modifier.labels for one in sums] == [["namespace", "job"]] * 2


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_jobs_and_slices_of_several_operators_are_added_up(title: str) -> None:
    for one in (part for expression in EXPRESSIONS[title] for part in within(parsed(expression))):
        if isinstance(one, promql.AggregateExpr) and isinstance(one.expr, promql.VectorSelector):
            assert str(one.op) == "sum" or not re.fullmatch("slipway_(jobs|slices)(_.*)?", one.expr.name)


@pytest.mark.parametrize("of", ["jobs", "chips"])
def test_the_dashboard_shows_where_the_time_of_the_fleet_went(of: str) -> None:
    metrics = {"jobs": "slipway_job_seconds_total", "chips": "slipway_chip_seconds_total"}
    assert metrics[of] in PANELS[f"Where the {of}' time went"]["targets"][0]["expr"]


NO_JOBS = of_jobs((), datetime(2026, 11, 1, tzinfo=UTC))
"""The series of the cluster's jobs while there are none."""
NUMBERS = [title for title, one in PANELS.items() if one["type"] == "stat"]


@pytest.mark.parametrize("title", NUMBERS)
def test_a_number_is_shown_while_there_are_no_jobs(title: str) -> None:
    [expression] = EXPRESSIONS[title]
    names = {one.name for one in within(parsed(expression)) if isinstance(one, promql.VectorSelector)}
    assert [name for name in names if NO_JOBS.get(name, True)]


def test_no_panel_divides_by_a_number_of_the_cluster_that_may_be_zero() -> None:
    for title in PANELS:
        for one in (part for expression in EXPRESSIONS[title] for part in within(parsed(expression))):
            if isinstance(one, promql.BinaryExpr) and str(one.op) == "/":
                below = [*within(one.rhs)]
                known = not any(isinstance(part, promql.VectorSelector) for part in below)
                above_zero = any(isinstance(part, promql.BinaryExpr) and str(part.op) == ">" for part in below)
                assert known or above_zero, title


def test_every_runbook_is_that_of_an_alert() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == list(ALERTS)


def test_every_legend_of_the_dashboard_names_a_label_that_is_left() -> None:
    for panel in PANELS.values():
        for target in panel["targets"]:
            top = next((one for one in within(parsed(target["expr"])) if isinstance(one, promql.AggregateExpr)), None)
            left = set(top.modifier.labels) if top is not None and top.modifier else OF_TARGETS
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= left


def test_the_panels_do_not_overlap() -> None:
    taken = [
        (column, row)
        for panel in PANELS.values()
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert {column for column, _ in taken} == set(range(24))


# What the chart makes of them.

ALL = {
    "metrics": {
        "port": 9090,
        "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
        "podMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
    }
}
KINDS = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "Service"}


def rendered(helm: Helm, values: Any) -> dict[str, Any]:
    """The objects about metrics, by kind."""
    objects = helm.template(values)
    return {
        one["kind"]: one for one in objects if one["kind"] in KINDS or one["metadata"]["name"].endswith("dashboard")
    }


@pytest.mark.timeout(1800)
def test_everything_is_handed_on(helm: Helm) -> None:
    found = rendered(helm, ALL)
    assert found["PrometheusRule"]["spec"] == RULES
    assert json.loads(found["ConfigMap"]["data"]["slipway.json"]) == DASHBOARD
    assert found["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "yes"
    for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule"):
        assert found[kind]["metadata"]["labels"]["release"] == "prometheus"
    assert found["ServiceMonitor"]["spec"]["endpoints"] == [{"port": "metrics", "interval": "15s"}]
    assert found["PodMonitor"]["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "interval": "1m"}]
    [port] = found["Service"]["spec"]["ports"]
    assert port == {"name": "metrics", "port": 9090, "targetPort": "metrics"}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "values", [{}, {"metrics": ALL["metrics"] | {"enabled": False}}], ids=["by default", "no metrics"]
)
def test_nothing_is_made_that_nobody_asked_for(helm: Helm, values: Any) -> None:
    assert rendered(helm, values) == {}
