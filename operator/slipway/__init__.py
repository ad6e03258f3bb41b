"""Slipway runs container jobs on TPU node pools and survives their preemptions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.sdk.accelerators import CPU, TPU
    from slipway.sdk.client import Client
    from slipway.sdk.containers import CompletedRun, run_docker_async, run_docker_multislice, run_docker_on_pod
    from slipway.sdk.docker import DockerConfig
    from slipway.sdk.errors import (
        CapacityUnavailable,
        HostFailure,
        InvalidJob,
        JobCancelled,
        JobError,
        JobFailed,
        JobInfo,
        JobPreempted,
        JobSucceeded,
        NotPicklable,
        PayloadTooLarge,
        ResultMissing,
        SessionClosed,
        SlipwayError,
        VersionMismatch,
    )

_HOMES = {
    "accelerators": ("CPU", "TPU"),
    "client": ("Client",),
    "containers": ("CompletedRun", "run_docker_async", "run_docker_multislice", "run_docker_on_pod"),
    "docker": ("DockerConfig",),
    "errors": (
        "CapacityUnavailable", "HostFailure", "InvalidJob", "JobCancelled", "JobError", "JobFailed", "JobInfo",
        "JobPreempted", "JobSucceeded", "NotPicklable", "PayloadTooLarge", "ResultMissing", "SessionClosed",
        "SlipwayError", "VersionMismatch",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, found in _HOMES.items() for name in found}

__all__ = [  # noqa: PLE0604, RUF100
    "CPU", "TPU", "CapacityUnavailable", "Client", "CompletedRun", "DockerConfig", "HostFailure", "InvalidJob",
    "JobCancelled", "JobError", "JobFailed", "JobInfo", "JobPreempted", "JobSucceeded", "NotPicklable",
    "PayloadTooLarge", "ResultMissing", "SessionClosed", "SlipwayError", "VersionMismatch", "run_docker_async",
    "run_docker_multislice", "run_docker_on_pod",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # On first use: the operator and the commands import this package and need none of it.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slipway' has no attribute {name!r}")
    return getattr(import_module(f"slipway.sdk.{_HOME_OF[name]}"), name)
