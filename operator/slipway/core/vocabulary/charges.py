"""What follows from the cause of an attempt's end: one row for each cause, and one for each budget.

Other tables are made from these: counts, Events, lost time, errors and colours. So a new cause is a word in
`api.status`, a row here, and where it is charged to a budget a field of `api.ledger.Account`.
"""

from dataclasses import dataclass
from typing import Final

from slipway.api.status import Cause, Phase


@dataclass(frozen=True, slots=True)
class Budget:
    """What limits how many attempts may end one way."""

    limit: str
    """Field of `spec.retries`."""
    used: str
    """Field of the status."""
    noun: str
    """What is counted, in one word."""
    verb: str
    """What became of an attempt that is charged to it."""
    phase: Phase
    """Phase of the job once it is used up."""
    reason: str
    """Reason of that phase."""


PREEMPTIONS: Final = Budget(
    "max_preemptions", "preemptions", "preemption", "preempted", Phase.PREEMPTED, "PreemptionLimitExceeded"
)
FAILURES: Final = Budget("max_failures", "failures", "failure", "failed", Phase.FAILED, "FailureLimitExceeded")
BUDGETS: Final = (PREEMPTIONS, FAILURES)
"""Where both are used up, the first one names the end."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What follows from one cause."""

    event: str
    """Reason of the Event that tells of the end."""
    counts: tuple[str, ...]
    """Fields of the status in which the attempt counts."""
    budget: Budget | None = None


CHARGES: Final = {
    Cause.FAILURE: Charge("AttemptFailed", ("failures",), FAILURES),
    Cause.PREEMPTION: Charge("AttemptPreempted", ("preemptions",), PREEMPTIONS),
    Cause.INFRASTRUCTURE: Charge(
        "AttemptLostToInfrastructure", ("preemptions", "infrastructure_failures"), PREEMPTIONS
    ),
    Cause.UNCHARGED: Charge("AttemptEnded", ("uncharged",)),
}
CHARGED: Final = tuple(cause for cause, charge in CHARGES.items() if charge.budget is not None)
"""Causes that a budget limits."""


def charge_of(cause: Cause | None) -> Charge:
    """The row of a cause; without one, and with another version's word, nothing is charged."""
    return CHARGES.get(cause or Cause.UNCHARGED, CHARGES[Cause.UNCHARGED])
