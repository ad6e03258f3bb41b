"""The logs of an attempt before the current one, of which some pods are gone."""

from pathlib import Path
from typing import Any

import pytest

from slipway.api.places import Place, worker
from slipway.client.logs import Selection
from tests.client.kubelet import START, Server, at
from tests.client.test_logs import lines, read, said

LAST = worker(3, 0)
KEPT = {LAST: ["the reason\n"]}


async def broken_at_the_last_slice(acceptable: list[int], *gone: Place) -> Server:
    """Attempt 0 had four slices, of which the last ended it; these pods of it are gone, and attempt 1 runs."""
    server = Server(4, 1)
    server.job["spec"] |= {"acceptableSlices": acceptable} if acceptable else {}
    for place, log in zip(server.places, await server.begin(0), strict=True):
        log.write(f"of slice {place.slice}\n".encode())
    await server.end(0)
    root = {"slice": 3, "host": 0, "pod": "train-0-3-0", "log": "the reason\n", "time": at(START)}
    await server.judge("Restarting", cause="failure", message="host 0 of slice 3 exited with 3", root=root)
    await server.remove(0, *gone)
    await server.begin(1)
    return server


def logs_of(*slices: int) -> dict[Place, list[str]]:
    return {worker(index, 0): [f"of slice {index}\n"] for index in slices}


PAST: dict[str, tuple[list[int], list[int], dict[str, Any], dict[Place, list[str]]]] = {
    "the last slice is gone": ([], [3], {}, logs_of(0, 1, 2) | KEPT),
    "the last slices are gone": ([], [2, 3], {}, logs_of(0, 1) | KEPT),
    "the last slice is gone, of a number to choose": ([2, 4], [3], {}, logs_of(0, 1, 2) | KEPT),
    "the last slices are gone, of a number to choose": ([2, 4], [2, 3], {}, logs_of(0, 1) | KEPT),
    "the slice that broke": ([], [3], {"failed": True}, KEPT),
    "the slice that broke, of a number to choose": ([2, 4], [3], {"failed": True}, KEPT),
    "the last slice alone": ([], [3], {"slices": {3}}, KEPT),
    "all are gone": ([], [0, 1, 2, 3], {}, KEPT),
}


@pytest.mark.parametrize(("acceptable", "gone", "choice", "expected"), PAST.values(), ids=PAST)
async def test_slices_whose_pods_are_gone_belong_to_the_attempt(
    acceptable: list[int], gone: list[int], choice: dict[str, Any], expected: dict[Place, list[str]], tmp_path: Path
) -> None:
    server = await broken_at_the_last_slice(acceptable, *(worker(index, 0) for index in gone))
    async with server.client(tmp_path) as client:
        items = await read(client, Selection(attempt=0, **choice))
    found: dict[Place, list[str]] = {}
    for line in lines(items):
        found.setdefault(line.place, []).append(line.text)
    assert found == expected
    assert "the job's status keeps these last lines" in said(items)


async def test_the_host_that_broke_is_said_to_be_none_of_those_that_are_wanted(tmp_path: Path) -> None:
    server = await broken_at_the_last_slice([], LAST)
    async with server.client(tmp_path) as client:
        items = await read(client, Selection(failed=True, slices=frozenset({1})))
    assert lines(items) == []
    assert said(items) == "the host that ended attempt 0 of SliceJob train is none of those that are wanted"
