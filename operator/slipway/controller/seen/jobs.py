"""What is known of the SliceJobs: read once for each generation, never put back to an older version."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from slipway.api.status import AppliedDefaults
from slipway.controller.seen.pods import Owner, owner_of
from slipway.controller.seen.profiles import ProfileStore
from slipway.controller.seen.reflector import Identity, Reflector, number
from slipway.core.model.job import Job, Key
from slipway.core.model.pods import Pod
from slipway.core.model.reading import read_job
from slipway.core.model.roster import Roster
from slipway.core.planner.lifecycle.fencing import end_unreported
from slipway.core.planner.lifecycle.rivals import QUOTA, gives_way, waits_for
from slipway.core.validation.site import profile_name

MOST_RIVALS: Final = 8
"""Older jobs that a job may have to give way to; the oldest come first."""

_Awaited = tuple[str | None, str | None]
"""What jobs wait for: nodes of a label and topology, or a namespace's quota."""


class JobStore(Reflector[Job, Key]):
    """SliceJobs by namespace and name."""

    def __init__(
        self, clock: Callable[[], float], profiles: ProfileStore, changed: Callable[[Key], None] = lambda _: None
    ) -> None:
        """`clock` is monotonic, in seconds.

        `profiles` are those of the jobs; `changed` is called with the key of a job that is new, newer or gone.
        """
        super().__init__(clock)
        self._on_change = changed
        self._profiles = profiles
        self._waiting: dict[_Awaited, list[Job]] = {}
        """Jobs that wait, by what they wait for, the oldest first."""
        self._under: dict[str, dict[str, dict[Key, None]]] = {}
        """Jobs by namespace and profile."""
        self._of_uid: dict[str, Key] = {}

    def key_of(self, uid: str) -> Key | None:
        """Namespace and name of the job that has this UID; None where there is none."""
        return self._of_uid.get(uid)

    def attempt_ended(self, key: Key) -> bool:
        """Whether the last attempt has ended, so that its pods only have to be deleted."""
        job = self.get(key)
        return job is not None and job.status.attempt_ended

    def needs(self, pod: Pod) -> bool | None:
        """Whether a decision may rest on a pod that is gone; None when only one on another job of the name may.

        That is a later job, which has to wait for the containers of the pod, or one that is not known yet.
        """
        key, uid = owner_of(pod)
        job = self.get(key)
        is_known = job is not None and job.uid == uid
        if job is not None and is_known and not job.status.final:
            attempt = job.status.attempt
            return attempt is None or not Roster(attempt).is_earlier(pod)
        over = is_known or uid in self._tombstones
        return False if over and not end_unreported(pod) else None

    def newer(self, listed: Mapping[Key, tuple[str, str]]) -> list[Key]:
        """Which jobs to read, given UID and resource version of all: those of which no such version is known."""
        return [key for key, (uid, version) in listed.items() if self._is_newer(_listed(key, uid, version))]

    def missing(self, listed: Mapping[Key, tuple[str, str]], version: str, namespace: str = "") -> list[Owner]:
        """Known jobs that a list of one namespace, or of all, lacks as of a version, or shows with another UID."""
        known = (job for job in self._objects.values() if namespace in ("", job.namespace))
        old = (job for job in known if number(job.resource_version) <= number(version))
        return [(job.key, job.uid) for job in old if job.key not in listed or listed[job.key][0] != job.uid]

    def upsert(self, body: Mapping[str, Any]) -> Key | None:
        """Take a SliceJob as JSON; returns its key when that is news, None when newer is known or it is gone."""
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        if not self._is_newer(_listed(key, metadata["uid"], metadata["resourceVersion"])):
            return None
        self.applied(self.read(body, self.get(key)))
        return key

    def read(self, body: Mapping[str, Any], known: Job | None) -> Job:
        """Read a SliceJob and what its site says of it; what was read of a `known` one is not read again."""
        return self._sited(read_job(body, known), known)

    def profile_changed(self, namespace: str, profile: str | None = None) -> list[Key]:
        """Look again what the site says of the jobs of a profile, or of all; returns those for which it is new."""
        found: list[Key] = []
        for space in (namespace,) if namespace else tuple(self._under):
            profiles = self._under.get(space, {})
            for name in (profile,) if profile is not None else tuple(profiles):
                for key in tuple(profiles.get(name, ())):
                    found += self._looked_at_again(key)
        return found

    def _looked_at_again(self, key: Key) -> Collection[Key]:
        job = self.get(key)
        assert job is not None
        if (now := self._sited(job, job)) is job:
            return ()
        self._objects[key] = now
        return self._changed(job, now)

    def remove(self, key: Key, uid: str) -> Job | None:
        """Drop the job of that UID; returns what was known of it."""
        job = self.get(key)
        self._tombstones.add(uid)
        if job is None or uid != job.uid:
            return None
        self._drop(job)
        return job

    def rivals(self, job: Job) -> tuple[Job, ...]:
        """The oldest jobs that wait for such nodes, or for the same quota, and are older than one that waits too."""
        if not gives_way(job):
            return ()
        older = [other for what in _contested(job) for other in self._oldest(what, job)]
        return tuple(sorted(older, key=_age)[:MOST_RIVALS])

    def _oldest(self, what: _Awaited, job: Job) -> list[Job]:
        """As many of the jobs that wait for something as count, and that are older than a job."""
        waiting = self._waiting.get(what, [])
        return waiting[: min(MOST_RIVALS, bisect_left(waiting, _age(job), key=_age))]

    def _sited(self, job: Job, known: Job | None) -> Job:
        """A job with the defaults of its site; with what was made of them before, where they are the same."""
        written = job.written
        if written is None:
            return job
        choice = self._profiles.choose(job.namespace, written, job.status)
        if known is not None and known.given is written and known.site.choice == choice:
            if job is known:
                return job
            return replace(job, spec=known.spec, given=written, site=known.site, accepted=known.accepted)
        spec, site = self._profiles.site(written, choice)
        return replace(job, spec=spec, given=written, site=site, accepted={})

    def _identity(self, job: Job) -> Identity:
        return _listed(job.key, job.uid, job.resource_version)

    def _is_newer(self, it: Identity) -> bool:
        """Whether no such version is known, and the object is not known to be gone."""
        job = self.get(it.key)
        return it.uid not in self._tombstones and (job is None or it.version > number(job.resource_version))

    def _changed(self, before: Job | None, after: Job) -> Collection[Key]:
        if before is not None:
            self._waits_no_more(before)
            self._of_uid.pop(before.uid, None)
        self._of_uid[after.uid] = after.key
        if waits_for(after):
            insort(self._waiting.setdefault(_awaited(after), []), after, key=_age)
        self._follow_profile(before, after)
        self._on_change(after.key)
        return (after.key,)

    def _gone(self, known: Job, last: Job, event: Job | None) -> Collection[Key]:
        self._waits_no_more(known)
        self._of_uid.pop(known.uid, None)
        self._follow_profile(known, None)
        self._on_change(known.key)
        return (known.key,)

    def _follow_profile(self, before: Job | None, after: Job | None) -> None:
        """Keep in mind under which profile a job is, and with which version its attempt has begun."""
        (old, old_began), (new, new_began) = _profile_of(before), _profile_of(after)
        job = after or before
        assert job is not None
        if old != new and old is not None:
            profiles = self._under[old[0]]
            del profiles[old[1]][job.key]
            if not profiles[old[1]]:
                del profiles[old[1]]
            if not profiles:
                del self._under[old[0]]
        if old != new and new is not None:
            self._under.setdefault(new[0], {}).setdefault(new[1], {})[job.key] = None
        if (old, old_began) != (new, new_began):
            if new is not None and new_began is not None:
                self._profiles.attempt_runs(new, new_began)
            if old is not None and old_began is not None:
                self._profiles.attempt_over(old, old_began)

    def _waits_no_more(self, job: Job) -> None:
        if not waits_for(job):
            return
        what = _awaited(job)
        same = self._waiting[what]
        del same[bisect_left(same, _age(job), key=_age)]
        if not same:
            del self._waiting[what]


def _listed(key: Key, uid: str, version: str) -> Identity:
    return Identity(key, uid, number(version), key[0])


def _contested(job: Job) -> tuple[_Awaited, _Awaited]:
    """What a job that waits may hold and others wait for."""
    resolved = job.status.resolved
    return (resolved.label, resolved.topology) if resolved else (None, None), (QUOTA, job.namespace)


def _awaited(job: Job) -> _Awaited:
    nodes, quota = _contested(job)
    return quota if waits_for(job) == QUOTA else nodes


def _profile_of(job: Job | None) -> tuple[Key | None, AppliedDefaults | None]:
    """Namespace and name of a job's profile, and with which version its attempt has begun, until that is charged."""
    if job is None or job.written is None:
        return None, None
    attempt = job.status.unsettled
    return (job.namespace, profile_name(job.written)), attempt.defaults if attempt is not None else None


def _age(job: Job) -> tuple[datetime, str, str]:
    return job.created, job.namespace, job.name
