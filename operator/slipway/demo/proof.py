"""Whether the demo kept its promise, judged from the job's status and from the checkpoints the program wrote."""

import json
from pathlib import Path
from typing import Any

import msgspec


class Checkpoint(msgspec.Struct):
    """The program's own record: the loss of every step, and the attempt that computed it."""

    losses: list[float]
    attempts: list[int]


def newest(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint in the shared folder."""
    for record in sorted(folder.glob("step-*.json"), reverse=True):
        return msgspec.json.decode(record.read_bytes(), type=Checkpoint)
    return None


def complaints(status: dict[str, Any], written: Checkpoint | None, steps: int, resumed_from: int) -> list[str]:
    """Everything that is not as it should be; empty when the job was preempted once, resumed and succeeded."""
    wrong = [
        f"status.{field} is {status.get(field)!r}, expected {expected!r}"
        for field, expected in (("phase", "Succeeded"), ("failures", 0), ("preemptions", 1), ("attempt", 1))
        if status.get(field, 0) != expected
    ]
    if written is None:
        return [*wrong, "no checkpoint was written"]
    losses, attempts = written.losses, written.attempts
    if len(losses) != steps or len(attempts) != steps:
        wrong.append(f"{len(losses)} steps are on record, expected {steps}")
    first = next((step for step, attempt in enumerate(attempts, start=1) if attempt == 1), None)
    if first is None:
        wrong.append("attempt 1 computed no step")
    elif first <= resumed_from or attempts != sorted(attempts):
        wrong.append(f"attempt 1 began at step {first}, although step {resumed_from} was in a checkpoint before")
    elif not 0.5 < losses[first - 1] / losses[first - 2] < 2:
        wrong.append(f"the loss jumped at the restart: {json.dumps(losses[first - 3 : first + 1])}")
    if losses and losses[-1] >= losses[0]:
        wrong.append(f"the loss did not go down: {losses[0]:.4f} at first, {losses[-1]:.4f} at last")
    return wrong
