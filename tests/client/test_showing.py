"""What is shown of a job's hosts while the job is followed."""

from collections.abc import Mapping
from io import StringIO

from slipway.api.places import Place, worker
from slipway.client.manifests.reading import manifest
from slipway.client.model import JobState
from slipway.client.pictures.console import Console
from slipway.client.pictures.live import LiveView
from slipway.client.show import follow
from tests.client.memory import MemoryTarget

HOSTS = 3


class Shown(LiveView):
    """Keeps what it is to show."""

    def __init__(self) -> None:
        super().__init__(Console(file=StringIO()), ["train"])
        self.hosts: list[Mapping[Place, str]] = []

    def show(self, job: JobState, hosts: Mapping[Place, str] = {}) -> None:
        if job.status.attempt is not None:
            self.hosts.append(hosts)


async def test_the_hosts_are_kept_in_one_place_however_often_they_change() -> None:
    """A map of its own for each change would be 4,096 entries for each of 4,096 hosts."""
    shown = Shown()
    async with MemoryTarget().client() as client:
        await client.submit(manifest("train", {"hosts": HOSTS, "command": ["sh", "-c", "echo 1; exit 0"]}))
        await follow(client, "train", shown)
    assert len(shown.hosts) > HOSTS
    assert {id(one) for one in shown.hosts} == {id(shown.hosts[0])}
    assert set(shown.hosts[0]) <= {worker(0, host) for host in range(HOSTS)}
