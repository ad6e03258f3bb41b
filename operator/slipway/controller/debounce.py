"""How long a job may be left alone after news of a pod: a decision looks at every pod, and news come pod by pod.

What breaks an attempt, and the last pod to start, wait for nobody.
"""

from typing import Final

from slipway.apiserver.watch import Applied, Event
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.pods import key_of
from slipway.core.model.job import Key
from slipway.core.model.pods import Pod
from slipway.core.planner.status.throttle import REASONS_AFTER

SECONDS_PER_POD: Final = 100e-6
"""How long the going of a pod, or what changes nothing, may wait for that of its siblings, for each pod of the job.

One decision for each of the thousands that go would cost with the square of their number; this keeps it to about a
tenth of the time.
"""
PROGRESS_SECONDS: Final = REASONS_AFTER.total_seconds()
"""How long a pod that has not started yet may wait for its siblings: the status shows it no sooner."""


def observe(cache: Cache, event: Event[Pod], scope: str) -> list[tuple[Key, float]]:
    """Take an event of the watch of pods; returns the jobs for which it is news, and for how many seconds it may wait.

    `scope` is the namespace that is watched, empty for all.
    """
    pods = cache.pods
    if not isinstance(event, Applied):
        return [(key, _going(cache, key) or 0.0) for key in pods.observe(event, scope)]
    pod = event.object
    before, starting = pods.get(pod.metadata.uid), pods.starting(key_of(pod))
    starts = before is not None and not before.started
    found = []
    for key in pods.observe(event, scope):
        pause = _going(cache, key)
        if pause is None:
            at_once = pod.terminating or not pod.undisturbed or (starting > 0 and pods.starting(key) == 0)
            on_its_way = starts and pod.unhindered
            pause = 0.0 if at_once else max(_calm(cache, key), PROGRESS_SECONDS if on_its_way else 0.0)
        found.append((key, pause))
    return found


def _going(cache: Cache, key: Key) -> float | None:
    """The pause of a job whose attempt has ended, so that its pods only go; None of any other."""
    return _calm(cache, key) if cache.jobs.attempt_ended(key) else None


def _calm(cache: Cache, key: Key) -> float:
    return len(cache.pods.of(key)) * SECONDS_PER_POD
