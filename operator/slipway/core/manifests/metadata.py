"""The metadata that every object of a job carries: whose it is, and who made it."""

from typing import Any

from slipway.api import names
from slipway.core.model.job import Job


def metadata(job: Job, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Name, namespace, labels and owner of an object of the job."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own = {
        names.LABEL_JOB_NAME: job.name,
        names.LABEL_JOB_UID: job.uid,
        names.LABEL_MANAGED_BY: names.MANAGER,
    }
    if job.operator_id:
        own[names.LABEL_OPERATOR_ID] = job.operator_id
    return {"name": name, "namespace": job.namespace, "labels": own | labels, "ownerReferences": [owner]}
