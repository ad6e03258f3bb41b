"""What Ray itself says when it fails, told apart from what the user's program says.

An uncaught error ends a Python program's output with a traceback whose last part begins with the error's name. Only
an error that Ray raises when its own processes or nodes are gone counts, and of it only what Ray wrote: not the
traceback of the user's code that it may carry, nor names of the user's classes and functions.
"""

import re
from typing import Final

SIGNS: Final = ("preempt", "unhealthy or preempted", "owner died", "owner has exited")
"""What Ray says when a machine was taken."""

_SYSTEM_ERRORS: Final = (
    "ActorDiedError",
    "ActorUnavailableError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "OwnerDiedError",
    "RaySystemError",
    "RpcError",
    "WorkerCrashedError",
)
_ERROR: Final = re.compile(r"^ray\.exceptions\.(?P<name>\w+):")
_NOT_RUN: Final = re.compile(r"^Ray did not run the entrypoint to its end: ")
_CHAIN: Final = re.compile(r"^(?:Traceback|During handling of the above|The above exception)\b")
"""What comes between one error and the next, which is then the one that ended the program."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_RAYS: Final = re.compile(
    r"^(?:\s|$|The |(?:class_name|name|namespace|function|repr|pid|ip|actor_id)\b"
    r"|\((?:.*\s)?pid=\d|\((?:raylet|autoscaler)\b"
    r"|\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ \w+\.py:\d+ -- |\[\d{4}-\d\d-\d\d [^\]]* \d+ \d+\] )"
)
"""How Ray goes on with what an error says, and what its own processes print after it."""
_USERS: Final = re.compile(
    r"^\s|^(?:class_name|name|namespace|function|repr)\b|\bray::|error raised in its creation task"
)


def preempted(output: str) -> str:
    """What Ray said at the end of a program's output, if it says that a machine was taken; else nothing."""
    lines = _COLOUR.sub("", output).splitlines()
    last = next((place for place in range(len(lines) - 1, -1, -1) if _begins(lines[place])), None)
    if last is None or any(_CHAIN.match(line) for line in lines[last:]) or _USERS.search(lines[last]):
        return ""
    if any(not _RAYS.match(line) for line in lines[last + 1 :]):
        # The program went on.
        return ""
    own = lines[last : last + 1] if _NOT_RUN.match(lines[last]) else lines[last:]
    said = (line for line in own if not _USERS.search(line))
    return next((line.strip() for line in said if any(sign in line.lower() for sign in SIGNS)), "")


def _begins(line: str) -> bool:
    """Whether a system error of Ray's begins here."""
    found = _ERROR.match(line)
    return bool(_NOT_RUN.match(line) or (found and found["name"] in _SYSTEM_ERRORS))
