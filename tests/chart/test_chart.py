"""The chart renders what a real API server takes, refuses values it does not know, and grants what is needed only."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest
import yaml

from slipway.api.names import LABEL_OPERATOR_ID, MAX_PODS, is_dns_label, is_dns_subdomain, lease_of
from slipway.api.profile import ProfileSpec
from slipway.controller.lease import DEFAULT_TIMES
from slipway.controller.settings import OperatorSettings, read_settings
from slipway.core.model.job import OPERATOR_IMAGE
from slipway.devcluster import NativeCluster
from slipway.version import VERSION
from tests.chart.conftest import CHART, Helm
from tests.chart.foreign import crds
from tests.clusters import install_crds, kubectl_for
from tests.core.validation.test_refusals import FREE, SOCKETS
from tests.core.validation.test_site import LENT_BY_DEFAULT, LIMITED, ON_ACCELERATORS, OPEN, PORT_OF_NODE
from tests.kubectl import Kubectl
from tests.places import CRD, CRDS, ROOT
from tests.sdk import caller
from tests.stages import thorough_but
from tests.waiting import ANSWER_SECONDS, until

# The first one may have to build Helm: six minutes on two processors with nothing cached.
pytestmark = pytest.mark.timeout(1800)

TOLERATION = {"key": "dedicated", "operator": "Exists"}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
SPREAD = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}

EVERYTHING: dict[str, Any] = {
    "image": {"repository": "localhost:5000/acme/slipway", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "nodeSelector": {"pool": "system"},
    "tolerations": [TOLERATION],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [SPREAD],
    "labels": {"team": "platform"},
    "annotations": {"example.com/owner": "Platform Team"},
    "podLabels": {"mesh": "off"},
    "podAnnotations": {"example.com/scrape": "yes, please"},
    "extraEnv": [{"name": "SLIPWAY_LEASE_NAMESPACE", "value": "leases"}],
    "extraArgs": ["--context=none"],
    "log": {"level": "debug", "format": "json"},
    "lease": {"durationSeconds": 120, "renewDeadlineSeconds": 100, "retryPeriodSeconds": 5},
    "networkPolicy": {"apiServerPorts": [8443]},
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1.5, "memory": "1.5Gi"}},
    "priorityClassName": "system-cluster-critical",
    "operatorId": "blue",
    "coordinatorPort": 9000,
    "topologyKey": "example.com/slice",
    "maxPods": 500,
    "readSecrets": True,
    "readLogs": True,
    "site": {"defaults": {"image": "train:1", "shmSize": "1Gi"}, "limits": {"maxSlices": 4, "hostPaths": ["/data"]}},
    "limitsPolicy": {"namespaceSelector": {}},
    "metrics": {
        "port": 9090,
        "serviceMonitor": {"enabled": True},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "global": {"anything": True},
}

VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": EVERYTHING,
    "no CRD": {"crds": {"install": False}},
    "some namespaces": {"namespaces": ["kube-public", "default"], "readNodes": True},
    "nothing outside of namespaces": {"namespaces": ["kube-public"], "crds": {"install": False}},
    "other names": {"nameOverride": "tpu"},
    "no NetworkPolicy": {"networkPolicy": {"enabled": False}},
    "no resources": {"resources": None},
    "paused": {"replicas": 0},
    "no metrics": {"metrics": {"enabled": False}},
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown value": ({"replica": 2}, "'replica' not allowed"),
    "unknown value below": ({"crds": {"instal": True}}, "'instal' not allowed"),
    "no image": ({"image": None}, "'image'"),
    "no log": ({"log": None}, "'log'"),
    "no kueue": ({"kueue": None}, "'kueue'"),
    "no networkPolicy": ({"networkPolicy": None}, "'networkPolicy'"),
    "no limitsPolicy": ({"limitsPolicy": None}, "'limitsPolicy'"),
    "no metrics": ({"metrics": None}, "'metrics'"),
    "no ports of the API server": ({"networkPolicy": {"apiServerPorts": None}}, "'apiServerPorts'"),
    "no repository": ({"image": {"repository": None}}, "'repository'"),
    "empty repository": ({"image": {"repository": ""}}, "/image/repository"),
    "tag in the repository": ({"image": {"repository": "ghcr.io/acme/slipway:1"}}, "/image/repository"),
    "slash after the repository": ({"image": {"repository": "ghcr.io/acme/"}}, "/image/repository"),
    "repository in upper case": ({"image": {"repository": "ghcr.io/Acme/slipway"}}, "/image/repository"),
    "tag is a number": ({"image": {"tag": 1.1}}, "/image/tag"),
    "digest without its algorithm": ({"image": {"digest": "0" * 64}}, "/image/digest"),
    "digest in the tag": ({"image": {"tag": "1@sha256:" + "0" * 64}}, "/image/tag"),
    "replicas -1": ({"replicas": -1}, "/replicas"),
    "replicas two": ({"replicas": "two"}, "/replicas"),
    "replicas 1.5": ({"replicas": 1.5}, "/replicas"),
    "pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    "secret by its name": ({"imagePullSecrets": ["registry"]}, "/imagePullSecrets/0"),
    "namespaces by commas": ({"namespaces": "a,b"}, "/namespaces"),
    "namespace in upper case": ({"namespaces": ["Team"]}, "/namespaces/0"),
    "namespace twice": ({"namespaces": ["a", "a"]}, "/namespaces"),
    "name too long": ({"fullnameOverride": "a" * 54}, "/fullnameOverride"),
    "label with a blank": ({"podLabels": {"a": "b c"}}, "/podLabels/a"),
    "annotation is a number": ({"annotations": {"a": 1}}, "/annotations/a"),
    "unknown part of a toleration": ({"tolerations": [{"name": "a"}]}, "/tolerations/0"),
    "unknown affinity": ({"affinity": {"hostAffinity": {}}}, "'hostAffinity' not allowed"),
    "spread over nothing": ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "/topologySpreadConstraints/0"),
    "environment as a mapping": ({"extraEnv": {"A": "b"}}, "/extraEnv"),
    "argument without dashes": ({"extraArgs": ["context"]}, "/extraArgs/0"),
    "unknown log level": ({"log": {"level": "trace"}}, "/log/level"),
    "unknown log format": ({"log": {"format": "xml"}}, "/log/format"),
    "no lease": ({"lease": None}, "'lease'"),
    "a Lease of 0 s": ({"lease": {"durationSeconds": 0}}, "/lease/durationSeconds"),
    "a Lease of a second and a half": ({"lease": {"durationSeconds": 1.5}}, "/lease/durationSeconds"),
    "a deadline at the end of the Lease": (
        {"lease": {"durationSeconds": 8, "renewDeadlineSeconds": 8}},
        "lease.renewDeadlineSeconds 8 is too long for lease.durationSeconds 8: at most nine tenths of it",
    ),
    "a deadline too near the end of the Lease": (
        {"lease": {"durationSeconds": 100, "renewDeadlineSeconds": 91}},
        "lease.renewDeadlineSeconds 91 is too long for lease.durationSeconds 100: at most nine tenths of it",
    ),
    "too few tries before the deadline": (
        {"lease": {"durationSeconds": 15, "renewDeadlineSeconds": 10, "retryPeriodSeconds": 4}},
        "lease.retryPeriodSeconds 4 is too long for lease.renewDeadlineSeconds 10: at most a third of it",
    ),
    "no port of the API server": ({"networkPolicy": {"apiServerPorts": []}}, "/networkPolicy/apiServerPorts"),
    "resources misspelt": ({"resources": {"request": {"cpu": 1}}}, "'request' not allowed"),
    "no quantity": ({"resources": {"limits": {"memory": "lots"}}}, "/resources/limits/memory"),
    "quantity in K": ({"resources": {"limits": {"memory": "524288K"}}}, "/resources/limits/memory"),
    "negative quantity": ({"resources": {"limits": {"cpu": -1}}}, "/resources/limits/cpu"),
    "priority is a number": ({"priorityClassName": 1000}, "/priorityClassName"),
    "priority in upper case": ({"priorityClassName": "High"}, "/priorityClassName"),
    "an id in upper case": ({"operatorId": "Blue"}, "/operatorId"),
    "port 0": ({"coordinatorPort": 0}, "/coordinatorPort"),
    "port 70000": ({"coordinatorPort": 70000}, "/coordinatorPort"),
    "port as text": ({"coordinatorPort": "8081"}, "/coordinatorPort"),
    "two slashes in a label": ({"topologyKey": "a/b/c"}, "/topologyKey"),
    "readSecrets is text": ({"readSecrets": "true"}, "/readSecrets"),
    "readLogs is text": ({"readLogs": "true"}, "/readLogs"),
    "no maxPods": ({"maxPods": None}, "'maxPods'"),
    "maxPods 0": ({"maxPods": 0}, "/maxPods"),
    "unknown default": ({"site": {"defaults": {"command": ["sh"]}}}, "'command' not allowed"),
    "a limit that is no limit": ({"site": {"limits": {"maxSlice": 4}}}, "'maxSlice' not allowed"),
    "no slices at all": ({"site": {"limits": {"maxSlices": 0}}}, "/site/limits/maxSlices"),
    "a relative hostPath": ({"site": {"limits": {"hostPaths": ["data"]}}}, "/site/limits/hostPaths"),
    "an image that is a number": ({"site": {"defaults": {"image": 7}}}, "/site/defaults/image"),
    "labels of a selector misspelt": (
        {"limitsPolicy": {"namespaceSelector": {"matchLabel": {"team": "a"}}}},
        "'matchLabel' not allowed",
    ),
    "an unknown operator of a selector": (
        {"limitsPolicy": {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Equals"}]}}},
        "/limitsPolicy/namespaceSelector/matchExpressions/0/operator",
    ),
    "metrics at the port of the probes": ({"metrics": {"port": 8080}}, "/metrics/port"),
    "an interval without a unit": ({"metrics": {"podMonitor": {"interval": "30"}}}, "/metrics/podMonitor/interval"),
    "a namespace of Kueue in upper case": ({"kueue": {"namespace": "Kueue"}}, "/kueue/namespace"),
    "install maybe": ({"crds": {"install": "maybe"}}, "/crds/install"),
}


def one(objects: Sequence[Any], kind: str) -> Any:
    (found,) = [body for body in objects if body["kind"] == kind]
    return found


def named(objects: Sequence[Any], name: str) -> Any:
    """The role with that name."""
    (found,) = [
        body for body in objects if body["kind"] in ("Role", "ClusterRole") and body["metadata"]["name"] == name
    ]
    return found


def test_the_bound_on_pods_is_the_only_such_number_in_the_crd() -> None:
    # The chart puts its own in place of it.
    assert CRD.read_text().count(str(MAX_PODS)) == 2
    assert yaml.safe_load((CHART / "values.yaml").read_text())["maxPods"] == MAX_PODS


def test_the_lease_has_the_times_of_the_operator() -> None:
    given = yaml.safe_load((CHART / "values.yaml").read_text())["lease"]
    times = (DEFAULT_TIMES.duration, DEFAULT_TIMES.deadline, DEFAULT_TIMES.retry)
    assert (given["durationSeconds"], given["renewDeadlineSeconds"], given["retryPeriodSeconds"]) == times


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_image_is_built_from_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = (ROOT / "operator/Dockerfile").read_text().splitlines()
    copied = {
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    }
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    metadata = project["project"]
    assert copied >= {"operator", metadata["readme"], *metadata["license-files"], *wheel["force-include"]}
    assert all((ROOT / name).exists() for name in copied)


NOTES: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "default": (
        {},
        ("serves the SliceJobs of all namespaces", "helm test tpu --namespace default", "kubectl delete crd slicejobs"),
        ("paused",),
    ),
    "paused": ({"replicas": 0}, ("It is paused", "scale deployment/tpu-slipway --replicas=2"), ("helm test",)),
    "some namespaces": (
        {"namespaces": ["a", "b"], "crds": {"install": False}},
        ("serves the SliceJobs of a, b.",),
        ("kubectl delete crd",),
    ),
}


@pytest.mark.parametrize(("values", "said", "unsaid"), NOTES.values(), ids=NOTES)
def test_the_notes_name_the_next_command(
    helm: Helm, values: dict[str, Any], said: Sequence[str], unsaid: Sequence[str]
) -> None:
    notes = helm("install", "tpu", str(CHART), "--dry-run=client", values=values).stdout.partition("NOTES:")[2]
    assert [words for words in said if words not in notes] == []
    assert [words for words in unsaid if words in notes] == []


def test_the_rights_of_the_test_are_there_before_its_pod(helm: Helm) -> None:
    hooks = [body for body in helm.template(EVERYTHING) if "helm.sh/hook" in body["metadata"]["annotations"]]
    weights = {body["kind"]: int(body["metadata"]["annotations"]["helm.sh/hook-weight"]) for body in hooks}
    assert max(of for kind, of in weights.items() if kind != "Pod") < weights["Pod"]


def test_lint(helm: Helm) -> None:
    helm("lint", "--strict", str(CHART))


@pytest.fixture(scope="module")
def monitors(control_plane: NativeCluster) -> None:
    """The API server knows what the Prometheus operator reads, too."""
    kubectl = kubectl_for(control_plane, "default")
    found = [crd for crd in crds() if crd["spec"]["group"] == "monitoring.coreos.com"]
    install_crds(kubectl, found)


@pytest.mark.usefixtures("monitors")
@pytest.mark.parametrize("chosen", thorough_but({"default", "everything"}, VALUES))
def test_api_server_takes_every_object(helm: Helm, kubectl: Kubectl, chosen: str) -> None:
    values = VALUES[chosen]
    # Pod Security does not refuse a Deployment, but it warns of one whose pods it would refuse.
    kubectl("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/warn=restricted")
    objects = helm.template(values, namespace=kubectl.namespace)
    by_namespace: dict[str, list[Any]] = {}
    for one in objects:
        by_namespace.setdefault(one["metadata"].get("namespace", kubectl.namespace), []).append(one)
        if one["kind"] == "Pod":
            # A dry run leaves no ServiceAccount behind for the pod that needs one.
            kubectl("create", "serviceaccount", one["spec"]["serviceAccountName"])
    for namespace, some in by_namespace.items():
        stream = "\n---\n".join(map(json.dumps, some))
        where = ("--namespace", namespace, "-f", "-")
        strict = ("--dry-run=server", "--validate=strict", "--force-conflicts")
        done = kubectl("apply", "--server-side", *strict, *where, stdin=stream)
        assert len(done.stdout.splitlines()) == len(some)
        assert "Warning" not in done.stderr


@pytest.mark.parametrize(("values", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_values_are_refused(helm: Helm, values: dict[str, Any], said: str) -> None:
    done = helm("template", "slipway", str(CHART), values=values, check=False)
    assert done.returncode != 0, "accepted"
    assert said in done.stderr


EMPTY: dict[str, dict[str, Any]] = {
    "labels and annotations": {"labels": None, "annotations": None, "podLabels": None, "podAnnotations": None},
    "site": {"site": None},
    "defaults of the site": {"site": {"defaults": None}},
    "limits of the site": {"site": {"limits": None}},
}
"""Sections whose lines are all commented out."""


@pytest.mark.parametrize("values", EMPTY.values(), ids=EMPTY)
def test_an_empty_section_is_as_good_as_none(helm: Helm, values: dict[str, Any]) -> None:
    def with_site(objects: list[Any]) -> tuple[ProfileSpec, list[Any]]:
        [container] = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        environment = {one["name"]: one["value"] for one in container.pop("env")}
        return read_settings(environment=environment).site, objects

    assert with_site(helm.template(values)) == with_site(helm.template())


class UniqueKeys(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, as kustomize does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Read a mapping."""
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"{keys} in line {node.start_mark.line + 1}"
        return super().construct_mapping(node, deep)


def test_no_label_stands_twice_in_an_object(helm: Helm) -> None:
    own = {"team": "mine", "app.kubernetes.io/version": "mine"}
    monitors = {"serviceMonitor": "ServiceMonitor", "podMonitor": "PodMonitor", "prometheusRule": "PrometheusRule"}
    metrics = {name: {"enabled": True, "labels": own} for name in (*monitors, "dashboard")}
    values = {"labels": {"team": "all"}, "podLabels": own, "metrics": metrics}
    rendered = helm("template", "slipway", str(CHART), values=values).stdout
    objects = [body for body in yaml.load_all(rendered, UniqueKeys) if body]
    labelled = [one(objects, kind) for kind in (*monitors.values(), "ConfigMap")]
    labelled.append(one(objects, "Deployment")["spec"]["template"])
    for body in labelled:
        assert body["metadata"]["labels"].items() >= own.items()
        assert body["metadata"]["labels"]["app.kubernetes.io/name"] == "slipway"
    assert one(objects, "NetworkPolicy")["metadata"]["labels"]["team"] == "all"


def test_the_objects_of_the_test_have_the_labels_that_are_given(helm: Helm) -> None:
    given = {"example.com/team-name": "slipway"}
    hooks = [
        body for body in helm.template({"labels": given}) if "helm.sh/hook" in body["metadata"].get("annotations", {})
    ]
    assert hooks
    for body in hooks:
        assert body["metadata"]["labels"].items() >= (given | {"app.kubernetes.io/name": "slipway-test"}).items()


def test_default_objects(helm: Helm) -> None:
    objects = helm.template()
    deployment = one(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["args"] == [
        f"--health-port={container['ports'][0]['containerPort']}",
        f"--metrics-port={container['ports'][1]['containerPort']}",
        f"--max-pods={MAX_PODS}",
        f"--lease-duration={DEFAULT_TIMES.duration}",
        f"--renew-deadline={DEFAULT_TIMES.deadline:g}",
        f"--retry-period={DEFAULT_TIMES.retry:g}",
        f"--image={container['image']}",
        "--log-level=info",
        "--log-format=text",
    ]
    assert container["image"] == OPERATOR_IMAGE
    assert container["env"] == [{"name": "SLIPWAY_SITE", "value": '{"defaults":{},"limits":{}}'}]
    assert "priorityClassName" not in pod
    assert {one["topologyKey"] for one in pod["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    selected = {"app.kubernetes.io/name": "slipway", "app.kubernetes.io/instance": "slipway"}
    for spread in pod["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == selected
    assert deployment["spec"]["template"]["metadata"]["labels"].items() >= selected.items()
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["resources"]["limits"].keys() == {"cpu", "memory", "ephemeral-storage"}


DIGEST = "sha256:" + "0a" * 32
UPPER_CASE = "Registry.Example.com/acme/tpu__slipway:1"
IMAGES: dict[str, tuple[dict[str, str], str]] = {
    "default": ({}, OPERATOR_IMAGE),
    "a tag": ({"repository": "acme/slipway", "tag": "1"}, "acme/slipway:1"),
    "a registry in upper case": ({"repository": "Registry.Example.com/acme/tpu__slipway", "tag": "1"}, UPPER_CASE),
    "a digest": ({"digest": DIGEST}, f"{OPERATOR_IMAGE}@{DIGEST}"),
    "both": ({"repository": "localhost:5000/a", "tag": "1", "digest": DIGEST}, f"localhost:5000/a:1@{DIGEST}"),
}


@pytest.mark.parametrize(("given", "image"), IMAGES.values(), ids=IMAGES)
def test_every_pod_runs_the_image_that_is_named(helm: Helm, given: dict[str, str], image: str) -> None:
    objects = helm.template({"image": given})
    [container] = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    [test] = one(objects, "Pod")["spec"]["containers"]
    assert (container["image"], test["image"]) == (image, image)
    # For the pods of jobs.
    assert f"--image={image}" in container["args"]
    assert read_settings(environment={"SLIPWAY_IMAGE": image}).image == image


def test_a_single_pod_has_no_disruption_budget(helm: Helm) -> None:
    assert "PodDisruptionBudget" not in {body["kind"] for body in helm.template({"replicas": 1})}


def test_the_network_policy_covers_every_pod_and_its_ports(helm: Helm) -> None:
    objects = helm.template()
    policy = one(objects, "NetworkPolicy")["spec"]
    [expression] = policy["podSelector"]["matchExpressions"]
    pods = [one(objects, "Deployment")["spec"]["template"], one(objects, "Pod")]
    assert {pod["metadata"]["labels"][expression["key"]] for pod in pods} == set(expression["values"])
    opened = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert opened == {port["name"] for port in pods[0]["spec"]["containers"][0]["ports"]}
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 443, 6443]
    assert "NetworkPolicy" not in {body["kind"] for body in helm.template({"networkPolicy": {"enabled": False}})}


def test_every_value_arrives(helm: Helm) -> None:
    objects = helm.template(EVERYTHING)
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "localhost:5000/acme/slipway:1.2.3"
    assert "--image=localhost:5000/acme/slipway:1.2.3" in container["args"]
    assert container["resources"]["limits"] == {"cpu": 1.5, "memory": "1.5Gi", "ephemeral-storage": "128Mi"}
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["COORD_PORT"] == "9000"
    site = read_settings(environment=environment).site
    assert (site.defaults.image, site.limits.max_slices, site.limits.host_paths) == ("train:1", 4, ("/data",))
    assert "--topology-key=example.com/slice" in container["args"]
    assert "--read-secrets=true" in container["args"]
    role = named(objects, "slipway")
    assert {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]} in role["rules"]
    assert {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]} in role["rules"]
    assert {"--max-pods=500", "--lease-duration=120", "--renew-deadline=100", "--retry-period=5"} <= set(
        container["args"]
    )
    assert "--operator-id=blue" in container["args"]
    assert "--operator-id=blue" in one(objects, "Pod")["spec"]["containers"][0]["args"]
    assert [rule["resourceNames"] for rule in named(objects, "slipway-leader")["rules"] if "resourceNames" in rule] == [
        [lease_of("blue")]
    ]
    assert "--metrics-port=9090" in container["args"]
    assert any("<= 500" in json.dumps(body) for body in objects if body["kind"] == "CustomResourceDefinition")
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert one(objects, "Deployment")["spec"]["replicas"] == 3
    assert container["imagePullPolicy"] == "Always"
    assert (pod["imagePullSecrets"], pod["nodeSelector"]) == ([{"name": "registry"}], {"pool": "system"})
    assert (pod["tolerations"], pod["affinity"]) == ([TOLERATION], AFFINITY)
    [spread] = pod["topologySpreadConstraints"]
    assert spread.items() >= SPREAD.items()
    assert environment["SLIPWAY_LEASE_NAMESPACE"] == "leases"
    assert container["args"][-3:] == ["--log-level=debug", "--log-format=json", "--context=none"]
    template = one(objects, "Deployment")["spec"]["template"]["metadata"]
    assert template["labels"].items() >= {"team": "platform", "mesh": "off"}.items()
    assert template["annotations"] == {"example.com/scrape": "yes, please"}
    assert one(objects, "NetworkPolicy")["spec"]["egress"][1] == {"ports": [{"port": 8443}]}
    for body in objects:
        assert body["metadata"]["labels"]["team"] == "platform"
        assert body["metadata"]["annotations"]["example.com/owner"] == "Platform Team"
    budget = one(objects, "PodDisruptionBudget")["spec"]
    assert budget["selector"] == one(objects, "Deployment")["spec"]["selector"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_crd_is_kept_and_otherwise_untouched(helm: Helm) -> None:
    rendered = [body for body in helm.template() if body["kind"] == "CustomResourceDefinition"]
    for crd in rendered:
        assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        del crd["metadata"]["labels"]
    rendered.sort(key=lambda crd: [known.stem for known in CRDS].index(f"slipway.dev_{crd['spec']['names']['plural']}"))
    assert rendered == [yaml.safe_load(crd.read_text()) for crd in CRDS]


def test_crd_can_be_left_out(helm: Helm) -> None:
    kinds = {body["kind"] for body in helm.template({"crds": {"install": False}})}
    assert "CustomResourceDefinition" not in kinds


NAMES: dict[str, tuple[str, dict[str, str], str]] = {
    "a release of that name": ("slipway", {}, "slipway"),
    "another release": ("tpu", {}, "tpu-slipway"),
    "another name": ("blue", {"nameOverride": "jobs"}, "blue-jobs"),
    "a name of one's own": ("blue", {"nameOverride": "jobs", "fullnameOverride": "tpu"}, "tpu"),
    "a release with a dot": ("v1.2", {}, "v1-2-slipway"),
    "the longest release": ("a" * 53, {}, "a" * 53),
    "a release that leaves no room for more than the dash": ("a" * 52, {}, "a" * 52),
}


@pytest.mark.parametrize(("release", "values", "name"), NAMES.values(), ids=NAMES)
def test_names_and_labels(helm: Helm, release: str, values: dict[str, str], name: str) -> None:
    foreign = {"labels": {"app.kubernetes.io/instance": "mine"}, "podLabels": {"app.kubernetes.io/name": "mine"}}
    for body in helm.template(EVERYTHING | values | foreign, name=release):
        assert body["metadata"]["labels"]["app.kubernetes.io/instance"] == release
        if body["kind"] != "CustomResourceDefinition":
            found = body["metadata"]["name"]
            assert found == name or found.startswith(f"{name}-")
            # What becomes a host name.
            assert is_dns_label(found) if body["kind"] in ("Service", "Pod") else is_dns_subdomain(found)


SERVICES: dict[str, tuple[str, str]] = {
    "a letter": ("slipway", "slipway-metrics"),
    "a digit": ("2-tpus", "n2-tpus-slipway-metrics"),
    "digits, of the greatest length": ("9" * 53, f"n{'9' * 53}-metrics"),
}


@pytest.mark.parametrize(("release", "name"), SERVICES.values(), ids=SERVICES)
def test_the_name_of_the_service_begins_with_a_letter_whatever_the_release_begins_with(
    helm: Helm, release: str, name: str
) -> None:
    service = one(helm.template(EVERYTHING, name=release), "Service")
    assert (service["metadata"]["name"], is_dns_label(name), name[0].isalpha()) == (name, True, True)


OTHER_THAN_TEXT: dict[str, str] = {"a number": "123", "a boolean": "true", "nothing": "null", "an old boolean": "on"}
"""Names that objects and namespaces may have, and that YAML takes for something else unless they are quoted."""
_NAMES: Final = (
    "name",
    "namespace",
    "serviceAccountName",
    "priorityClassName",
    "policyName",
    "app.kubernetes.io/instance",
)


def names_in(body: Any) -> Iterator[Any]:
    """What stands in an object where a name belongs."""
    if isinstance(body, list):
        for each in body:
            yield from names_in(each)
    elif isinstance(body, dict):
        for key, value in body.items():
            if key in _NAMES and not isinstance(value, dict | list):
                yield value
            yield from names_in(value)


@pytest.mark.parametrize("name", OTHER_THAN_TEXT.values(), ids=OTHER_THAN_TEXT)
def test_every_name_is_text_whatever_it_looks_like(helm: Helm, name: str) -> None:
    names = {"fullnameOverride": name, "namespaces": [name], "priorityClassName": name, "operatorId": name}
    kueue = {"namespace": name, "serviceAccount": name}
    values = EVERYTHING | names | {"kueue": kueue, "readNodes": True, "site": {}}
    objects = helm.template(values, name=name, namespace=name)
    of_schemas = [body for body in objects if body["kind"] == "CustomResourceDefinition"]
    found = [*names_in([body for body in objects if body not in of_schemas])]
    found += names_in([body["metadata"] for body in of_schemas])
    assert [one for one in found if not isinstance(one, str)] == []
    assert {body["metadata"]["labels"]["app.kubernetes.io/instance"] for body in objects} == {name}
    deployment = one(objects, "Deployment")
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == (name, name)
    assert deployment["spec"]["template"]["spec"]["priorityClassName"] == name


Needs = dict[str, tuple[str, ...]]

# What the operator does, by what it does it to. `own` is the operator's namespace, `kubelets` that of their Leases, and
# `any` another one.
NEEDED: Needs = {
    "any slipway.dev/slicejobs": ("get", "list", "watch", "delete"),
    "any slipway.dev/slicejobprofiles": ("list", "watch"),
    "any slipway.dev/slicejobs/status": ("patch",),
    "any slipway.dev/slicejobs/finalizers": ("update",),
    "any /pods": ("get", "list", "watch", "create", "delete", "deletecollection"),
    "any /services": ("get", "create", "delete"),
    "any /configmaps": ("get", "create", "patch", "delete"),
    "any /secrets": ("create",),
    "any networking.k8s.io/networkpolicies": ("get", "create", "delete"),
    "any /events": ("create", "list"),
    "any kueue.x-k8s.io/workloads": ("get", "list", "watch", "create", "patch", "delete"),
    "any kueue.x-k8s.io/workloads/status": ("patch",),
    "any kueue.x-k8s.io/localqueues": ("list", "watch"),
    "all kueue.x-k8s.io/clusterqueues": ("list", "watch"),
    "all kueue.x-k8s.io/resourceflavors": ("list", "watch"),
    "all kueue.x-k8s.io/workloadpriorityclasses": ("list", "watch"),
    "all /nodes": ("get", "list", "watch"),
    "all /pods": ("list", "watch"),
    "all slipway.dev/slicejobs": ("list", "watch"),
    "kubelets coordination.k8s.io/leases": ("get",),
    "own coordination.k8s.io/leases": ("create",),
    f"own coordination.k8s.io/leases:{OperatorSettings().lease_name}": ("get", "update"),
}

NOT_NEEDED: Needs = {
    "any /secrets": ("get", "list", "watch", "update", "patch", "delete"),
    "any networking.k8s.io/networkpolicies": ("list", "update", "patch", "deletecollection"),
    "own /secrets": ("get", "list"),
    "any slipway.dev/slicejobs": ("create", "update", "patch", "deletecollection"),
    "any slipway.dev/slicejobprofiles": ("create", "update", "patch", "delete"),
    "any slipway.dev/slicejobs/status": ("update",),
    "any /pods": ("update", "patch"),
    "any /pods/exec": ("get", "create"),
    "any /pods/log": ("get",),
    "any /pods/eviction": ("create",),
    "any /pods/ephemeralcontainers": ("patch",),
    "any /services": ("list", "update", "patch", "deletecollection"),
    "any /configmaps": ("list", "update", "deletecollection"),
    "any /serviceaccounts": ("get", "impersonate"),
    "any /serviceaccounts/token": ("create",),
    "any apps/deployments": ("get", "create"),
    "any /events": ("get", "watch", "delete"),
    "any kueue.x-k8s.io/workloads": ("update", "deletecollection"),
    "any kueue.x-k8s.io/localqueues": ("create", "patch"),
    "all kueue.x-k8s.io/clusterqueues": ("create", "patch"),
    "all kueue.x-k8s.io/resourceflavors": ("create", "patch", "delete"),
    "any coordination.k8s.io/leases": ("create", "get", "update"),
    "own coordination.k8s.io/leases:another": ("get", "update", "delete"),
    "kubelets coordination.k8s.io/leases": ("list", "watch", "create", "update", "patch", "delete"),
    "own coordination.k8s.io/leases": ("list", "delete"),
    "all /nodes": ("create", "update", "patch", "delete"),
    "all /namespaces": ("list", "create", "delete"),
    "all apiextensions.k8s.io/customresourcedefinitions": ("get", "list", "update"),
    "all rbac.authorization.k8s.io/clusterroles": ("get", "create", "bind", "escalate"),
    "all *": ("*",),
}


@dataclass(frozen=True)
class Release:
    """The chart, really installed."""

    kubectl: Kubectl
    name: str

    def token(self) -> str:
        """A token of the operator's ServiceAccount."""
        return self.kubectl("create", "token", self.name).stdout.strip()

    def may(self, flag: str, needs: Needs) -> dict[str, bool]:
        """Ask the API server, as whom `flag` makes kubectl, for all rows at once what `kubectl auth can-i` asks."""
        asked = [(what, verb) for what, verbs in needs.items() for verb in verbs]
        stream = "\n---\n".join(json.dumps(_review(self.kubectl.namespace, *row)) for row in asked)
        template = "jsonpath={.status.allowed}{'\\n'}"
        done = self.kubectl(flag, "create", "--validate=false", "-f", "-", "-o", template, stdin=stream)
        answers = [line == "true" for line in done.stdout.splitlines()]
        return {f"{verb} {what}": answer for (what, verb), answer in zip(asked, answers, strict=True)}


def _review(own: str, what: str, verb: str) -> dict[str, Any]:
    scope, _, rest = what.partition(" ")
    path, _, name = rest.partition(":")
    group, _, resource = path.partition("/")
    resource, _, subresource = resource.partition("/")
    attributes = {
        "namespace": {"own": own, "any": "kube-public", "kubelets": "kube-node-lease", "all": ""}[scope],
        "verb": verb,
        "group": group,
        "resource": resource or "*",
        "subresource": subresource,
        "name": name,
    }
    api = "authorization.k8s.io/v1"
    return {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}


@contextmanager
def installed(helm: Helm, kubectl: Kubectl, values: dict[str, Any]) -> Iterator[Release]:
    """The chart installed in a namespace of its own; without the CRD, which the cluster has, and without pods."""
    name = f"slipway-{uuid4().hex[:8]}"
    where = ("--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace)
    helm("install", name, str(CHART), *where, values={"crds": {"install": False}, "replicas": 0} | values)
    try:
        yield Release(kubectl, name)
    finally:
        helm("uninstall", name, *where)


@pytest.fixture
def release(helm: Helm, kubectl: Kubectl) -> Iterator[Release]:
    """A release that serves all namespaces."""
    with installed(helm, kubectl, {}) as found:
        yield found


def test_an_operator_of_some_namespaces_may_do_its_work_there_and_nothing_elsewhere(
    helm: Helm, kubectl: Kubectl
) -> None:
    outside = ("all ", "kubelets ")
    here = {what: verbs for what, verbs in NEEDED.items() if not what.startswith(outside)}
    elsewhere = {what.replace("any ", "own "): verbs for what, verbs in here.items() if what.startswith("any ")}
    everywhere = {what: verbs for what, verbs in NEEDED.items() if what.startswith(outside)}
    with installed(helm, kubectl, {"namespaces": ["kube-public"]}) as release:
        flag = f"--token={release.token()}"
        settles(lambda: wrong(release, flag, here, elsewhere | everywhere | NOT_NEEDED), ([], []))


def test_a_release_of_some_namespaces_without_crds_needs_no_rights_outside_of_namespaces(helm: Helm) -> None:
    values: dict[str, Any] = {"namespaces": ["team-a", "team-b"], "crds": {"install": False}}
    objects = helm.template(values, namespace="team-a")
    assert {body["metadata"].get("namespace") for body in objects} == {"team-a", "team-b"}
    added = [body for body in helm.template(values | {"readNodes": True}, namespace="team-a") if body not in objects]
    [role] = [body for body in added if body["kind"] == "ClusterRole"]
    flavors = {"apiGroups": ["kueue.x-k8s.io"]}
    flavors |= {"resources": ["clusterqueues", "resourceflavors", "workloadpriorityclasses"]}
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        flavors | {"verbs": ["list", "watch"]},
    ]
    assert {body["metadata"].get("namespace") for body in added} == {None, "kube-node-lease"}


def test_releases_of_different_names_have_no_object_in_common(helm: Helm) -> None:
    def rendered(name: str) -> set[tuple[str, str | None, str]]:
        values = {"namespaces": ["team"], "crds": {"install": False}, "readNodes": True, "operatorId": name}
        metadata = ((body["kind"], body["metadata"]) for body in helm.template(values, name=name, namespace="team"))
        return {(kind, one.get("namespace"), one["name"]) for kind, one in metadata}

    assert rendered("blue") & rendered("green") == set()


def test_kueue_may_read_slicejobs_where_its_namespace_is_named(helm: Helm) -> None:
    before = helm.template({})
    [role, binding] = [body for body in helm.template({"kueue": {"namespace": "kueue-system"}}) if body not in before]
    assert role["rules"] == [
        {"apiGroups": ["slipway.dev"], "resources": ["slicejobs"], "verbs": ["get", "list", "watch"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("kueue-controller-manager", "kueue-system")


def test_the_policies_of_a_release_hold_where_it_serves(helm: Helm) -> None:
    served = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}
    bindings = [one for one in helm.template({"namespaces": ["team-a"]}) if one["kind"].endswith("PolicyBinding")]
    assert len(bindings) == 3
    for one in bindings:
        assert one["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"] == [served]


LABELLED = {"matchLabels": {"slipway.dev/limits": "enforced"}}
CHOSEN = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
SELECTORS: dict[str, tuple[dict[str, Any], Any]] = {
    "none": ({}, LABELLED),
    "null": ({"namespaceSelector": None}, LABELLED),
    "that of all namespaces": ({"namespaceSelector": {}}, {}),
    "expressions only": ({"namespaceSelector": CHOSEN}, CHOSEN),
    "other labels": ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {"matchLabels": {"team": "a"}}),
}


@pytest.mark.parametrize(("given", "rendered"), SELECTORS.values(), ids=SELECTORS)
def test_the_policies_of_the_limits_hold_where_the_selector_says(
    helm: Helm, given: dict[str, Any], rendered: dict[str, Any]
) -> None:
    bindings = {
        body["metadata"]["name"]: body["spec"]["matchResources"]["namespaceSelector"]
        for body in helm.template({"limitsPolicy": given})
        if body["kind"].endswith("PolicyBinding") and body["metadata"]["name"].endswith("limits")
    }
    assert bindings == {"slipway-site-limits": rendered, "slipway-profile-limits": rendered}


@pytest.mark.parametrize("operator_id", ["", "blue"], ids=["no id", "an id"])
def test_the_limits_of_a_release_hold_for_the_jobs_of_all_operators(helm: Helm, operator_id: str) -> None:
    # The author of a job chooses the operator by a label, and may not choose the laxer limits with it.
    bindings = [one for one in helm.template({"operatorId": operator_id}) if one["kind"].endswith("PolicyBinding")]
    assert len(bindings) == 3
    assert [one for one in bindings if "objectSelector" in one["spec"].get("matchResources", {})] == []


def test_operator_may_do_its_work_and_nothing_else(release: Release) -> None:
    flag = f"--token={release.token()}"
    said = release.kubectl(flag, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").stdout
    assert said == f"system:serviceaccount:{release.kubectl.namespace}:{release.name}"
    settles(lambda: wrong(release, flag, NEEDED, NOT_NEEDED), ([], []))


def wrong(release: Release, flag: str, needed: Any, not_needed: Any) -> tuple[list[str], list[str]]:
    """What is refused of that which is needed, and what is allowed of that which is not."""
    refused = [row for row, allowed in release.may(flag, needed).items() if not allowed]
    return refused, [row for row, allowed in release.may(flag, not_needed).items() if allowed]


OPERATOR = ("slipway", "slipway-leader", "slipway-kubelets")
"""The roles of the operator in a release of all namespaces."""


def test_every_granted_verb_is_needed(helm: Helm) -> None:
    """The tables above name all that the roles grant, so a new verb needs a row there."""
    granted = {
        f"{verb} {group}/{resource}"
        for body in helm.template()
        if body["kind"] in ("ClusterRole", "Role") and body["metadata"]["name"] in OPERATOR
        for rule in body["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = {f"{verb} {what.split(' ')[1].split(':')[0]}" for what, verbs in NEEDED.items() for verb in verbs}
    assert granted == needed


READ = {"get", "list", "watch"}
WRITE = {"create", "update", "patch", "delete", "deletecollection"}
PEOPLE = {"view": READ, "edit": READ | WRITE, "admin": READ | WRITE}


# The resources of the rules above, as `Needs`.
CALLED: Needs = {
    f"own {group}/{resource}": tuple(rule["verbs"])
    for rule in caller.RULES
    for group in rule["apiGroups"]
    for resource in rule["resources"]
}
NOT_CALLED: Needs = {
    "own slipway.dev/slicejobs": ("patch", "deletecollection"),
    "own slipway.dev/slicejobs/status": ("patch", "update"),
    "own /secrets": ("get", "list", "watch", "update", "patch", "delete"),
    "own /pods": ("get", "create", "delete"),
    "own /pods/portforward": ("get", "create"),
    "any slipway.dev/slicejobs": ("get", "create"),
    "any /secrets": ("create",),
    "any /pods/exec": ("get", "create"),
    "all /nodes": ("get",),
}


def socket_job(path: Any, where: str) -> dict[str, Any]:
    # What is null is not there.
    others = [{"name": "scratch", "emptyDir": {}, "hostPath": None}]
    volumes = {"volumes": [*others, {"name": "run", "hostPath": {"path": path}}]}
    places = {"template": {"podTemplate": {"spec": volumes}}, "workspace": {"workspace": {"hostPath": {"path": path}}}}
    spec = {"image": "busybox:1"} | places.get(where, volumes)
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": spec}


@pytest.mark.row("B-25")
def test_the_api_server_refuses_sockets_of_engines_where_the_operator_does(release: Release) -> None:  # F-44
    def refusal(path: Any, where: str) -> str:
        return release.kubectl.says_to(socket_job(path, where))

    # The API server notices a new policy after a moment.
    settles(lambda: "hostPath.path / gives" in refusal("/", "spec"), True)
    # Kubernetes itself refuses pods with `..`; only the operator makes sense of `.`.
    plain = {path: "/." not in path for path in SOCKETS.values()}
    for where in ("spec", "template", "workspace"):
        assert [
            path for path in plain if plain[path] and "the socket of the container engine" not in refusal(path, where)
        ] == []
        free = [path for path in FREE.values() if isinstance(path, str) and (where != "workspace" or path[0] == "/")]
        assert [path for path in free if refusal(path, where)] == []


def test_the_kubelet_expands_nothing_in_the_defaults_of_the_site(helm: Helm) -> None:
    given = {"site": {"defaults": {"env": [{"name": "A", "value": "$(HOME) $$(B)"}]}}}
    (container,) = one(helm.template(given), "Deployment")["spec"]["template"]["spec"]["containers"]
    (variable,) = [each for each in container["env"] if each["name"] == "SLIPWAY_SITE"]
    # As the kubelet reads it: $$ is $.
    site = read_settings(environment={"SLIPWAY_SITE": variable["value"].replace("$$", "$")}).site
    assert site.defaults.env[0].value == "$(HOME) $$(B)"


def limited(kubectl: Kubectl, name: str, fields: dict[str, Any], labels: dict[str, str] | None = None) -> str:
    """What the API server says when a job of these fields is created."""
    metadata, spec = {"name": "train", "labels": labels or {}}, {"image": "busybox:1", "profile": name} | fields
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": metadata, "spec": spec}
    return kubectl.says_to(body)


ONLY_THE_OPERATOR_KNOWS = {
    *("types", "hostPath that leads elsewhere", "GPUs in Kubernetes' own words", "TPUs in Kubernetes' own words"),
    *(
        "GPUs of a Ray head",
        "GPUs of a Ray head beside TPUs",
        "claims of devices",
        "token of the default service account",
    ),
    *("projected token of the default service account", "no AppArmor profile by annotation"),
}
"""What docs/site.md leaves to it; of paths with `..` Kubernetes itself refuses the pods."""


def row_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower())


def profile(name: str, limits: dict[str, Any]) -> dict[str, Any]:
    spec = {"limits": limits}
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJobProfile", "metadata": {"name": name}, "spec": spec}


def test_the_api_server_refuses_what_the_limits_of_a_profile_refuse(helm: Helm, kubectl: Kubectl) -> None:
    rows = {row_name(name): row for name, row in LIMITED.items()}
    kubectl.apply(*(profile(name, limits) for name, (limits, *_) in rows.items()))
    with enforced(helm, kubectl, {"site": {"limits": OPEN}}):
        settles(lambda: "maxSlices" in limited(kubectl, "slices", {"slices": 3}), True)
        for name, (_, allowed, refused, said) in rows.items():
            assert "is not allowed here" not in limited(kubectl, name, allowed), name
            words = limited(kubectl, name, refused)
            if name not in map(row_name, ONLY_THE_OPERATOR_KNOWS):
                assert f"is not allowed here (SliceJobProfile {name}, limits." in words, (name, said, words)


NO_TEXT: dict[str, dict[str, Any]] = {
    f"{name} that is {kind}": {"podTemplate": {"spec": spec}}
    for kind, value in (("a list", ["x"]), ("a number", 7), ("a map", {"x": 1}))
    for name, spec in (
        ("serviceAccountName", {"serviceAccountName": value}),
        ("priorityClassName", {"priorityClassName": value}),
        ("an image", {"containers": [{"name": "side", "image": value}]}),
        ("a path", {"volumes": [{"name": "a", "hostPath": {"path": value}}]}),
        ("a reference", {"volumes": [{"name": "a", "image": {"reference": value}}]}),
    )
}
"""Jobs that become no pods. The operator names the field; the API server would show the policy's expression."""


def test_the_api_server_refuses_what_no_job_gets_unless_the_chart_allows_it(helm: Helm, kubectl: Kubectl) -> None:
    with enforced(helm, kubectl, {}):
        settles(lambda: "site.limits.hostPaths" in limited(kubectl, "a", LENT_BY_DEFAULT["hostPath"]), True)
        silent = [name for name, job in LENT_BY_DEFAULT.items() if "(site.limits." not in limited(kubectl, "a", job)]
        assert silent == []
        other = {LABEL_OPERATOR_ID: "blue"}
        assert "(site.limits.hostPaths)" in limited(kubectl, "a", LENT_BY_DEFAULT["hostPath"], other)
        for wish in {"hostNetwork": True}, PORT_OF_NODE:
            words = "by default only jobs on TPUs or GPUs may have it: remove it"
            assert words in limited(kubectl, "a", wish)
            assert {name: limited(kubectl, "a", job | wish) for name, job in ON_ACCELERATORS.items()} == dict.fromkeys(
                ON_ACCELERATORS, ""
            )
        assert {name: limited(kubectl, "a", job) for name, job in NO_TEXT.items()} == dict.fromkeys(NO_TEXT, "")
        # Where the operator alone refuses, in a namespace that has not chosen this.
        kubectl("label", "namespace", kubectl.namespace, "slipway.dev/limits-")
        settles(lambda: limited(kubectl, "a", LENT_BY_DEFAULT["hostPath"]), "")


OF_THE_ENGINE: Final = {"volumes": [{"name": "run", "hostPath": {"path": "/run/docker.sock"}}]}
# Of each: the values of the chart, the fields of a job that was there before the policy, and why it would be refused.
POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "limits of the chart": ({"site": {"limits": {"maxSlices": 2}}}, {"slices": 3}, "(site.limits.maxSlices)"),
    "the network of the nodes": ({}, {"hostNetwork": True}, "(site.limits.hostNetwork)"),
    "limits of a profile": ({}, {"slices": 3}, "(SliceJobProfile default, limits.maxSlices)"),
    "the socket of an engine": (
        {"site": {"limits": OPEN}},
        OF_THE_ENGINE,
        "the socket of the container engine",
    ),
}

STOPS: dict[str, tuple[str, ...]] = {
    "suspended": ("patch", "sj/suspended", "--type=merge", "-p", '{"spec": {"suspend": true}}'),
    "cancelled": ("patch", "sj/cancelled", "--type=merge", "-p", '{"spec": {"cancel": true}}'),
    "annotated": ("annotate", "sj/annotated", "example.com/why=broken"),
    # The garbage collector removes a finalizer, which is an UPDATE.
    "deleted": ("delete", "sj/deleted", "--cascade=foreground", f"--timeout={ANSWER_SECONDS}s"),
}
"""What is done to a job of that name."""


@pytest.mark.parametrize(("values", "fields", "said"), POLICIES.values(), ids=POLICIES)
def test_a_job_that_a_policy_refuses_can_still_be_stopped(
    helm: Helm, kubectl: Kubectl, values: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
    kubectl.apply(*(job_of(name, fields) for name in STOPS))
    if "profile" in said.lower():
        kubectl.apply(profile("default", {"maxSlices": 2}))
    with enforced(helm, kubectl, values):
        settles(lambda: said in limited(kubectl, "default", fields), True)
        done = {name: kubectl(*stop, check=False) for name, stop in STOPS.items()}
        assert {name: one.stderr for name, one in done.items() if one.returncode != 0} == {}
        # And only that: it does not go on.
        goes_on = ("patch", "sj/suspended", "--type=merge", "-p", '{"spec": {"suspend": false}}')
        assert said in kubectl(*goes_on, check=False).stderr


def job_of(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"image": "busybox:1"} | fields
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": name}, "spec": spec}


@contextmanager
def enforced(helm: Helm, kubectl: Kubectl, values: dict[str, Any]) -> Iterator[None]:
    """The policies of the chart, in force in the namespace of `kubectl`."""
    kubectl("label", "namespace", kubectl.namespace, "slipway.dev/limits=enforced")
    objects = helm.template(values, name=f"slipway-{uuid4().hex[:8]}")
    policies = [one for one in objects if "AdmissionPolicy" in one["kind"]]
    kubectl.apply(*policies)
    try:
        yield
    finally:
        for one in policies:
            kubectl("delete", one["kind"], one["metadata"]["name"])
        # The API server forgets them some moments later, and one of them holds in every namespace.
        probe, dry_run = job_of("probe", OF_THE_ENGINE), ("create", "--dry-run=server", "-f", "-")
        until("no policy holds", lambda: kubectl(*dry_run, stdin=probe, check=False).returncode == 0)


def test_callers_may_call_and_nothing_else(helm: Helm, release: Release) -> None:
    [role] = [body for body in helm.template() if body["metadata"]["name"] == "slipway-caller"]
    assert role["rules"] == caller.RULES
    assert not [label for label in role["metadata"]["labels"] if "aggregate" in label]
    release.kubectl("create", "rolebinding", "calls", f"--clusterrole={release.name}-caller", "--user=caller")

    def found() -> tuple[list[str], list[str]]:
        refused = [row for row, allowed in release.may("--as=caller", CALLED).items() if not allowed]
        granted = [row for row, allowed in release.may("--as=caller", NOT_CALLED).items() if allowed]
        return refused, granted

    settles(found, ([], []))


REQUESTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "create a job": (("create", "-f", "-"), job_of("mine", {})),
    "read it": (("get", "sj/mine"), None),
    "list jobs": (("get", "sj"), None),
    "watch jobs": (("wait", "sj/mine", "--for=create", f"--timeout={ANSWER_SECONDS}s"), None),
    "cancel it": (("replace", "-f", "-"), job_of("mine", {"cancel": True})),
    "delete it": (("delete", "sj/mine", "--wait=false"), None),
    "create a Secret": (("create", "secret", "generic", "payload"), None),
}
"""What callers do, in this order."""

REFUSED_REQUESTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "patch a job": (("patch", "sj/other", "--type=merge", "-p", '{"spec": {"cancel": true}}'), None),
    "write a status": (
        ("patch", "sj/other", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Running"}}'),
        None,
    ),
    "delete all jobs": (("delete", "--raw", "/apis/slipway.dev/v1alpha1/namespaces/{own}/slicejobs"), None),
    "read the Secret": (("get", "secret/payload"), None),
    "list Secrets": (("get", "secrets"), None),
    "delete the Secret": (("delete", "secret/payload"), None),
    "list all pods": (("get", "pods", "--all-namespaces"), None),
    "create a pod": (("run", "pod", "--image=busybox:1"), None),
    "reach a port of a pod": (("create", "--raw", "/api/v1/namespaces/{own}/pods/any/portforward", "-f", "-"), {}),
    "read a profile": (("get", "sjp"), None),
    "a job elsewhere": (("create", "--namespace=kube-public", "-f", "-"), job_of("mine", {})),
    "list all jobs": (("get", "sj", "--all-namespaces"), None),
    "list nodes": (("get", "nodes"), None),
    "grant oneself more": (("create", "rolebinding", "more", "--clusterrole=admin", "--user=caller"), None),
}

PODS = "/api/v1/namespaces/{own}/pods/any"


def test_what_callers_ask_for_is_answered_and_all_else_is_forbidden(release: Release) -> None:
    kubectl = release.kubectl
    kubectl.apply(job_of("other", {}))
    kubectl("create", "serviceaccount", "trainers")
    binding = ("rolebinding", "trainers", f"--clusterrole={release.name}-caller")
    kubectl("create", *binding, f"--serviceaccount={kubectl.namespace}:trainers")
    token = f"--token={kubectl('create', 'token', 'trainers').stdout.strip()}"
    settles(lambda: kubectl(token, "auth", "can-i", "create", "slicejobs", check=False).stdout.strip(), "yes")

    def asks(words: tuple[str, ...], body: Any) -> str:
        here = [word.replace("{own}", kubectl.namespace) for word in words]
        return kubectl(token, *here, stdin=body, check=False).stderr

    assert {name: said for name, row in REQUESTS.items() if (said := asks(*row))} == {}
    answered = {name: said for name, row in REFUSED_REQUESTS.items() if "forbidden" not in (said := asks(*row)).lower()}
    assert answered == {}
    # The pod does not exist: the API server answers 404 to an account that may get logs, and 403 to others.
    assert "NotFound" in asks(("get", "--raw", f"{PODS}/log"), None)
    assert "NotFound" in asks(("get", "--raw", f"{PODS}/exec?command=true"), None)
    assert "Forbidden" in asks(("get", "--raw", PODS), None)


def test_all_that_callers_may_do_is_in_their_role(release: Release) -> None:
    release.kubectl("create", "rolebinding", "calls", f"--clusterrole={release.name}-caller", "--user=caller")

    def rules_of(user: str) -> list[str]:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {}}
        body["spec"] = {"namespace": release.kubectl.namespace}
        said = release.kubectl(f"--as={user}", "create", "--validate=false", "-f", "-", "-o", "json", stdin=body)
        return sorted(json.dumps(rule, sort_keys=True) for rule in json.loads(said.stdout)["status"]["resourceRules"])

    theirs = sorted(json.dumps(rule, sort_keys=True) for rule in caller.RULES)
    settles(lambda: [rule for rule in rules_of("caller") if rule not in rules_of("nobody")], theirs)


def settles(look: Callable[[], Any], wanted: Any) -> None:
    """The API server knows of a role, and puts roles together, some moments after it took them."""
    found: list[Any] = []

    def settled() -> bool:
        found[:] = [look()]
        return bool(found == [wanted])

    try:
        until("the API server knows of it", settled)
    except AssertionError:
        assert found == [wanted]


def test_kubernetes_own_roles_know_slicejobs(release: Release) -> None:
    for role in PEOPLE:
        release.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}-user")
    resource, status = "own slipway.dev/slicejobs", "own slipway.dev/slicejobs/status"
    profiles = "own slipway.dev/slicejobprofiles"
    asked = {resource: tuple(sorted(READ | WRITE)), status: ("patch", "update"), profiles: tuple(sorted(READ | WRITE))}
    # Nobody who may only edit a namespace may write the limits of its jobs.
    wanted = {
        role: {f"{verb} {resource}" for verb in verbs} | {f"{verb} {profiles}" for verb in READ}
        for role, verbs in PEOPLE.items()
    }
    # Whoever may edit may also call: the rest of what a call needs is in Kubernetes' own role.
    calls = {f"{verb} {what}" for what, verbs in CALLED.items() for verb in verbs}

    def granted(role: str) -> set[str]:
        return {row for row, allowed in release.may(f"--as={role}-user", asked).items() if allowed}

    settles(lambda: {role: granted(role) for role in PEOPLE}, wanted)
    may_call = {row for row, allowed in release.may("--as=edit-user", CALLED).items() if allowed}
    assert may_call == calls
