"""Removing what is no longer needed: jobs that have ended, and what is left of jobs that are gone."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any, Final

from slipway.api import names
from slipway.local.containers.containers import (
    Containers,
    EngineLost,
    EngineRefuses,
    as_engine_errors,
    remove_the_rest,
)
from slipway.local.engine.address import Address, connect
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.jobs.job_files import (
    LABEL_HOME,
    JobFolder,
    NoSuchJob,
    Unreadable,
    folder,
    folders,
    former_home_id,
    home,
    home_id,
)
from slipway.local.jobs.options import Options
from slipway.local.supervisor.cache import read

Outcome = tuple[str, str]
"""What was to be removed, and why it is still there; empty when it is gone."""
_TROUBLE: Final = (EngineLost, EngineRefuses, EngineUnavailable, OSError)
_ENDED: Final = ("exited", "dead")
"""States of containers that do not run, and that nobody is about to start."""


def prune(names_given: Collection[str] = ()) -> list[Outcome]:
    """Remove the jobs that have ended, of these names or all, with their containers, networks and logs.

    Without names also what belongs to jobs of this user that are gone. What goes wrong with one keeps no other (N-33).

    Raises:
        NoSuchJob: when there is no job of a name.
    """
    chosen = [folder(name) for name in names_given] if names_given else folders()
    found: list[Outcome] = []
    for job in chosen:
        try:
            found += _ended(job, asked=bool(names_given))
        except NoSuchJob:
            # Of all jobs one may go meanwhile.
            if names_given:
                raise
    return found if names_given else [*found, *_left_behind()]


def _ended(job: JobFolder, *, asked: bool) -> Iterator[Outcome]:
    try:
        body = job.read()
    except Unreadable as error:
        yield job.name, str(error)
        return
    if not read(body).status.final:
        if asked:
            yield job.name, f"job {job.name} has not ended: cancel it first"
        return
    with job.supervised() as mine:
        if mine is None:
            yield job.name, f"job {job.name} is being cleaned up; try again in a moment"
            return
        try:
            _remove(Options.from_json(body["local"]["options"]).engine, body["metadata"]["uid"])
            job.remove()
        except _TROUBLE as error:
            yield job.name, f"job {job.name} cannot be removed: {error}"
        else:
            yield job.name, ""


def _remove(engine: Address, uid: str) -> None:
    api = connect(engine)
    try:
        containers = Containers(api, uid)
        refusals: list[EngineRefuses] = []
        # The newest are named first, so a sandbox, which has the volumes, is the last of its host.
        steps = [partial(containers.remove, state) for state in containers.states()]
        for step in (*steps, partial(remove_the_rest, api, uid)):
            try:
                step()
            except EngineRefuses as error:
                refusals.append(error)
    finally:
        api.close()
    if refusals:
        raise EngineRefuses("; ".join(map(str, refusals)), refusals[0].status)


def _left_behind() -> Iterator[Outcome]:
    """Containers and networks of jobs whose files are gone. Those of other users of the engine are not touched."""
    try:
        api = connect(Address.configured())
    except EngineUnavailable as error:
        yield "what is left of earlier jobs", str(error)
        return
    try:
        with as_engine_errors():
            containers = api.containers(all=True, filters={"label": [LABEL_HOME]})
            networks = api.networks(filters={"label": [LABEL_HOME]})
        jobs = _of_this_folder(containers, networks)
        # After the engine was asked: a job has its file before it has anything there.
        known, unreadable = _known()
        for uid, name in jobs.items():
            if uid not in known and name not in unreadable:
                yield from _orphans(uid, name)
    finally:
        api.close()


def _of_this_folder(containers: list[dict[str, Any]], networks: list[dict[str, Any]]) -> dict[str, str]:
    """The jobs of this folder that have something on the engine: their names by UID.

    What a former Slipway has made may as well be another machine's, so of that only what does not run.
    """
    alive = {
        container["Labels"].get(names.LABEL_JOB_UID) for container in containers if container["State"] not in _ENDED
    }
    mine, former = home_id(home()), former_home_id(home())
    found: dict[str, str] = {}
    for labels in (one["Labels"] for one in (*containers, *networks)):
        whose, uid = labels[LABEL_HOME], labels.get(names.LABEL_JOB_UID)
        if uid is not None and (whose == mine or (whose == former and uid not in alive)):
            found[uid] = labels.get(names.LABEL_JOB_NAME, "")
    return found


def _known() -> tuple[set[str], set[str]]:
    """The UIDs of all jobs, and the names of those whose files cannot be read."""
    uids, unreadable = set[str](), set[str]()
    for job in folders():
        try:
            uids.add(job.read()["metadata"]["uid"])
        except Unreadable:
            unreadable.add(job.name)
        except NoSuchJob:
            # What it has left is nobody's.
            continue
    return uids, unreadable


def _orphans(uid: str, name: str) -> Iterator[Outcome]:
    what = f"what was left of job {name}"
    try:
        _remove(Address.configured(), uid)
    except _TROUBLE as error:
        yield what, f"{what} cannot be removed: {error}"
    else:
        yield what, ""
