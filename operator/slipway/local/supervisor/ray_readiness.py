"""Whether all workers have joined a Ray head, of which the engine tells nobody: what a kubelet finds out by a probe."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from slipway.core.manifests.ray.cluster import HAS_JOINED
from slipway.local.containers.containers import Containers

ASK_AGAIN: Final = timedelta(seconds=1)
"""How long after a question the next one is asked, as by the kubelet."""
ANSWERS_SOON: Final = timedelta(seconds=0.1)
"""How long an answer may take before it is looked for again."""


class _Question(NamedTuple):
    at: datetime
    command: str | None
    """The command that runs in the head; None when it has ended."""


class Joining:
    """Asks the heads, and waits for no answer: a command that never ends must not hold up the job."""

    def __init__(self, containers: Containers, clock: Callable[[], datetime]) -> None:
        self._containers = containers
        self._clock = clock
        self._asked: dict[str, _Question] = {}
        self.joined: set[str] = set()
        """Heads that all workers have joined, by the id of the driver's container."""

    def ask(self, waiting: Iterable[str]) -> list[str]:
        """Ask the heads that wait for workers; returns those of them that all have joined.

        Raises:
            EngineLost: when the engine does not answer.
        """
        now, found = self._clock(), list[str]()
        asked, self._asked = self._asked, {}
        for one in waiting:
            question = asked.get(one)
            if question is not None and question.command is not None:
                answer = self._containers.answer(question.command)
                if answer:
                    found.append(one)
                    continue
                question = question._replace(command=None) if answer is not None else question
            if question is None or (question.command is None and now - question.at >= ASK_AGAIN):
                question = _Question(now, self._containers.ask(one, HAS_JOINED))
            self._asked[one] = question
        self.joined.update(found)
        return found

    def due(self) -> float | None:
        """Seconds until the next question, or the next look for an answer; None when no head waits."""
        if not self._asked:
            return None
        if any(question.command is not None for question in self._asked.values()):
            return ANSWERS_SOON.total_seconds()
        first = min(question.at for question in self._asked.values())
        return max(0.0, (first + ASK_AGAIN - self._clock()).total_seconds())
