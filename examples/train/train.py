"""Trains a small model on all hosts of a SliceJob, and goes on where it stopped when the job is restarted.

One process runs on each host. They meet through `jax.distributed`, share each batch among them, and sum their
gradients over the network (gloo, so that plain CPUs will do). Rank 0 writes a checkpoint every few steps; after a
restart all of them begin from the newest complete one. The data of a step depends on the number of the step only,
so an interrupted run draws the same loss curve as one that was left alone.

Slipway sets who a process is and where it meets the others: SLIPWAY_RANK, SLIPWAY_WORLD_SIZE, SLIPWAY_ATTEMPT,
SLIPWAY_SLICE, SLIPWAY_HOST, TPU_WORKER_HOSTNAMES and, with several slices, MEGASCALE_COORDINATOR_ADDRESS.
The job may set STEPS, STEP_SECONDS, CHECKPOINT_EVERY (steps), CHECKPOINT_DIR, DNS_SECONDS and JAX_COORDINATOR_PORT.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

BATCH = 840  # divides evenly among 1 to 8 processes
INPUTS, HIDDEN = 8, 64
LEARNING_RATE = 0.02
SEED = 20261121
KEPT_CHECKPOINTS = 3
HEARTBEAT_SECONDS = 30

State = dict[str, Any]
"""Weights and Adam's two moments by name; arrays of numpy or JAX."""


class BadEnvironment(Exception):
    """The environment lacks what Slipway sets, or holds something else."""


@dataclass(frozen=True)
class Place:
    """Who this process is, and where it meets the others."""

    rank: int
    processes: int
    attempt: int
    slice: int
    host: int
    coordinator: str
    port: int


@dataclass(frozen=True)
class Plan:
    """What to train and where to keep it."""

    steps: int
    step_seconds: float
    checkpoint_every: int
    checkpoints: Path
    dns_seconds: float


@dataclass
class History:
    """The loss of every step so far, and the attempt that computed it."""

    losses: list[float] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    @property
    def step(self) -> int:
        return len(self.losses)


def main() -> int:
    end_on_sigterm()
    try:
        place, plan = read_place(os.environ), read_plan(os.environ)
    except BadEnvironment as error:
        print(f"train.py: {error}", file=sys.stderr, flush=True)
        return 2
    say(f"start rank={place.rank} slice={place.slice} host={place.host}", place, coordinator=place.coordinator)
    try:
        connect(place, plan)
        return train(place, plan)
    except Exception as error:
        end_at_once(f"rank {place.rank} stopped: {first_line(error)}")


def end_on_sigterm() -> None:
    """Ends the process with code 143 as soon as SIGTERM comes.

    A handler of Python's waits for the main thread, which hangs in a sum when a peer is gone; without a handler,
    process 1 of a container ignores the signal. So the handler does nothing, and the number that Python writes to
    the wake-up pipe at once, whatever the main thread does, reaches a thread that ends the process.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(write)

    def wait() -> None:
        while os.read(read, 1) != bytes([signal.SIGTERM]):
            pass
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def end_at_once(message: str) -> NoReturn:
    """Ends without JAX's farewell, which would wait minutes for peers that are gone."""
    print(f"train.py: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def read_place(env: Mapping[str, str]) -> Place:
    processes = whole_number(env, "SLIPWAY_WORLD_SIZE", least=1)
    rank = whole_number(env, "SLIPWAY_RANK")
    if rank >= processes:
        raise BadEnvironment(f"SLIPWAY_RANK is {rank}, but SLIPWAY_WORLD_SIZE is {processes}: ranks begin at 0")
    multislice = env.get("MEGASCALE_COORDINATOR_ADDRESS", "").partition(":")[0]
    first_host = env.get("TPU_WORKER_HOSTNAMES", "").partition(",")[0]
    coordinator = multislice or first_host
    if not coordinator and processes > 1:
        raise BadEnvironment(
            "neither MEGASCALE_COORDINATOR_ADDRESS nor TPU_WORKER_HOSTNAMES says where the processes meet: "
            "run it as a SliceJob"
        )
    return Place(
        rank=rank,
        processes=processes,
        attempt=whole_number(env, "SLIPWAY_ATTEMPT"),
        slice=whole_number(env, "SLIPWAY_SLICE"),
        host=whole_number(env, "SLIPWAY_HOST"),
        coordinator=coordinator or "localhost",
        port=whole_number(env, "JAX_COORDINATOR_PORT", default="8482", least=1),
    )


def read_plan(env: Mapping[str, str]) -> Plan:
    return Plan(
        steps=whole_number(env, "STEPS", default="60", least=1),
        step_seconds=seconds(env, "STEP_SECONDS", default="0.4"),
        checkpoint_every=whole_number(env, "CHECKPOINT_EVERY", default="5", least=1),
        checkpoints=Path(env.get("CHECKPOINT_DIR") or "/checkpoints"),
        dns_seconds=seconds(env, "DNS_SECONDS", default="300"),
    )


def whole_number(env: Mapping[str, str], name: str, *, default: str | None = None, least: int = 0) -> int:
    text = env.get(name) or default
    if text is None:
        raise BadEnvironment(f"{name} is not set: run it as a SliceJob")
    if not text.isdecimal() or int(text) < least:
        raise BadEnvironment(f"{name} is {text!r}, but a whole number from {least} on is needed")
    return int(text)


def seconds(env: Mapping[str, str], name: str, *, default: str) -> float:
    text = env.get(name) or default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise BadEnvironment(f"{name} is {text!r}, but a number of seconds from 0 on is needed")
    return number


def connect(place: Place, plan: Plan) -> None:
    """Joins the other processes."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if place.processes > 1:
        wait_for_name(place.coordinator, plan.dns_seconds)
    import jax

    # JAX's own SIGTERM handling would keep the process alive.
    jax.config.update("jax_enable_preemption_service", False)
    if place.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator_address=f"{place.coordinator}:{place.port}",
            num_processes=place.processes,
            process_id=place.rank,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )


def wait_for_name(host: str, limit: float, pause: float = 0.5) -> None:
    """Waits until DNS knows the host: its record appears some seconds after its pod."""
    end = time.monotonic() + limit
    while True:
        try:
            socket.getaddrinfo(host, None)
            return
        except socket.gaierror as error:
            if time.monotonic() >= end:
                raise TimeoutError(f"the coordinator {host} has no address after {limit:g} s: {error}") from error
        time.sleep(pause)


def train(place: Place, plan: Plan) -> int:
    import jax

    state, history = resume(place, plan)
    share, step_once = distributed(place)
    started_at = history.step
    for step in range(started_at + 1, plan.steps + 1):
        end = time.monotonic() + plan.step_seconds
        state, loss = step_once(state, float(step), *(share(part) for part in batch(step)))
        history.losses.append(float(loss))
        history.attempts.append(place.attempt)
        if place.rank == 0:
            say(f"step={step} loss={history.losses[-1]:.4f}", place)
            if step % plan.checkpoint_every == 0 or step == plan.steps:
                save(plan.checkpoints, jax.device_get(state), history)
        time.sleep(max(0.0, end - time.monotonic()))
    complaint = judge(history, plan.steps) if place.rank == 0 else None
    if complaint is None and place.rank == 0:
        attempts = ",".join(str(attempt) for attempt in sorted(set(history.attempts)))
        losses = f"loss={history.losses[-1]:.4f} first_loss={history.losses[0]:.4f}"
        say(f"done step={plan.steps} {losses} resumed_at={started_at}", place, attempts=attempts)
    if place.processes > 1:
        jax.distributed.shutdown()
    if complaint is not None:
        print(f"train.py: {complaint}", file=sys.stderr, flush=True)
    return 0 if complaint is None else 1


def judge(history: History, steps: int) -> str | None:
    """What is wrong with a finished run, or None."""
    if history.step != steps:
        return f"{history.step} steps are on record, but the job has {steps}"
    if history.attempts != sorted(history.attempts):
        return "an older attempt has written steps after a newer one"
    part = max(1, steps // 5)
    first, last = np.mean(history.losses[:part]), np.mean(history.losses[-part:])
    if steps > 1 and not last < first:
        return f"the loss has not gone down: {first:.4f} in the first {part} steps, {last:.4f} in the last"
    return None


# The model: two hidden layers that learn a fixed function, trained with Adam


def initial_state() -> State:
    random = np.random.default_rng(SEED)
    state: State = {}
    for layer, (rows, columns) in enumerate(((INPUTS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))):
        state[f"w{layer}"] = random.normal(0, (2 / rows) ** 0.5, (rows, columns)).astype(np.float32)
        state[f"b{layer}"] = np.zeros(columns, np.float32)
    for name in list(state):
        state[f"mean.{name}"] = np.zeros_like(state[name])
        state[f"square.{name}"] = np.zeros_like(state[name])
    return state


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one step, the same in every process and every attempt."""
    inputs = np.random.default_rng((SEED, step)).uniform(-1, 1, (BATCH, INPUTS)).astype(np.float32)
    targets = np.sin(3 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] - np.abs(inputs[:, 3])
    return inputs, targets[:, None]


def distributed(place: Place) -> tuple[Callable[[np.ndarray], Any], Callable[..., tuple[State, Any]]]:
    """How a batch is shared among the processes, and one step over all of them."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    spread, whole = NamedSharding(mesh, PartitionSpec("devices")), NamedSharding(mesh, PartitionSpec())
    rows = BATCH // jax.device_count() * jax.local_device_count()

    def share(part: np.ndarray) -> Any:
        mine = part[place.rank * rows : (place.rank + 1) * rows]
        return jax.make_array_from_process_local_data(spread, mine, (rows * place.processes, part.shape[1]))

    return share, jax.jit(update, in_shardings=(whole, None, spread, spread), out_shardings=(whole, whole))


def update(state: State, step: Any, inputs: Any, targets: Any) -> tuple[State, Any]:
    """One step of Adam on the mean squared error of the whole batch."""
    import jax
    import jax.numpy as jnp

    weights = {name: value for name, value in state.items() if "." not in name}

    def error(weights: State) -> Any:
        hidden = jnp.tanh(inputs @ weights["w0"] + weights["b0"])
        hidden = jnp.tanh(hidden @ weights["w1"] + weights["b1"])
        return jnp.mean((hidden @ weights["w2"] + weights["b2"] - targets) ** 2)

    loss, gradients = jax.value_and_grad(error)(weights)
    new: State = {}
    for name, gradient in gradients.items():
        mean = new[f"mean.{name}"] = 0.9 * state[f"mean.{name}"] + 0.1 * gradient
        square = new[f"square.{name}"] = 0.99 * state[f"square.{name}"] + 0.01 * gradient**2
        scale = jnp.sqrt(square / (1 - 0.99**step)) + 1e-8
        new[name] = state[name] - LEARNING_RATE * mean / (1 - 0.9**step) / scale
    return new, loss


# Checkpoints: step-00000020.npz holds the state; step-00000020.json, written after it, makes it complete


def resume(place: Place, plan: Plan) -> tuple[State, History]:
    """The newest state, read by rank 0 and handed to all, so that no two can begin from different steps."""
    from jax.experimental import multihost_utils

    state, history = initial_state(), History()
    if place.rank == 0:
        plan.checkpoints.mkdir(parents=True, exist_ok=True)
        state, history = load(plan.checkpoints, state)
        if history.step:
            say(f"resume step={history.step} loss={history.losses[-1]:.4f}", place)
        else:
            say("begin step=0", place)
    if place.processes == 1:
        return state, history
    state, step = multihost_utils.broadcast_one_to_all((state, np.int32(history.step)))
    if place.rank != 0:
        history = History([0.0] * int(step), [place.attempt] * int(step))
    return state, history


def load(folder: Path, fresh: State) -> tuple[State, History]:
    """The newest complete checkpoint; the fresh state when there is none."""
    for leftover in folder.glob(".step-*.tmp"):
        leftover.unlink(missing_ok=True)
    for record in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            history = History(**json.loads(record.read_text()))
            with np.load(record.with_suffix(".npz")) as arrays:
                state = {name: arrays[name] for name in fresh}
            return state, history
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
            print(f"skipped unreadable checkpoint {record.name}: {first_line(error)}", flush=True)
    return fresh, History()


def save(folder: Path, state: State, history: History) -> None:
    """Writes a checkpoint that is either whole or absent, and removes old ones."""
    path = folder / f"step-{history.step:08d}"
    write(path.with_suffix(".npz"), lambda file: np.savez(file, **state))
    write(path.with_suffix(".json"), lambda file: file.write(json.dumps(vars(history)).encode()))
    for old in sorted(folder.glob("step-*.json"))[:-KEPT_CHECKPOINTS]:
        old.unlink(missing_ok=True)
        old.with_suffix(".npz").unlink(missing_ok=True)


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def say(words: str, place: Place, **more: object) -> None:
    """One line of `name=value` words, written at once."""
    rest = "".join(f" {name}={value}" for name, value in more.items())
    print(f"{words} attempt={place.attempt} processes={place.processes}{rest}", flush=True)


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


if __name__ == "__main__":
    sys.exit(main())
