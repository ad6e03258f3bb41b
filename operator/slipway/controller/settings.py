"""What the operator is started with."""

import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from slipway.api import names
from slipway.api.profile import ProfileSpec
from slipway.api.reading import describe
from slipway.api.slicejob import IMAGE_PATTERN
from slipway.apiserver.access import POD_NAMESPACE
from slipway.controller.lease import DEFAULT_TIMES, LONGEST_RETRY_SECONDS, LeaseTimes
from slipway.controller.observability.log_format import FORMATS
from slipway.core.model.job import Settings as PlannerSettings

LONGEST_ID: Final = 40
"""Letters of an operator's id, so that the name of its Lease is no longer than a label."""
LONGEST_LEASE: Final = 3600
"""Seconds; nobody wants to wait longer for the next leader."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

_LABEL_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class SettingsError(ValueError):
    """A setting cannot be used; the message names it, its value and what is allowed."""


def _identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Settings of one operator process."""

    operator_id: str = ""
    """It serves the SliceJobs whose label LABEL_OPERATOR_ID has this value; those without the label if empty."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to serve; empty for all."""
    coordinator_port: int = names.DEFAULT_COORDINATOR_PORT
    """Port of the coordinator for jobs that do not name one."""
    topology_key: str = names.NODE_POOL
    """Node label whose values are TPU slices."""
    max_pods: int = names.MAX_PODS
    """Worker pods that one job may have."""
    lease_name: str = names.LEASE
    """Lease that says which process leads."""
    lease_namespace: str = "default"
    """Namespace of the Lease."""
    lease_times: LeaseTimes = DEFAULT_TIMES
    """How long the Lease holds, and how often it is renewed."""
    log_level: str = "info"
    """One of LOG_LEVELS."""
    log_format: str = "text"
    """One of the formats of `logs`."""
    health_port: int = 8080
    """Port of /healthz and /readyz; 0 serves none."""
    metrics_port: int = 8081
    """Port of /metrics; 0 serves none."""
    kubeconfig: Path | None = None
    """Kubeconfig to use; otherwise as kubectl would."""
    context: str | None = None
    """Context of the kubeconfig; its current one otherwise."""
    image: str = ""
    """Image with Slipway in it, for the init container of jobs with directories; empty refuses such jobs."""
    read_secrets: bool = False
    """Whether to look for the Secrets that a job names before its pods are created; the role must allow it."""
    site: ProfileSpec = field(default_factory=ProfileSpec)
    """Defaults and limits of all jobs, below those of their SliceJobProfiles."""
    record: Path | None = None
    """Directory for a record of what each decision was made from, without secrets; none by default."""
    identity: str = field(default_factory=_identity)
    """Name of this process, never used by another."""

    @property
    def planner(self) -> PlannerSettings:
        """The part that decisions depend on."""
        return PlannerSettings(
            coordinator_port=self.coordinator_port,
            topology_key=self.topology_key,
            max_pods=self.max_pods,
            whole_cluster=not self.namespaces,
            operator_image=self.image,
            operator_id=self.operator_id,
        )

    @property
    def logging_level(self) -> int:
        """The level as Python's logging counts it."""
        return logging.getLevelNamesMapping()[self.log_level.upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The settings as text from the command line; None leaves one to the environment."""

    operator_id: str | None = None
    namespaces: str | None = None
    coordinator_port: str | None = None
    topology_key: str | None = None
    max_pods: str | None = None
    lease_name: str | None = None
    lease_namespace: str | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    log_level: str | None = None
    log_format: str | None = None
    health_port: str | None = None
    metrics_port: str | None = None
    image: str | None = None
    read_secrets: str | None = None
    kubeconfig: str | None = None
    context: str | None = None


def read_settings(
    flags: Flags | None = None, environment: Mapping[str, str] = os.environ, namespace_file: Path = POD_NAMESPACE
) -> OperatorSettings:
    """Settings from flags, else the environment, else the defaults.

    Raises:
        SettingsError: one sentence that names the setting, its value and what is allowed.
    """
    flags = flags or Flags()

    def text(flag: str | None, variable: str, default: str) -> tuple[str, str]:
        return (variable, environment.get(variable) or default) if flag is None else (variable, flag)

    def seconds(flag: str | None, variable: str, default: float, lowest: int, highest: float) -> int:
        return _number(*text(flag, variable, f"{default:g}"), "number of seconds", lowest, int(highest))

    own_id = _operator_id(*text(flags.operator_id, "SLIPWAY_OPERATOR_ID", ""))
    listed = text(flags.namespaces, "SLIPWAY_NAMESPACES", "")
    home = namespace_file.read_text().strip() if namespace_file.exists() else "default"
    kubeconfig = flags.kubeconfig
    default_port = str(names.DEFAULT_COORDINATOR_PORT)
    return OperatorSettings(
        operator_id=own_id,
        namespaces=tuple(_name(listed[0], one.strip()) for one in listed[1].split(",") if one.strip()),
        coordinator_port=_number(*text(flags.coordinator_port, "COORD_PORT", default_port), "port", 1, 65535),
        topology_key=_label_key(*text(flags.topology_key, "SLIPWAY_TOPOLOGY_KEY", names.NODE_POOL)),
        max_pods=_number(
            *text(flags.max_pods, "SLIPWAY_MAX_PODS", str(names.MAX_PODS)), "number of pods", 1, 9_999_999
        ),
        lease_name=_name(*text(flags.lease_name, "SLIPWAY_LEASE_NAME", names.lease_of(own_id))),
        lease_namespace=_name(*text(flags.lease_namespace, "SLIPWAY_LEASE_NAMESPACE", home)),
        lease_times=_lease_times(
            seconds(flags.lease_duration, "SLIPWAY_LEASE_DURATION", DEFAULT_TIMES.duration, 4, LONGEST_LEASE),
            seconds(flags.renew_deadline, "SLIPWAY_RENEW_DEADLINE", DEFAULT_TIMES.deadline, 3, LONGEST_LEASE),
            seconds(flags.retry_period, "SLIPWAY_RETRY_PERIOD", DEFAULT_TIMES.retry, 1, LONGEST_RETRY_SECONDS),
        ),
        log_level=_one_of("log level", LOG_LEVELS, *text(flags.log_level, "SLIPWAY_LOG_LEVEL", "info")),
        log_format=_one_of("log format", tuple(FORMATS), *text(flags.log_format, "SLIPWAY_LOG_FORMAT", "text")),
        health_port=_number(*text(flags.health_port, "SLIPWAY_HEALTH_PORT", "8080"), "port", 0, 65535),
        metrics_port=_number(*text(flags.metrics_port, "SLIPWAY_METRICS_PORT", "8081"), "port", 0, 65535),
        image=_image(*text(flags.image, "SLIPWAY_IMAGE", "")),
        read_secrets=_yes_or_no(*text(flags.read_secrets, "SLIPWAY_READ_SECRETS", "false")),
        site=_site("SLIPWAY_SITE", environment.get("SLIPWAY_SITE") or "{}"),
        kubeconfig=Path(kubeconfig).expanduser() if kubeconfig else None,
        context=flags.context,
        record=Path(environment["SLIPWAY_RECORD"]) if environment.get("SLIPWAY_RECORD") else None,
    )


def _site(name: str, text: str) -> ProfileSpec:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{name} is not a JSON object with defaults and limits")
    try:
        return ProfileSpec.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{name}: {describe(error, 'site')}") from error


def _number(name: str, value: str, what: str, lowest: int, highest: int) -> int:
    short = value.isascii() and value.isdigit() and len(value) <= len(str(highest))
    if not (short and lowest <= int(value) <= highest):
        raise SettingsError(f"{name} {value!r} is not a {what}: a whole number from {lowest} to {highest} is needed")
    return int(value)


def _lease_times(duration: int, deadline: int, retry: int) -> LeaseTimes:
    try:
        return LeaseTimes(duration, deadline, retry)
    except ValueError as error:
        raise SettingsError(f"SLIPWAY_LEASE_DURATION, SLIPWAY_RENEW_DEADLINE, SLIPWAY_RETRY_PERIOD: {error}") from error


def _one_of(what: str, allowed: Sequence[str], name: str, value: str) -> str:
    if value.lower() not in allowed:
        raise SettingsError(f"{name} {value!r} is not a {what}: {', '.join(allowed)}")
    return value.lower()


def _yes_or_no(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise SettingsError(f"{name} {value!r} is neither true nor false")
    return value == "true"


def _name(name: str, value: str) -> str:
    if not names.is_dns_label(value):
        raise SettingsError(
            f"{name} {value!r} is not a Kubernetes name: at most 63 lower-case letters, digits and - are needed"
        )
    return value


def _operator_id(name: str, value: str) -> str:
    if value and (not names.is_dns_label(value) or len(value) > LONGEST_ID):
        raise SettingsError(
            f"{name} {value!r} is not an operator id: at most {LONGEST_ID} lower-case letters, digits and - are needed"
        )
    return value


def _image(name: str, value: str) -> str:
    if value and re.fullmatch(IMAGE_PATTERN, value) is None:
        raise SettingsError(f"{name} {value!r} is not an image reference: [registry/]repository[:tag] is needed")
    return value


def _label_key(name: str, value: str) -> str:
    if _LABEL_KEY.fullmatch(value) is None:
        raise SettingsError(f"{name} {value!r} is not a label key: [prefix/]name is needed")
    return value
