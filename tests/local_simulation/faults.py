"""What goes wrong with the engine, the machine and the containers, and what people do with `docker`."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slipway.api import names
from tests.local_simulation.engine import REBOOTED, SIGKILLED, Container
from tests.local_simulation.machine import Site
from tests.local_simulation.programs import BY_ENGINE, KILLED, REBOOT, REMOVED


@dataclass(slots=True)
class Faults:
    """Done to one machine."""

    site: Site
    rng: random.Random
    say: Callable[..., None]
    kill_all: Callable[[], None]
    """Kills every process of the machine."""
    forgotten: Callable[[Container], None]
    """Called when somebody removes a container that does not run."""
    kills_first: bool = False
    """Whether a container that is removed looks like one that is killed at first, as with Podman."""
    calm: bool = False
    outages: list[tuple[float, float]] = field(default_factory=list)
    """When the engine was down, as far as it is over."""
    down_since: float = 0.0

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        return {
            "stop the engine": (3.0, self.stop_engine),
            "kill the engine": (1.5, self.kill_engine),
            "restart the machine": (0.7, self.reboot),
            "shut the machine down": (0.7, self.shut_down),
            "docker kill": (1.0, lambda: self._to_container(self._kill)),
            "docker stop": (1.0, lambda: self._to_container(self._stop)),
            "docker rm -f": (2.0, lambda: self._to_container(self.remove)),
            "docker pause": (1.0, lambda: self._to_container(self._pause)),
            "docker system prune": (1.0, self.prune),
            "take a name": (0.5, self.take_name),
        }

    def _own(self) -> list[Container]:
        return [one for one in self.site.engine.containers.values() if one.uid]

    def _to_container(self, act: Callable[[Container], None]) -> None:
        if (own := self._own()) and self.site.engine.up:
            act(self.rng.choice(own))

    def _kill(self, container: Container) -> None:
        self.say("somebody: docker kill %s", container.name)
        self.site.engine.ends(container, SIGKILLED, KILLED)

    def _stop(self, container: Container) -> None:
        self.say("somebody: docker stop %s", container.name)
        self.site.engine.stop_later(container, 10.0, KILLED)

    def remove(self, container: Container) -> None:
        self.say("somebody: docker rm -f %s", container.name)
        if self.kills_first and container.running:
            self.site.engine.ends(container, SIGKILLED, REMOVED)
            self.site.timeline.after(self.rng.uniform(0.0, 0.2), lambda: self._begin_removal(container))
        else:
            self._by_force(container)

    def _by_force(self, container: Container) -> None:
        if not container.running:
            self.forgotten(container)
        self._begin_removal(container)

    def _begin_removal(self, container: Container) -> None:
        if not container.removing and container.id in self.site.engine.containers:
            self.site.engine.remove_by_force(container, REMOVED)

    def _pause(self, container: Container) -> None:
        if container.running:
            self.say("somebody: docker pause %s", container.name)
            container.paused = True
            container.version += 1
            self.site.timeline.after(self.rng.uniform(1.0, 60.0), lambda: self._unpause(container))

    def _unpause(self, container: Container) -> None:
        container.paused = False
        container.version += 1

    def prune(self) -> None:
        """Whatever does not run goes, and networks that nothing is in."""
        engine = self.site.engine
        if not engine.up:
            return
        self.say("somebody: docker system prune")
        for one in list(engine.containers.values()):
            if not one.running:
                self._by_force(one)
        for id, (_, labels) in list(engine.networks.items()):
            if not any(one.uid == labels.get(names.LABEL_JOB_UID) for one in engine.containers.values()):
                del engine.networks[id]

    def take_name(self) -> None:
        """Somebody's own container has the name that one of the next attempt needs."""
        engine = self.site.engine
        name = f"train-{self.rng.randint(0, 3)}-0-0"
        if engine.up and engine.named(name) is None:
            self.say("somebody: docker run --name %s", name)
            made = engine.create(name, {})
            self.site.timeline.after(self.rng.uniform(1.0, 100.0), lambda: self._remove_until_gone(made))

    def _remove_until_gone(self, container: Container) -> None:
        self._by_force(container)
        if container.id in self.site.engine.containers:
            self.site.timeline.after(30.0, lambda: self._remove_until_gone(container))

    def _hang_up(self, words: str) -> bool:
        if not self.site.engine.up:
            return False
        self.say("--- %s", words)
        self.down_since = self.site.timeline.now
        self.site.engine.hang_up()
        return True

    def stop_engine(self) -> None:
        """It hangs up, and then stops its containers."""
        if self._hang_up("the engine is stopped"):
            self.site.timeline.after(self.rng.uniform(0.0, 0.5), self._stop_containers)
            self._up_after(self.rng.choice((31.0, self.rng.uniform(31.0, 100.0))))

    def _stop_containers(self) -> None:
        for one in list(self.site.engine.containers.values()):
            if one.running:
                self.site.engine.stop_later(one, one.body.get("StopTimeout", 10), BY_ENGINE)

    def kill_engine(self) -> None:
        """It is gone at once. Its containers go on, and are stopped when it is back, unless it is told to keep them."""
        if not self._hang_up("the engine is killed"):
            return
        seconds = self.rng.uniform(0.5, 60.0)
        if self.rng.random() < 0.5:
            self.site.timeline.after(seconds, self._stop_containers)
            seconds += 31.0
        self._up_after(seconds)

    def reboot(self) -> None:
        """Everything on the machine is gone at once; the engine knows of no end."""
        if not self._hang_up("the machine restarts"):
            return
        self.kill_all()
        dead = [one for one in self.site.engine.containers.values() if one.running]
        for one in dead:
            self.site.engine.ends(one, REBOOTED, REBOOT)
        self._never_started()
        self._boot_after(self.rng.uniform(10.0, 100.0), dead)

    def shut_down(self) -> None:
        """In good order: supervisors, the engine, its containers; then it starts again."""
        if not self._hang_up("the machine is shut down"):
            return
        self.kill_all()
        self.site.timeline.after(self.rng.uniform(0.0, 0.5), self._stop_containers)
        self._never_started()
        self._boot_after(self.rng.uniform(31.0, 100.0), ())

    def _never_started(self) -> None:
        """They are there after a reboot, and of an earlier machine."""
        for one in self._own():
            if one.state == "created":
                self.forgotten(one)

    def _boot_after(self, seconds: float, dead: Iterable[Container]) -> None:
        """The engine knows of no end of those that are dead, and dates it then."""

        def boot() -> None:
            self.site.booted = self.site.timeline.now - 5.0
            for one in dead:
                one.finished = self.site.timeline.now

        self.site.timeline.after(seconds, boot)
        self._up_after(seconds)

    def _up_after(self, seconds: float) -> None:
        epoch = self.site.engine.epoch

        def up() -> None:
            if self.site.engine.epoch == epoch and not self.site.engine.up:
                self.outages.append((self.down_since, self.site.timeline.now))
                self.site.engine.come_up()

        self.site.timeline.after(seconds, up)
