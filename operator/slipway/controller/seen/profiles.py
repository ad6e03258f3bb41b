"""SliceJobProfiles as the watch shows them, and the versions of them with which attempts have begun."""

from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from slipway.api.nesting import too_deep
from slipway.api.profile import PROFILE_KIND, ProfileSpec
from slipway.api.reading import describe
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import AppliedDefaults, SliceJobStatus, same_defaults
from slipway.controller.seen.reflector import REMEMBERED_SECONDS, Reflector
from slipway.core.model.job import Key
from slipway.core.model.parts import ObjectMeta
from slipway.core.model.site import CHART, Choice, Profile, Site
from slipway.core.validation.site import applied, missing_profile, profile_name, site_of

MAX_EARLIER: Final = 16
"""Earlier versions of a profile that are remembered for attempts that have begun with them."""

Version = tuple[Key, AppliedDefaults]
"""A version of a profile, by what it and the chart's values give to an attempt."""


class ProfileMeta(ObjectMeta, frozen=True):
    """Identity of a SliceJobProfile."""

    generation: int = 0


class ProfileObject(msgspec.Struct, frozen=True):
    """A SliceJobProfile as the API server shows it."""

    metadata: ProfileMeta
    spec: dict[str, Any] = {}


class ProfileStore(Reflector[ProfileObject, Key]):
    """SliceJobProfiles by namespace and name."""

    def __init__(self, clock: Callable[[], float], chart: ProfileSpec) -> None:
        """`clock` is monotonic, in seconds; `chart` has the defaults and limits of the chart's values."""
        super().__init__(clock)
        self._clock = clock
        self.chart = Profile(CHART, spec=chart, for_all=True)
        self._read: dict[Key, Profile] = {}
        self._earlier: dict[Key, dict[AppliedDefaults, Profile]] = {}
        self._begun: Counter[Version] = Counter()
        """How many attempts that are not charged yet have begun with each version."""
        self._idle: deque[tuple[float, Version]] = deque()
        """Earlier versions that no such attempt needed at that time; the oldest comes first."""
        self.unreadable: dict[str, str] = {}
        """Why the API server does not show the profiles of a namespace, or of all, where it does not."""

    def choose(self, namespace: str, given: SliceJobSpec, status: SliceJobStatus) -> Choice:
        """The profile of a job; until its attempt is charged the one it began with, if this process knows that."""
        key = (namespace, profile_name(given))
        profile, problem = self._read.get(key), None
        if denied := self.unreadable.get(namespace) or self.unreadable.get(""):
            problem = ("ProfileUnreadable", f"{PROFILE_KIND}s of namespace {namespace} cannot be read: {denied}")
        elif profile is None and given.profile is not None:
            problem = missing_profile(given.profile, namespace, self._names(namespace))
        elif profile is not None and profile.problem:
            problem = ("ProfileInvalid", f"{PROFILE_KIND} {profile.name} cannot be applied: {profile.problem}")
        attempt = status.unsettled
        if attempt is None or attempt.defaults == applied(self.chart, profile):
            return Choice(profile, problem)
        began = attempt.defaults
        earlier = self._earlier.get(key, {}).get(began) if began is not None else None
        if began is not None and (earlier is not None or began == applied(self.chart, None)):
            return Choice(earlier, superseded=True)
        if began is not None and same_defaults(began, applied(self.chart, profile)):
            # Only its limits are others, and this process does not know the earlier ones.
            return Choice(profile, problem, superseded=True)
        if attempt.end_time is not None and began is not None:
            # It makes no pods any more, and the present budgets are the nearest.
            return Choice(profile, problem)
        return Choice(profile, superseded=True, bare=True)

    def attempt_runs(self, key: Key, began: AppliedDefaults) -> None:
        """An attempt that is not charged yet has begun with that version of a profile."""
        self._begun[key, began] += 1

    def attempt_over(self, key: Key, began: AppliedDefaults) -> None:
        """An attempt that has begun with that version is charged, or gone."""
        self._begun[key, began] -= 1
        if self._begun[key, began] <= 0:
            del self._begun[key, began]
            if began in self._earlier.get(key, ()):
                self._idle.append((self._clock(), (key, began)))
        self._release()

    def site(self, given: SliceJobSpec, choice: Choice) -> tuple[SliceJobSpec, Site]:
        """The spec of a job with the defaults of its site, and what the site says beside these."""
        return site_of(given, self.chart, choice)

    def _names(self, namespace: str) -> tuple[str, ...]:
        return tuple(sorted(name for space, name in self._read if space == namespace))

    def _changed(self, before: ProfileObject | None, after: ProfileObject) -> Collection[Key]:
        key, profile = self._key(after), read_profile(after)
        self._remember(key)
        self._read[key] = profile
        return (key,)

    def _gone(self, known: ProfileObject, last: ProfileObject, event: ProfileObject | None) -> Collection[Key]:
        key = self._key(known)
        self._remember(key)
        self._read.pop(key, None)
        return (key,)

    def _key(self, one: ProfileObject) -> Key:
        return one.metadata.namespace, one.metadata.name

    def _remember(self, key: Key) -> None:
        self._release()
        if (profile := self._read.get(key)) is None or (name := applied(self.chart, profile)) is None:
            return
        earlier = self._earlier.setdefault(key, {})
        earlier[name] = profile
        self._idle.append((self._clock(), (key, name)))
        while len(earlier) > MAX_EARLIER:
            del earlier[next((defaults for defaults in earlier if not self._begun[key, defaults]), next(iter(earlier)))]

    def _release(self) -> None:
        """Forget versions that no attempt needs until it is charged, unless one may just be beginning with them."""
        before = self._clock() - REMEMBERED_SECONDS
        while self._idle and self._idle[0][0] <= before:
            _, (key, name) = self._idle.popleft()
            earlier = self._earlier.get(key, {})
            if not self._begun[key, name] and earlier.pop(name, None) is not None and not earlier:
                del self._earlier[key]


def read_profile(seen: ProfileObject) -> Profile:
    """Read a SliceJobProfile; of one that cannot be read only the fault is known."""
    name, generation = seen.metadata.name, seen.metadata.generation
    if problem := too_deep(seen.spec):
        return Profile(name, generation, problem=problem)
    try:
        return Profile(name, generation, ProfileSpec.model_validate(seen.spec))
    except ValidationError as error:
        return Profile(name, generation, problem=describe(error, "spec"))
