"""Where things are in the API."""

from slipway.api import names
from slipway.api.profile import PROFILE_PLURAL

NODES = "/api/v1/nodes"


def _core(namespace: str, resource: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}" if namespace else f"/api/v1/{resource}"


def pods(namespace: str = "") -> str:
    """Pods of a namespace, or of all."""
    return _core(namespace, "pods")


def services(namespace: str) -> str:
    """Services of a namespace."""
    return _core(namespace, "services")


def config_maps(namespace: str) -> str:
    """ConfigMaps of a namespace."""
    return _core(namespace, "configmaps")


def secrets(namespace: str) -> str:
    """Secrets of a namespace."""
    return _core(namespace, "secrets")


def network_policies(namespace: str) -> str:
    """NetworkPolicies of a namespace."""
    return f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"


def node(name: str) -> str:
    """One node."""
    return f"{NODES}/{name}"


def jobs(namespace: str = "") -> str:
    """SliceJobs of a namespace, or of all."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{names.API_VERSION}{scope}/{names.PLURAL}"


def job(namespace: str, name: str) -> str:
    """One SliceJob."""
    return f"{jobs(namespace)}/{name}"


def profiles(namespace: str = "") -> str:
    """SliceJobProfiles of a namespace, or of all."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{names.API_VERSION}{scope}/{PROFILE_PLURAL}"


def events(namespace: str) -> str:
    """Events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/events"


def leases(namespace: str = "") -> str:
    """Leases of a namespace, or of all."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/coordination.k8s.io/v1{scope}/leases"


def kubelet_lease(node: str) -> str:
    """The Lease that the kubelet of a node renews."""
    return f"{leases('kube-node-lease')}/{node}"


KUEUE = "/apis/kueue.x-k8s.io"


def of_kueue(version: str, plural: str, namespace: str = "") -> str:
    """Objects of Kueue, of that API version: of a namespace or of all, or of none."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{version}{scope}/{plural}"


def workloads(version: str, namespace: str = "") -> str:
    """Workloads of Kueue, of that API version, in a namespace or in all."""
    return of_kueue(version, "workloads", namespace)
