"""A Kueue that may not read SliceJobs: its webhook answers for none of their pods."""

import pytest

from tests.cli.test_commands import said, slipway
from tests.kueue.queues import CHIPS, Queues
from tests.kueue.test_kueue import end_pods

pytestmark = pytest.mark.thorough

CURE = "let its ServiceAccount read SliceJobs: install the chart of Slipway with kueue.namespace"


def test_what_kueue_may_not_read_is_said_and_goes_on_when_it_may(queues: Queues) -> None:
    queues.open(2 * CHIPS)
    queues.submit(retries={"backoff": {"initialSeconds": 0}})
    queues.jobs.until("Running")
    queues.server.stop()
    try:
        with queues.server.without_rights():
            queues.server.start()
            # A new job's pods are asked for in a dry run first, and those of a later attempt are not.
            end_pods(queues, phase="Failed", only=1)
            queues.submit("late", args=["unlike the other"])
            for name in ("late", "train"):
                until_said(queues, name)
            for command in ("why", "describe"):
                assert CURE in " ".join(said(slipway(queues.jobs, command, "train")).split())
            # Pods of others are none of its business.
            queues.kubectl("run", "alone", "--image=slipway.local/busybox:1")
    finally:
        queues.server.stop()
        queues.server.start()
    assert queues.jobs.until_attempt(1)["failures"] == 1
    queues.jobs.until("Running", "late")


def until_said(queues: Queues, name: str) -> None:
    """Wait until the status names the webhook and the cure."""

    def found() -> bool:
        running = queues.jobs.condition("Running", name)
        return running.get("reason") == "WebhookUnavailable" and CURE in running["message"]

    queues.jobs.until_true(f"the cure of {name}", found)
