"""The containers of a job as pods, for people and for their pictures."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from socket import gethostname
from typing import Any

from slipway.api import names
from slipway.api.places import Place, parse_pod_name
from slipway.local.containers.container_state import Circumstances
from slipway.local.containers.containers import Containers
from slipway.local.containers.host import hosts
from slipway.local.containers.kept_logs import stands_in
from slipway.local.engine.address import Address, connect
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.jobs.job_files import NAMESPACE, JobFolder, NoSuchJob, Unreadable
from slipway.local.jobs.options import Options

Pod = dict[str, Any]


def job_pods(job: JobFolder) -> list[Pod]:
    """The containers of a job, as pods; none where none are left.

    Raises:
        NoSuchJob: when there is no such job.
        EngineUnavailable: when the engine of the job is not reachable.
    """
    body = job.read()
    if body["local"].get("settled"):
        return []
    api = connect(Options.from_json(body["local"]["options"]).engine)
    try:
        containers = Containers(api, body["metadata"]["uid"])
        found = [containers.inspect(state) for state in containers.states()]
    finally:
        api.close()
    about = Circumstances(gethostname())
    return [host.pod_json(about, _version()) for host in hosts(one for one in found if one is not None)]


def unanswered(jobs: Iterable[JobFolder]) -> dict[str, str]:
    """Why the engine of a job does not answer, by the job's name; a job of which nothing is left there needs none."""
    found: dict[str, str] = {}
    troubles: dict[Address, str] = {}
    for job in jobs:
        with suppress(NoSuchJob, Unreadable):
            body = job.read()
            if body["local"].get("settled") and not body["metadata"].get("deletionTimestamp"):
                continue
            address = Options.from_json(body["local"]["options"]).engine
            if address not in troubles:
                troubles[address] = _trouble(address)
            found[job.name] = troubles[address]
    return {name: trouble for name, trouble in found.items() if trouble}


def _trouble(address: Address) -> str:
    try:
        connect(address).close()
    except EngineUnavailable as error:
        # The hint says how to choose an engine, and the job keeps the engine that its file names.
        return ": ".join(filter(None, (error.what.rstrip("."), error.detail)))
    return ""


def kept_pods(job: JobFolder) -> list[Pod]:
    """Containers that are gone and whose logs are kept, as pods that have ended."""
    found = []
    for path in sorted((job.path / "logs").glob("*.log")):
        # One that stands for another may have outlived it: the oldest logs are forgotten.
        if path.exists() and (where := parse_pod_name(job.name, path.stem)) is not None:
            at = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
            found.append(_kept(path.stem, where[1], at, stands_in(path).removeprefix(f"{path.stem}.")))
    return found


def _kept(name: str, place: Place, at: datetime, failed_init: str) -> Pod:
    container = names.DRIVER_CONTAINER if place.is_head else names.WORKER_CONTAINER
    # With what exit code is not kept, only whether it is that of a failure.
    end = {"exitCode": 1 if failed_init else 0, "startedAt": None, "finishedAt": at.isoformat()}
    status: Pod = {"phase": "Succeeded", "containerStatuses": [{"name": container, "state": {"terminated": end}}]}
    if failed_init:
        status = {"phase": "Failed", "initContainerStatuses": [{"name": failed_init, "state": {"terminated": end}}]}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"log of {name}", "labels": {}},
        "spec": {},
        "status": status,
    }


def _version() -> int:
    """A number that grows from one look to the next."""
    return int(datetime.now(UTC).timestamp() * 1000)
