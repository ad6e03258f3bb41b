"""A Ray job on the modelled engine: its supervisor may be killed at any moment, and nothing is left of the cluster."""

import io
import random
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from slipway.api import names
from slipway.api.places import parse_pod_name
from slipway.core.manifests.ray.cluster import HAS_JOINED, TOKEN_KEY
from slipway.core.model.reading import NEVER_WRITTEN
from slipway.local.conversion.containers_of_pod import LABEL_PART_OF, SANDBOX
from slipway.local.conversion.ray import TOKEN_PLACES
from slipway.local.jobs.job_files import NAMESPACE, NoSuchJob
from slipway.local.jobs.options import Options
from slipway.local.supervisor.supervisor import needs_supervisor, supervise
from tests.local_simulation.connection import Connection, Weather
from tests.local_simulation.engine import Container, Engine, Reactions, refusal
from tests.local_simulation.fibers import Process
from tests.local_simulation.machine import Disk, Folder, ModelMachine, Site
from tests.local_simulation.run import prepared
from tests.simulation.timeline import Timeline
from tests.simulation.truth import Violation

IMAGE: Final = "ray:1"
JOIN_SECONDS: Final = 4.0
RUN_SECONDS: Final = 6.0
ANSWER_SECONDS: Final = 0.05
"""How long a command takes in a container."""
BODY: Final[Mapping[str, Any]] = {
    "apiVersion": f"{names.GROUP}/v1alpha1",
    "kind": "SliceJob",
    "metadata": {
        "name": "train", "namespace": NAMESPACE, "uid": "train-uid", "resourceVersion": "1", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"image": IMAGE, "hosts": 2, "ray": {"entrypoint": "python3 x.py"}},
    "status": dict(NEVER_WRITTEN),
    "local": {"format": 1, "events": [], "history": [], "options": Options(images={IMAGE: "sha256:1"}).to_json()},
}  # fmt: skip


class RayEngine(Engine):
    """An engine in whose containers Ray runs: the entrypoint of attempt 0 exits 7, that of the next one 0."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline, random.Random(1), Reactions(starts=self._starts))
        self.crash = False
        """Whether Ray itself ends in attempt 0, in place of the entrypoint."""
        self.tokens: dict[str, bytes] = {}
        """By the place of the container's pod."""
        self.joined: set[str] = set()
        self.commands: dict[str, tuple[Container, tuple[str, ...]]] = {}
        self.codes: dict[str, int] = {}
        """Exit codes of those that have ended."""
        self.mute = False
        """Whether none ever ends, and no worker joins."""

    def unpack(self, container: Container, archive: bytes) -> None:
        super().unpack(container, archive)
        with tarfile.open(fileobj=io.BytesIO(archive)) as content:
            for place in TOKEN_PLACES:
                with suppress(KeyError):
                    found = content.extractfile(f"{place[1:]}/{TOKEN_KEY}")
                    assert found is not None
                    self.tokens[container.labels.get(LABEL_PART_OF, container.name)] = found.read()
                    container.opened.add(place)

    def _starts(self, container: Container) -> None:
        pod = container.labels.get(LABEL_PART_OF, container.name)
        if container.name != SANDBOX.container(pod) and len(self.tokens.get(pod, b"")) != 64:
            raise Violation(f"{container.name} is started without the token")
        if parse_pod_name("train", container.name) is not None:
            self.timeline.after(JOIN_SECONDS, partial(self._join, container.key[1]))

    def _join(self, attempt: int) -> None:
        running = {one.name: one for one in self.containers.values() if one.running and one.key[1] == attempt}
        head, ray = f"train-{attempt}-head", f"train-{attempt}-head.ray-head"
        if (
            self.mute
            or head in self.joined
            or not {head, ray, f"train-{attempt}-0-0", f"train-{attempt}-0-1"} <= running.keys()
        ):
            return
        self.joined.add(head)
        ends, code = (head, 0) if attempt else (ray, 1) if self.crash else (head, 7)
        self.timeline.after(RUN_SECONDS, lambda: self.ends(running[ends], code, "will"))

    def run_inside(self, container: Container, command: list[str]) -> str:
        if not container.running:
            raise refusal(409, f"container {container.name} is not running")
        self._event(container, f"exec_create: {' '.join(command)}")
        identity = f"exec-{len(self.commands)}"
        self.commands[identity] = container, tuple(command)
        self.timeline.after(ANSWER_SECONDS, lambda: self._answer(identity))
        return identity

    def _answer(self, identity: str) -> None:
        container, command = self.commands[identity]
        assert command == HAS_JOINED
        if not self.mute:
            self.codes[identity] = 0 if container.name in self.joined else 1
            self._event(container, "exec_die")


class RayConnection(Connection):
    """The calls that a Ray cluster takes besides."""

    _engine: RayEngine

    def inspect_container(self, name: str) -> dict[str, Any]:
        found = super().inspect_container(name)
        mounts = found["HostConfig"].get("Mounts") or ()
        empty = [one["Target"] for one in mounts if one["Type"] == "volume" and not one.get("Source")]
        return found | {"Mounts": [{"Destination": one, "Name": f"{found['Id']}{one}"} for one in empty]}

    def exec_create(self, container: str, command: list[str]) -> dict[str, Any]:
        return {"Id": self._call(lambda: self._engine.run_inside(self._engine.get(container), command), late=True)}

    def exec_start(self, identity: str, *, detach: bool) -> str:
        assert detach, "a command that never ends would hold up its job"
        return self._call(lambda: "")

    def exec_inspect(self, identity: str) -> dict[str, Any]:
        code = self._call(lambda: self._engine.codes.get(identity))
        return {"Running": code is None, "ExitCode": code}


class RayMachine(ModelMachine):
    def connect(self, address: Any) -> Any:
        site = self._site
        return RayConnection(site.engine, self._process, site.weather, site.rng, [])


class Story:
    """One job from its submission to its end."""

    def __init__(self, folder: Path, *, crash: bool = False, steps: int | None = None) -> None:
        """`steps` is after how many steps its first supervisor is killed."""
        self.timeline = Timeline()
        self.engine = RayEngine(self.timeline)
        self.engine.crash = crash
        disk = Disk(self.timeline, folder)
        self._site = Site(self.timeline, self.engine, disk, random.Random(1), Weather())
        self.job = Folder(disk.logs / "train", disk)
        self.processes: list[Process] = []
        self._steps = steps
        self._numbers = count()

    def run(self) -> dict[str, Any]:
        """Returns the job at its end."""
        self.job.store(dict(BODY))
        try:
            self._ensure()
            self.timeline.run(600.0, lambda: all(one.dead for one in self.processes) and not self._needed())
        finally:
            for one in self.processes:
                one.bury()
        return self.job.read()

    def cancel(self) -> None:
        """Its user cancels the job."""
        with self.job.changing() as body:
            body["spec"]["cancel"] = True

    @property
    def killed(self) -> bool:
        """Whether the first supervisor did not live to the end."""
        return len(self.processes) > 1

    def _needed(self) -> bool:
        return needs_supervisor(self.job, RayMachine(self._site, self.processes[0]))

    def _ensure(self) -> None:
        process = Process(self.timeline, f"supervisor {next(self._numbers)}", "train")
        process.steps_left, self._steps = self._steps, None
        self.processes.append(process)
        process.on_death.append(lambda: self.timeline.after(3.0, self._again))
        process.spawn(lambda: self._supervised(process))

    def _again(self) -> None:
        if self._needed():
            self._ensure()

    def _supervised(self, process: Process) -> None:
        with suppress(NoSuchJob):
            supervise(self.job, RayMachine(self._site, process))
        process.kill()


def charged(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What the attempts that have ended were charged to, the oldest first."""
    return [(one["number"], one["reason"], one.get("cause")) for one in reversed(status["attempts"])]


@pytest.mark.parametrize("crash", [False, True])
def test_a_failed_attempt_is_followed_by_a_new_cluster_with_the_same_token(tmp_path: Path, *, crash: bool) -> None:
    with prepared() as mistakes:
        story = Story(tmp_path, crash=crash)
        status = story.run()["status"]
    assert mistakes.found == []
    assert charged(status) == [(0, "ExitCode", "failure"), (1, "Succeeded", None)]
    assert all("runningTime" in one for one in status["attempts"])
    root = status["attempts"][1]["root"]
    assert (root["pod"], root["exitCode"]) == ("train-0-head", 1 if crash else 7)
    pods = {f"train-{attempt}-{place}" for attempt in (0, 1) for place in ("0-0", "0-1", "head")}
    assert story.engine.tokens == dict.fromkeys(pods, story.job.ray_token())
    assert (story.engine.containers, story.engine.networks) == ({}, {})
    # The head is asked every second until the workers have joined, and then no more.
    assert len(story.engine.commands) <= 2 * (JOIN_SECONDS + 2)


def test_a_head_that_never_answers_is_cancelled_as_any_other(tmp_path: Path) -> None:
    with prepared() as mistakes:
        story = Story(tmp_path)
        story.engine.mute = True
        story.timeline.after(60.0, story.cancel)
        status = story.run()["status"]
    assert mistakes.found == []
    assert (status["phase"], len(story.engine.commands)) == ("Cancelled", 1)
    assert (story.engine.containers, story.engine.networks) == ({}, {})


@pytest.mark.parametrize("every", [10, pytest.param(3, marks=pytest.mark.thorough)])
def test_its_supervisor_may_be_killed_at_each_of_its_steps(tmp_path: Path, every: int) -> None:
    with prepared() as mistakes:
        for steps in count(1, every):
            story = Story(tmp_path / str(steps), steps=steps)
            status = story.run()["status"]
            found = charged(status), len(story.engine.containers), len(story.engine.networks)
            assert found == ([(0, "ExitCode", "failure"), (1, "Succeeded", None)], 0, 0), f"killed at step {steps}"
            if not story.killed:
                break
    assert mistakes.found == []
    assert steps > 100, "few steps are none of a whole job"
