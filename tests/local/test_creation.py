"""What is looked at before the containers of a job are created."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from slipway.api.places import FIRST
from slipway.core.manifests.peers import LONGEST_INLINE_LIST
from slipway.core.planner.contract.actions import Check
from slipway.core.validation.acceptance import pod_factory
from slipway.local.jobs.options import Options
from slipway.local.supervisor.cache import SETTINGS, JobCache
from slipway.local.supervisor.creation import Creator
from tests.core import build


def test_the_host_list_of_a_large_slice_is_there_for_the_check(tmp_path: Path) -> None:
    job = build.World(hosts=LONGEST_INLINE_LIST + 1).job
    known: Any = SimpleNamespace(containers=None, machine=SimpleNamespace(inventory=lambda: None), rejection=None)
    with ThreadPoolExecutor() as pool:
        creator = Creator(cast(JobCache, known), Options(without_devices=True), pool, tmp_path)
        creator.check(Check((pod_factory(job, SETTINGS).pod(0, FIRST),)), job)
    assert (known.checked, known.rejection) == (job.generation, None)
