"""Calls from a pod of the cluster, by its own service account."""

import site
from typing import Any

from tests.conftest import ROOT
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.caller import ACCOUNT, make_account
from tests.sdk.test_functions import HEAD

PROGRAM = f"""
from slipway import CPU, Client, DockerConfig, RayExecutor, run_docker_on_pod

def train(number):
    import os

    return number + int(os.environ["SLIPWAY_HOST"])

print(Client().resolved_namespace)
print(run_docker_on_pod(DockerConfig("{IMAGE}", ["echo", "from a pod"], network="bridge"), CPU()), end="")
print(RayExecutor(CPU(hosts=2), "{IMAGE}", spec={HEAD}).execute(train, (7,)).result)
"""


def pod() -> dict[str, Any]:
    """A pod of Ray's image that has this SDK from this machine, whose Python is the image's."""
    folders = {"operator": ROOT / "operator", "site": site.getsitepackages()[0]}
    container = {
        "name": "calls", "image": IMAGE, "imagePullPolicy": "Never", "command": ["python3", "-c", PROGRAM],
        "env": [{"name": "PYTHONPATH", "value": ":".join(f"/host/{name}" for name in folders)}],
        "volumeMounts": [{"name": name, "mountPath": f"/host/{name}", "readOnly": True} for name in folders],
    }  # fmt: skip
    spec = {
        "restartPolicy": "Never", "serviceAccountName": ACCOUNT, "nodeName": "cpu-0", "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "calls"}, "spec": spec}


def test_a_pod_calls_as_its_own_account(ray_jobs: Jobs) -> None:
    kubectl = ray_jobs.kubectl
    make_account(kubectl)
    kubectl.apply(pod())
    ended = ("Succeeded", "Failed")
    ray_jobs.until_true("its end", lambda: kubectl.get("pod", "calls")["status"]["phase"] in ended, seconds=240)
    said = kubectl("logs", "calls").stdout
    assert said == f"{kubectl.namespace}\nfrom a pod\n[7, 8]\n"
