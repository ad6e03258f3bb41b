"""Slipway runs container jobs on TPU node pools and survives their preemptions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slipway.version import VERSION

if TYPE_CHECKING:
    from slipway.client.blocking import Client, Job
    from slipway.client.cluster_client import AsyncClient
    from slipway.client.errors import (
        AlreadyExists,
        AlreadyFinished,
        CapacityUnavailable,
        ChangedMeanwhile,
        ClusterError,
        HostFailure,
        InvalidJob,
        JobCancelled,
        JobError,
        JobFailed,
        JobInfo,
        JobPreempted,
        JobSucceeded,
        LogsPurged,
        NotAllowed,
        NotAuthenticated,
        NotFound,
        NotPicklable,
        NotStarted,
        PayloadTooLarge,
        Refused,
        ResultMissing,
        ServerFailed,
        SessionClosed,
        SlipwayError,
        TooManyRequests,
        Unreachable,
        VersionMismatch,
        WaitTimeout,
    )
    from slipway.client.logs.selection import Selection
    from slipway.local.client.blocking import LocalClient
    from slipway.local.client.client import AsyncLocalClient
    from slipway.local.engine.errors import ImageBuildError
    from slipway.local.images.building import build_and_push_docker_image
    from slipway.sdk.accelerators import CPU, GPU, TPU
    from slipway.sdk.containers import CompletedRun, run_docker_async, run_docker_multislice, run_docker_on_pod
    from slipway.sdk.decorators import (
        autoscale_execute,
        autoscale_execute_resumable,
        device_remote,
        execute,
        execute_resumable,
        tpu_remote,
    )
    from slipway.sdk.docker import DockerConfig
    from slipway.sdk.functions import RayExecutor
    from slipway.sdk.payload import Captured
    from slipway.sdk.session import Session

__version__ = VERSION

_HOMES = {
    "sdk.accelerators": (
        "CPU",
        "GPU",
        "TPU",
    ),
    "client.cluster_client": ("AsyncClient",),
    "local.client.client": ("AsyncLocalClient",),
    "local.client.blocking": ("LocalClient",),
    "client.blocking": ("Client", "Job"),
    "sdk.containers": (
        "CompletedRun",
        "run_docker_async",
        "run_docker_multislice",
        "run_docker_on_pod",
    ),
    "sdk.decorators": (
        "autoscale_execute",
        "autoscale_execute_resumable",
        "device_remote",
        "execute",
        "execute_resumable",
        "tpu_remote",
    ),
    "sdk.docker": ("DockerConfig",),
    "client.errors": (
        "AlreadyExists",
        "AlreadyFinished",
        "CapacityUnavailable",
        "ChangedMeanwhile",
        "ClusterError",
        "HostFailure",
        "InvalidJob",
        "JobCancelled",
        "JobError",
        "JobFailed",
        "JobInfo",
        "JobPreempted",
        "JobSucceeded",
        "LogsPurged",
        "NotAllowed",
        "NotAuthenticated",
        "NotFound",
        "NotPicklable",
        "NotStarted",
        "PayloadTooLarge",
        "Refused",
        "ResultMissing",
        "ServerFailed",
        "SessionClosed",
        "SlipwayError",
        "TooManyRequests",
        "Unreachable",
        "VersionMismatch",
        "WaitTimeout",
    ),
    "client.logs.selection": ("Selection",),
    "local.engine.errors": ("ImageBuildError",),
    "local.images.building": ("build_and_push_docker_image",),
    "sdk.functions": ("RayExecutor",),
    "sdk.payload": ("Captured",),
    "sdk.session": ("Session",),
}
_HOME_OF = {name: home for home, found in _HOMES.items() for name in found}

__all__ = [
    "CPU",
    "GPU",
    "TPU",
    "AlreadyExists",
    "AlreadyFinished",
    "AsyncClient",
    "AsyncLocalClient",
    "CapacityUnavailable",
    "Captured",
    "ChangedMeanwhile",
    "Client",
    "ClusterError",
    "CompletedRun",
    "DockerConfig",
    "HostFailure",
    "ImageBuildError",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobInfo",
    "JobPreempted",
    "JobSucceeded",
    "LocalClient",
    "LogsPurged",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "NotPicklable",
    "NotStarted",
    "PayloadTooLarge",
    "RayExecutor",
    "Refused",
    "ResultMissing",
    "Selection",
    "ServerFailed",
    "Session",
    "SessionClosed",
    "SlipwayError",
    "TooManyRequests",
    "Unreachable",
    "VersionMismatch",
    "WaitTimeout",
    "autoscale_execute",
    "autoscale_execute_resumable",
    "build_and_push_docker_image",
    "device_remote",
    "execute",
    "execute_resumable",
    "run_docker_async",
    "run_docker_multislice",
    "run_docker_on_pod",
    "tpu_remote",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # On first use: the operator and the commands import this package and need none of it.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slipway' has no attribute {name!r}")
    return getattr(import_module(f"slipway.{_HOME_OF[name]}"), name)
