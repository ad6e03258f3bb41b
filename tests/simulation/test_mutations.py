"""The simulation can fail: each of these rules, broken on purpose, is caught."""

import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from slipway.api.places import FIRST, Place
from slipway.api.status import AppliedDefaults, Attempt, Cause, Condition, Phase, SliceJobStatus
from slipway.apiserver.history_pages import Numbered, Page
from slipway.controller import debounce, engine
from slipway.controller.act import history
from slipway.controller.act.apply import Applier
from slipway.controller.act.workloads import WorkloadWriter
from slipway.controller.clock import Clock
from slipway.controller.seen import jobs, profiles
from slipway.controller.seen.jobs import JobStore
from slipway.controller.seen.nodes import NodeStore
from slipway.controller.seen.pods import PodStore
from slipway.core.explain import kueue_messages
from slipway.core.manifests import peers, placement
from slipway.core.manifests.peers import Peers
from slipway.core.model import job as job_model
from slipway.core.model import reading
from slipway.core.model.job import Job, Key
from slipway.core.model.nodes import Node
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod
from slipway.core.model.site import Site
from slipway.core.model.workload import QUOTA_RESERVED, Workload
from slipway.core.planner.capacity import wait_for_nodes
from slipway.core.planner.contract.actions import DeleteHostLists, EventRecord, Plan
from slipway.core.planner.contract.freshness import Step
from slipway.core.planner.contract.snapshot import LostNode, Snapshot
from slipway.core.planner.diagnosis import facts
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.planner.diagnosis.facts import Facts
from slipway.core.planner.lifecycle import (
    attempts,
    creation,
    fencing,
    recreation,
    requests,
    retries,
    rivals,
    start_timeout,
)
from slipway.core.planner.queue.kueue import admission, pod_sets, readiness, workloads
from slipway.core.planner.state import observation
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.status import conditions, events, ledger, throttle
from slipway.core.vocabulary.endings import PREEMPTED_BY_QUEUE
from slipway.core.vocabulary.reasons import NO_QUOTA
from tests.simulation import plot
from tests.simulation.connection import Weather
from tests.simulation.faults import Faults
from tests.simulation.grounds import (
    CHOICES,
    CLOCKS,
    CROWD,
    HANGS,
    KUBELETS,
    POLICIES,
    PROFILES,
    QUEUES,
    QUOTA,
    SIZES,
    STANDBY,
    STOPS,
    STRANGERS,
    UNREADABLE_NODES,
    VERSIONS,
)
from tests.simulation.process import ModelLease, Process
from tests.simulation.run import run_seed, run_some

Breakage = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 2000


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """The next attempt begins while pods of the last one may still run."""
    patch.setattr(fencing, "clear_to_start", lambda draft: True)


def silent_machines_count_as_gone(patch: pytest.MonkeyPatch) -> None:
    """A pod is taken out of the API although its machine may only be cut off."""
    gone = fencing._machine_gone

    def broken(draft: Draft, pod: Pod) -> bool:
        node = draft.snapshot.nodes.get(pod.spec.node_name)
        silent = node is not None and node.ready is not None and node.ready.status != "True"
        return silent or gone(draft, pod)

    patch.setattr(fencing, "_machine_gone", broken)
    patch.setattr("slipway.controller.act.delete_pods.PodDeleter._machine_gone", _always)


def what_was_asked_to_terminate_has(patch: pytest.MonkeyPatch) -> None:
    """Slipway takes a pod that it deleted for terminated once the pod is gone, though a person may have forced it."""
    orphan = fencing._is_orphan

    def broken(draft: Draft, pod: Pod) -> bool:
        asked = pod.terminating and bool(pod.metadata.deletion_grace_period_seconds)
        return not asked and orphan(draft, pod)

    patch.setattr(fencing, "_is_orphan", broken)


def earlier_jobs_have_terminated(patch: pytest.MonkeyPatch) -> None:
    """A job does not wait for the containers of pods that were forced of an earlier job of its name."""
    patch.setattr(PodStore, "vanished_foreign", lambda *_: ())


async def _always(*_: object) -> bool:
    return True


def the_loudest_peer_is_blamed(patch: pytest.MonkeyPatch) -> None:
    """The earliest exit code wins over a machine that died in silence."""

    def broken(evidence: Iterable[Evidence]) -> Evidence | None:
        return min(evidence, key=lambda one: one.time, default=None)

    patch.setattr(attempts, "first_cause", broken)


def one_attempt_too_many(patch: pytest.MonkeyPatch) -> None:
    """A budget is used up one charge too late."""
    limit_of = retries.limit_of
    patch.setattr(retries, "limit_of", lambda budget, spec: limit_of(budget, spec) + 1)


def charged_when_ended(patch: pytest.MonkeyPatch) -> None:
    """The cause is judged and charged as soon as the attempt ends, and once more when the fence closes."""
    end = attempts.end_as

    def broken(draft: Draft, cause: Evidence) -> None:
        end(draft, cause)
        draft.status = retries.charged(draft.status, cause.ending.cause)

    patch.setattr(attempts, "end_as", broken)


def every_exit_0_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A program that obeys SIGTERM counts as done."""

    def broken(facts: Facts) -> bool:
        return facts.end is not None and facts.end.exit_code == 0

    patch.setattr(Facts, "succeeded", property(broken))


def a_phase_that_was_never_set_tells_nothing(patch: pytest.MonkeyPatch) -> None:
    """A program that exited 0 as its machine went is taken for one that exited by itself."""
    patch.setattr(Facts, "_phase_missing", False)
    patch.setattr(Facts, "_cut_short", lambda *_: False)


def preemptions_count_as_failures(patch: pytest.MonkeyPatch) -> None:
    """Both are taken from one budget."""
    charged = retries.charged

    def broken(status: SliceJobStatus, cause: Cause) -> SliceJobStatus:
        return charged(status, Cause.FAILURE if cause is Cause.PREEMPTION else cause)

    patch.setattr(retries, "charged", broken)


def nobody_looks_before_a_timeout(patch: pytest.MonkeyPatch) -> None:
    """Time alone ends an attempt, whatever a lagging watch has not shown yet."""
    may = Draft.may

    def broken(draft: Draft, step: Step, *given: Any) -> bool:
        return step in (Step.END_BY_TIME, Step.END_START) or may(draft, step, *given)

    patch.setattr(Draft, "may", broken)


def deleted_pods_are_created_again_at_once(patch: pytest.MonkeyPatch) -> None:
    """Somebody deletes new pods, and Slipway makes others as fast as it can."""
    patch.setattr(recreation, "due", lambda _: {})


def an_image_may_be_missing_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Each attempt has its own time to pull the image, and releases its nodes before that is over."""
    patch.setattr(start_timeout, "image_timeout", lambda _: None)


def services_are_made_with_the_pods_only(patch: pytest.MonkeyPatch) -> None:
    """A process that died between the pods and their Service leaves them without names."""
    create = creation.create

    def broken(draft: Draft) -> None:
        if draft.seen.absent:
            create(draft)

    patch.setattr(creation, "create", broken)


def a_list_drops_nothing(patch: pytest.MonkeyPatch) -> None:
    """What vanished while the watch was cut is believed to be there for ever."""

    def broken(self: PodStore, known: Any, listed: Iterable[Pod], version: str) -> set[Key]:
        return {key for pod in listed for key in self.applied(pod)}

    patch.setattr(PodStore, "swap", broken)


def an_old_leader_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A process that has lost its Lease goes on writing."""
    patch.setattr(ModelLease, "check", lambda self: math.inf)


def a_final_phase_is_taken_back(patch: pytest.MonkeyPatch) -> None:
    """A finished job is looked at as if it still ran."""
    patch.setattr(Phase, "final", property(lambda phase: phase is Phase.SUCCEEDED))


def pools_are_chosen_anew_each_time(patch: pytest.MonkeyPatch) -> None:
    """Pods that are created later than their siblings go to another node pool."""
    pools = creation._pools

    def broken(draft: Draft) -> dict[int, str]:
        forgetful = copy(draft)
        forgetful.snapshot = replace(draft.snapshot, pools=replace(draft.snapshot.pools, claim=None))
        forgetful.seen = replace(draft.seen, live={})
        return pools(forgetful)

    patch.setattr(creation, "_pools", broken)


def slices_that_wait_take_what_was_promised(patch: pytest.MonkeyPatch) -> None:
    """A slice without a node pool of its own may go where a sibling is pinned to."""
    affinity = placement.affinity
    patch.setattr(placement, "affinity", lambda *given: affinity(*given[:-1], ()))


class _LostForCertain(LostNode):
    """A Node on which every pod was that names it, whenever it was bound."""

    def gone_since(self, pod: Pod) -> datetime:
        return self.at


def a_watch_makes_nodes_lost(patch: pytest.MonkeyPatch) -> None:
    """A node that the watch shows as deleted is gone, though a younger one may have its name."""
    gone = NodeStore._gone

    def broken(self: NodeStore, known: Node, *rest: Any) -> Any:
        self._lost[known.metadata.name] = _LostForCertain(self._now())
        return gone(self, known, *rest)

    patch.setattr(NodeStore, "_gone", broken)


def nobody_gives_way(patch: pytest.MonkeyPatch) -> None:
    """Jobs that each hold a part of what both need wait for each other for ever."""
    patch.setattr(JobStore, "rivals", lambda self, job: ())


def an_unreadable_node_is_a_lost_one(patch: pytest.MonkeyPatch) -> None:
    """What may not be seen is taken for gone."""
    gone_since = Snapshot.machine_gone_since

    def broken(self: Snapshot, pod: Pod) -> datetime | None:
        return gone_since(self, pod) if self.nodes_watched else pod.bound_at

    patch.setattr(Snapshot, "machine_gone_since", broken)


def the_machines_own_clock_is_right(patch: pytest.MonkeyPatch) -> None:
    """What API servers say of the time is not listened to."""
    patch.setattr(Clock, "heard", lambda self, date, asked: None)


def kubelets_have_the_time_of_the_api_server(patch: pytest.MonkeyPatch) -> None:
    """What is dated before a deletion ended by itself."""
    patch.setattr(Facts, "ended_by_itself_before", Facts.ended_before)


def kubelets_say_beforehand_that_they_evict(patch: pytest.MonkeyPatch) -> None:
    """What a kubelet dates after the end of the containers came after it."""
    found = property(lambda self: self._before_end(self.pod.condition("DisruptionTarget")))
    patch.setattr(Facts, "disruption", found)


def each_step_of_progress_is_written(patch: pytest.MonkeyPatch) -> None:
    """A status is written for every host that starts."""
    patch.setattr(throttle, "progress_interval", lambda *_: timedelta(0))
    patch.setattr(debounce, "SECONDS_PER_POD", 0.0)
    patch.setattr(debounce, "PROGRESS_SECONDS", 0.0)


def a_takeover_trusts_its_watches(patch: pytest.MonkeyPatch) -> None:
    """A process ends attempts for what its own watches have not shown, however far behind they are."""
    patch.setattr(Draft, "may", lambda *_, **__: True)


def a_takeover_does_not_list_jobs(patch: pytest.MonkeyPatch) -> None:
    """A new leader decides on SliceJobs as an outdated watch shows them."""

    async def broken(self: engine.Engine) -> None:
        self._synced("jobs")

    patch.setattr(engine.Engine, "_list_jobs", broken)


def a_deleted_node_is_a_dead_machine(patch: pytest.MonkeyPatch) -> None:
    """A pod is taken out of the API because somebody deleted the Node object of its living machine."""
    patch.setattr(fencing, "_kubelet_dead", lambda *_: True)
    patch.setattr(fencing, "_grace_over", lambda *_: True)


def a_second_run_is_as_good_as_the_first(patch: pytest.MonkeyPatch) -> None:
    """That a kubelet started a pod anew says nothing about its machine."""
    patch.setattr(Facts, "ran_twice", False)
    for module in (facts, observation):
        patch.setattr(module, "runs_until", lambda _: None)


def all_profiles_are_one(patch: pytest.MonkeyPatch) -> None:
    """Whatever profile an attempt began with counts as that of today."""
    patch.setattr(AppliedDefaults, "__eq__", lambda *_: True)
    for module in (creation, profiles, job_model):
        patch.setattr(module, "same_defaults", lambda *_: True)


def unknown_profiles_have_no_secrets(patch: pytest.MonkeyPatch) -> None:
    """Who does not know with which version of a profile an attempt began hides nothing of any."""
    patch.setattr(Site, "hiding", lambda _, spec: spec)


def ended_pods_hold_their_chips(patch: pytest.MonkeyPatch) -> None:
    """A pod that has terminated counts as one that holds its chips, for as long as it exists."""
    patch.setattr(ledger, "_released", lambda pod, removed, ended: removed)


def unknown_words_are_no_words(patch: pytest.MonkeyPatch) -> None:
    """A status in which another version wrote a word of its own counts as never written."""
    read = reading.read_status

    def broken(content: Any) -> tuple[SliceJobStatus, str]:
        status, problem = read(content)
        words = (status.phase, *(attempt.cause for attempt in status.attempts))
        return (status, problem) if all(word is None or word.known for word in words) else (SliceJobStatus(), "")

    patch.setattr(reading, "read_status", broken)


def a_machine_that_comes_back_begins_another_trouble(patch: pytest.MonkeyPatch) -> None:
    """A machine is taken for lost when it is heard of again, which may be long after the attempt."""
    note = NodeStore._note_trouble

    def broken(nodes: NodeStore, node: Node, *, gone: bool = False) -> None:
        nodes._in_trouble.clear()
        note(nodes, node, gone=gone)

    patch.setattr(NodeStore, "_note_trouble", broken)


def an_emptied_status_is_that_of_a_new_job(patch: pytest.MonkeyPatch) -> None:
    """The pods of a running attempt are taken for those of an ended one when somebody empties the status."""
    read = reading.read_job

    def broken(body: Mapping[str, Any], known: Job | None = None) -> Job:
        job = read(body, known)
        return (
            replace(job, status=reading.read_status(body.get("status") or {})[0], status_lost=False)
            if job.status_lost
            else job
        )

    patch.setattr(jobs, "read_job", broken)


def jobs_wait_for_quota_with_their_pods(patch: pytest.MonkeyPatch) -> None:
    """A job keeps the quota that an older one waits for."""
    patch.setattr(rivals, "QUOTA", "nothing")


def the_status_drops_attempts_first(patch: pytest.MonkeyPatch) -> None:
    """Attempts are added to the history after they have left the status, if the process lives that long."""
    apply = Applier.apply

    async def broken(self: Applier, plan: Plan, job: Job) -> float | None:
        return await apply(self, replace(plan, before=(), actions=plan.before + plan.actions), job)

    patch.setattr(Applier, "apply", broken)


def pages_are_begun_anew(patch: pytest.MonkeyPatch) -> None:
    """What a page of the history holds is replaced by what is added."""
    patch.setattr(Page, "attempts", property(lambda page: {}))


def nobody_waits_for_admission(patch: pytest.MonkeyPatch) -> None:
    """Pods are created as soon as there is a Workload."""
    patch.setattr(Workload, "admitted", property(lambda one: not one.deleting))


def quota_is_given_back_with_the_pods(patch: pytest.MonkeyPatch) -> None:
    """Kueue is told that a job has stopped while its pods may still run."""
    patch.setattr(admission, "_nothing_runs", lambda draft: True)


def the_admission_is_left_in_place(patch: pytest.MonkeyPatch) -> None:
    """An eviction is answered by conditions only, and Kueue gives the same quota out twice."""
    released = workloads.released

    def broken(known: Workload, now: datetime) -> dict[str, Any]:
        return {"conditions": released(known, now)["conditions"]}

    patch.setattr(workloads, "released", broken)


def every_eviction_is_a_preemption(patch: pytest.MonkeyPatch) -> None:
    """A job is charged when its queue is stopped or its Workload deleted."""
    patch.setattr(admission, "STOPPED_BY_QUEUE", PREEMPTED_BY_QUEUE)


def a_restart_enters_the_queue_again(patch: pytest.MonkeyPatch) -> None:
    """The quota is given back whenever an attempt has ended."""
    is_over = admission._is_over

    def broken(draft: Draft, known: Workload) -> bool:
        return is_over(draft, known) or (draft.attempt is not None and draft.active is None and known.admitted)

    patch.setattr(admission, "_is_over", broken)


def jobs_in_a_queue_are_asked_about_again(patch: pytest.MonkeyPatch) -> None:
    """A job whose pods are refused for a while loses its place in the queue."""
    patch.setattr(Job, "is_as_accepted", property(lambda job: False))


def the_slices_that_quota_is_for_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A job admitted with fewer slices creates the pods of the most."""
    patch.setattr(Draft, "most_slices", property(lambda draft: draft.spec.most_slices))


def any_number_of_slices_is_acceptable(patch: pytest.MonkeyPatch) -> None:
    """Without quota a job asks for one slice less each time."""

    def broken(draft: Draft, known: Workload) -> int:
        return max(1, pod_sets.asked(draft, known) - 1)

    patch.setattr(pod_sets, "_fewer", broken)


def fewer_slices_are_asked_for_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for capacityRetrySeconds."""

    def broken(draft: Draft, known: Workload) -> int:
        asked, (reason, _) = pod_sets.asked(draft, known), kueue_messages.waiting(known)
        short = reason == NO_QUOTA and known.is_current(QUOTA_RESERVED)
        return max((one for one in draft.spec.acceptable_slices if one < asked), default=asked) if short else asked

    patch.setattr(pod_sets, "_fewer", broken)


def nothing_is_too_large(patch: pytest.MonkeyPatch) -> None:
    """A job waits for quota that there will never be."""
    patch.setattr(kueue_messages, "_never_fits", lambda said: False)


def running_jobs_ask_for_more(patch: pytest.MonkeyPatch) -> None:
    """An attempt is ended because there is quota for more slices."""
    is_replaced = pod_sets.is_replaced

    def broken(draft: Draft, known: Workload) -> bool:
        return is_replaced(draft, known) or pod_sets.asked(draft, known) < draft.spec.most_slices

    patch.setattr(pod_sets, "is_replaced", broken)


def jobs_are_content_with_the_fewest_slices(patch: pytest.MonkeyPatch) -> None:
    """An attempt has no more slices than it has to, whatever its job has quota for."""
    begin = attempts._begin

    def broken(draft: Draft, slices: int) -> None:
        begin(draft, min(draft.spec.acceptable_slices, default=slices))

    patch.setattr(attempts, "_begin", broken)


def whole_slices_alone_find_nodes(patch: pytest.MonkeyPatch) -> None:
    """Nodes that hosts of several slices have found do for none."""
    patch.setattr(wait_for_nodes, "_placed", lambda draft: 0)


def workloads_outlive_their_jobs(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks after the Workload of a job that is gone."""

    async def broken(self: WorkloadWriter, key: Any) -> bool:
        return False

    patch.setattr(WorkloadWriter, "release", broken)


def host_lists_go_while_they_are_read(patch: pytest.MonkeyPatch) -> None:
    """The ConfigMaps of the attempt that begins are deleted instead of those of the one before."""

    def broken(draft: Draft, attempt: Attempt) -> tuple[DeleteHostLists, ...]:
        return (DeleteHostLists(tuple(map(draft.peers(attempt.number).host_list, range(4)))),)

    patch.setattr(creation, "_old_host_lists", broken)


def only_the_first_pods_wait_for_host_lists(patch: pytest.MonkeyPatch) -> None:
    """Pods of other slices are created without the ConfigMap that their variables come from."""
    host_lists = Peers.host_lists

    def broken(self: Peers, places: Iterable[Place]) -> tuple[Body, ...]:
        wanted = tuple(places)
        return host_lists(self, wanted) if FIRST in wanted else ()

    patch.setattr(Peers, "host_lists", broken)


def ended_pods_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Pods of attempts long ago stay in the API."""
    patch.setattr(fencing, "_outdated", lambda draft: [])


def logs_go_with_the_attempt(patch: pytest.MonkeyPatch) -> None:
    """The pod whose log says why an attempt failed is deleted with its peers."""
    deletions = fencing.deletions

    def broken(pods: Iterable[Pod], grace: int | None, **more: Any) -> Any:
        return deletions(pods, grace, **more | {"ended_too": True})

    patch.setattr(fencing, "deletions", broken)


def people_who_stop_are_given_no_time(patch: pytest.MonkeyPatch) -> None:
    """Programs that are suspended are killed as soon as peers of one that failed."""
    ending_of = fencing.ending_of
    patch.setattr(fencing, "ending_of", lambda attempt: replace(ending_of(attempt), pods_own_grace=False))


def hung_peers_are_given_their_own_time(patch: pytest.MonkeyPatch) -> None:
    """A restart waits for programs that cannot make progress."""
    patch.setattr(fencing, "_grace", lambda draft: None)


def a_suspended_job_keeps_its_pods(patch: pytest.MonkeyPatch) -> None:
    """Its chips are not free, whatever the status says."""
    delete = fencing.delete_stale_pods
    patch.setattr(fencing, "delete_stale_pods", lambda draft: None if draft.spec.suspend else delete(draft))


def pods_outlive_the_end(patch: pytest.MonkeyPatch) -> None:
    """A job that was cancelled, or is over, leaves its pods to themselves."""
    delete = fencing.delete_stale_pods
    patch.setattr(fencing, "delete_stale_pods", lambda draft: None if draft.status.final else delete(draft))


def who_runs_is_not_cancelled(patch: pytest.MonkeyPatch) -> None:
    """A cancel waits until the attempt has ended."""
    stop = requests.stop_on_request
    patch.setattr(requests, "stop_on_request", lambda draft: None if draft.active else stop(draft))


def there_are_no_deadlines(patch: pytest.MonkeyPatch) -> None:
    """activeDeadlineSeconds are not looked at."""
    patch.setattr(requests, "_past_deadline", lambda draft: False)


def deadlines_go_on_while_a_job_is_suspended(patch: pytest.MonkeyPatch) -> None:
    """activeDeadlineSeconds count from the first attempt of all."""
    stop = requests.stop_on_request

    def broken(draft: Draft) -> None:
        since = draft.status.start_time
        stop(draft)
        draft.update(start_time=draft.status.start_time or since)

    patch.setattr(requests, "stop_on_request", broken)


def nobody_deletes_what_is_over(patch: pytest.MonkeyPatch) -> None:
    """ttlSecondsAfterFinished are not looked at."""
    patch.setattr(requests, "expire", lambda draft: None)


def what_is_over_is_deleted_at_once(patch: pytest.MonkeyPatch) -> None:
    """Any ttlSecondsAfterFinished count as 0."""
    patch.setattr(requests, "expiry", lambda job, status: status.completion_time)


def suspended_jobs_keep_their_quota(patch: pytest.MonkeyPatch) -> None:
    """The Workload stays admitted, for nothing."""
    settle = admission.settle
    patch.setattr(admission, "settle", lambda draft: None if draft.spec.suspend else settle(draft))


def queues_wait_for_pods_that_run(patch: pytest.MonkeyPatch) -> None:
    """Kueue is not told that all pods run, and may evict the job for that."""
    patch.setattr(readiness, "change", lambda draft, known: None)


def a_pod_that_does_not_go_is_not_named(patch: pytest.MonkeyPatch) -> None:
    """Nobody learns why the next attempt does not begin."""
    patch.setattr(fencing, "overdue", lambda draft: "")


def preempted_jobs_wait(patch: pytest.MonkeyPatch) -> None:
    """The next attempt begins five minutes after a preemption."""

    def broken(status: SliceJobStatus, *_: Any, **__: Any) -> datetime | None:
        last = status.newest
        return last.end_time + timedelta(minutes=5) if last is not None and last.end_time is not None else None

    patch.setattr(retries, "next_try", broken)


def attempts_follow_each_other_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for backoff, nor for repairs."""
    patch.setattr(retries, "next_try", lambda *_, **__: None)


def a_job_ends_with_a_retry_left(patch: pytest.MonkeyPatch) -> None:
    """A budget counts as used up one charge too early."""
    limit_of = retries.limit_of
    patch.setattr(retries, "limit_of", lambda budget, spec: max(1, limit_of(budget, spec) - 1))


def no_exit_code_ends_a_job(patch: pytest.MonkeyPatch) -> None:
    """Codes of retries.onExitCodes.fail are failures like others."""
    ending_of = retries.ending_of
    patch.setattr(retries, "ending_of", lambda attempt: replace(ending_of(attempt), final=False))


def a_job_that_was_preempted_has_failed(patch: pytest.MonkeyPatch) -> None:
    """Whichever budget is used up, the job says Failed."""
    patch.setattr(retries, "BUDGETS", tuple(replace(one, phase=Phase.FAILED) for one in retries.BUDGETS))
    patch.setattr(retries, "_counts", lambda *_: True)


def nobody_says_where_it_failed(patch: pytest.MonkeyPatch) -> None:
    """The record of an attempt has neither pod nor exit code."""
    patch.setattr(attempts, "root_of", lambda cause: None)


def the_end_has_no_date(patch: pytest.MonkeyPatch) -> None:
    """completionTime is that of an earlier end, of which there is none."""
    finish = attempts.finish

    def broken(draft: Draft, *rest: Any) -> None:
        finish(draft, *rest)
        draft.update(completion_time=None)

    for module in (attempts, wait_for_nodes, requests):
        patch.setattr(module, "finish", broken)


def suspended_is_said_at_once(patch: pytest.MonkeyPatch) -> None:
    """Condition Suspended is True while the pods terminate."""
    suspended = conditions._suspended
    patch.setattr(conditions, "_suspended", lambda phase, fence_open: suspended(phase, False))


def conditions_are_as_old_as_ever(patch: pytest.MonkeyPatch) -> None:
    """A condition that changes keeps its lastTransitionTime."""
    dated = conditions._dated

    def broken(found: Any, before: SliceJobStatus, *rest: Any) -> tuple[Condition, ...]:
        since = {one.type: one.last_transition_time for one in before.conditions}
        return tuple(
            one.model_copy(update={"last_transition_time": since.get(one.type, one.last_transition_time)})
            for one in dated(found, before, *rest)
        )

    patch.setattr(conditions, "_dated", broken)


def a_changed_spec_is_that_of_before(patch: pytest.MonkeyPatch) -> None:
    """observedGeneration stays what it was at first."""
    summarise = conditions.summarise

    def broken(draft: Draft) -> None:
        before = draft.status.observed_generation
        summarise(draft)
        draft.update(observed_generation=before or draft.status.observed_generation)

    patch.setattr(conditions, "summarise", broken)


def half_a_slice_is_ready(patch: pytest.MonkeyPatch) -> None:
    """A slice counts as ready once one of its hosts runs."""
    count = conditions._count

    def broken(draft: Draft) -> None:
        count(draft)
        ready = len({place.slice for place in draft.seen.started if not place.is_head})
        if draft.status.slices is not None and draft.active is not None:
            counts = draft.status.slices.model_copy(update={"ready": ready})
            draft.update(slices=counts, ready_slices=f"{ready}/{counts.requested}")

    patch.setattr(conditions, "_count", broken)


def the_coordinator_is_that_of_before(patch: pytest.MonkeyPatch) -> None:
    """The status names a host of an attempt that is over."""
    recorded = property(lambda peers: replace(peers, attempt=max(0, peers.attempt - 1)).coordinator)
    patch.setattr(peers.Peers, "recorded_coordinator", recorded)


def nobody_is_told_of_attempts(patch: pytest.MonkeyPatch) -> None:
    """Events tell of phases only."""
    patch.setattr(events, "_judged", lambda attempt, *_: EventRecord("Ended", str(attempt.number)))


def pages_are_abridged(patch: pytest.MonkeyPatch) -> None:
    """The history has numbers and causes, and not where attempts failed."""
    stored_as = history._as_stored

    def broken(kept: Iterable[Attempt], job: Job) -> Numbered:
        found = stored_as(kept, job)
        return {number: {name: one[name] for name in one if name != "root"} for number, one in found.items()}

    patch.setattr(history, "_as_stored", broken)


def the_fewest_slices_will_do(patch: pytest.MonkeyPatch) -> None:
    """Where nodes lack, a job takes the smallest of acceptableSlices."""
    fewer = wait_for_nodes._fewer
    patch.setattr(wait_for_nodes, "_fewer", lambda draft: min(draft.spec.acceptable_slices) if fewer(draft) else 0)


def host_lists_are_long(patch: pytest.MonkeyPatch) -> None:
    """The list of a single host is too long for a variable."""
    patch.setattr(peers, "LONGEST_INLINE_LIST", 0)


def pods_are_created_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """With long host lists, and as if each pod were hundreds."""
    host_lists_are_long(patch)
    patch.setattr(creation, "FIRST_CREATES", 1)
    patch.setattr(creation, "MAX_CREATES", 1)


def the_status_holds_two_attempts(patch: pytest.MonkeyPatch) -> None:
    """The history leaves the status soon, and pages fill quickly."""
    patch.setattr(attempts, "MAX_ATTEMPTS", 2)
    patch.setattr(history, "PAGE_SIZE", 2)


def people_delete_nodes(patch: pytest.MonkeyPatch) -> None:
    """Nothing else goes wrong, and the machines live."""
    patch.setattr(Faults, "kinds", lambda self: {"unregister": (1.0, lambda: self._to_machine(self.unregister))})


def people_force_what_terminates(patch: pytest.MonkeyPatch) -> None:
    """Programs fail, pods are evicted, and somebody forces all that terminates."""
    kinds = Faults.kinds

    def harms(self: Faults) -> dict[str, tuple[float, Callable[[], None]]]:
        return {"impatience": (5.0, self.impatience), **{name: kinds(self)[name] for name in ("evict", "exit")}}

    patch.setattr(Faults, "kinds", harms)


def machines_fall_silent(patch: pytest.MonkeyPatch) -> None:
    """Machines are cut off for a while, and programs fail."""
    kinds = Faults.kinds
    patch.setattr(Faults, "kinds", lambda self: {name: kinds(self)[name] for name in ("silence", "exit")})


def machines_go_with_a_notice(patch: pytest.MonkeyPatch) -> None:
    """Pods get some seconds before their machine goes, and programs fail."""
    kinds = Faults.kinds
    patch.setattr(Faults, "kinds", lambda self: {name: kinds(self)[name] for name in ("notice", "exit")})


def jobs_are_applied_again(patch: pytest.MonkeyPatch) -> None:
    """Every job is deleted and applied again soon, while somebody forces all that terminates."""
    people_force_what_terminates(patch)

    def asked(rng: random.Random, horizon: float) -> list[tuple[float, str]]:
        when = rng.uniform(5.0, 60.0)
        return [(when, "delete"), (when + 0.05, "apply")]

    patch.setattr(plot, "_requests", asked)


def machines_are_replaced_at_once(patch: pytest.MonkeyPatch) -> None:
    """Machines are taken, and another comes a moment after the Node has gone, before a lagging watch tells of that."""
    patch.setattr(Faults, "_vacancy", lambda _: 0.2)
    patch.setattr(Faults, "kinds", lambda self: {"spot": (1.0, lambda: self._to_machine(self.spot))})
    patch.setattr(plot, "_weather", lambda _: Weather(lag=5.0, cut=0.02))


def the_watch_of_jobs_lags(patch: pytest.MonkeyPatch) -> None:
    """kopf tells of a change half a minute later, so that a standby takes over with an outdated view of jobs."""
    patch.setattr(Process, "_job_lag", lambda _: 30.0)


def the_registry_is_down_for_long(patch: pytest.MonkeyPatch) -> None:
    """Nothing else goes wrong."""

    def down(self: Faults) -> None:
        self._cluster.images_missing_until = self._timeline.now + 600.0

    patch.setattr(Faults, "kinds", lambda self: {"images": (1.0, lambda: down(self))})


BREAKAGES: tuple[tuple[Breakage, int, tuple[str, ...]], ...] = (
    (no_fence, 49, ()),
    (silent_machines_count_as_gone, 32, ()),
    (the_loudest_peer_is_blamed, 60, ()),
    (one_attempt_too_many, 4, ()),
    (charged_when_ended, 3, ()),
    (every_exit_0_is_a_success, 907, ()),
    (a_phase_that_was_never_set_tells_nothing, 833, ()),
    (preemptions_count_as_failures, 7, ()),
    (nobody_looks_before_a_timeout, 30054, ()),
    (an_image_may_be_missing_for_ever, 5, ()),
    (deleted_pods_are_created_again_at_once, 214, (POLICIES,)),
    (services_are_made_with_the_pods_only, 1, ()),
    (a_list_drops_nothing, 54, ()),
    (an_old_leader_goes_on, 18, ()),
    (a_final_phase_is_taken_back, 400, ()),
    (pools_are_chosen_anew_each_time, 237, ()),
    (slices_that_wait_take_what_was_promised, 487, ()),
    (a_watch_makes_nodes_lost, 2170, ()),
    (nobody_gives_way, 3, (CROWD,)),
    (an_unreadable_node_is_a_lost_one, 1, (UNREADABLE_NODES,)),
    (the_machines_own_clock_is_right, 1, (CLOCKS,)),
    (kubelets_have_the_time_of_the_api_server, 2500000219, (KUBELETS,)),
    (kubelets_say_beforehand_that_they_evict, 3200000786, ()),
    (each_step_of_progress_is_written, 6, (SIZES,)),
    (a_takeover_trusts_its_watches, 20270, (STANDBY,)),
    (a_takeover_does_not_list_jobs, 344, (STANDBY,)),
    (a_deleted_node_is_a_dead_machine, 12, ()),
    (what_was_asked_to_terminate_has, 758, ()),
    (earlier_jobs_have_terminated, 165, ()),
    (a_second_run_is_as_good_as_the_first, 1410, ()),
    (all_profiles_are_one, 129, (PROFILES,)),
    (unknown_profiles_have_no_secrets, 196, (PROFILES,)),
    (ended_pods_hold_their_chips, 12, ()),
    (unknown_words_are_no_words, 25, (VERSIONS,)),
    (unknown_words_are_no_words, 9, (STRANGERS,)),
    (an_emptied_status_is_that_of_a_new_job, 8, (STRANGERS,)),
    (a_machine_that_comes_back_begins_another_trouble, 155, (HANGS,)),
    (jobs_wait_for_quota_with_their_pods, 94, (QUOTA,)),
    (host_lists_go_while_they_are_read, 22, ()),
    (only_the_first_pods_wait_for_host_lists, 1, ()),
    (the_status_drops_attempts_first, 12, ()),
    (pages_are_begun_anew, 12, ()),
    (nobody_waits_for_admission, 8, (QUEUES,)),
    (quota_is_given_back_with_the_pods, 56, (QUEUES,)),
    (the_admission_is_left_in_place, 26, (QUEUES,)),
    (every_eviction_is_a_preemption, 6, (QUEUES,)),
    (a_restart_enters_the_queue_again, 6, (QUEUES,)),
    (workloads_outlive_their_jobs, 22, (QUEUES,)),
    (jobs_in_a_queue_are_asked_about_again, 49, (QUEUES, POLICIES)),
    (whole_slices_alone_find_nodes, 2, (CHOICES,)),
    (jobs_are_content_with_the_fewest_slices, 1, (CHOICES,)),
    (the_slices_that_quota_is_for_are_not_counted, 5, (QUEUES,)),
    (any_number_of_slices_is_acceptable, 1, (QUEUES,)),
    (fewer_slices_are_asked_for_at_once, 9, (QUEUES,)),
    (nothing_is_too_large, 9, (QUEUES,)),
    (running_jobs_ask_for_more, 5, (QUEUES,)),
    (ended_pods_are_kept_for_ever, 12, ()),
    (logs_go_with_the_attempt, 3, ()),
    (people_who_stop_are_given_no_time, 5, (STOPS,)),
    (hung_peers_are_given_their_own_time, 3, ()),
    (a_suspended_job_keeps_its_pods, 13, (STOPS,)),
    (pods_outlive_the_end, 133, (STOPS,)),
    (who_runs_is_not_cancelled, 13, (STOPS,)),
    (there_are_no_deadlines, 64, (STOPS,)),
    (deadlines_go_on_while_a_job_is_suspended, 2, (STOPS,)),
    (nobody_deletes_what_is_over, 7, (STOPS,)),
    (what_is_over_is_deleted_at_once, 1, (STOPS,)),
    (suspended_jobs_keep_their_quota, 5, (QUEUES, STOPS)),
    (queues_wait_for_pods_that_run, 5, (QUEUES,)),
    (a_pod_that_does_not_go_is_not_named, 72, ()),
    (preempted_jobs_wait, 32, ()),
    (attempts_follow_each_other_at_once, 12, ()),
    (a_job_ends_with_a_retry_left, 16, ()),
    (no_exit_code_ends_a_job, 127, ()),
    (a_job_that_was_preempted_has_failed, 8, ()),
    (nobody_says_where_it_failed, 3, ()),
    (the_end_has_no_date, 1, ()),
    (suspended_is_said_at_once, 5, (STOPS,)),
    (conditions_are_as_old_as_ever, 1, ()),
    (a_changed_spec_is_that_of_before, 1, (STOPS,)),
    (half_a_slice_is_ready, 7, ()),
    (the_coordinator_is_that_of_before, 3, ()),
    (nobody_is_told_of_attempts, 3, ()),
    (pages_are_abridged, 12, ()),
    (the_fewest_slices_will_do, 75, (CHOICES,)),
)
"""Each with a seed that catches it, or one shortly before that, and the ground on which it is met.

Histories change with the simulation, and then a search takes longer: `python -m tests.simulation.test_mutations NAME`
says which seed to put here.

The rarer ones take thousands of histories to meet. Four rules are met in less than one of ten thousand, and have
tables instead: creates without an answer (planner/test_takeover.py), clocks that are ahead and Nodes that had replaced
others of their name before they went (planner/test_attempts.py), and pods that the garbage collector says have failed
(planner/test_fencing.py). Those on quota that is given back for more slices have tests of their own in test_choices.py.
"""
PROVOKED_BY: dict[Breakage, Breakage] = {
    silent_machines_count_as_gone: machines_fall_silent,
    a_watch_makes_nodes_lost: machines_are_replaced_at_once,
    a_phase_that_was_never_set_tells_nothing: machines_go_with_a_notice,
    a_deleted_node_is_a_dead_machine: people_delete_nodes,
    what_was_asked_to_terminate_has: people_force_what_terminates,
    earlier_jobs_have_terminated: jobs_are_applied_again,
    a_takeover_does_not_list_jobs: the_watch_of_jobs_lags,
    an_image_may_be_missing_for_ever: the_registry_is_down_for_long,
    host_lists_go_while_they_are_read: host_lists_are_long,
    only_the_first_pods_wait_for_host_lists: pods_are_created_one_by_one,
    the_status_drops_attempts_first: the_status_holds_two_attempts,
    pages_are_begun_anew: the_status_holds_two_attempts,
    pages_are_abridged: the_status_holds_two_attempts,
}
"""What makes the rarest of them common enough to be met; nothing is wrong with it."""


ERRORS_OF_A_BREAKAGE: Final = ("TypeError", "AttributeError", "NameError", "KeyError", "ValueError")
"""A rule that is broken by one of these is not broken as it is meant: the code it replaces has changed."""


@pytest.mark.parametrize(
    ("breakage", "first", "only"),
    BREAKAGES,
    ids=[" on ".join((one[0].__name__, *one[2])) for one in BREAKAGES],
)
def test_a_broken_rule_is_caught(
    breakage: Breakage, first: int, only: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    PROVOKED_BY.get(breakage, lambda _: None)(monkeypatch)
    caught = seed_that_catches(breakage, first, only)
    assert run_seed(caught, only) is None


def seed_that_catches(breakage: Breakage, first: int, only: tuple[str, ...]) -> int:
    """The first seed from there on that catches the broken rule."""
    with pytest.MonkeyPatch.context() as patch:
        breakage(patch)
        for seed in range(first, first + MOST_SEEDS):
            if (failure := run_seed(seed, only)) is not None:
                assert not any(error in failure.message for error in ERRORS_OF_A_BREAKAGE), failure.message
                return seed
    raise AssertionError(f"no seed from {first} on catches it")


@pytest.mark.thorough
def test_no_attempt_is_lost_where_the_status_holds_two(monkeypatch: pytest.MonkeyPatch) -> None:
    the_status_holds_two_attempts(monkeypatch)
    assert run_some(range(1, 101)) == []


@pytest.mark.thorough
def test_every_pod_has_its_host_list_wherever_the_creation_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    pods_are_created_one_by_one(monkeypatch)
    assert run_some(range(1, 201)) == []


@pytest.mark.thorough
def test_a_leader_with_an_outdated_view_of_jobs_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    the_watch_of_jobs_lags(monkeypatch)
    assert run_some(range(1, 201), only=(STANDBY,)) == []


if __name__ == "__main__":
    for broken in BREAKAGES:
        if broken[0].__name__ in sys.argv[1:]:
            with pytest.MonkeyPatch.context() as provoked:
                PROVOKED_BY.get(broken[0], lambda _: None)(provoked)
                print(broken[0].__name__, seed_that_catches(*broken))
