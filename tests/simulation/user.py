"""People: they create the job, stop it, let it go on, delete it, and apply it again under the same name."""

import random
from typing import Any

from tests.simulation.cluster import Cluster
from tests.simulation.store import JOB_NAME, NAMESPACE


class User:
    """Whoever owns the job of a history."""

    def __init__(self, cluster: Cluster, spec: dict[str, Any], rng: random.Random) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._spec = spec
        self._rng = rng
        self.uid = ""
        """UID of the newest job."""
        self.asked_to_go: dict[str, float] = {}
        """When each job that somebody deleted was first asked to go, by UID."""

    @property
    def job(self) -> dict[str, Any] | None:
        """The job there is."""
        return self._store.jobs.get(JOB_NAME)

    def apply(self) -> None:
        """Create the job, unless it is there."""
        if self.job is not None:
            return
        self.uid = self._store.new_uid("job")
        metadata = {
            "name": JOB_NAME,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "generation": 1,
            "creationTimestamp": self._store.stamp(),
        }
        self._cluster.say("user: applies the job (%s): %s", self.uid, self._spec)
        self._store.put_job("ADDED", {"metadata": metadata, "spec": dict(self._spec)})

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

    def delete(self, *, foreground: bool = False) -> None:
        """Delete the job, in the background or only after its pods."""
        job = self.job
        if job is None:
            return
        self._cluster.say("user: deletes the job%s", " (foreground)" if foreground else "")
        self.asked_to_go.setdefault(self.uid, self._cluster.timeline.now)
        if foreground and not job["metadata"].get("deletionTimestamp"):
            metadata = job["metadata"] | {"deletionTimestamp": self._store.stamp()}
            self._store.put_job("MODIFIED", job | {"metadata": metadata})
            self._cluster.on_orphan()
        else:
            self._store.drop_job(JOB_NAME)
