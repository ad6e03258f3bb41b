"""What counts as Ray's own word that a machine was taken, and what is only the user's text."""

import pytest

from slipway.core.explain.ray import preempted

TRACE = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n    ray.get(refs)\n'
TASK = "\x1b[36mray::step()\x1b[39m (pid=71, ip=10.0.0.2)\n"

RAYS_OWN = {
    "node drained for a preemption": (
        TRACE + "ray.exceptions.ActorDiedError: The actor died because its node has died.\n"
        "\tclass_name: Trainer\nThe actor's node was terminated: it was preempted.",
        "The actor's node was terminated: it was preempted.",
    ),
    "owner has exited": (
        TRACE + "ray.exceptions.OwnerDiedError: Failed to retrieve object 00. The object's owner has exited.",
        "ray.exceptions.OwnerDiedError: Failed to retrieve object 00. The object's owner has exited.",
    ),
    "upper case": (
        "ray.exceptions.NodeDiedError: node 7 is UNHEALTHY OR PREEMPTED",
        "ray.exceptions.NodeDiedError: node 7 is UNHEALTHY OR PREEMPTED",
    ),
    "owner died": ("ray.exceptions.RaySystemError: System error: owner died", "ray.exceptions.RaySystemError: "),
    "a system error inside a task": (
        f"ray.exceptions.RayTaskError(OwnerDiedError): {TASK}  File x\n"
        "ray.exceptions.OwnerDiedError: the owner has exited",
        "ray.exceptions.OwnerDiedError: the owner has exited",
    ),
    "Ray gave the entrypoint up": (
        "step 3\nRay did not run the entrypoint to its end: the supervisor's node was preempted",
        "Ray did not run the entrypoint to its end: the supervisor's node was preempted",
    ),
}

NOT_RAYS = {
    "the program prints it": "the worker was preempted",
    "the program raises it": TRACE + "RuntimeError: worker was preempted",
    "a task of the program raises it": TRACE
    + f"ray.exceptions.RayTaskError(RuntimeError): {TASK}  File x\nRuntimeError: preempted, owner died",
    "the program's error quotes Ray": "ValueError: ray.exceptions.NodeDiedError: node was preempted",
    "the program's own error after Ray's": "ray.exceptions.NodeDiedError: node was preempted\n\nDuring handling of the "
    "above exception, another exception occurred:\n\nTraceback\nKeyError: 'x'",
    "an actor's constructor raises it": TRACE + "ray.exceptions.ActorDiedError: The actor died because of an error "
    f"raised in its creation task, {TASK}RuntimeError: preempted",
    "a class of the program is called so": TRACE
    + "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n\tclass_name: PreemptionWatcher\n",
    "a system error that says nothing of it": TRACE + "ray.exceptions.WorkerCrashedError: The worker died unexpectedly",
    "an error of Ray that is the program's fault": "ray.exceptions.GetTimeoutError: preempted",
    "the program caught it and went on": TRACE
    + "ray.exceptions.NodeDiedError: The node was preempted\nrestored checkpoint 400\nloss is nan: giving up",
    "nothing": "",
}


@pytest.mark.parametrize(("output", "said"), RAYS_OWN.values(), ids=RAYS_OWN)
def test_rays_own_words_count(output: str, said: str) -> None:  # E2-53
    assert preempted(output).startswith(said)


AFTER_IT = (
    "(A pid=1, ip=1.2.3.4) hi",
    "(pid=12, ip=10.0.0.1) hello",
    "\x1b[36m(pid=1)\x1b[0m x",
    "(ServeReplica:app:dep pid=1) x",
    "(A(rank=1) pid=1) x",
    "(raylet) x",
    "(autoscaler +3s) x",
    "2026-01-01 00:00:00,000\tINFO worker.py:1 -- x",
    "[2026-01-01 00:00:00,000 E 1 2] core_worker.cc:1: x",
)


@pytest.mark.parametrize("line", AFTER_IT)
def test_what_ray_prints_after_it_is_nothing_that_the_program_does(line: str) -> None:
    said, _ = RAYS_OWN["node drained for a preemption"]
    assert preempted(f"{said}\n{line}\n")


@pytest.mark.parametrize("output", NOT_RAYS.values(), ids=NOT_RAYS)
def test_the_users_words_do_not(output: str) -> None:
    assert preempted(output) == ""
