"""Handles of jobs: which job they stand for."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from slipway.client.blocking import BlockingVerbs, Job
from slipway.client.errors import NotFound
from tests.client.memory import MemoryTarget


@dataclass(frozen=True)
class Client(BlockingVerbs, MemoryTarget):
    pass


@pytest.mark.parametrize("act", [
    lambda job: job.state,
    lambda job: job.poll(),
    lambda job: job.describe(),
    lambda job: job.wait(timeout=10),
    lambda job: job.wait(timeout=10, progress=True),
    lambda job: job.until("Running", timeout=10),
    lambda job: job.cancel(),
    lambda job: job.delete(),
])  # fmt: skip
def test_a_later_job_of_the_same_name_is_another(act: Callable[[Job], object]) -> None:
    client = Client()
    job = client.submit({"metadata": {"name": "train"}, "spec": {"command": ["sh", "-c", "exit 0"]}})
    client.memory.jobs["train"]["metadata"]["uid"] = "that of a later one"
    with pytest.raises(NotFound, match="SliceJob train in memory was deleted"):
        act(job)
    assert "cancel" not in client.memory.jobs["train"]["spec"]
