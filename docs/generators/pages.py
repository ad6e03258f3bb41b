"""Writes what follows from the models and the planner's tables: `make generate`.

That is parts of the pages, and in the schema of the chart's values the descriptions and the part about profiles.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from docs.generators import chart
from docs.generators.variables import VARIABLES
from slipway.api.ledger import Account, Loss
from slipway.api.profile import ProfileSpec
from slipway.api.status import Cause, Phase
from slipway.controller.observability.metric_table import METRICS, Label
from slipway.core.explain import scheduler
from slipway.core.explain.api_server import ROWS
from slipway.core.explain.kubelet import TROUBLES, Trouble
from slipway.core.planner.diagnosis.causes import RULES
from slipway.core.vocabulary.endings import ENDINGS, OF_ALL_HOSTS, Ending
from slipway.local.conversion.field_table import TABLE, Answer

DOCS: Final = Path(__file__).parents[1]
VALUES_SCHEMA: Final = chart.CHART / "values.schema.json"
_NAMED: Final = re.compile(r"\{(\w+)\}")
MARKED: Final = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class State:
    """One box of the diagram."""

    name: str
    phases: tuple[Phase | None, ...]
    label: str = ""

    @property
    def box(self) -> str:
        """The box in mermaid's words."""
        return f'{self.name}["{self.label or "<br>".join(phase or "" for phase in self.phases)}"]'


NEW: Final = State("New", (None,), "no phase yet")
BEGUN: Final = State("Begun", (Phase.PENDING, Phase.QUEUED, Phase.WAITING_FOR_CAPACITY, Phase.STARTING))
RUNNING: Final = State("Running", (Phase.RUNNING,))
RESTARTING: Final = State("Restarting", (Phase.RESTARTING,))
SUSPENDED: Final = State("Suspended", (Phase.SUSPENDED,))
INVALID: Final = State("Invalid", (Phase.INVALID,))
SUCCEEDED: Final = State("Succeeded", (Phase.SUCCEEDED,))
SPENT: Final = State("Spent", (Phase.FAILED, Phase.PREEMPTED))
CANCELLED: Final = State("Cancelled", (Phase.CANCELLED,))
ANY: Final = State("Any", (None, *(one for one in Phase if not one.final)), "any phase that is not final")


@dataclass(frozen=True)
class Change:
    """One arrow of the diagram."""

    before: State
    after: State
    why: str


CHANGES: Final = (
    Change(NEW, BEGUN, "attempt 0 begins, or waits for the pods of an earlier job of this name"),
    Change(NEW, INVALID, "the spec or the pods are rejected"),
    Change(BEGUN, INVALID, "the spec or the pods are rejected, and no attempt has begun"),
    Change(INVALID, BEGUN, "corrected"),
    Change(BEGUN, BEGUN, "pods are created, admitted, scheduled"),
    Change(BEGUN, RUNNING, "every host runs"),
    Change(BEGUN, SUCCEEDED, "every host exited 0"),
    Change(RUNNING, SUCCEEDED, "every host exited 0"),
    Change(BEGUN, RESTARTING, "the attempt ended"),
    Change(RUNNING, RESTARTING, "the attempt ended"),
    Change(RUNNING, BEGUN, "the attempt ended, and no pod of it is left"),
    Change(RESTARTING, BEGUN, "no pod may still run, and the delay has passed"),
    Change(BEGUN, SPENT, "a budget or a time limit is used up"),
    Change(RUNNING, SPENT, "a budget or a time limit is used up"),
    Change(RESTARTING, SPENT, "a budget or a time limit is used up"),
    Change(SUSPENDED, INVALID, "the spec or the pods are rejected"),
    Change(SUSPENDED, BEGUN, "resumed"),
    Change(SUSPENDED, RESTARTING, "resumed, and pods may still run"),
    Change(ANY, SUSPENDED, "spec.suspend"),
    Change(ANY, CANCELLED, "spec.cancel"),
)


def phases() -> Iterator[str]:
    """The diagram of the phases."""
    states = dict.fromkeys(state for change in CHANGES for state in (change.before, change.after))
    yield "```mermaid"
    yield "flowchart TD"
    yield from (f"    {state.box}" for state in states)
    yield from (f'    {one.before.name} -->|"{one.why}"| {one.after.name}' for one in CHANGES)
    yield "```"


def pod_endings() -> Iterator[str]:
    """The table of what the end of one pod means."""
    rows = (*OF_ALL_HOSTS, *(rule.ending for rule in RULES))
    yield "| reason | what was seen | charged to | what follows |"
    yield "|---|---|---|---|"
    yield from (f"| `{row.reason}` | {row.seen} | {row.cause} | {_follows(row)} |" for row in rows)


def attempt_endings() -> Iterator[str]:
    """The table of the endings that are not about one pod."""
    of_pods = {*OF_ALL_HOSTS, *(rule.ending for rule in RULES)}
    rows = [ending for ending in ENDINGS.values() if ending not in of_pods]
    assert all(row.cause is Cause.UNCHARGED for row in rows)
    yield "| reason | what happened | what follows |"
    yield "|---|---|---|"
    yield from (f"| `{row.reason}` | {row.seen} | {_follows(row)} |" for row in rows)


def troubles() -> Iterator[str]:
    """The table of what keeps pods that have nodes from starting."""
    return _explanations(TROUBLES)


def rejections() -> Iterator[str]:
    """The table of what the API server refuses pods for."""
    return _explanations(ROWS)


def _explanations(table: Iterable[Trouble]) -> Iterator[str]:
    rows = dict.fromkeys((row.reason, _NAMED.sub(r"*\1*", row.message), row.next_step) for row in table)
    yield "| reason | what is wrong | what helps |"
    yield "|---|---|---|"
    yield from (f"| `{reason}` | {message} | {help_} |" for reason, message, help_ in rows)


def shortages() -> Iterator[str]:
    """The table of why the scheduler finds no nodes."""
    yield "| reason | what it means |"
    yield "|---|---|"
    yield from (f"| `{reason}` | {meaning} |" for reason, meaning in scheduler.NODE_REASONS.items())


def states_of_time() -> Iterator[str]:
    """The table of the states in `status.ledger`."""
    yield from _parts("state", Account)


def parts_of_lost_time() -> Iterator[str]:
    """The table of the parts of lost time."""
    yield from _parts("part", Loss)


def _parts(heading: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"| {heading} | time |"
    yield "|---|---|"
    yield from (
        f"| `{to_camel(name)}` | {' '.join((field.description or '').split())} |"
        for name, field in model.model_fields.items()
    )


def variables() -> Iterator[str]:
    """The table of the variables that Slipway sets."""
    yield "| variable | value | in | may be set in `env` |"
    yield "|---|---|---|---|"
    yield from (
        f"| `{row.name}` | {row.value} | {row.where} | {'no' if row.reserved else 'yes'} |" for row in VARIABLES
    )


def metrics() -> Iterator[str]:
    """The table of the operator's metrics."""
    yield "| metric | kind | labels | of | what it says |"
    yield "|---|---|---|---|---|"
    for row in METRICS.values():
        labels = "; ".join(map(_label, row.labels))
        owner = "leader" if row.of_leader else "process"
        yield f"| `{row.name}` | {row.kind} | {labels} | {owner} | {row.help} |"


def _label(label: Label) -> str:
    words = label.words or ", ".join(f"`{value}`" for value in label.values)
    return f"`{label.name}`: {words}"


def converted_fields() -> Iterator[str]:
    """The table of the fields of a pod that a container of Docker has as well."""
    return _fields("what Docker is asked for", Answer.CONVERTED)


def refused_fields() -> Iterator[str]:
    """The table of the fields that are refused."""
    return _fields("why", Answer.REFUSED)


def meaningless_fields() -> Iterator[str]:
    """The table of the fields that say nothing on one machine."""
    return _fields("why", Answer.NOTHING)


def _fields(words: str, answer: Answer) -> Iterator[str]:
    """A row for all fields of which the same is said."""
    said: dict[str, list[str]] = {}
    for row in TABLE:
        if row.answer is answer:
            said.setdefault(row.words, []).append(f"`{row.path}`")
    yield f"| field of the pod | {words} |"
    yield "|---|---|"
    yield from (f"| {', '.join(paths)} | {text} |" for text, paths in said.items())


def _follows(ending: Ending) -> str:
    """The delay before the next attempt, and what else is different about it."""
    others = {
        "the number of slices stays": ending.keeps_slices,
        "these node pools are chosen last": ending.doubts_pools and not ending.scheduler_chooses,
        "the scheduler chooses the node pools": ending.scheduler_chooses,
        "not kept in `status.attempts`": not ending.a_try,
        "the pods keep their own grace period": ending.pods_own_grace,
    }
    delay = "the job ends" if ending.final else ending.delay.value
    return "; ".join((delay, *(words for words, holds in others.items() if holds)))


PAGES: Final = ("causes.md", "environment.md", "local.md", "metrics.md", "status.md", "../charts/slipway/README.md")
PARTS: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "what ends one pod": pod_endings,
    "what ends an attempt uncharged": attempt_endings,
    "phases": phases,
    "what keeps pods from starting": troubles,
    "what the API server refuses pods for": rejections,
    "why there are no nodes": shortages,
    "states of time": states_of_time,
    "parts of lost time": parts_of_lost_time,
    "variables": variables,
    "metrics": metrics,
    "what Docker is asked for": converted_fields,
    "what the local engine refuses": refused_fields,
    "what means nothing on one machine": meaningless_fields,
    "values of the chart": chart.table,
}


def generated(page: str) -> str:
    """A page with its generated parts as they should be."""
    return MARKED.sub(
        lambda part: part[1] + "\n".join(("", *PARTS[part[2]](), "", "")) + part[3], (DOCS / page).read_text()
    )


def values_schema() -> str:
    """The schema of the chart's values, with the comments of the values and the models of a profile."""
    schema = chart.described(json.loads(VALUES_SCHEMA.read_text()))
    profile = ProfileSpec.model_json_schema(by_alias=True)
    definitions = profile.pop("$defs") | {"ProfileSpec": profile}
    schema["$defs"] = {"quantities": schema["$defs"]["quantities"]} | _of_json_schema(definitions)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_json_schema(node: Any) -> Any:
    """A schema without what only a CRD can have."""
    if isinstance(node, list):
        return [_of_json_schema(one) for one in node]
    if not isinstance(node, dict):
        return node
    kept = {name: value for name, value in node.items() if value is not None and not name.startswith("x-kubernetes")}
    return {name: _of_json_schema(value) for name, value in kept.items() if name != "default"}


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(generated(name))
    VALUES_SCHEMA.write_text(values_schema())
