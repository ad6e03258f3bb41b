"""A pod as a container: what Docker is asked for, and what it is not asked for."""

from typing import Any

import pytest

from slipway.api.places import worker
from slipway.core.model.parts import Body
from slipway.local.conversion.convert import Surroundings, Unconvertible, containers, problems
from slipway.local.conversion.devices import Assigned, DeviceMapping
from tests.local.pods import converted, host_config, pod, variables, with_spec


def test_the_container_is_known_as_its_pod() -> None:  # E1-21, T-17
    body = pod(worker(1, 1), slices=2, hosts=2)
    request = containers(body, Surroundings(network="slipway"))[-1]
    assert request.name == "train-0-1-1"
    assert request.body["Labels"] == body["metadata"]["labels"]
    assert request.body["Hostname"] == "0-1-1"
    assert request.body["NetworkingConfig"] == {
        "EndpointsConfig": {
            "slipway": {"Aliases": ["0-1-1", "0-1-1.train", "0-1-1.train.ml.svc", "0-1-1.train.ml.svc.cluster.local"]}
        }
    }


def test_the_least_that_every_container_has() -> None:
    assert host_config(pod()) == {
        "NetworkMode": "slipway",
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "2"}},
        "RestartPolicy": {"Name": "no"},
    }


def test_the_coordinator_is_found_by_an_alias() -> None:  # T-18
    peers = pod(worker(0, 1), hosts=2), pod(hosts=2)
    address = variables(peers[0])["SLIPWAY_COORDINATOR_ADDRESS"].partition(":")[0]
    endpoint = converted(peers[1])["NetworkingConfig"]["EndpointsConfig"]["slipway"]
    assert address in endpoint["Aliases"]


def test_on_the_host_s_network() -> None:  # E1-09
    body = converted(pod(), network="host", peers=("0-0-0.train", "0-0-1.train"))
    assert body["HostConfig"]["NetworkMode"] == "host"
    assert body["HostConfig"]["ExtraHosts"] == ["0-0-0.train:127.0.0.1", "0-0-1.train:127.0.0.1"]
    assert "NetworkingConfig" not in body
    asked = host_config(pod(hostNetwork=True), peers=("0-0-0.train",))
    assert (asked["NetworkMode"], asked["ExtraHosts"]) == ("host", ["0-0-0.train:127.0.0.1"])


@pytest.mark.parametrize("network", ["bridge", "none"])
def test_in_a_network_without_names_a_host_finds_itself(network: str) -> None:  # K-08
    body = converted(pod(), network=network, peers=("0-0-0.train",))
    assert body["HostConfig"]["NetworkMode"] == network
    assert body["HostConfig"]["ExtraHosts"] == ["0-0-0.train:127.0.0.1"]
    assert "NetworkingConfig" not in body


def test_all_hosts_run_the_same_image() -> None:
    assert converted(pod(), images={"busybox:1": "sha256:1"})["Image"] == "sha256:1"
    assert converted(pod())["Image"] == "busybox:1"


COMMANDS: dict[str, tuple[Body, list[str] | None, list[str] | None]] = {
    "the image's own": ({}, None, None),
    "a command": ({"command": ["a", "b c", ""]}, ["a", "b c", ""], None),
    "arguments": ({"args": ["; rm -rf /", "'\"", "$X"]}, None, ["; rm -rf /", "'\"", "$X"]),
    "both": ({"command": ["a"], "args": ["b"]}, ["a"], ["b"]),
    "a reference": ({"command": ["$(RANK)"], "args": ["$$(RANK)", "$(NONE)"]}, ["0"], ["$(RANK)", "$(NONE)"]),
}


@pytest.mark.parametrize(("fields", "entrypoint", "command"), COMMANDS.values(), ids=COMMANDS.keys())
def test_commands(fields: Body, entrypoint: list[str] | None, command: list[str] | None) -> None:  # E1-04, E1-18
    body = converted(pod(**fields))
    assert (body.get("Entrypoint"), body.get("Cmd")) == (entrypoint, command)


def field_ref(path: str) -> Body:
    return {"fieldRef": {"fieldPath": path}}


def resource_ref(resource: str, **more: str) -> Body:
    return {"resourceFieldRef": {"resource": resource} | more}


SOURCES: dict[str, tuple[Body, str | None]] = {
    "the name": (field_ref("metadata.name"), "train-0-0-0"),
    "the namespace": (field_ref("metadata.namespace"), "ml"),
    "a label": (field_ref("metadata.labels['slipway.dev/host']"), "0"),
    "a label that is not there": (field_ref("metadata.labels['x']"), ""),
    "an annotation": (field_ref("metadata.annotations['cluster-autoscaler.kubernetes.io/safe-to-evict']"), "false"),
    "the node": (field_ref("spec.nodeName"), "localhost"),
    "CPUs, rounded up": (resource_ref("limits.cpu"), "2"),
    "CPUs in thousandths": (resource_ref("limits.cpu", divisor="1m"), "1500"),
    "bytes": (resource_ref("limits.memory"), "1073741824"),
    "mebibytes": (resource_ref("limits.memory", divisor="1Mi"), "1024"),
    "a limit is a request too": (resource_ref("requests.memory", divisor="1Gi"), "1"),
    "a request": (resource_ref("requests.cpu", divisor="1m"), "500"),
    "a key that may be missing": ({"configMapKeyRef": {"name": "x", "key": "k", "optional": True}}, None),
    "a secret that may be missing": ({"secretKeyRef": {"name": "x", "key": "k", "optional": True}}, None),
}
RESOURCES = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}}


@pytest.mark.parametrize(("source", "value"), SOURCES.values(), ids=SOURCES.keys())
def test_where_a_variable_comes_from(source: Body, value: str | None) -> None:
    found = variables(pod(env=[{"name": "X", "valueFrom": source}], resources=RESOURCES))
    assert found.get("X") == value


def test_the_uid_of_a_pod() -> None:
    asked = [{"name": "X", "valueFrom": field_ref("metadata.uid")}]
    first, again, peer = (variables(pod(worker(0, host), hosts=2, env=asked))["X"] for host in (0, 0, 1))
    assert first == again != peer
    posted = pod(env=asked)
    posted["metadata"]["uid"] = "u"
    assert variables(posted)["X"] == "u"


def test_variables_see_those_before_them() -> None:  # E1-08
    env = [
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "a=b \n $$(RANK)"},
        {"name": "ALL", "value": "$(LATE)/$(RANK)"},
        {"name": "EMPTY"},
    ]
    found = variables(pod(env=env))
    assert [found[name] for name in ("EARLY", "LATE", "ALL", "EMPTY")] == [
        "$(LATE)", "a=b \n $(RANK)", "a=b \n $(RANK)/0", "",
    ]  # fmt: skip


def test_a_long_host_list_comes_from_its_config_map() -> None:
    body = pod(accelerator={"type": "v5p-512"}, hosts=None)
    data = {"hostnames": "all,of,them", "processAddresses": ""}
    assert variables(body, config_maps={"train-0-0": data})["TPU_WORKER_HOSTNAMES"] == "all,of,them"
    assert problems(body) == ()
    with pytest.raises(Unconvertible, match="configMapKeyRef"):
        converted(body)


def test_what_a_device_tells_gives_way_to_the_job() -> None:
    told = Assigned(variables={"A": "device", "B": "device"}, variables_if_privileged={"C": "device"})
    body = pod(env=[{"name": "A", "value": "job"}])
    assert variables(body, devices=told) | {"A": "job", "B": "device"} == variables(body, devices=told)
    assert "C" not in variables(body, devices=told)
    assert variables(pod(securityContext={"privileged": True}), devices=told)["C"] == "device"


def test_no_job_says_which_devices_it_has() -> None:
    body = pod()
    body["metadata"]["labels"]["slipway.dev/devices"] = "tpu:0"
    assert "slipway.dev/devices" not in converted(body)["Labels"]


def test_a_limit_is_never_rounded_to_none() -> None:
    assert host_config(pod(resources={"limits": {"memory": 1}}))["Memory"] == 1
    assert "Memory" not in host_config(pod(resources={"limits": {"memory": "0"}}))


SHARED_MEMORY: dict[str, tuple[Body, int | None]] = {
    "the memory limit": ({"resources": {"limits": {"memory": "200Mi"}}}, 200 * 2**20),
    "what the job says": ({"resources": {"limits": {"memory": "200Mi"}}, "shmSize": "100Mi"}, 100 * 2**20),
    "Docker's default": ({"resources": {"limits": {"cpu": 1}}}, None),
    "what the job mounts there": (
        {
            "resources": {"limits": {"memory": "200Mi"}},
            "volumes": [{"name": "v", "hostPath": {"path": "/fast"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/dev/shm/"}],
        },
        None,
    ),
}


@pytest.mark.parametrize(("fields", "size"), SHARED_MEMORY.values(), ids=SHARED_MEMORY.keys())
def test_the_size_of_shared_memory_is(fields: Body, size: int | None) -> None:  # T-19
    assert host_config(pod(**fields)).get("ShmSize") == size


def test_devices() -> None:  # E1-23, N-27, N-28, T-11
    devices = Assigned(
        ids=("tpu:0", "nvidia:1"),
        devices=(DeviceMapping("/dev/accel0", "/dev/accel0"),),
        requests=({"Driver": "nvidia", "DeviceIDs": ["1"], "Capabilities": [["gpu"]]},),
        groups=(44, 7),
        ulimits={"memlock": (-1, -1)},
    )
    body = converted(
        pod(podSecurityContext={"supplementalGroups": [7]}),
        devices=devices,
        ulimits={"nofile": (1024, 4096)},
        extra_devices=(DeviceMapping("/dev/fuse", "/dev/f", "r"),),
    )
    host = body["HostConfig"]
    assert body["Labels"]["slipway.dev/devices"] == "tpu:0,nvidia:1"
    assert host["Devices"] == [
        {"PathOnHost": "/dev/accel0", "PathInContainer": "/dev/accel0", "CgroupPermissions": "rwm"},
        {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/f", "CgroupPermissions": "r"},
    ]
    assert host["DeviceRequests"] == [{"Driver": "nvidia", "DeviceIDs": ["1"], "Capabilities": [["gpu"]]}]
    assert host["GroupAdd"] == ["7", "44"]
    assert host["Ulimits"] == [
        {"Name": "memlock", "Soft": -1, "Hard": -1},
        {"Name": "nofile", "Soft": 1024, "Hard": 4096},
    ]


@pytest.mark.parametrize("gpu", [None, "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"])
def test_limits_and_mounts_with_every_vendor(gpu: str | None) -> None:  # N-26, N-30
    limits = {"cpu": "1500m", "memory": "1Gi", **({gpu: "1"} if gpu else {})}
    host = host_config(
        with_spec(
            {"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]},
            resources={"limits": limits},
            volumeMounts=[{"name": "v", "mountPath": "/data"}],
        )
    )
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, 2**30, 2**30)
    assert host["CpuShares"] == 1536
    assert host["Binds"] == ["/data:/data"]
    assert not {"Devices", "DeviceRequests"} & host.keys(), "devices are those that were assigned"


def test_requests() -> None:
    asked = {"limits": {"memory": "2Gi"}, "requests": {"cpu": "250m", "memory": "1Gi", "ephemeral-storage": "1Gi"}}
    host = host_config(pod(resources=asked))
    assert (host["CpuShares"], host["MemoryReservation"], host["Memory"]) == (256, 2**30, 2**31)
    assert "NanoCpus" not in host


POD_FIELDS: dict[str, tuple[Body, Body]] = {
    "the host's processes": ({"hostPID": True}, {"PidMode": "host"}),
    "the host's memory segments": ({"hostIPC": True}, {"IpcMode": "host"}),  # F-08
    "a shared process namespace": ({"shareProcessNamespace": True}, {"Init": True}),
    "host aliases": (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}, {"ip": "::1", "hostnames": ["c"]}]},
        {"ExtraHosts": ["a:10.0.0.1", "b:10.0.0.1", "c:::1"]},
    ),
    "DNS": (
        {
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": ["1.1.1.1"],
                "searches": ["example.com"],
                "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
            },
        },
        {"Dns": ["1.1.1.1"], "DnsSearch": ["example.com"], "DnsOptions": ["ndots:2", "edns0"]},
    ),
    "groups": (
        {"securityContext": {"supplementalGroups": [5, 6], "fsGroup": 6, "fsGroupChangePolicy": "Always"}},
        {"GroupAdd": ["5", "6"]},
    ),
    "sysctls": (
        {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]}},
        {"Sysctls": {"net.core.somaxconn": "9"}},
    ),
    "no seccomp": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {"SecurityOpt": ["seccomp=unconfined"]},
    ),
    "Docker's seccomp": ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, {}),
    "where it would run": (
        {
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "x"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "serviceAccountName": "me",
            "imagePullSecrets": [{"name": "x"}],
            "schedulingGates": [{"name": "x"}],
        },
        {},
    ),
}
WORKER_FIELDS: dict[str, tuple[Body, Body]] = {
    "privileged": ({"securityContext": {"privileged": True}}, {"Privileged": True}),  # E1-10
    "not privileged": ({"securityContext": {"privileged": False}}, {}),
    "capabilities": (
        {"securityContext": {"capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]}}},
        {"CapAdd": ["SYS_PTRACE"], "CapDrop": ["ALL"]},
    ),
    "a root that is only read": ({"securityContext": {"readOnlyRootFilesystem": True}}, {"ReadonlyRootfs": True}),
    "no new privileges": (
        {"securityContext": {"allowPrivilegeEscalation": False}},
        {"SecurityOpt": ["no-new-privileges:true"]},
    ),
    "ports of this machine": (
        {
            "ports": [
                {"containerPort": 80, "hostPort": 8080},
                {"containerPort": 53, "hostPort": 53, "hostIP": "::1", "protocol": "UDP"},
                {"containerPort": 9},
            ]
        },
        {
            "PortBindings": {
                "80/tcp": [{"HostIp": "", "HostPort": "8080"}],
                "53/udp": [{"HostIp": "::1", "HostPort": "53"}],
            }
        },
    ),
    "how it is pulled": ({"imagePullPolicy": "Always"}, {}),
}


@pytest.mark.parametrize(("fields", "expected"), POD_FIELDS.values(), ids=POD_FIELDS.keys())
def test_fields_of_the_pod(fields: Body, expected: Body) -> None:
    assert host_config(with_spec(fields)) == host_config(pod()) | expected


@pytest.mark.parametrize(("fields", "expected"), WORKER_FIELDS.values(), ids=WORKER_FIELDS.keys())
def test_fields_of_the_worker(fields: Body, expected: Body) -> None:
    assert host_config(with_spec(**fields)) == host_config(pod()) | expected


def test_the_time_to_stop_and_the_working_directory() -> None:  # E1-15
    body = converted(pod(terminationGracePeriodSeconds=7, workingDir="/app"))
    assert (body["StopTimeout"], body["WorkingDir"]) == (7, "/app")


USERS: dict[str, tuple[Body, Body, str | None]] = {
    "the image's": ({}, {}, None),
    "a user": ({}, {"runAsUser": 1000}, "1000"),
    "root": ({}, {"runAsUser": 0}, "0"),
    "a user and a group": ({}, {"runAsUser": 1000, "runAsGroup": 1001}, "1000:1001"),
    "those of the pod": ({"runAsUser": 1, "runAsGroup": 2}, {}, "1:2"),
    "the container's before the pod's": ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 0}, "0:2"),
    "not root": ({"runAsNonRoot": True}, {"runAsUser": 5}, "5"),
    "root by the container's word": ({"runAsNonRoot": True}, {"runAsUser": 0, "runAsNonRoot": False}, "0"),
}


@pytest.mark.parametrize(("of_pod", "own", "user"), USERS.values(), ids=USERS.keys())
def test_the_user(of_pod: Body, own: Body, user: str | None) -> None:  # E1-16
    assert converted(with_spec({"securityContext": of_pod}, securityContext=own)).get("User") == user


WORKER = "spec.containers[worker]"
REFUSED: dict[str, tuple[Body, Body, str]] = {
    "a probe of a sidecar": (
        {"containers": [{"name": "worker"}, {"name": "proxy", "image": "p:1", "livenessProbe": {"exec": {}}}]},
        {},
        "spec.containers[proxy].livenessProbe: nobody asks a container",
    ),
    "a hook of an init container": (
        {"initContainers": [{"name": "fetch", "image": "f:1", "lifecycle": {"postStart": {}}}]},
        {},
        "spec.initContainers[fetch].lifecycle: Docker has no hooks",
    ),
    "an init container without an image": (
        {"initContainers": [{"name": "fetch"}]},
        {},
        "spec.initContainers[fetch].image: it is missing",
    ),
    "another restartPolicy of an init container": (
        {"initContainers": [{"name": "fetch", "image": "f:1", "restartPolicy": "Never"}]},
        {},
        'spec.initContainers[fetch].restartPolicy "Never": only Always is allowed',
    ),
    "a restartPolicy of a container": (
        {"containers": [{"name": "worker"}, {"name": "proxy", "image": "p:1", "restartPolicy": "Always"}]},
        {},
        'spec.containers[proxy].restartPolicy "Always": a container of a job ends once',
    ),
    "a device of a sidecar": (
        {"initContainers": [{"name": "p", "image": "p:1", "resources": {"limits": {"google.com/tpu": "1"}}}]},
        {},
        "spec.initContainers[p].resources.limits.google.com/tpu: only worker gets devices",
    ),
    "a probe": ({}, {"readinessProbe": {"exec": {}}}, f"{WORKER}.readinessProbe: nobody asks a container"),
    "a hook": ({}, {"lifecycle": {"preStop": {}}}, f"{WORKER}.lifecycle: Docker has no hooks"),
    "a field of tomorrow": ({"newField": 1}, {}, "spec.newField: this field is not known to the local engine"),
    "a container's field of tomorrow": ({}, {"newField": {}}, f"{WORKER}.newField: this field is not known"),
    "deep down": ({"dnsConfig": {"x": 1}}, {}, "spec.dnsConfig.x: this field is not known"),
    "a terminal": ({}, {"tty": True}, f"{WORKER}.tty true: nobody is attached"),
    "a deadline": ({"activeDeadlineSeconds": 9}, {}, "spec.activeDeadlineSeconds 9: no kubelet ends the pod"),
    "a runtime": ({"runtimeClassName": "gvisor"}, {}, 'spec.runtimeClassName "gvisor": a RuntimeClass is an object'),
    "users of its own": ({"hostUsers": False}, {}, "spec.hostUsers false: an engine gives all containers"),
    "a secret's variable": (
        {},
        {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        f'{WORKER}.env[T].valueFrom.secretKeyRef "s": there is no Kubernetes API',
    ),
    "a ConfigMap's variable": (
        {},
        {"env": [{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}]},
        f'{WORKER}.env[T].valueFrom.configMapKeyRef "s": there is no Kubernetes API',
    ),
    "a secret's variables": (
        {},
        {"envFrom": [{"secretRef": {"name": "o", "optional": True}}, {"secretRef": {"name": "s"}}]},
        f'{WORKER}.envFrom[1].secretRef "s": there is no Kubernetes API',
    ),
    "an address": (
        {},
        {"env": [{"name": "T", "valueFrom": field_ref("status.podIP")}]},
        f'{WORKER}.env[T].valueFrom.fieldRef.fieldPath "status.podIP": the local engine knows metadata.name',
    ),
    "a limit that is not there": (
        {},
        {"env": [{"name": "T", "valueFrom": resource_ref("limits.cpu")}]},
        f'{WORKER}.env[T].valueFrom.resourceFieldRef.resource "limits.cpu": the container has no limits',
    ),
    "a limit of another": (
        {},
        {"env": [{"name": "T", "valueFrom": resource_ref("limits.cpu", containerName="x")}]},
        f'{WORKER}.env[T].valueFrom.resourceFieldRef.containerName "x": only worker is allowed',
    ),
    "no root, no user": (
        {},
        {"securityContext": {"runAsNonRoot": True}},
        f"{WORKER}.securityContext.runAsNonRoot true: runAsUser is not set",
    ),
    "no root, but root": (
        {"securityContext": {"runAsNonRoot": True}},
        {"securityContext": {"runAsUser": 0}},
        "spec.securityContext.runAsNonRoot true: runAsUser is 0: set runAsUser",
    ),
    "a group alone": (
        {"securityContext": {"runAsGroup": 1}},
        {},
        "spec.securityContext.runAsGroup 1: Docker takes a group with a user only",
    ),
    "a seccomp profile": (
        {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}},
        {},
        'spec.securityContext.seccompProfile.localhostProfile "x": profiles are files of a node',
    ),
    "all of /proc": ({}, {"securityContext": {"procMount": "Unmasked"}}, f"{WORKER}.securityContext.procMount"),
    "a device of another kind": (
        {},
        {"resources": {"limits": {"rdma/hca": "1"}}},
        f'{WORKER}.resources.limits.rdma/hca "1": the local engine knows cpu, memory',
    ),
    "a name that ends early": (
        {},
        {"env": [{"name": "A=B", "value": "c"}]},
        f'{WORKER}.env[A=B].name "A=B": a name without = is needed',
    ),
    "no quantity": (
        {},
        {"resources": {"limits": {"cpu": "many"}}},
        f'{WORKER}.resources.limits.cpu "many": a quantity',
    ),
    "a request above its limit": (
        {},
        {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": "2"}}},
        f'{WORKER}.resources.requests.cpu "2": at most the limit, 1, is allowed',
    ),
}


@pytest.mark.parametrize(("spec", "worker_fields", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(spec: Body, worker_fields: Body, message: str) -> None:
    body = with_spec(spec, **worker_fields)
    assert problems(body)[0].startswith(message)
    with pytest.raises(Unconvertible) as caught:
        converted(body)
    assert str(caught.value) == problems(body)[0]


@pytest.mark.parametrize("fields", [{"tty": False}, {"lifecycle": {}}, {"stdin": None}, {"volumeDevices": []}])
def test_what_is_empty_asks_for_nothing(fields: dict[str, Any]) -> None:
    assert problems(with_spec(**fields)) == ()


def test_all_problems_at_once_by_path() -> None:
    body = with_spec({"runtimeClassName": "x", "activeDeadlineSeconds": 5}, tty=True)
    assert [one.split(" ")[0] for one in problems(body)] == [
        "spec.activeDeadlineSeconds", f"{WORKER}.tty", "spec.runtimeClassName",
    ]  # fmt: skip


def test_values_of_variables_are_never_repeated() -> None:  # E1-20
    body = with_spec(env=[{"name": "T", "value": "hunter2", "more": "hunter2"}])
    assert problems(body) == (f"{WORKER}.env[T].more: this field is not known to the local engine",)
