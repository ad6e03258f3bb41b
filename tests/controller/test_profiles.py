"""What a changed profile does to jobs: nothing to an attempt that has begun, everything to the next one."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from slipway.api.profile import ProfileSpec
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import SliceJobStatus
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller.seen.jobs import JobStore
from slipway.controller.seen.profiles import ProfileMeta, ProfileObject, ProfileStore
from slipway.controller.seen.reflector import REMEMBERED_SECONDS, number
from slipway.core.model.site import Choice
from slipway.core.model.site import Site as SiteOfJob
from slipway.core.planner.contract.actions import CreatePods
from slipway.core.validation.site import applied
from tests.controller.test_jobs import nested
from tests.controller.things import Time, job_json
from tests.core.build import World
from tests.core.planner.test_admission import Queue

NAMESPACE = "ml"


class Site:
    """The profiles of a namespace, as a process knows them."""

    def __init__(self, chart: dict[str, Any] | None = None) -> None:
        self.time = Time()
        self.store = ProfileStore(self.time, ProfileSpec.model_validate(chart or {}))
        self.jobs = JobStore(self.time, self.store)
        self._version = 0

    def profile(self, name: str = "default", limits: dict[str, Any] | None = None, **defaults: Any) -> "Site":
        self.store.observe(Applied(self._seen(name, {"defaults": defaults, "limits": limits or {}})))
        return self

    def of(self, given: SliceJobSpec, status: SliceJobStatus) -> tuple[SliceJobSpec, SiteOfJob]:
        return self.store.site(given, self.store.choose(NAMESPACE, given, status))

    def gone(self, name: str = "default") -> "Site":
        self.store.observe(Deleted(self._seen(name, {})))
        return self

    def _seen(self, name: str, spec: dict[str, Any]) -> ProfileObject:
        self._version += 1
        meta = ProfileMeta(name, NAMESPACE, f"uid-{name}", str(self._version), generation=self._version)
        return ProfileObject(meta, spec)


def a_world(site: Site, **fields: Any) -> World:
    world = World(**{"hosts": 2, "image": None} | fields)
    world.sited = site.of
    return world


def condition(world: World, kind: str = "Accepted") -> tuple[str, str]:
    (found,) = [one for one in world.status.conditions if one.type == kind]
    return found.reason, found.message


def test_the_profile_named_default_is_that_of_jobs_that_name_none() -> None:
    world = a_world(Site().profile(image="train:1")).run()
    assert world.job.spec is not None
    assert world.job.spec.image == "train:1"
    assert world.status.attempts[0].defaults is not None
    assert world.status.attempts[0].defaults.profile == "default"


def test_a_job_may_name_another_profile() -> None:
    world = a_world(Site().profile(image="train:1").profile("gpu", image="train:2"), profile="gpu")
    assert world.job.spec is not None
    assert world.job.spec.image == "train:2"


def test_a_profile_that_is_missing_starts_nothing_until_it_is_there() -> None:
    site = Site().profile("other", image="train:1")
    world = a_world(site, profile="gpu")
    assert not world.step().actions
    reason, message = condition(world)
    assert reason == "ProfileNotFound"
    assert message.startswith("spec.profile 'gpu': namespace ml has no SliceJobProfile of that name (there: other)")
    site.profile("gpu", image="train:2")
    world.run()
    assert world.status.phase == "Running"


@pytest.mark.parametrize(
    ("defaults", "fault"),
    [
        ({"imagePolicy": "Always"}, "spec.defaults.imagePolicy is not a known field"),
        ({"securityContext": nested(301)}, "spec.defaults is nested more than 64 levels deep"),
    ],
    ids=["an unknown field", "nested too deep"],
)
def test_a_profile_that_cannot_be_read_starts_nothing(defaults: dict[str, Any], fault: str) -> None:
    site = Site()
    seen = site._seen("default", {"defaults": defaults})
    site.store.observe(Applied(seen))
    world = a_world(site, image="train:1")
    assert not world.step().actions
    reason, message = condition(world)
    assert reason == "ProfileInvalid"
    assert f"SliceJobProfile default cannot be applied: {fault}" in message


@pytest.mark.parametrize("scope", ["", NAMESPACE])
def test_profiles_that_may_not_be_listed_start_nothing(scope: str) -> None:
    site = Site()
    site.store.unreadable[scope] = "forbidden"
    world = a_world(site, image="train:1")
    assert not world.step().actions
    assert condition(world) == ("ProfileUnreadable", "SliceJobProfiles of namespace ml cannot be read: forbidden")


def test_a_changed_profile_touches_no_running_attempt_and_the_next_one_takes_it() -> None:
    site = Site().profile(image="train:1")
    world = a_world(site).run()
    before = world.status
    site.profile(image="train:2")
    world.step()
    assert world.status == before
    assert world.job.spec is not None
    assert world.job.spec.image == "train:1"
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.job.spec.image == "train:2"
    defaults = [one.defaults for one in world.status.attempts]
    assert [one and one.generation for one in defaults] == [2, 1]


@pytest.mark.parametrize(
    ("before", "changes", "fails"),
    [
        pytest.param(100, Site.gone, False, id="which is gone, and allowed more than the default"),
        pytest.param(100, partial(Site.profile, retries={"maxFailures": "x"}), False, id="which cannot be read now"),
        pytest.param(100, partial(Site.profile, retries={"maxFailures": 2}), False, id="which allows less now"),
        pytest.param(2, partial(Site.profile, retries={"maxFailures": 100}), True, id="which allows more now"),
    ],
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_an_attempt_is_charged_to_the_budgets_of_the_profile_it_began_with(
    hosts: int, before: int, changes: Callable[[Site], object], fails: bool
) -> None:
    """That of several hosts is charged when the last pod has terminated, some time after its end."""
    site = Site().profile(retries={"maxFailures": before})
    world = a_world(site, hosts=hosts, image="train:1").run()
    world.status = world.status.model_copy(update={"failures": 12 if before == 100 else 1})
    world.pod(0, 0).exits(1)
    if hosts > 1:
        world.step()
    changes(site)
    world.obey()
    world.settle()
    assert (world.status.phase == "Failed") is fails
    assert world.status.attempts[-1].cause == "failure"


@pytest.mark.parametrize("hosts", [1, 2])
def test_an_attempt_that_began_without_a_profile_is_charged_without_one(hosts: int) -> None:
    site = Site()
    world = a_world(site, hosts=hosts, image="train:1").run()
    world.pod(0, 0).exits(1)
    if hosts > 1:
        world.step()
    site.profile(retries={"maxFailures": 1})
    world.obey()
    world.settle()
    assert (world.status.phase, world.status.failures) == ("Starting", 1)


@pytest.mark.parametrize("hosts", [1, 2])
def test_an_attempt_whose_defaults_nobody_knows_is_charged_to_the_present_budgets(hosts: int) -> None:
    world = a_world(Site().profile(retries={"maxFailures": 50}), hosts=hosts, image="train:1").run()
    world.status = world.status.model_copy(update={"failures": 12})
    world.sited = Site().profile(retries={"maxFailures": 100}).of
    world.pod(0, 0).exits(1)
    world.settle()
    world.obey()
    world.settle()
    assert (world.status.phase, world.status.failures, world.status.attempt) == ("Starting", 13, 1)


def test_a_queue_that_evicts_an_attempt_whose_defaults_nobody_knows_does_not_end_the_job() -> None:
    world = Queue(hosts=1)
    world.sited = Site().profile(retries={"maxFailures": 50}).of
    world.running()
    world.status = world.status.model_copy(update={"failures": 12})
    world.sited = Site().profile(retries={"maxFailures": 100}).of
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    assert (world.status.phase, world.status.failures, world.status.preemptions) == ("Queued", 12, 1)


PASSWORD = {"name": "DB_PASSWORD", "value": "hunter2hunter2"}
BEHIND_A_SECRET = {"name": "WANDB", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "key"}}}
SUCCESSORS: dict[str, Site] = {
    "of the profile": Site().profile(image="train:2", env=[PASSWORD, BEHIND_A_SECRET]),
    "of the chart": Site({"defaults": {"env": [PASSWORD, BEHIND_A_SECRET]}}).profile(image="train:2"),
}


@pytest.mark.parametrize("successor", SUCCESSORS.values(), ids=SUCCESSORS)
@pytest.mark.parametrize("hosts", [1, 2])
def test_secrets_of_the_site_are_hidden_though_nobody_knows_with_which_defaults_the_attempt_began(
    hosts: int, successor: Site
) -> None:
    world = a_world(Site().profile(image="train:1", env=[PASSWORD, BEHIND_A_SECRET]), hosts=hosts).run()
    world.sited = successor.of
    world.pod(0, 0).exits(1, message="WANDB=hunter3hunter3\nconnecting with hunter2hunter2")
    while world.attempt.number == 0:
        written = world.step().status.model_dump_json()
        assert "exited with code 1" in written
        assert "hunter" not in written
        world.obey()
        world.now += timedelta(seconds=100)
    assert world.job.spec is not None
    assert "hunter2hunter2" in world.job.spec.model_dump_json()


def test_evidence_that_comes_late_counts_though_the_next_attempt_has_fewer_hosts() -> None:
    site = Site().profile(image="train:1", accelerator={"type": "v5litepod-16"})
    world = a_world(site, hosts=None).run()
    site.profile(image="train:1", accelerator={"type": "v5litepod-8", "chipsPerHost": 4})
    world.pod(0, 0).exits(1)
    world.step()
    for host in (1, 2):
        world.pod(0, host).exits(143, at=world.now + timedelta(seconds=1))
    world.now += timedelta(seconds=50)
    world.not_ready("node-0-3")
    world.settle()
    world.lose_node("node-0-3")
    world.settle()
    assert (world.status.attempts[-1].cause, world.status.attempts[-1].reason) == ("preemption", "NodeLost")


def test_an_attempt_that_is_being_created_keeps_the_profile_it_began_with() -> None:
    site = Site().profile(image="train:1")
    world = a_world(site)
    world.begin()
    world.pods.pop((0, 0, 1))
    site.profile(image="train:2").gone()
    assert world.job.spec is not None
    assert world.job.spec.image == "train:1"
    assert [one for one in world.plan().actions if isinstance(one, CreatePods)]


def test_a_process_that_does_not_know_the_profile_of_an_attempt_makes_no_pod_of_another_beside_it() -> None:
    world = a_world(Site().profile(image="train:1"))
    world.begin()
    world.pods.pop((0, 0, 1))
    later = Site().profile(image="train:1")
    later.profile(image="train:2")
    later.store._earlier.clear()
    world.sited = later.of
    plan = world.step()
    assert not [one for one in plan.actions if isinstance(one, CreatePods)]
    ended = world.status.attempts[0]
    assert (ended.reason, ended.cause) == ("DefaultsChanged", "uncharged")
    assert (world.status.failures, world.status.preemptions) == (0, 0)


def test_a_process_that_does_not_know_the_profile_of_an_attempt_leaves_one_that_runs_alone() -> None:
    world = a_world(Site().profile(image="train:1")).run()
    before, later = world.status, Site().profile(image="train:2")
    world.sited = later.of
    assert not world.step().actions
    assert world.status.attempts == before.attempts


FEWER, MORE, NONE = ({"type": "v5litepod-16"}, {"type": "v5litepod-64"}, {"gpu": {"count": 0}})
LATER: dict[str, dict[str, Any]] = {
    "fewer hosts": {"accelerator": FEWER},
    "more hosts": {"accelerator": MORE},
    "no accelerator": {"accelerator": NONE},
    "a deadline": {"activeDeadlineSeconds": 1},
    "no grace": {"terminationGracePeriodSeconds": 1, "retries": {"maxFailures": 1}},
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_no_default_that_comes_later_touches_an_attempt_whose_defaults_nobody_knows(later: dict[str, Any]) -> None:
    world = a_world(Site().profile(accelerator={"type": "v5litepod-32"}), image="train:1", hosts=None).run()
    before = world.status
    for successor in (Site().profile(**later), Site({"defaults": later})):
        world.sited = successor.of
        assert not world.step(seconds=100).actions
        assert world.status == before


def test_no_default_of_a_new_chart_touches_an_attempt_that_began_without() -> None:
    world = a_world(Site(), image="train:1").run()
    before = world.status
    world.sited = Site({"defaults": {"activeDeadlineSeconds": 1, "accelerator": MORE}}).of
    assert not world.step(seconds=100).actions
    assert world.status == before


def test_no_attempt_follows_in_one_decision_under_a_profile_that_cannot_be_read() -> None:
    site = Site()
    world = a_world(site, image="train:1", hosts=1).run()
    site.store.unreadable[""] = "forbidden"
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (world.status.attempt, condition(world)[0]) == (0, "ProfileUnreadable")


def test_a_default_that_contradicts_the_job_is_told_and_nothing_is_created() -> None:
    site = Site().profile()
    world = a_world(site, image="train:1", hosts=2).run()
    site.profile(accelerator=FEWER)
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.attempt == 0
    assert "spec.hosts 2: hosts is for CPU and GPU jobs only" in condition(world)[1]


def test_a_limit_that_comes_later_touches_no_running_attempt_and_starts_no_other() -> None:
    site = Site().profile(image="train:1")
    world = a_world(site, slices=2).run()
    site.profile(image="train:1", limits={"maxSlices": 1})
    assert not world.step().actions
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (world.status.phase, world.status.attempt) == ("Restarting", 0)
    assert "spec.slices 2 is not allowed here (SliceJobProfile default, limits.maxSlices)" in condition(world)[1]
    site.profile(image="train:1", limits={"maxSlices": 2})
    world.settle()
    assert world.status.attempt == 1


def test_only_so_many_earlier_versions_are_remembered() -> None:
    site = Site()
    for count in range(100):
        site.profile(image=f"train:{count}")
    (earlier,) = site.store._earlier.values()
    assert len(earlier) == 16


def test_the_versions_of_running_attempts_are_remembered_before_all_others() -> None:
    site = Site().profile(image="train:0")
    job = Held(site, version=1)
    for count in range(100):
        site.profile(image=f"train:{count}")
    assert job.began in site.store._earlier[NAMESPACE, "default"]


class Held:
    """A job whose attempt runs, in a store, with the version that its profile had then."""

    def __init__(self, site: Site, version: int, name: str = "train") -> None:
        self.version, self.name, self.jobs = version, name, site.jobs
        profile = site.store._read[NAMESPACE, "default"]
        began = applied(site.store.chart, profile)
        assert began is not None
        self.began = began
        self.shown()

    def shown(self, end: str | None = None, cause: str | None = None) -> None:
        ended = {"endTime": end, "cause": cause}
        attempt = {"number": 0, "startTime": "2026-01-01T00:00:00Z"}
        attempt["defaults"] = self.began.model_dump(by_alias=True, exclude_none=True)  # type: ignore[assignment]
        body = job_json(self.version, uid=self.name, name=self.name)
        body["metadata"]["namespace"] = NAMESPACE
        body["status"] = {
            "attempt": 0,
            "attempts": [attempt | {name: said for name, said in ended.items() if said}],
        }
        self.version += 1
        assert self.jobs.upsert(body) is not None


RELEASES: dict[str, Callable[[Held], object]] = {
    "its attempt is charged": lambda held: held.shown(end="2026-01-01T01:00:00Z", cause="failure"),
    "it is deleted": lambda held: held.jobs.remove((NAMESPACE, held.name), held.name),
}


@pytest.mark.parametrize("ends", RELEASES.values(), ids=RELEASES)
def test_a_version_that_no_attempt_needs_is_forgotten(ends: Callable[[Held], object]) -> None:
    site = Site().profile(image="train:1")
    first, second = Held(site, 1, "first"), Held(site, 1, "second")
    site.profile(image="train:2")
    site.time.now += 2 * REMEMBERED_SECONDS
    first.shown(end="2026-01-01T01:00:00Z")
    assert site.store._begun[(NAMESPACE, "default"), first.began] == 2, "it is judged by that version"
    ends(first)
    assert list(site.store._earlier[NAMESPACE, "default"]) == [second.began], "the other attempt needs it still"
    ends(second)
    assert site.store._earlier, "an attempt may just be beginning with it"
    site.time.now += REMEMBERED_SECONDS
    site.profile("another")
    assert (NAMESPACE, "default") not in site.store._earlier
    assert not site.store._begun


def test_a_version_with_which_an_attempt_is_just_beginning_is_there_when_its_status_comes() -> None:
    site = Site().profile(image="train:1")
    profile = site.store._read[NAMESPACE, "default"]
    site.profile(image="train:2")
    site.time.now += REMEMBERED_SECONDS - 1
    began = applied(site.store.chart, profile)
    assert began is not None
    assert began in site.store._earlier[NAMESPACE, "default"]


def test_a_changed_profile_costs_nothing_for_jobs_of_other_namespaces_and_profiles() -> None:
    site = Site()
    for namespace in ("ml", "web"):
        for profile in ("", "special"):
            for number_ in range(3):
                body = job_json(uid=f"{namespace}{profile}{number_}", name=f"job{profile}{number_}")
                body["metadata"]["namespace"] = namespace
                body["spec"] |= {"profile": profile} if profile else {}
                site.jobs.upsert(body)
    asked: list[str] = []
    choose = site.store.choose

    def counted(namespace: str, given: SliceJobSpec, status: SliceJobStatus) -> Choice:
        asked.append(f"{namespace}/{given.profile or 'default'}")
        return choose(namespace, given, status)

    site.store.choose = counted  # type: ignore[method-assign]
    site.profile("special", image="train:2")
    found = site.jobs.profile_changed(NAMESPACE, "special")
    assert sorted(found) == [(NAMESPACE, f"jobspecial{one}") for one in range(3)]
    assert asked == ["ml/special"] * 3
    asked.clear()
    site.store.unreadable["web"] = "forbidden"
    assert len(site.jobs.profile_changed("web")) == 6
    assert set(asked) == {"web/default", "web/special"}
    asked.clear()
    site.store.unreadable[""] = "forbidden"
    assert len(site.jobs.profile_changed("")) == 6, "those of web have that problem already"
    assert len(asked) == 12


def test_a_job_that_names_another_profile_is_looked_at_for_that_one() -> None:
    site = Site()
    site.jobs.upsert(job_json(1, 1))
    site.jobs.upsert(job_json(2, 2, spec={"hosts": 1, "profile": "special"}))
    site.profile("special", image="train:1").profile(image="train:2")
    assert site.jobs.profile_changed("ns", "special") == []
    assert site.jobs._under == {"ns": {"special": {("ns", "train"): None}}}
    site.jobs.remove(("ns", "train"), "job-1")
    assert site.jobs._under == {}


def test_an_older_version_of_a_profile_is_not_put_back() -> None:
    site = Site().profile(image="train:1").profile(image="train:2")
    late = ProfileObject(ProfileMeta("default", NAMESPACE, "uid-default", "1"), {"defaults": {"image": "train:1"}})
    assert site.store.observe(Applied(late)) == ()
    assert number("1") < number(str(site._version))


LIMITS: dict[str, Callable[[World], object]] = {
    "while its pods are created": lambda world: world.pods.pop((0, 0, 1)),
    "while it runs": lambda world: None,
}


@pytest.mark.parametrize("at", LIMITS.values(), ids=LIMITS)
def test_a_profile_of_which_only_the_limits_changed_has_the_defaults_that_it_had(at: Callable[[World], object]) -> None:
    """A process that takes over does not know the earlier version of the profile."""
    world = a_world(Site().profile(image="train:1", retries={"maxFailures": 1}, limits={"maxSlices": 8}))
    world.run()
    at(world)
    later = Site()
    later._version = 5
    later.profile(image="train:1", retries={"maxFailures": 1}, limits={"maxSlices": 9})
    world.sited, world.begun_by_this_process, world.leading_since = later.of, None, world.now
    world.settle()
    assert world.status.attempts[0].reason in (None, "PodDeleted")
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.attempts[-1].reason != "DefaultsChanged"
    assert world.job.spec is not None
    assert world.job.spec.image == "train:1"
