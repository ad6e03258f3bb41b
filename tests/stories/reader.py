"""Tells a story: carries out its commands on a world, and writes what the operator writes and does beside each.

A line that begins with `>` is a command, see `COMMANDS`. The lines below it are the operator's. Everything else is
kept as it is.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import yaml

from slipway.api import names
from slipway.core.model.container_states import ContainerState, ContainerStatus, Running, Terminated
from slipway.core.model.events import PodEvent
from slipway.core.planner.contract.actions import Plan
from tests.core.build import HEAD_KEY, PodHandle, World
from tests.stories.printing import lines

_HOST: Final = r"(?P<host>host \d+ of slice \d+|the Ray head)"
_INDICES: Final = re.compile(r"host (\d+) of slice (\d+)")


class Head(PodHandle):
    """The pod of a Ray head: the program is its driver, beside Ray, and it is ready once all workers have joined."""

    def runs(self, since: datetime | None = None) -> PodHandle:
        super().runs(since)
        return self.has("Ready", reason="")

    def _worker(self, state: ContainerState, phase: str) -> PodHandle:
        ray = ContainerStatus(names.RAY_CONTAINER, ContainerState(running=Running(self.world.now)))
        driver = ContainerStatus(names.DRIVER_CONTAINER, state)
        return self._status(phase=phase, container_statuses=(driver,), init_container_statuses=(ray,))


class Story(World):
    """A world whose decisions are written down."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.told_lines: list[str] = []

    def apply(self, decision: Plan) -> None:
        """Carry a decision out."""
        self.told_lines += lines(self.status, decision)
        super().apply(decision)

    def handle(self, host: str) -> PodHandle:
        """The pod of a host of the current attempt."""
        number = self.status.attempt
        assert number is not None, "no attempt has begun"
        found = _INDICES.fullmatch(host)
        slice_index, index = (int(found[2]), int(found[1])) if found is not None else HEAD_KEY
        return self._at((number, slice_index, index))

    def all_pods(self) -> list[PodHandle]:
        """Every pod there is."""
        return [self._at(key) for key in self.pods]

    def _at(self, key: tuple[int, int, int]) -> PodHandle:
        return (Head if key[1:] == HEAD_KEY else PodHandle)(self, key)


def _run(story: Story) -> None:
    for handle in story.all_pods():
        if handle.key[0] == story.status.attempt and not handle.now.started:
            handle.runs()


def _node_of(story: Story, host: str) -> str:
    return story.handle(host).now.spec.node_name


def _set(story: Story, field: str, value: str) -> None:
    story.fields[field] = yaml.safe_load(value)


def _pass(story: Story, seconds: str) -> None:
    story.now += timedelta(seconds=float(seconds))


def _exit_all(story: Story, code: str) -> None:
    for handle in story.all_pods():
        if handle.key[0] == story.status.attempt:
            handle.exits(int(code))


def _disrupt(story: Story, host: str, reason: str) -> None:
    story.handle(host).has("DisruptionTarget", reason).is_deleted()


def _queue_evicts(story: Story, host: str, reason: str) -> None:
    story.handle(host).has("TerminationTarget", reason).is_deleted()


def _init_exits(story: Story, name: str, host: str, code: str, words: str) -> None:
    end = Terminated(int(code), "Error", words, story.now)
    status = ContainerStatus(name, ContainerState(terminated=end))
    story.handle(host).binds()._status(phase="Failed", init_container_statuses=(status,), container_statuses=())


def _event(story: Story, host: str, reason: str, message: str) -> None:
    uid = story.handle(host).now.metadata.uid
    story.events[uid] = (PodEvent(reason, message, story.now),)


def _evict(story: Story, host: str, message: str) -> None:
    story.handle(host).exits(137, at=story.now).ends_as("Failed", "Evicted", message)


Command = Callable[..., object]
COMMANDS: Final[tuple[tuple[str, Command], ...]] = (
    (r"all hosts run", _run),
    (r"all hosts exit (?P<code>\d+)", _exit_all),
    (rf"{_HOST} runs", lambda story, host: story.handle(host).runs()),
    (rf"{_HOST} exits (?P<code>\d+)", lambda story, host, code: story.handle(host).exits(int(code))),
    (
        rf"{_HOST} exits (?P<code>\d+) and says (?P<words>.+)",
        lambda story, host, code, words: story.handle(host).exits(int(code), message=words),
    ),
    (
        rf"{_HOST} is killed for its memory",
        lambda story, host: story.handle(host).exits(137, reason="OOMKilled"),
    ),
    (
        rf"the runtime cannot start {_HOST}: (?P<words>.+)",
        lambda story, host, words: story.handle(host).exits(127, reason="StartError", message=words),
    ),
    (rf"{_HOST} is disrupted: (?P<reason>\w+)", _disrupt),
    (rf"{_HOST} is evicted: (?P<message>.+)", _evict),
    (
        rf"{_HOST} is refused: (?P<reason>\w+): (?P<message>.+)",
        lambda story, host, reason, message: story.handle(host).fails(reason, message),
    ),
    (
        rf"{_HOST} fails: (?P<reason>\w+): (?P<message>.+)",
        lambda story, host, reason, message: story.handle(host).exits(143).ends_as("Failed", reason, message),
    ),
    (
        rf"{_HOST} waits: (?P<reason>\w+): (?P<message>.+)",
        lambda story, host, reason, message: story.handle(host).waits(reason, message),
    ),
    (rf"the queue evicts {_HOST}: (?P<reason>\w+)", _queue_evicts),
    (rf"init container (?P<name>\S+) of {_HOST} exits (?P<code>\d+) and says (?P<words>.+)", _init_exits),
    (rf"{_HOST} has the event (?P<reason>\w+): (?P<message>.+)", _event),
    (rf"a chip of {_HOST} breaks", lambda story, host: story.handle(host).breaks("tpu-0")),
    (rf"{_HOST} has a node", lambda story, host: story.handle(host).binds()),
    (rf"{_HOST} has no node: (?P<message>.+)", lambda story, host, message: story.handle(host).unschedulable(message)),
    (rf"somebody deletes {_HOST}", lambda story, host: story.handle(host).is_deleted()),
    (rf"{_HOST} is gone", lambda story, host: story.handle(host).vanishes(seen=True)),
    (rf"the node of {_HOST} is lost", lambda story, host: story.lose_node(_node_of(story, host))),
    (rf"the node of {_HOST} is not ready", lambda story, host: story.not_ready(_node_of(story, host))),
    (
        rf"the node of {_HOST} has the taint (?P<key>\S+)",
        lambda story, host, key: story.taint(_node_of(story, host), key),
    ),
    (r"the kubelets obey", lambda story: story.obey()),
    (r"the user sets (?P<field>\w+): (?P<value>.+)", _set),
    (r"(?P<seconds>[\d.]+) s pass", _pass),
    (r"look again", lambda story: None),
)
"""What a story can say, and what that does to the world."""


def tell(text: str) -> str:
    """The story as it goes: with the lines that the operator writes and does now."""
    return "\n".join(_told(text.splitlines())) + "\n"


def _told(source: list[str]) -> Iterator[str]:
    story: Story | None = None
    for line in source:
        if line.startswith("    "):
            continue
        yield line
        if not line.startswith("> "):
            continue
        command = line.removeprefix("> ")
        if command.startswith("job "):
            story = Story(**yaml.safe_load(command.removeprefix("job ")))
        else:
            assert story is not None, "a story begins with its job"
            carry_out(story, command)
        story.settle()
        yield from (f"    {one}" for one in story.told_lines)
        story.told_lines.clear()


def carry_out(story: Story, command: str) -> None:
    """Carry out one command.

    Raises:
        ValueError: when there is no such command.
    """
    for pattern, work in COMMANDS:
        if found := re.fullmatch(pattern, command):
            work(story, **found.groupdict())
            return
    raise ValueError(f"{command!r} is none of: {', '.join(pattern for pattern, _ in COMMANDS)}")
