"""Which cause an attempt may be charged to, judged by what was done to it.

The first blow counts, by the second it fell in, and an unconfirmed loss of a machine outranks exit codes but never
OOM (design 5.4). Allowances, each for a case that the rules or the evidence leave open:

1. Blows that fell in the same second as the first: times in the API have seconds only, so any of them may be named.
   Where the clocks of API servers differ, so do the dates of what they wrote, and that long after it counts as well.
2. A machine that died after a program had failed by itself: the rule says preemption, the order says failure; both
   are right. So it is for LATE_SECONDS after the attempt's end; a machine that is lost later is no cause, where the
   judging process has seen it.
3. A machine that died before, or within a second of, an event that no machine's death explains away (OOM, eviction):
   the death is noticed late, so the event may be named.
4. A blow that no version of the pod the judging process was shown tells of (it was down, or its watch was cut or
   behind, and the pod is gone by now): it may have gone unnoticed, so that only its peers' crashes are seen, or the
   exit code of a container that its kubelet evicted, or been taken for an unexplained disappearance. So may the death
   or silence of a machine whose Node may not be read.
5. A pod of which, when the attempt ended or was charged, the judging process had not been shown the newest version
   (its watch was cut) while something is wrong with its node, or was since the pod was bound: it looks lost, and
   preemption is right.
6. A machine that only fell silent: its peers crash, and when it comes back its kubelet confirms an end that looks
   like any other. Or one that was about to go before its pod ran: nobody ever confirms an end. Preemption and failure
   are both right.
7. A program that exited by itself in the second in which its pod was deleted: the kubelet may have terminated it. So
   it is with a container that a kubelet evicted, when the pod went before the kubelet had set the reason.
   Where the clocks of API servers differ, that second is so much longer. So is it, by 5 s, for exit codes of signals:
   by the clock of a kubelet that is behind, what SIGTERM ended may have ended so much earlier.
8. A program that exits 137 or 143 by itself on a machine that is in trouble within two minutes: the rule takes it for
   killed with its machine.
9. A start timeout is noticed by whoever looks after it, not when it passes: anything else that has hit the attempt by
   then may be named.
10. A program that runs out of memory after its pod was asked to go: of what hit one pod the table's order decides, and
   there OOM comes first; by time it was the other. Both are right.
11. A program that exits with a code of its own after SIGTERM, by the clock of a kubelet that is behind: it may seem to
    have exited before that. So may a program that crashes after its peer seem to have crashed first.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

from slipway.api.status import Cause
from tests.simulation.truth import OUTRANKED, Blow, Kind

_MOST_DOUBTFUL = 6


def allowed(
    blows: Iterable[Blow], noticed: Callable[[Blow], bool], slack: float = 0.0, *, kubelets_differ: bool = False
) -> set[Cause]:
    """Causes that are right; `noticed` says whether the judging process must know of a blow.

    Two dates may be wrong against each other by `slack` seconds, and where `kubelets_differ` those of exits, too.
    """
    primary = [blow for blow in blows if blow.kind is not Kind.PEER]
    peers = [blow for blow in blows if blow.kind is Kind.PEER]
    sure = [blow for blow in primary if noticed(blow)]
    doubtful = [blow for blow in primary if not noticed(blow)][:_MOST_DOUBTFUL]
    right: set[Cause] = set()
    for count in range(len(doubtful) + 1):
        for some in combinations(doubtful, count):
            right |= _verdict([*sure, *some], peers, slack)
    if doubtful:
        right.add(Cause.PREEMPTION)
    if doubtful and (peers or any(blow.kind is Kind.DISRUPTED and blow.code for blow in doubtful)):
        right.add(Cause.FAILURE)
    if kubelets_differ and sure and any(peer.time <= min(blow.time for blow in sure) + slack for peer in peers):
        right.add(Cause.FAILURE)
    return right


def _verdict(blows: list[Blow], peers: list[Blow], slack: float) -> set[Cause]:
    lost = [blow for blow in blows if blow.kind is Kind.LOST]
    dated = _dated([blow for blow in blows if blow.kind not in (Kind.LOST, Kind.SILENT, Kind.STUCK)])
    right: set[Cause] = set()
    if any(blow.kind is Kind.SILENT for blow in blows):
        right |= {Cause.PREEMPTION, Cause.FAILURE}
    if dated:
        right |= _first(dated, lost, slack)
    elif lost:
        right.add(Cause.PREEMPTION)
    elif peers and not right:
        right.add(Cause.FAILURE)
    stuck = (blow for blow in blows if blow.kind is Kind.STUCK and _first_or_as_early(blow, dated, slack))
    return right | {blow.cause for blow in stuck}


def _dated(blows: list[Blow]) -> list[Blow]:
    """With an OOM as early as the first that hit its pod."""
    first = {blow.uid: blow.time for blow in sorted(blows, key=lambda one: one.time, reverse=True)}
    return [replace(blow, time=first[blow.uid]) if blow.kind is Kind.OOM else blow for blow in blows]


def _first_or_as_early(stuck: Blow, dated: list[Blow], slack: float) -> bool:
    return all(int(stuck.time) <= int(blow.time) + 1 + slack for blow in dated)


def _first(dated: list[Blow], lost: list[Blow], slack: float) -> set[Cause]:
    second = min(int(blow.time) for blow in dated)
    firsts = [blow for blow in dated if int(blow.time) <= second + slack]
    right = {blow.cause for blow in firsts}
    if not lost:
        return right
    died = min(blow.time for blow in lost)
    if all(blow.kind in OUTRANKED for blow in firsts):
        after = died > min(blow.time for blow in firsts)
        return right | {Cause.PREEMPTION} if after else {Cause.PREEMPTION}
    return right | {Cause.PREEMPTION} if died <= second + 1 + slack else right
