"""A newer version of the operator: it writes words and fields into a status that the present one does not know."""

import json
from typing import Any, Final

PHASES: Final = {"Restarting": "Recovering"}
CAUSES: Final = {"preemption": "reclaimed"}
FIELD: Final = "placement"
"""A field of the status that only the newer version knows."""
CONDITION: Final = "Progressing"

Json = dict[str, Any]


def by_newer(status: Json) -> Json:
    """A patch of the status as the newer version writes it."""
    written = _worded(status, PHASES, CAUSES) | {FIELD: {"version": 2}}
    if written.get("conditions"):
        added = {
            "type": CONDITION,
            "status": "True",
            "reason": "AsPlanned",
            "lastTransitionTime": "2026-11-21T12:00:00Z",
        }
        written["conditions"] = [*written["conditions"], added]
    return written


def as_known(status: Json) -> Json:
    """A status without the words and fields that only the newer version knows."""
    known = _worded(status, _back(PHASES), _back(CAUSES))
    known.pop(FIELD, None)
    if known.get("conditions"):
        known["conditions"] = [one for one in known["conditions"] if one["type"] != CONDITION]
    return known


def sent(data: bytes | None) -> bytes | None:
    """A request of the newer version on a job, as it leaves the process."""
    body = json.loads(data) if data else {}
    if "status" not in body:
        return data
    return json.dumps(body | {"status": by_newer(body["status"])}).encode()


def received(content: bytes) -> bytes:
    """An answer about jobs as the newer version understands it."""
    body = json.loads(content)
    if "items" in body:
        return json.dumps(body | {"items": [understood(one) for one in body["items"]]}).encode()
    return json.dumps(understood(body)).encode()


def understood(job: Json) -> Json:
    """A job as the newer version understands it."""
    return job | {"status": as_known(job["status"])} if job.get("status") else job


def _worded(status: Json, phases: dict[str, str], causes: dict[str, str]) -> Json:
    worded = dict(status)
    if worded.get("phase") in phases:
        worded["phase"] = phases[worded["phase"]]
    if worded.get("attempts"):
        worded["attempts"] = [
            one | {"cause": causes[one["cause"]]} if one.get("cause") in causes else one for one in worded["attempts"]
        ]
    return worded


def _back(words: dict[str, str]) -> dict[str, str]:
    return {new: old for old, new in words.items()}
