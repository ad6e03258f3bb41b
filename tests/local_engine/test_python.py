"""Jobs of this machine from Python."""

import pytest

from slipway import AlreadyExists, AlreadyFinished, AsyncLocalClient, JobFailed, LocalClient, NotFound
from slipway.client.manifests.reading import Manifest, manifest
from tests.local_engine.engine import IMAGE, User
from tests.waiting import START_SECONDS, until

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def _as_user(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in user.variables.items():
        monkeypatch.setenv(name, value)


def job(*command: str) -> Manifest:
    return manifest("train", {"image": IMAGE, "command": list(command), "retries": {"maxFailures": 0}})


def test_a_job_that_fails_raises_where_and_why() -> None:
    made = LocalClient().submit(job("sh", "-c", "echo broken; exit 9"))
    with pytest.raises(JobFailed) as failed:
        made.wait(timeout=START_SECONDS)
    assert (failed.value.exit_code, failed.value.log.strip()) == (9, "broken")
    assert made.poll() == 9
    assert "AttemptFailed" in [one.reason for one in LocalClient().describe("train").events]


def test_a_job_is_found_again_cancelled_and_deleted(user: User) -> None:
    client = LocalClient()
    assert not client.exists("train")
    assert client.list() == ()
    made = client.submit(job("sleep", "1000"))
    assert client.job("train").uid == client.submit(job("sleep", "1000")).uid == made.uid
    with pytest.raises(AlreadyExists, match="exists with another command"):
        client.submit(job("true"))
    made.until("Running", timeout=START_SECONDS)
    made.cancel(now=True)
    made.until("Cancelled", timeout=START_SECONDS)
    with pytest.raises(AlreadyFinished):
        made.cancel()
    made.delete()
    until("the end of the job", lambda: not user.folder().exists())
    with pytest.raises(NotFound, match="no job train"):
        client.get("train")


async def test_the_same_over_asyncio() -> None:
    async with AsyncLocalClient() as client:
        assert (await client.submit(job("echo", "hello"))).created
        assert (await client.wait("train", seconds=START_SECONDS)).phase == "Succeeded"
        assert [one.phase for one in await client.list()] == ["Succeeded"]
