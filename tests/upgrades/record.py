"""Records what versions of Slipway leave on an API server: `python -m tests.upgrades.record COMMIT...`.

The operator of a commit runs jobs on simulated nodes until each of them is in its state, and is killed. To be run at
the end of a larger change; the commit then has its line in `versions.RECORDED`.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from slipway.devcluster import ClusterSpec, NativeProvider, Pool
from slipway.devcluster.native.simulated import EXIT_CODE, STOP_AFTER
from tests.clusters import install_crds, kubectl_for
from tests.kubectl import Kubectl
from tests.running import Jobs, Operator
from tests.upgrades.versions import Json, save, unpack

NAMESPACE: Final = "default"
POOLS: Final = [Pool(kind="simulated", type="v5p-16", count=4, spot=True), Pool(kind="simulated", type="cpu", count=4)]
TPU: Final[Json] = {"accelerator": {"type": "v5p-16", "spot": True}}
STAYS: Final[Json] = {"podTemplate": {"metadata": {"annotations": {STOP_AFTER: "1h"}}}}
"""Pods that run on long after their deletion, and so keep the job between two attempts."""
LONG: Final = 300
"""Seconds within which a job comes into its state, however busy the machine is."""
OF_THE_SERVER: Final = ("creationTimestamp", "managedFields", "resourceVersion", "selfLink")


def record(commit: str) -> list[Json]:
    """Run the operator of a commit, and return what it leaves."""
    name, provider = f"record-{commit}", NativeProvider()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack(commit, root)
        crds = [yaml.safe_load(path.read_text()) for path in sorted((root / "crds").glob("*.yaml"))]
        try:
            cluster = provider.up(ClusterSpec(name=name, pools=POOLS))
            install_crds(kubectl_for(cluster, NAMESPACE), crds)
            operator = Operator(cluster.kubeconfig, root / "log", NAMESPACE, sources=root / "operator").start()
            try:
                leave_jobs(Jobs(kubectl_for(cluster, NAMESPACE), operator))
            finally:
                operator.kill()
            return [*(_bare(crd) for crd in crds), *_left(kubectl_for(cluster, NAMESPACE))]
        finally:
            provider.down(name)


def leave_jobs(jobs: Jobs) -> None:
    """Leave a job in each of these states."""
    jobs.apply("succeeded", hosts=2)
    _end(jobs, "succeeded-0-0-0", 0)
    _end(jobs, "succeeded-0-0-1", 0)
    jobs.apply("failed", retries={"maxFailures": 1})
    _end(jobs, "failed-0-0-0", 1)
    jobs.apply("restarted", **TPU)
    _end(jobs, "restarted-0-0-1", 1)
    jobs.apply("restarting", **TPU, **STAYS)
    jobs.apply("running", **TPU, slices=2)
    jobs.apply("ray", image="slipway.local/ray:1", hosts=2, ray={"entrypoint": "python train.py"})
    for phase, names in {"Succeeded": ["succeeded"], "Failed": ["failed"], "Running": ["running", "ray"]}.items():
        for name in names:
            jobs.until(phase, name, seconds=LONG)
    jobs.until_attempt(1, "restarted", seconds=LONG)
    jobs.until("Running", "restarting", seconds=LONG)
    _end(jobs, "restarting-0-0-0", 1)
    jobs.until("Restarting", "restarting", seconds=LONG)
    # All node pools are taken.
    jobs.apply("waiting", **TPU)
    jobs.until("WaitingForCapacity", "waiting", seconds=LONG)


def _end(jobs: Jobs, pod: str, code: int) -> None:
    """Let the containers of a pod end, as soon as it runs."""
    jobs.kubectl.wait(f"pod/{pod}", until="create", seconds=LONG)
    jobs.kubectl.wait(f"pod/{pod}", until="condition=Ready", seconds=LONG)
    jobs.kubectl("annotate", "pod", pod, f"{EXIT_CODE}={code}")


def _left(kubectl: Kubectl) -> Iterator[Json]:
    kinds: dict[str, Callable[[Json], Json]] = {
        "slicejobs": _plain,
        "services": _service,
        "configmaps": _plain,
        "networkpolicies": _plain,
        "pods": _pod,
    }
    for kind, clean in kinds.items():
        selector = "" if kind == "slicejobs" else "slipway.dev/job-uid"
        yield from map(clean, kubectl.get(kind, selector=selector)["items"])


def _plain(one: Json) -> Json:
    return one | {"metadata": {name: of for name, of in one["metadata"].items() if name not in OF_THE_SERVER}}


def _service(one: Json) -> Json:
    given = {name: of for name, of in one["spec"].items() if not name.startswith(("clusterIP", "ipFamil"))}
    return {name: of for name, of in _plain(one).items() if name != "status"} | {"spec": given | {"clusterIP": "None"}}


def _pod(one: Json) -> Json:
    """A pod as it was asked for and bound, and what became of its containers; not what let them end."""
    pod = _plain(one)
    pod["metadata"].get("annotations", {}).pop(EXIT_CODE, None)
    spec, token = pod["spec"], "kube-api-access-"
    spec["volumes"] = [one for one in spec.get("volumes", ()) if not one["name"].startswith(token)]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        mounts = container.get("volumeMounts", ())
        container["volumeMounts"] = [one for one in mounts if not one["name"].startswith(token)]
    kept = ("phase", "startTime", "initContainerStatuses", "containerStatuses")
    return pod | {"status": {name: pod["status"][name] for name in kept if name in pod["status"]}}


def _bare(schema: Any) -> Any:
    """A CRD without its descriptions, which are most of it and change nothing."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _bare(of) for name, of in schema.items() if not (name == "description" and isinstance(of, str))}


if __name__ == "__main__":
    for commit in sys.argv[1:]:
        save(commit, record(commit))
        print(f"{commit} is recorded", flush=True)
