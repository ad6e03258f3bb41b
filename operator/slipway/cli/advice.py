"""What to do about the commonest reasons for which attempts end."""

from typing import Final

from slipway.cli.common import program

ADVICE: Final = {
    "OOMKilled": "raise resources.limits.memory, or have the program keep less in memory",
    "ExitCode": "read the last lines, and the whole log: slipway logs NAME --failed",
    "FinalExitCode": "the program asked for the end with an exit code of retries.onExitCodes.fail: read its log",
    "CannotStart": "correct command or the image: the container runtime could not start it",
    "WorkspaceSymlink": "put a directory in the place of the link, or choose another workspace.subdir",
    "WorkspaceUnusable": "make the directory that the message names, or let the user of the pod write to the volume",
    "StartTimeout": "see what the hosts wait for in the message; raise timeouts.startSeconds if the image is large",
    "SandboxFailed": "see the node's container runtime and network plug-in: Slipway tries other node pools",
    "EvictedForOwnUsage": "the pod used more storage or memory than it may: raise its limits, or write to a volume",
    "RefusedByNode": "nodes refused the pods, often while they are repaired: Slipway tries other nodes",
    "DeviceUnhealthy": "a chip or another device of a node broke: have the node repaired; Slipway tries others",
    "TPUUnavailable": "the TPU could not be opened: another process may hold the chips; Slipway tries other node pools",
    "NodeLost": "a machine went away: nothing to do; save checkpoints often enough that little is lost",
    "Disrupted": "Kubernetes took the pod's node: nothing to do; save checkpoints often enough that little is lost",
    "EndedByNode": "the node shut down: nothing to do; save checkpoints often enough that little is lost",
    "PodDeleted": "somebody deleted a pod: see who in the API server's audit log if that was not meant",
    "PreemptionExitCode": "the program said that it was preempted, with an exit code of retries.onExitCodes.preemption",
    "RayNodeLost": "a Ray worker's machine went away: nothing to do; save checkpoints often enough",
    "ScheduleTimeout": "what the message names did not come in time: provide it, ask for another type or fewer slices, "
    "or raise timeouts.scheduleSeconds",
    "DeadlineExceeded": "the job took longer than activeDeadlineSeconds: raise it, or go on from a checkpoint",
    "CapacityReleased": "nothing to do: the job gives its nodes to an older one, and tries again",
    "ImageUnavailable": "correct the image, push it, or name a Secret in imagePullSecrets",
    "MissingObjects": "create what the message names; the job then goes on by itself",
    "PodsRefused": "do what the message says; the job then goes on by itself",
    "Suspended": "slipway resume NAME lets it go on",
}
"""By the reason of an attempt; NAME stands for the job's."""

_LOCAL: Final = {
    "PodDeleted": "somebody removed a container: nothing to do, the job goes on by itself",
    "RefusedByNode": "read what the engine says in the message, and mend that",
    "DeviceUnhealthy": "a device of this machine broke: have it repaired",
    "TPUUnavailable": "the TPU could not be opened: see which process of this machine holds the chips",
    "NodeLost": "the machine or its engine went away: nothing to do; save checkpoints often enough that little is lost",
    "ScheduleTimeout": "the devices were not free in time: see which jobs have them, or raise timeouts.scheduleSeconds",
}
"""The same where that is another thing for a job of this machine."""


def advice(reason: str | None, job: str) -> str:
    """What to do about an attempt that ended for this reason; empty where there is nothing to say."""
    words = (ADVICE | _LOCAL if program().endswith(" local") else ADVICE).get(reason or "", "")
    return words.replace("NAME", job).replace("slipway ", f"{program()} ")
