"""Shows a job with its hosts until it has ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from slipway.api.places import Place, parse_pod_name
from slipway.apiserver.watch import Applied, Deleted, Init
from slipway.client.host_states import state_of
from slipway.client.model import JobState
from slipway.client.pictures.live import LiveView
from slipway.client.verbs import Verbs

Hosts = dict[int, dict[Place, str]]
"""States of hosts by their places, for each attempt."""


async def follow(
    client: Verbs, name: str, progress: LiveView, seconds: float | None = None, uid: str | None = None
) -> JobState:
    """Wait for the end of a job, and show it meanwhile. See `Verbs.wait`."""
    hosts: Hosts = {}
    latest: list[JobState] = []

    def seen(state: JobState) -> None:
        latest[:] = [state]
        progress.show(state, _of_attempt(hosts, state))

    async def pods() -> None:
        async with aclosing(_hosts(client, name, hosts)) as changes:
            async for _ in changes:
                for state in latest:
                    progress.show(state, _of_attempt(hosts, state))

    watching = asyncio.create_task(pods())
    try:
        return await client.wait(name, seconds=seconds, seen=seen, uid=uid)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _of_attempt(hosts: Hosts, state: JobState) -> dict[Place, str]:
    """The hosts of the current attempt, which change further: a copy at each change would be one of all hosts."""
    number = state.status.attempt
    return {} if number is None else hosts.setdefault(number, {})


async def _hosts(client: Verbs, name: str, hosts: Hosts) -> AsyncGenerator[None, None]:
    """Keeps the states of a job's pods, and yields whenever one may have changed."""
    async with aclosing(client.watch_pods(name)) as events:
        async for event in events:
            match event:
                case Init():
                    hosts.clear()
                case Applied(pod) if (found := parse_pod_name(name, pod.metadata.name)) is not None:
                    hosts.setdefault(found[0], {})[found[1]] = state_of(pod)
                case Deleted(pod) if (found := parse_pod_name(name, pod.metadata.name)) is not None:
                    hosts.get(found[0], {}).pop(found[1], None)
            yield
