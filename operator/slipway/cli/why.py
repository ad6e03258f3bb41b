"""`slipway why`: why a job does not run, or how it ended."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from slipway.cli.advice import advice
from slipway.cli.common import one_job, output_option, print_data, run, say, targeted, warn_of
from slipway.client.model import JobState
from slipway.client.target import Target
from slipway.client.verbs import Verbs

_TO_NOTICE: Final = timedelta(seconds=10)
"""How long an operator may take to write the first status of a job."""


async def unseen(client: Verbs, job: JobState, now: datetime) -> str:
    """Why no operator has seen a job that is not new; empty where one has."""
    if job.seen or job.created is None or now - job.created <= _TO_NOTICE:
        return ""
    return await client.unserved(job.namespace, now, job.operator_id)


async def explained(client: Verbs, job: JobState, now: datetime) -> dict[str, Any]:
    """Why a job is as it is, as `-o json` prints it."""
    found: dict[str, Any] = {
        "name": job.name,
        "namespace": job.namespace,
        "phase": job.phase,
        "reason": job.reason,
        "message": job.message,
    }
    if place := await client.position(job):
        found["position"] = place
    if words := await unseen(client, job, now):
        found |= {"reason": "NoOperator", "message": words}
    condition = job.running
    found["since"] = condition.last_transition_time.isoformat() if condition is not None else None
    return found | _broke(job)


def _broke(job: JobState) -> dict[str, Any]:
    """Where the last attempt broke, and what to do about it."""
    ended = next((attempt for attempt in job.status.attempts if attempt.reason and attempt.end_time), None)
    if ended is None or job.phase in ("Running", "Succeeded"):
        return {}
    root = ended.root
    return {
        "attempt": ended.number,
        "cause": ended.cause,
        "attemptReason": ended.reason,
        "attemptMessage": ended.message,
        "nextStep": advice(ended.reason, job.name),
        "log": root.log if root is not None else None,
    }


@click.command()
@one_job
@output_option("json", "yaml")
@targeted
def why(target: Target, name: str, output: str | None) -> None:
    """Say why a job does not run, what would help, and how its last attempt ended."""

    async def work() -> tuple[dict[str, Any], Mapping[str, str]]:
        async with target.client() as client:
            job = await client.get(name)
            return await explained(client, job, datetime.now(UTC)), await client.out_of_reach([job])

    found, away = run(work())
    warn_of(away)
    if output:
        print_data(found, output)
        return
    reason = f" ({found['reason']})" if found["reason"] not in ("", found["phase"]) else ""
    say(f"{name} is {found['phase']}{reason}: {found['message']}")
    if found.get("position"):
        say(f"place: {found['position']}")
    if found.get("attemptMessage") and found["attemptMessage"] not in found["message"]:
        charged = f", charged to {found['cause']}" if found["cause"] else ""
        say(f"attempt {found['attempt']} ended ({found['attemptReason']}{charged}): {found['attemptMessage']}")
    if found.get("log"):
        say("last lines:")
        say("\n".join(f"  {line}" for line in found["log"].splitlines()[-10:]))
    if found.get("nextStep"):
        say(f"what to do: {found['nextStep']}")
