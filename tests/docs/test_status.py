"""The page about the status names what it says in one word: reasons, and Events."""

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from slipway.core.manifests import directories
from slipway.core.manifests.ray import cluster
from slipway.core.planner.queue.kueue import queue_refusals
from slipway.core.validation import acceptance, refusals, site
from slipway.core.vocabulary.charges import BUDGETS, CHARGES
from slipway.core.vocabulary.endings import ENDINGS, Delay
from tests.core.build import World
from tests.places import ROOT

PAGE = (ROOT / "docs/status.md").read_text()
REFUSING = (acceptance, queue_refusals, cluster, refusals, site, directories)
"""The modules that refuse a spec, each time with a reason and a message."""


def reasons(module: ModuleType) -> Iterator[str]:
    """The first of two values, or of two arguments, where that is one CamelCase word."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        given = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else ()
        first = given[0].value if len(given) == 2 and isinstance(given[0], ast.Constant) else None
        if isinstance(first, str) and re.fullmatch(r"(?:[A-Z][a-z]+){2,}", first):
            yield first


@pytest.mark.parametrize("module", REFUSING, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_reason_for_a_refusal_is_on_the_page(module: ModuleType) -> None:
    told = PAGE.partition("## What the operator refuses")[2].partition("\n## ")[0]
    assert sorted({reason for reason in reasons(module) if f"`{reason}`" not in told}) == []


def test_the_event_of_each_cause_is_on_the_page() -> None:
    assert [row.event for row in CHARGES.values() if f"`{row.event}`" not in PAGE] == []


def test_the_reason_of_a_budget_that_is_used_up_is_on_the_page() -> None:
    assert [budget.reason for budget in BUDGETS if f"`{budget.reason}`" not in PAGE] == []


def test_an_ending_that_keeps_its_reason_during_the_delay_is_told_as_an_exception() -> None:
    told = PAGE.partition("There are two exceptions:")[2].partition("In a final phase")[0]
    kept = [one.reason for one in ENDINGS.values() if one.held or one.delay is Delay.CAPACITY]
    assert [reason for reason in kept if f"`{reason}`" not in told] == []


ENDS = {
    "an exit code that ends the job": ({"retries": {"maxFailures": 1}}, 1),
    "a success": ({}, 0),
    "a request to cancel": ({"cancel": True}, None),
    "a request to suspend": ({"suspend": True}, None),
    "a spec that is refused": ({"podTemplate": {"spec": {"hostname": "train"}}}, None),
}


@pytest.mark.parametrize(("fields", "exit_code"), ENDS.values(), ids=ENDS)
def test_the_condition_failed_is_true_in_the_phases_of_the_page(fields: dict[str, Any], exit_code: int | None) -> None:
    [words] = re.findall(r"`Failed` is also True in the phases ([^.]*)\.", PAGE)
    world = World(**fields)
    if exit_code is None:
        world.settle()
    else:
        world.run().pod(0, 0).exits(exit_code)
        world.until_restarted()
    failed = world.condition("Failed")
    assert failed is not None
    assert (failed.status == "True") == (world.status.phase in ("Failed", *re.findall(r"`(\w+)`", words)))
