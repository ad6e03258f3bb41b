"""Who calls in these tests: a service account that may do what the chart's role for callers grants, and no more."""

from pathlib import Path
from typing import Any

import yaml

from slipway import Client
from tests.kubectl import Kubectl
from tests.waiting import until

ACCOUNT = "caller"
RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["slipway.dev"],
        "resources": ["slicejobs"],
        "verbs": ["get", "list", "watch", "create", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
]
"""As they stand in the chart, whose tests compare."""


def make_account(kubectl: Kubectl) -> None:
    """Make the service account and its role."""
    head, metadata = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"metadata": {"name": ACCOUNT}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": kubectl.namespace}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", **metadata},
        {**head, "kind": "Role", **metadata, "rules": RULES},
        {**head, "kind": "RoleBinding", **metadata, "roleRef": role, "subjects": [subject]},
    )
    who = f"--as=system:serviceaccount:{kubectl.namespace}:{ACCOUNT}"
    # The API server knows of a role some moments after it took it.
    asked = ("auth", "can-i", "create", "slicejobs", who)
    until("the role", lambda: kubectl(*asked, check=False).returncode == 0)


def client_of(kubectl: Kubectl, folder: Path) -> Client:
    """A client with a token of that account in the namespace, from a kubeconfig that names both."""
    make_account(kubectl)
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    token = kubectl("create", "token", ACCOUNT).stdout.strip()
    [context] = config["contexts"]
    context["context"] |= {"user": ACCOUNT, "namespace": kubectl.namespace}
    config["users"] = [{"name": ACCOUNT, "user": {"token": token}}]
    path = folder / "caller.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return Client(kubeconfig=path)
