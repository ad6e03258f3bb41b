"""What the cluster shows of one job, kept up to date by the client that users have."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Self

from slipway.api.places import Place, parse_pod_name
from slipway.apiserver.watch import Applied, Deleted
from slipway.client import background_loop
from slipway.client.blocking import Client
from slipway.client.host_states import PodSeen, state_of
from slipway.client.logs import Line, Selection, follow_batches
from slipway.client.model import JobState
from slipway.client.verbs import Verbs

_SPEAKER = Selection(follow=True, slices=frozenset({0}), hosts=frozenset({0}))
"""Host 0 of slice 0 speaks for all."""


class Follower:
    """Follows one SliceJob, its pods and the output of its first worker."""

    def __init__(self, client: Client, name: str, changed: Callable[[], None]) -> None:
        self._client, self._name, self._changed = client, name, changed
        self._over = asyncio.Event()
        self.job: JobState | None = None
        self.pods: dict[str, PodSeen] = {}
        self.output: list[str] = []

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.job is not None and self.job.over

    @property
    def hosts(self) -> dict[Place, str]:
        """The state of each host of the current attempt that has a pod."""
        placed = ((parse_pod_name(self._name, name), pod) for name, pod in list(self.pods.items()))
        current = self.job.status.attempt if self.job is not None else None
        return {found[1]: state_of(pod) for found, pod in placed if found is not None and found[0] == current}

    def __enter__(self) -> Self:
        self._work = background_loop.start(self._follow())
        return self

    def __exit__(self, *_: object) -> None:
        background_loop.run(self._end())
        background_loop.result(self._work)

    async def _end(self) -> None:
        self._over.set()

    async def _follow(self) -> None:
        async with self._client.client() as client:
            work = (self._follow_job, self._follow_pods, self._follow_output)
            tasks = [asyncio.create_task(follow(client)) for follow in work]
            await self._over.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_job(self, client: Verbs) -> None:
        async with aclosing(client.watch(self._name)) as states:
            async for state in states:
                self.job = state
                self._changed()

    async def _follow_pods(self, client: Verbs) -> None:
        async with aclosing(client.watch_pods(self._name)) as events:
            async for event in events:
                match event:
                    case Applied(pod):
                        self.pods[pod.metadata.name] = pod
                    case Deleted(pod):
                        self.pods.pop(pod.metadata.name, None)
                self._changed()

    async def _follow_output(self, client: Verbs) -> None:
        async with aclosing(follow_batches(client, self._name, _SPEAKER)) as batches:
            async for batch in batches:
                self.output += [item.text.rstrip() for item in batch if isinstance(item, Line)]
                self._changed()
