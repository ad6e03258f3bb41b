"""What a watch of one job shows, whatever happens between its first requests."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from slipway.client.cluster_client import AsyncClient
from tests.apiserver.replay import answer, listing, replaying, watching
from tests.serving import kubeconfig


def job(version: int, phase: str = "Running", uid: str = "u") -> dict[str, Any]:
    about = {"name": "train", "namespace": "x", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": about, "status": {"phase": phase}}


def change(kind: str, version: int, phase: str = "Running") -> dict[str, Any]:
    return {"type": kind, "object": job(version, phase)}


STORIES: dict[str, tuple[list[Any], list[dict[str, Any]], list[str | None]]] = {
    "nothing before it is listed": ([job(1)], [change("DELETED", 2)], ["1", None]),
    "a change before it is listed": ([job(2)], [change("DELETED", 3)], ["1", "2", None]),
    "a change, and back again": (
        [job(1)],
        [change("MODIFIED", 2, "Restarting"), change("MODIFIED", 3), change("DELETED", 4)],
        ["1", "2", "3", None],
    ),
    "it is deleted before it is listed": ([], [], ["1", None]),
    "another job takes its name before it is listed": ([job(2, "Pending", "other")], [], ["1", None]),
}


@pytest.mark.parametrize(("listed", "changes", "versions"), STORIES.values(), ids=STORIES)
async def test_every_state_of_a_job_is_shown_once(
    listed: list[Any], changes: list[dict[str, Any]], versions: list[str | None], tmp_path: Path
) -> None:
    async with replaying() as replay, AsyncClient("x", kubeconfig(tmp_path, replay.url)) as client:
        replay.then(answer(job(1)), listing("1", *listed), watching(*changes))
        async with aclosing(client.watch("train")) as states:
            shown = [state and state.stored.metadata.resource_version async for state in states]
    assert shown == versions
