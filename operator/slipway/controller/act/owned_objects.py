"""Creates the objects that a job owns, once, and never takes over an object of that name with another owner."""

from contextlib import suppress
from typing import Final

import msgspec

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from slipway.apiserver.owners import Owned
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.vocabulary.reasons import NAME_TAKEN, WAITING_FOR_OLD

_COLLECTIONS: Final = {
    "ConfigMap": paths.config_maps,
    "NetworkPolicy": paths.network_policies,
    "Pod": paths.pods,
    "Service": paths.services,
}


class NameTaken(Exception):
    """An object of another owner, or of an earlier SliceJob of this name, has the name that this job needs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def ensure(api: ApiConnection, body: Body, job: Job, *, check: bool = False) -> None:
    """Create an object of the job, or find that it is there; `check` asks for a dry run.

    Raises:
        NameTaken: when an object that is not the job's has the name.
    """
    collection = _COLLECTIONS[body["kind"]](job.namespace)
    path = f"{collection}/{body['metadata']['name']}"
    try:
        await api.create(collection, body, msgspec.Raw, check=check)
    except (Forbidden, Invalid):
        # The API server asks quotas and policies before it looks whether the object is there.
        if check or not await _is_there(api, path, job):
            raise
    except AlreadyExists:
        if await _made_before(api, path, body, job):
            return
        try:
            await api.create(collection, body, msgspec.Raw, check=check)
        except AlreadyExists:
            raise name_taken(body, earlier=True) from None


async def _is_there(api: ApiConnection, path: str, job: Job) -> bool:
    """Whether the job has the object."""
    try:
        return (await api.get(path, Owned)).metadata.of(job.uid)
    except (NotFound, Forbidden):
        return False


async def _made_before(api: ApiConnection, path: str, body: Body, job: Job) -> bool:
    """Whether the object that has the name is the job's; one that an earlier job of this name has left is deleted."""
    try:
        metadata = (await api.get(path, Owned)).metadata
    except NotFound:
        # The garbage collector was faster.
        return False
    if metadata.of(job.uid):
        return True
    if not metadata.owner_references or not all(owner.had_name_of(job) for owner in metadata.owner_references):
        raise name_taken(body, earlier=False) from None
    await _delete_predecessor(api, path, metadata.uid, job)
    return False


async def _delete_predecessor(api: ApiConnection, path: str, uid: str, job: Job) -> None:
    """Delete what an earlier job of this name has left; the garbage collector may take half a minute.

    That the job's name is its own by now shows that the earlier one is gone; an outdated cache does not.
    """
    if (await api.get(paths.job(*job.key), Owned)).metadata.uid == job.uid:
        with suppress(NotFound, Conflict, Forbidden):
            await api.delete(path, uid=uid)


async def delete_config_map(api: ApiConnection, name: str, job: Job) -> None:
    """Delete a ConfigMap of the job that nobody needs any more; one that cannot be deleted is no obstacle."""
    path = f"{paths.config_maps(job.namespace)}/{name}"
    with suppress(NotFound, Conflict, Forbidden):
        metadata = (await api.get(path, Owned)).metadata
        if metadata.of(job.uid):
            await api.delete(path, uid=metadata.uid)


def name_taken(body: Body, earlier: bool) -> NameTaken:
    """The error that says whose object has the name."""
    name = f"{body['kind']} {body['metadata']['name']}"
    if earlier:
        return NameTaken(WAITING_FOR_OLD, f"{name} of an earlier job of this name must go first")
    return NameTaken(
        NAME_TAKEN, f"{name} is needed and is somebody else's: delete it, or give the SliceJob another name"
    )
