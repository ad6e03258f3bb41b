"""The ledger of a job: states that never overlap and cover it from its creation to its completion, in seconds.

A second account weighs each second by the chips of the pods that are bound to nodes.
"""

from slipway.api.base import Part, Time


class Loss(Part):
    """Work that is done again, and time from the end of an attempt until every host runs again."""

    work: float | None = None
    """From the last printed checkpoint of the attempt, or else from when every host ran, until the failure of the first
    host. Only where spec.progress has a group checkpoint; otherwise this time is running."""
    detect: float | None = None
    """From the failure of the first host until Slipway ended the attempt."""
    fence: float | None = None
    """Until every pod of the attempt had terminated."""
    delay: float | None = None
    """Until the next attempt began, without the time in a queue."""
    queue: float | None = None
    """In a queue, until it admitted the next attempt."""
    schedule: float | None = None
    """Until each pod of it was bound to a node."""
    start: float | None = None
    """Until every host ran."""


class Account(Part):
    """Each state with its sum. States that the job was never in are absent."""

    queued: float | None = None
    """In a queue, until it admits the job. After an attempt that is charged to a budget this is lost time."""
    waiting_for_capacity: float | None = None
    """Pods are not bound to nodes yet."""
    starting: float | None = None
    """Any other time before every host runs, such as pulling images, or waiting for an operator or a valid spec."""
    running: float | None = None
    """Every host runs, until the failure of the first one or the end of the attempt. Without lost work."""
    lost_to_failure: Loss | None = None
    """After an attempt that is charged to retries.maxFailures, until every host runs again."""
    lost_to_preemption: Loss | None = None
    """After an attempt that was preempted, until every host runs again."""
    lost_to_infrastructure: Loss | None = None
    """After an attempt that the infrastructure ended, until every host runs again."""
    cleaning_up: float | None = None
    """After an attempt that is charged to no budget, until its pods have terminated and the next one begins."""
    suspended: float | None = None
    """Suspended without pods."""


class Ledger(Part):
    """Where the time of the job went, from its creation until `until`."""

    until: Time
    """The sums end here. Later time follows from the newest attempt and is added once it is certain."""
    seconds: Account
    """Seconds in each state. They add up to the time from the creation of the job until `until`."""
    chip_seconds: Account | None = None
    """The same, each second multiplied by the TPU chips or GPUs of the pods that were bound to nodes and had not
    terminated. Absent without accelerators."""
