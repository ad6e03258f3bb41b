"""Every queue that a job can wait in. Other rules know a queue by its `Gate` alone."""

from typing import Final, Protocol

from slipway.core.planner.contract.actions import Action
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.planner.queue.kueue import admission as kueue
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.state.gate import OPEN, Gate


class Queue(Protocol):
    """The rules of one queueing system. Each leaves the jobs alone that are none of its own."""

    def gate(self, draft: Draft) -> Gate:
        """What the queue lets the job do; open for a job that is not in it.

        Raises:
            InvalidSpec: when the job can be in no queue and has made no attempt.
        """

    def ask_again(self, draft: Draft) -> tuple[Action, ...]:
        """Repeat a request to the queue that the API server refused, while the status goes on to say so."""

    def settle(self, draft: Draft) -> None:
        """Tell the queue what has become of the job."""

    def of_stopped_job(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """What becomes of the queue's objects when a job is being deleted or cannot be run."""


QUEUES: Final[tuple[Queue, ...]] = (kueue,)


def gate(draft: Draft) -> Gate:
    """What the queue of the job lets it do.

    Raises:
        InvalidSpec: when the job can be in no queue and has made no attempt.
    """
    gates = (queue.gate(draft) for queue in QUEUES)
    return next((gate for gate in gates if gate is not OPEN), OPEN)


def ask_again(draft: Draft) -> tuple[Action, ...]:
    """Requests to queues that the API server refused."""
    return tuple(action for queue in QUEUES for action in queue.ask_again(draft))


def settle(draft: Draft) -> None:
    """Tell every queue what has become of the job."""
    for queue in QUEUES:
        queue.settle(draft)


def of_stopped_job(snapshot: Snapshot) -> tuple[Action, ...]:
    """What becomes of the objects of queues when a job is being deleted or cannot be run."""
    return tuple(action for queue in QUEUES for action in queue.of_stopped_job(snapshot))
