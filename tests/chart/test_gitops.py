"""What GitOps tools make of SliceJobs, with their own rules: Argo CD's Lua, kstatus, kustomize, forced changes."""

import json
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random
from typing import Any

import pytest
import yaml
from lupa import lua51

from slipway.api.status import UNSEEN, ConditionType, Phase, SliceJobStatus
from slipway.devcluster import NativeCluster
from tests.chart.conftest import CHART, Helm
from tests.chart.foreign import crds
from tests.clusters import install_crds, kubectl_for
from tests.core.build import World
from tests.core.planner.test_phases import history
from tests.kubectl import Kubectl
from tests.places import ROOT

ARGOCD = ROOT / "deploy/argocd"
HEALTH = "resource.customizations.health.slipway.dev_SliceJob"
HISTORIES = 100


def documents(*names: str) -> list[Any]:
    return [body for name in names for body in yaml.safe_load_all((ROOT / "deploy" / name).read_text())]


@pytest.fixture(scope="module")
def flux(control_plane: NativeCluster) -> None:
    """The API server knows what Flux's controllers read."""
    found = [crd for crd in crds() if crd["spec"]["group"].endswith("toolkit.fluxcd.io")]
    install_crds(kubectl_for(control_plane, "default"), found)


@pytest.mark.usefixtures("flux")
def test_the_api_server_takes_the_example_of_flux(kubectl: Kubectl) -> None:
    bodies = documents("flux/jobs.yaml", "flux/slipway.yaml")
    known = [body for body in bodies if body["kind"] != "HelmRelease"]
    assert [body["kind"] for body in known] == ["GitRepository", "Kustomization", "GitRepository"]
    for body in known:
        body["metadata"]["namespace"] = kubectl.namespace
        kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=body)


@pytest.mark.timeout(1800)
def test_the_chart_takes_the_values_of_the_examples(helm: Helm) -> None:
    [application] = documents("argocd/slipway.yaml")
    [release] = [body for body in documents("flux/slipway.yaml") if body["kind"] == "HelmRelease"]
    where = application["spec"]["source"]
    assert where["path"] == release["spec"]["chart"]["spec"]["chart"] == str(CHART.relative_to(ROOT))
    for values in (where["helm"]["valuesObject"], release["spec"]["values"]):
        assert helm.template(values)


def replaced(kubectl: Kubectl, image: str) -> str:
    """What a tool does to a job of the same name and another image when it may force the change; the job's UID."""
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    kubectl("replace", "--force", "-f", "-", stdin=body | {"spec": {"image": image}})
    return str(kubectl.get("sj", "train")["metadata"]["uid"])


def test_a_change_of_an_immutable_field_takes_a_forced_replacement(kubectl: Kubectl) -> None:
    job = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    kubectl.apply(job | {"spec": {"image": "acme/train:1"}})
    before = kubectl.get("sj", "train")["metadata"]["uid"]
    for tool in ("argocd-controller", "kustomize-controller"):
        force = ("--force-conflicts", f"--field-manager={tool}")
        assert "image cannot change after creation" in kubectl.refuses(
            job | {"spec": {"image": "acme/train:2"}}, *force
        )
    assert kubectl.get("sj", "train")["metadata"]["uid"] == before
    assert replaced(kubectl, "acme/train:2") != before
    # What the documentation tells the tools for that.
    said = (ROOT / "docs/gitops.md").read_text()
    [jobs] = documents("argocd/jobs.yaml")
    assert "ApplyOutOfSyncOnly=true" in jobs["spec"]["syncPolicy"]["syncOptions"]
    assert "argocd.argoproj.io/sync-options: Force=true,Replace=true" in said
    assert "kustomize.toolkit.fluxcd.io/force: enabled" in said


@pytest.fixture(scope="module")
def health() -> Callable[[Any], dict[str, str]]:
    """Argo CD's verdict on an object: Lua 5.1, as in Argo CD, with the object as the variable `obj`."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    script = yaml.safe_load((ARGOCD / "argocd-cm.yaml").read_text())["data"][HEALTH]

    def judge(body: Any) -> dict[str, str]:
        lua.globals()["obj"] = lua.table_from(body, recursive=True)
        return dict(lua.execute(script))

    return judge


def body_of(status: SliceJobStatus, generation: int = 1) -> dict[str, Any]:
    written = json.loads(status.model_dump_json(by_alias=True, exclude_none=True))
    return {"metadata": {"generation": generation}, "status": written}


def kstatus(body: dict[str, Any]) -> str:
    """The rules of kstatus for custom resources, which Flux follows."""
    status = body["status"]
    if status.get("observedGeneration", 1) != body["metadata"]["generation"]:
        return "in progress"
    for condition in status.get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return {"Reconciling": "in progress", "Stalled": "failed"}[condition["type"]]
    return "current"


RUNS = ("Healthy", "current")
WAITS = ("Progressing", "in progress")
ENDS_BADLY = ("Degraded", "failed")
VERDICTS: dict[Phase | None, tuple[str, str]] = {
    None: WAITS,
    Phase.PENDING: WAITS,
    Phase.QUEUED: WAITS,
    Phase.WAITING_FOR_CAPACITY: WAITS,
    Phase.STARTING: WAITS,
    Phase.RESTARTING: WAITS,
    Phase.RUNNING: RUNS,
    Phase.SUCCEEDED: RUNS,
    Phase.SUSPENDED: ("Suspended", "current"),
    Phase.CANCELLED: ("Suspended", "failed"),
    Phase.FAILED: ENDS_BADLY,
    Phase.PREEMPTED: ENDS_BADLY,
    Phase.INVALID: ENDS_BADLY,
}
"""Of Argo CD and of kstatus, for a job whose pods all do as they are told."""


def changes() -> Iterator[World]:
    """Random histories, whenever the phase has changed."""
    done = World(slices=1, hosts=1).run()
    done.pod(0, 0).exits(0)
    done.settle()
    random = (history(Random(seed)) for seed in range(HISTORIES))
    # Few random histories end well.
    steps = chain([(Phase.RUNNING, done)], *random)
    return (world for before, world in steps if world.status.phase is not before)


def test_argo_cd_and_flux_judge_every_phase_as_docs_gitops_says(health: Any) -> None:
    met = set()
    for world in changes():
        body, phase = body_of(world.status), world.status.phase
        pending, accepted = (world.condition(kind) for kind in ("CleanupPending", "Accepted"))
        if (pending and pending.status == "True") or (accepted and accepted.status == "False"):
            assert health(body)["status"] in ("Degraded", VERDICTS[phase][0])
            continue
        assert (health(body)["status"], kstatus(body)) == VERDICTS[phase], (phase, body)
        met.add(phase)
    assert met | {Phase.INVALID} == set(VERDICTS) - {None}


def test_the_message_is_that_of_the_condition_that_decides(health: Any) -> None:
    world = World(slices=1, hosts=2, retries={"maxFailures": 1}).run()
    running = world.condition(ConditionType.RUNNING)
    assert running is not None
    assert health(body_of(world.status)) == {"status": "Healthy", "message": running.message}
    world.pod(0, 1).exits(3)
    world.until_restarted()
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert health(body_of(world.status)) == {"status": "Degraded", "message": stalled.message}


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"generation": 1}},
        {"metadata": {"generation": 1}, "status": {"observedGeneration": UNSEEN}},
        body_of(World().run().status, generation=2),
    ],
    ids=["no status", "no operator has seen it", "a change that no operator has seen"],
)
def test_what_no_operator_has_seen_is_in_progress(health: Any, body: dict[str, Any]) -> None:
    assert health(body)["status"] == "Progressing"
    assert kstatus({"status": {"observedGeneration": UNSEEN}} | body) == "in progress"


def test_argo_cd_waits_for_the_head_of_a_kept_ray_cluster(health: Any) -> None:
    body = body_of(World().run().status)
    ready = {"type": "Ready", "status": "False", "message": "the Ray head does not answer"}
    body["status"]["conditions"].append(ready)
    assert health(body) == {"status": "Progressing", "message": ready["message"]}
    ready["status"] = "True"
    assert health(body)["status"] == "Healthy"


def test_the_health_check_is_added_to_the_settings_of_argo_cd(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example.com")
    kubectl("patch", "configmap", "argocd-cm", "--patch-file", str(ARGOCD / "argocd-cm.yaml"))
    assert kubectl.get("configmap", "argocd-cm")["data"].keys() == {"url", HEALTH}
