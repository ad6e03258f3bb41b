"""A submission takes as long as its images are large, and may be given up meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from slipway.local import submission
from slipway.local.client.client import AsyncLocalClient
from slipway.local.jobs.job_files import folder
from slipway.local.submission import Wishes
from tests.local_simulation.engine import refusal
from tests.waiting import START_SECONDS

BODY = {
    "apiVersion": "slipway.dev/v1alpha1",
    "kind": "SliceJob",
    "metadata": {"name": "train"},
    "spec": {"image": "acme/big:1", "command": ["train"]},
}


class Engine:
    """One that is silent for a while when it pulls or builds an image."""

    def __init__(self, *, has_image: bool) -> None:
        self.has_image = has_image
        self.at_work, self.goes_on = Event(), Event()
        self.closed = False

    def connect(self, address: Any) -> "Engine":
        return self

    def inspect_image(self, reference: str) -> dict[str, Any]:
        if not self.has_image:
            raise refusal(404, "No such image")
        return {"Id": "sha256:" + "a" * 64, "Config": {}}

    def pull(self, repository: str, **_: Any) -> Iterator[dict[str, Any]]:
        self._be_silent()
        yield {"status": "Downloading", "id": "0123", "progressDetail": {"current": 1, "total": 2}}
        self.has_image = True

    def build(self, **_: Any) -> Iterator[dict[str, Any]]:
        self._be_silent()
        yield {"stream": "Step 1/2 : FROM acme\n"}
        yield {"aux": {"ID": "sha256:" + "b" * 64}}

    def _be_silent(self) -> None:
        self.at_work.set()
        assert self.goes_on.wait(START_SECONDS)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("overlay", [False, True], ids=["an image is pulled", "a folder is laid over an image"])
def test_a_submission_that_is_given_up_ends_at_once_and_stores_nothing(
    overlay: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    engine = Engine(has_image=overlay)
    monkeypatch.setattr(submission, "connect", engine.connect)
    monkeypatch.setattr(submission, "ensure_supervisor", lambda job: None)
    wishes = Wishes(overlay=tmp_path if overlay else None)

    async def give_up() -> None:
        async with AsyncLocalClient(wishes) as client:
            submitting = asyncio.create_task(client.submit(BODY))
            await asyncio.to_thread(engine.at_work.wait, START_SECONDS)
            submitting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await submitting

    # It waits for nothing that the engine says: that may be long in coming.
    asyncio.run(give_up())
    assert not engine.closed
    [thread] = [one for one in threading.enumerate() if one.name == "submission of train"]
    engine.goes_on.set()
    thread.join(START_SECONDS)
    assert engine.closed
    assert not folder("train").path.exists()
