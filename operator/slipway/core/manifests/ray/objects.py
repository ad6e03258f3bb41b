"""The objects beside the pods of a Ray cluster: how its head is found, its token, and who may connect."""

from slipway.api import names
from slipway.core.manifests.metadata import metadata
from slipway.core.model.job import Job
from slipway.core.model.parts import Body


def service(job: Job) -> Body:
    """The headless Service of the head; workers need its name before it is ready."""
    ports = {"gcs": names.RAY_GCS_PORT, "dashboard": names.RAY_DASHBOARD_PORT, "client": names.RAY_CLIENT_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, names.head_service(job.name), {}),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB_UID: job.uid, names.LABEL_ROLE: names.ROLE_HEAD},
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        },
    }


def token_secret(job: Job) -> Body:
    """The Secret that will hold the cluster's token; the token itself is made where it is written."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, names.ray_token_secret(job.name, job.uid), {}),
        "immutable": True,
    }


def network_policy(job: Job) -> Body:
    """Who may connect: the job's own pods, and to the ports for clients those that say they are its clients."""
    mine = {"podSelector": {"matchLabels": {names.LABEL_JOB_UID: job.uid}}}
    clients = {"podSelector": {"matchLabels": {names.LABEL_RAY_CLIENT: job.name}}}
    ports = (names.RAY_DASHBOARD_PORT, names.RAY_CLIENT_PORT)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, names.ray_network_policy(job.name), {}),
        "spec": {
            **mine,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [mine]},
                {"from": [clients], "ports": [{"protocol": "TCP", "port": port} for port in ports]},
            ],
        },
    }
