"""The model engine answers as a real one does: the same calls, the same states, exit codes and refusals."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slipway.api import names
from slipway.local.containers.containers import Containers, EngineRefuses
from tests.local.servers import Engine as Server
from tests.local.servers import tool
from tests.local_simulation.connection import Connection, Weather
from tests.local_simulation.engine import Container, Engine, Reactions
from tests.local_simulation.fibers import Process
from tests.simulation.timeline import Timeline
from tests.waiting import START_SECONDS, until

UID = "contract"
IMAGE = "contract:1"
Line = tuple[Any, ...]


def body(*command: str) -> dict[str, Any]:
    return {
        "Image": IMAGE,
        "Entrypoint": list(command),
        "Labels": {names.LABEL_JOB_UID: UID},
        "StopTimeout": 5,
        "HostConfig": {"NetworkMode": "none"},
    }


FAILS, HANGS, OBEYS, ABSENT = (
    body("/bin/busybox", "sh", "-c", "exit 3"),
    body("/bin/busybox", "sh", "-c", "trap '' TERM; while :; do sleep 1; done"),
    body("/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"),
    body("/no/such/program"),
)


def story(containers: Containers, settle: Callable[[], None]) -> list[Line]:
    """What is asked, and what is seen of it."""
    seen: list[Line] = []

    def look(what: str, container: str) -> None:
        state = (containers.inspect(container) or {"State": {}})["State"]
        listed = containers.states().get(container)
        error = bool(state.get("Error"))
        seen.append((what, listed, state.get("Status"), state.get("Running"), state.get("ExitCode"), error))

    made = {
        name: containers.create(name, one)
        for name, one in (("fails", FAILS), ("hangs", HANGS), ("obeys", OBEYS), ("absent", ABSENT))
    }
    look("created", made["fails"])
    with pytest.raises(EngineRefuses) as refused:
        containers.create("fails", FAILS)
    seen.append(("conflict", refused.value.status))
    # The words of a refusal are the engine's own.
    seen.append(("started", *(bool(containers.start(one)) for one in made.values())))
    settle()
    for name, one in made.items():
        look(f"after the start: {name}", one)
    seen.append(("started twice", containers.start(made["hangs"])))
    for name in ("obeys", "hangs", "fails"):
        # One that obeys does so at once, and one that has ended needs no time.
        containers.stop(made[name], 1 if name == "hangs" else 10)
        look(f"stopped: {name}", made[name])
    for one in made.values():
        containers.remove(one)
        containers.remove(one)
        containers.stop(one, 1)
        seen.append(("removed", containers.inspect(one), containers.states().get(one)))
    return seen


def modelled() -> list[Line]:
    """The same story in the model."""
    timeline, found = Timeline(), []
    reactions = Reactions()
    engine = Engine(timeline, Random(1), reactions)

    def starts(container: Container) -> None:
        if container.name == "fails":
            timeline.after(0.1, lambda: engine.ends(container, 3, "will"))

    reactions.starts = starts
    reactions.term = lambda container: (0.1, 0) if container.name == "obeys" else None
    reactions.start_error = lambda container: "no such file" if container.name == "absent" else ""
    process = Process(timeline, "contract")
    connection: Any = Connection(engine, process, Weather(), Random(1), [])
    process.spawn(lambda: found.extend(story(Containers(connection, UID), lambda: process.sleep(2.0))))
    timeline.run(100.0)
    return found


def test_the_model_tells_the_story() -> None:
    found = modelled()
    assert ("conflict", 409) in found
    assert ("stopped: hangs", "exited", "exited", False, 137, False) in found
    assert ("stopped: obeys", "exited", "exited", False, 0, False) in found
    assert ("removed", None, None) in found


@contextmanager
def image_of(api: Any, folder: Path) -> Iterator[None]:
    shutil.copy(tool("busybox"), folder / "busybox")
    (folder / "Dockerfile").write_text(
        'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "--install", "/bin"]\n'
    )
    for line in api.build(path=str(folder), tag=IMAGE, decode=True):
        assert "error" not in line, line
    yield


def test_a_real_engine_tells_the_same(engine: Server, tmp_path: Path) -> None:
    from docker import APIClient

    api = APIClient(base_url=engine.host, version="auto", timeout=START_SECONDS)

    def settle() -> None:
        until("the end", lambda: api.inspect_container("fails")["State"]["Status"] == "exited")
        until("who listens", lambda: api.logs("obeys"))

    try:
        with image_of(api, tmp_path):
            assert story(Containers(api, UID), settle) == modelled()
    finally:
        api.close()
