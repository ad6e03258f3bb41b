"""Which object owns another: `ownerReferences`."""

import msgspec

from slipway.api import names
from slipway.core.model.job import Job


class OwnerReference(msgspec.Struct, rename="camel"):
    """One owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    def had_name_of(self, job: Job) -> bool:
        """Whether the owner is, or was, a SliceJob of that name."""
        group = self.api_version.partition("/")[0]
        return (group, self.kind, self.name) == (names.GROUP, names.KIND, job.name)


class OwnedMeta(msgspec.Struct, rename="camel"):
    """Whose an object is."""

    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()

    def of(self, job_uid: str) -> bool:
        """Whether it belongs to the job of that UID."""
        return any(owner.uid == job_uid for owner in self.owner_references)


class Owned(msgspec.Struct):
    """An object of which only the owners matter."""

    metadata: OwnedMeta
