"""Which run of the program each place of a job is in, and which run a pod belongs to.

What restarts together is a unit. The whole job is the only one: its runs are the attempts of the status. Nothing else
compares the attempts of pods, so that a smaller unit needs no other rule.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from slipway.api.status import Attempt
from slipway.core.model.pods import Pod

JOB: Final = "job"
"""The unit of all places."""


class Run(NamedTuple):
    """One run of a unit, from the creation of its pods to its end."""

    unit: str
    number: int
    """Counts the runs of the unit, from 0: the number of the attempt."""


def run_of(pod: Pod) -> Run:
    """The run that a pod was created for."""
    return Run(JOB, pod.attempt)


@dataclass(frozen=True, slots=True)
class Roster:
    """The present run of every place."""

    number: int = -1
    """Number of the present run."""
    ended: bool = False
    """Whether it has ended."""

    @classmethod
    def of(cls, attempt: Attempt | None) -> Self:
        """The roster of a job whose newest attempt is this one, or as it was during an earlier one."""
        return cls() if attempt is None else cls(attempt.number, attempt.end_time is not None)

    def is_current(self, pod: Pod) -> bool:
        """Whether a pod is of the present run of its place."""
        return pod.attempt == self.number

    def is_earlier(self, pod: Pod) -> bool:
        """Whether a pod is of a run before the present one."""
        return 0 <= pod.attempt < self.number

    def is_over(self, pod: Pod) -> bool:
        """Whether the run of a pod has ended."""
        return self.is_earlier(pod) or (self.ended and self.is_current(pod))

    def is_outlived(self, pod: Pod) -> bool:
        """Whether a pod is of a run before the last one that has ended."""
        return pod.attempt < (self.number if self.ended else self.number - 1)

    def current(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Those of the pods that are of the present run."""
        return (pod for pod in pods if pod.attempt == self.number)


NOT_BEGUN: Final = Roster()
"""Of a job without an attempt."""
