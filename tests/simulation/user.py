"""People: they create the job, stop it, let it go on, delete it, and apply it again under the same name."""

import random
from collections.abc import Callable
from typing import Any, Final

from slipway.api.status import Phase
from tests.simulation import versions
from tests.simulation.cluster import Cluster
from tests.simulation.store import NAMESPACE

MORE: Final = {"maxFailures": 12, "maxPreemptions": 2000000}
"""Retries above those of all jobs."""


class User:
    """Whoever owns the job of a history."""

    def __init__(self, cluster: Cluster, name: str, spec: dict[str, Any], labels: dict[str, str]) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._spec = spec
        self._name = name
        self._labels = labels
        self.uid = ""
        """UID of the newest job."""

    @property
    def job(self) -> dict[str, Any] | None:
        """The job there is."""
        return self._store.jobs.get(self._name)

    def apply(self) -> None:
        """Create the job, unless it is there."""
        if self.job is not None:
            return
        self.uid = self._store.new_uid("job")
        self._store.job_names[self.uid] = self._name
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "generation": 1,
            "creationTimestamp": self._store.stamp(),
        }
        if self._labels:
            metadata["labels"] = self._labels
        self._cluster.say("user: applies the job (%s): %s", self.uid, self._spec)
        self._store.put_job("ADDED", {"metadata": metadata, "spec": dict(self._spec)})

    def asks(self) -> dict[str, Callable[[], None]]:
        """What people ask for."""
        return {
            "suspend": lambda: self.edit(suspend=True),
            "resume": lambda: self.edit(suspend=False),
            "retry more": lambda: self.edit(retries=self._spec["retries"] | MORE),
            "cancel": lambda: self.edit(cancel=True),
            "delete": self.delete,
            "delete foreground": lambda: self.delete(foreground=True),
            "apply": self.apply,
        }

    def edit(self, **changes: Any) -> None:
        """Change the spec."""
        job = self.job
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        spec = job["spec"] | changes
        if spec == job["spec"]:
            return
        self._cluster.say("user: sets %s", changes)
        metadata = job["metadata"] | {"generation": job["metadata"]["generation"] + 1}
        self._store.put_job("MODIFIED", job | {"metadata": metadata, "spec": spec})

    def label(self, labels: dict[str, str]) -> None:
        """Change labels of the job, and of those that are applied later."""
        self._labels = self._labels | labels
        job = self.job
        if job is not None and not job["metadata"].get("deletionTimestamp"):
            self._cluster.say("user: labels it %s", labels)
            self._store.put_job("MODIFIED", job | {"metadata": job["metadata"] | {"labels": self._labels}})

    def meddle(self, rng: random.Random) -> bool:
        """Write into the status what no version of the operator would; returns whether there was one."""
        job = self.job
        status = job.get("status", {}) if job is not None else {}
        if job is None or "phase" not in status or Phase(status["phase"]).final:
            return False
        harms = [_another_phase, _no_conditions, _another_cause]
        if self._cluster.shape_of(self.uid).tpu is None:
            # A process that never saw the attempt begins with number 0 again, for which pods may still be pinned.
            harms.append(_nothing)
        harm = rng.choice(harms)(status)
        self._cluster.say("user: writes %s into the status", harm)
        self._cluster.overwritten.append((self.uid, self._cluster.timeline.now))
        written = status | harm if harm else {}
        self._store.put_job("MODIFIED", job | {"metadata": dict(job["metadata"]), "status": written})
        return True

    def delete(self, *, foreground: bool = False) -> None:
        """Delete the job, in the background or only after its pods."""
        job = self.job
        if job is None:
            return
        self._cluster.say("user: deletes the job%s", " (foreground)" if foreground else "")
        self._cluster.asked_to_go.setdefault(self.uid, self._cluster.timeline.now)
        if foreground and not job["metadata"].get("deletionTimestamp"):
            metadata = job["metadata"] | {"deletionTimestamp": self._store.stamp()}
            self._store.put_job("MODIFIED", job | {"metadata": metadata})
            self._cluster.on_orphan()
        else:
            self._store.drop_job(self._name)


def _nothing(status: dict[str, Any]) -> dict[str, Any]:
    return {}


def _another_phase(status: dict[str, Any]) -> dict[str, Any]:
    return {"phase": next(iter(versions.PHASES.values()))}


def _no_conditions(status: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": []}


def _another_cause(status: dict[str, Any]) -> dict[str, Any]:
    word = next(iter(versions.CAUSES.values()))
    return {"attempts": [one | {"cause": word} if one.get("cause") else one for one in status.get("attempts", [])]}
