"""What users see of a mistake: noted while the tests make it, for the table of docs/mistakes.md."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.running import Jobs


@dataclass(frozen=True)
class Outcome:
    """What was said of one mistake."""

    mistake: str
    phase: str
    """The column PHASE of `kubectl get sj`; empty when `kubectl apply` failed."""
    reason: str
    """The column REASON."""
    message: str
    """Of the condition, or of `kubectl apply`."""
    event: str
    """Reason of the Event that announces it."""
    seconds: float
    """From `kubectl apply` to the words."""
    held: float
    """For how many of the first seconds pods of the job were bound to nodes."""
    watched: float
    """How many seconds that were."""


def note(outcome: Outcome) -> Outcome:
    """Add it to the file that SLIPWAY_MISTAKES names, if there is one."""
    if record := os.environ.get("SLIPWAY_MISTAKES"):
        with Path(record).open("a") as lines:
            lines.write(json.dumps(asdict(outcome)) + "\n")
    return outcome


def shown(mistake: str, jobs: Jobs, name: str, *, seconds: float, held: float = 0.0) -> Outcome:
    """Of a job as `kubectl get` and its Events show it now."""
    stored = jobs.kubectl.get("sj", name)
    status = stored["status"]
    known = {one["type"]: one for one in status["conditions"]}
    said = known["Accepted"] if known["Accepted"]["status"] == "False" else known["Running"]
    line = jobs.kubectl("get", "sj", name, "--no-headers").stdout.split()
    told = set(jobs.events(name))
    event = next((one for one in (said["reason"], status["phase"]) if one in told), "")
    return Outcome(mistake, line[1], line[2], said["message"], event, seconds, held, seconds)


def refused(mistake: str, error: str) -> Outcome:
    """Of a job that the API server did not store."""
    return Outcome(mistake, "", "", error.strip(), "", 0.0, 0.0, 0.0)


def condition(stored: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of a stored job; empty when it has none of that type."""
    return next((one for one in stored.get("status", {}).get("conditions", ()) if one["type"] == kind), {})


def seconds_between(first: str, last: str) -> float:
    """Between two dates of a status."""
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
