"""Evidence of why a pod ended, and how its words become those that may be written."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from slipway.api.places import Place
from slipway.api.slicejob import SliceJobSpec
from slipway.core.manifests.redact import brief, last_line, log_tail
from slipway.core.vocabulary.endings import Ending


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of the end of a pod, with whatever secrets its program has printed."""

    where: str
    seen: str
    log: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why one pod ended."""

    ending: Ending
    time: datetime
    place: Place
    pod: str
    message: str = ""
    """In a sentence that may be written; empty where `told` has yet to make it."""
    words: Words | None = field(default=None, repr=False)
    """What `told` makes message and log of. Of thousands of pods that end at once it does so for one."""
    node: str | None = None
    exit_code: int | None = None
    log: str | None = None
    confirmed: bool = True
    """Whether the time is certain. A dead node never reports when its containers terminated."""
    absent_since: datetime | None = None
    """For a pod that is missing without evidence: the last time at which it was known to exist."""
    noted: bool = False
    """Whether it is the evidence in the record of the attempt."""


def told(evidence: Evidence, spec: SliceJobSpec | None) -> Evidence:
    """The evidence with a message and a log that may be written: without secrets."""
    if (words := evidence.words) is None:
        return evidence
    log = log_tail(words.log, spec)
    line = last_line(log) if evidence.ending.outranked else ""
    message = f"{words.where} {brief(words.seen, spec)}" + (f": {line}" if line else "")
    return replace(evidence, message=message, log=log, words=None)
