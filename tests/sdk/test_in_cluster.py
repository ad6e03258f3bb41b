"""Calls from a pod of the cluster, by its own service account; what a call that tries once tells and leaves."""

import site
from typing import Any

from tests.conftest import ROOT
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.caller import ACCOUNT, make_account
from tests.sdk.test_functions import HEAD

PROGRAM = f"""
import os

from slipway import CPU, Client, DockerConfig, RayExecutor, run_docker_on_pod

here = os.getpid()

def train(word, *, times):
    import os

    print("printed")
    os.system("echo by a program >&2")
    return here, os.environ["SLIPWAY_HOST"], word * times

print(Client().resolved_namespace)
print(run_docker_on_pod(DockerConfig("{IMAGE}", ["echo", "from a pod"], network="bridge"), CPU()), end="")
done = RayExecutor(CPU(hosts=2), "{IMAGE}", spec={HEAD}).execute(train, ("ab",), {{"times": 2}}, capture_output=True)
assert [one.value for one in done.result] == [(here, "0", "abab"), (here, "1", "abab")], done
print(done.info.state, done.info.kind, [one.output for one in done.result])
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


def test_a_pod_calls_as_its_own_account(ray_jobs: Jobs) -> None:  # E2-02, E2-04, E2-05, E2-10, E2-13
    kubectl = ray_jobs.kubectl
    make_account(kubectl)
    kubectl.apply(pod())
    ended = ("Succeeded", "Failed")
    ray_jobs.until_true("its end", lambda: kubectl.get("pod", "calls")["status"]["phase"] in ended, seconds=240)
    printed = "printed\nby a program\n"
    said = kubectl("logs", "calls").stdout
    assert said == f"{kubectl.namespace}\nfrom a pod\nsucceeded CPU {[printed, printed]}\n"
    ray_jobs.until_true("removed", lambda: not kubectl.get("sj")["items"])
    ray_jobs.until_true("secrets removed", lambda: not kubectl.get("secrets")["items"], seconds=60)
