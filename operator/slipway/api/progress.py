"""What a job says of its progress: `spec.progress` tells how to read it in its log, `status.progress` what was read."""

from functools import lru_cache
from typing import Final

import re2
from pydantic import Field

from slipway.api.base import Model, Part, Time, rule, rules

MAX_PATTERN: Final = 256
MAX_STEP: Final = 10**15
"""A larger number is not taken for a step."""
STEP: Final = "step"
TOTAL: Final = "total"
CHECKPOINT: Final = "checkpoint"
GROUPS: Final = (STEP, TOTAL, CHECKPOINT)

_MAX_MEMORY: Final = 128 * 1024
"""Of a compiled pattern, in bytes. It bounds the time that a line takes as well, to some milliseconds."""
_NEEDED: Final = "name the digits of the step, as in step (?P<step>[0-9]+)"


class PatternError(ValueError):
    """A pattern cannot be used; the message says why, and what is allowed."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> "re2._Regexp[str]":
    """The pattern, ready to search lines. RE2 takes time that is linear in the length of a line, whatever the pattern.

    Raises:
        PatternError: when it is no regular expression of RE2, is too large, or has other groups than GROUPS.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        regexp = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise PatternError(f"RE2 does not take it: {words}") from error
    if others := sorted(regexp.groupindex.keys() - set(GROUPS)):
        raise PatternError(f"no group may be named {others[0]}: the names are {', '.join(GROUPS)}")
    if STEP not in regexp.groupindex:
        raise PatternError(f"it has no group {STEP}: {_NEEDED}")
    return regexp


class Progress(Model):
    """How to read the progress of the job in its log."""

    pattern: str = Field(
        min_length=1,
        max_length=MAX_PATTERN,
        json_schema_extra=rules(
            # An error on both sides of || is an error: that of the regular expression.
            rule("''.matches(self) || !''.matches(self)", "pattern is not a regular expression in the syntax of RE2"),
            rule("self.contains('(?P<step>') || self.contains('(?<step>')", f"pattern has no group step: {_NEEDED}"),
        ),
    )
    """Regular expression in RE2 syntax, searched for in each line; only the first 4 KiB and the first match count.
    Its group step has the digits of the step. Optional groups: total has those of the steps of the whole job,
    checkpoint those of a step whose checkpoint is saved.
    Example: step (?P<step>[0-9]+)/(?P<total>[0-9]+)|saved checkpoint (?P<checkpoint>[0-9]+)."""
    total: int | None = Field(default=None, ge=1, le=MAX_STEP)
    """Steps of the whole job, where no line says it."""


class ProgressState(Part):
    """What the log of rank 0 said last. Written at most once a minute, or with other changes."""

    attempt: int
    """Attempt whose log it was read in."""
    step: int | None = None
    """Step of the last line with one."""
    total: int | None = None
    """Steps of the whole job: those of the last line that said it, or else of spec.progress."""
    time: Time | None = None
    """When that line was printed, by the clock of the node."""
    rate: float | None = None
    """Steps per second in this attempt: from firstStep at firstTime to step at time."""
    first_step: int | None = None
    """Step of the first line of the attempt with one, or of the first after the steps went back."""
    first_time: Time | None = None
    """When that line was printed."""
    checkpoint: int | None = None
    """Step of the last checkpoint that the attempt printed."""
    checkpoint_time: Time | None = None
    """When it printed it."""
