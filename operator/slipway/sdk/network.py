"""The network of the hosts where a container call leaves it open: that of the nodes where the site allows it."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from slipway.apiserver.connection import ApiConnection
from slipway.client.errors import InvalidJob
from slipway.client.model import JobState
from slipway.sdk.jobs import Run

_NODES: Final = {"hostNetwork": True}
_PODS: Final = {"hostNetwork": False}
_REFUSED: Final = "hostNetwork true is not allowed here"
"""What the limits of a site say of it, by the API server's policy or by the operator."""


async def create(run: Run, api: ApiConnection, fields: Mapping[str, Any], *, on_accelerators: bool) -> JobState:
    """Make a job whose spec does not say which network its hosts have, and print which one they have.

    On accelerators it returns once an operator has accepted the job, or refused it for another reason.

    Raises:
        InvalidJob: when the API server refuses it for another reason.
    """
    if not on_accelerators:
        made = await run.create(api, {**fields, **_PODS})
        _say(run, "pods", "for jobs on CPUs")
        return made
    try:
        made = await run.create(api, {**fields, **_NODES})
    except InvalidJob as error:
        if _REFUSED not in str(error):
            raise
        made = await run.create(api, {**fields, **_PODS})
        _say(run, "pods", str(error))
        return made
    judged = await _judged(run, api, made.uid)
    if _REFUSED not in judged.refusal:
        _say(run, "nodes", "for jobs on TPUs and GPUs")
        return judged
    _say(run, "pods", judged.refusal)
    await run.change(api, _PODS)
    return await _judged(run, api, made.uid)


async def _judged(run: Run, api: ApiConnection, uid: str) -> JobState:
    """The job once an operator has accepted or refused its spec as it is now."""
    async with aclosing(run.states(api, uid)) as states:
        async for job in states:
            if job.spec_judged:
                return job
    raise AssertionError("a watch never ends by itself")


def _say(run: Run, whose: str, why: str) -> None:
    run.progress.say(run.name, f"its hosts have the network of the {whose} (network='auto'): {why}")
