"""The volumes of a pod as mounts of its container."""

import io
import tarfile
from typing import Any

import pytest

from slipway.api.places import worker
from slipway.api.workspace import DataSet
from slipway.core.model.parts import Body
from slipway.core.model.site import Site
from slipway.local.conversion.convert import Surroundings, containers, problems
from slipway.local.conversion.empty_volumes import opening
from tests.local.pods import host_config, pod, with_spec

GIB = 2**30


def mounting(source: Body, *, limits: Body | None = None, **mount: Any) -> Body:
    """A pod with one volume, at /data unless told otherwise."""
    return with_spec(
        {"volumes": [{"name": "v"} | source]},
        volumeMounts=[{"name": "v", "mountPath": "/data"} | mount],
        env=[{"name": "WHO", "value": "me"}, {"name": "UP", "value": ".."}],
        resources={"limits": limits or {}},
    )


def host(path: str, kind: str | None = None) -> Body:
    return {"hostPath": {"path": path} | ({"type": kind} if kind is not None else {})}


def claim(name: str, **more: Any) -> Body:
    return {"persistentVolumeClaim": {"claimName": name} | more}


def empty(**fields: Any) -> Body:
    return {"emptyDir": fields}


NO_COPY = {"VolumeOptions": {"NoCopy": True}}
DATA = {"Target": "/data"}

MADE: dict[str, tuple[Body, Body, str]] = {
    "a folder of the host": (host("/src"), {}, "/src:/data"),  # E1-06
    "read only": (host("/src"), {"readOnly": True}, "/src:/data:ro"),  # E1-07
    "one that is made": (host("/src", "DirectoryOrCreate"), {}, "/src:/data"),
    "a folder below": (host("/src"), {"subPath": "a//b/"}, "/src/a/b:/data"),
    "a folder below, by a variable": (host("/src"), {"subPathExpr": "$(WHO)/$$(WHO)"}, "/src/me/$(WHO):/data"),
    "propagation": (host("/src"), {"mountPropagation": "Bidirectional", "readOnly": True}, "/src:/data:ro,rshared"),
}
MOUNTED: dict[str, tuple[Body, Body, Body]] = {
    "one that must be there": (host("/src", "Directory"), {}, {"Type": "bind", "Source": "/src"}),
    "a colon in its path": (host("/a:b"), {}, {"Type": "bind", "Source": "/a:b"}),
    "a file": (host("/src/x", "File"), {}, {"Type": "bind", "Source": "/src/x"}),
    "a device node": (host("/dev/fuse", "CharDevice"), {}, {"Type": "bind", "Source": "/dev/fuse"}),
    "propagation": (
        host("/src", "Directory"),
        {"mountPropagation": "HostToContainer"},
        {"Type": "bind", "Source": "/src", "BindOptions": {"Propagation": "rslave"}},
    ),
    "recursively read only": (
        host("/src"),
        {"readOnly": True, "recursiveReadOnly": "Enabled"},
        {
            "Type": "bind",
            "Source": "/src",
            "ReadOnly": True,
            "BindOptions": {"ReadOnlyForceRecursive": True, "Propagation": "rprivate"},
        },
    ),
    "a claim": (claim("data"), {}, {"Type": "volume", "Source": "data"} | NO_COPY),  # T-10
    "a claim that is only read": (
        claim("data", readOnly=True),
        {},
        {"Type": "volume", "Source": "data", "ReadOnly": True} | NO_COPY,
    ),
    "a folder of a claim": (
        claim("data"),
        {"subPath": "a/b"},
        {"Type": "volume", "Source": "data", "VolumeOptions": {"NoCopy": True, "Subpath": "a/b"}},
    ),
    "an empty one": (empty(), {}, {"Type": "volume"} | NO_COPY),
    "an empty one of a size": (empty(sizeLimit="1Gi"), {"subPath": "a"}, {"Type": "volume"} | NO_COPY),
}


@pytest.mark.parametrize(("source", "mount", "expected"), MADE.values(), ids=MADE.keys())
def test_folders_that_docker_makes(source: Body, mount: Body, expected: str) -> None:
    found = host_config(mounting(source, **mount))
    assert found["Binds"] == [expected]
    assert "Mounts" not in found


@pytest.mark.parametrize(("source", "mount", "expected"), MOUNTED.values(), ids=MOUNTED.keys())
def test_mounts(source: Body, mount: Body, expected: Body) -> None:
    found = host_config(mounting(source, **mount))
    assert found["Mounts"] == [expected | DATA]
    assert "Binds" not in found


IN_MEMORY: dict[str, tuple[Body, Body, Body, Body]] = {
    "of a size": ({"sizeLimit": "1Gi"}, {}, {}, {"Tmpfs": {"/data": f"exec,size={GIB}"}}),
    "of the size of the memory": (
        {}, {}, {"memory": "1Gi"}, {"Tmpfs": {"/data": f"exec,size={GIB}"}, "ShmSize": GIB},
    ),
    "larger than the memory": (
        {"sizeLimit": "2Gi"}, {}, {"memory": "1Gi"}, {"Tmpfs": {"/data": f"exec,size={GIB}"}, "ShmSize": GIB},
    ),
    "of no size": ({}, {}, {}, {"Tmpfs": {"/data": "exec"}}),
    "read only": ({}, {"readOnly": True}, {}, {"Tmpfs": {"/data": "exec,ro"}}),
    "shared memory": ({"sizeLimit": "1Gi"}, {"mountPath": "/dev/shm"}, {}, {"ShmSize": GIB}),
    "shared memory of the size of the memory": ({}, {"mountPath": "/dev/shm"}, {"memory": "1Gi"}, {"ShmSize": GIB}),
    "shared memory that is only read": (
        {"sizeLimit": "1Gi"}, {"mountPath": "/dev/shm", "readOnly": True}, {"memory": "1"},
        {"Tmpfs": {"/dev/shm": "exec,ro,size=1"}},
    ),
    "shared memory of no size": ({}, {"mountPath": "/dev/shm"}, {}, {"Tmpfs": {"/dev/shm": "exec"}}),
}  # fmt: skip


@pytest.mark.parametrize(("source", "mount", "limits", "expected"), IN_MEMORY.values(), ids=IN_MEMORY.keys())
def test_volumes_in_memory(source: Body, mount: Body, limits: Body, expected: Body) -> None:  # T-12, T-19
    found = host_config(mounting(empty(medium="Memory", **source), limits=limits, **mount))
    assert {name: found[name] for name in ("Mounts", "Tmpfs", "ShmSize") if name in found} == expected


def in_memory(most: str) -> Body:
    """The mount of a volume that lies in memory, at /data."""
    driver = {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": f"mode=1777,size={most}"}}
    return DATA | {"Type": "volume", "VolumeOptions": {"NoCopy": True, "DriverConfig": driver}}


HOLDING: dict[str, tuple[Body, Body, Body]] = {
    "a mount in it": ({}, {"volumeMounts": [{"name": "w", "mountPath": "/data/w"}]}, in_memory("50%")),
    "the working directory": ({}, {"workingDir": "/data/"}, in_memory("50%")),
    "the working directory in it": ({"sizeLimit": "1Gi"}, {"workingDir": "/data/x"}, in_memory(str(GIB))),
    "the memory is the limit": (
        {}, {"workingDir": "/data/x", "resources": {"limits": {"memory": "1Gi"}}}, in_memory(str(GIB)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "worker", "expected"), HOLDING.values(), ids=HOLDING.keys())
def test_memory_that_holds_other_places_is_a_volume_that_all_may_write(  # F-36
    source: Body, worker: Body, expected: Body
) -> None:
    volumes = [{"name": "v"} | empty(medium="Memory", **source), {"name": "w", "hostPath": {"path": "/w"}}]
    places = [{"name": "v", "mountPath": "/data"}, *worker.get("volumeMounts", ())]
    found = host_config(with_spec({"volumes": volumes}, **worker | {"volumeMounts": places}))
    assert found["Mounts"] == [expected]
    assert "Tmpfs" not in found
    assert opening(found["Mounts"]) is None


@pytest.mark.parametrize("working_dir", ["/database", "/"])
def test_memory_that_holds_nothing_is_a_tmpfs(working_dir: str) -> None:
    assert host_config(
        with_spec(
            {"volumes": [{"name": "v"} | empty(medium="Memory")]},
            volumeMounts=[{"name": "v", "mountPath": "/data"}],
            workingDir=working_dir,
        )
    )["Tmpfs"] == {"/data": "exec"}


@pytest.mark.parametrize("size", [2147483648, "2Gi"])
def test_the_size_of_shared_memory(size: str | int) -> None:  # E1-13
    assert host_config(pod(shmSize=size))["ShmSize"] == 2147483648


VERSIONS: dict[str, tuple[Body, tuple[int, int]]] = {
    "a folder": (mounting(host("/src")), (1, 40)),
    "a folder of a claim": (mounting(claim("data"), subPath="a"), (1, 45)),
    "recursively read only": (mounting(host("/src"), readOnly=True, recursiveReadOnly="Enabled"), (1, 44)),
}


@pytest.mark.parametrize(("body", "version"), VERSIONS.values(), ids=VERSIONS.keys())
def test_the_engine_that_is_needed(body: Body, version: tuple[int, int]) -> None:
    assert containers(body, Surroundings())[-1].api_version == version


def test_empty_volumes_are_opened_to_all() -> None:
    archive = opening(host_config(mounting(empty(), mountPath="/a/b"))["Mounts"])
    assert archive is not None
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        assert [(one.name, one.mode, one.isdir()) for one in content] == [("a/b", 0o777, True)]
    assert opening(host_config(mounting(claim("data")))["Mounts"]) is None
    assert opening(host_config(mounting(empty(medium="Memory"))).get("Mounts", ())) is None


WORKER = "spec.containers[worker]"
REFUSED: dict[str, tuple[Body, Body, str]] = {
    "the engine's socket": (host("/var/run/docker.sock"), {}, 'spec.volumes[v].hostPath.path "/var/run/docker.sock"'),
    "its folder": (host("/run"), {}, 'spec.volumes[v].hostPath.path "/run": no job gets the socket'),
    "its folder's folder": (host("/var"), {"readOnly": True}, 'spec.volumes[v].hostPath.path "/var": no job gets'),
    "a user's engine": (host("/run/user/1000/"), {}, 'spec.volumes[v].hostPath.path "/run/user/1000/": no job gets'),
    "all users' engines": (host("/var/run/user"), {}, 'spec.volumes[v].hostPath.path "/var/run/user": no job gets'),
    "everything": (host("/"), {}, 'spec.volumes[v].hostPath.path "/": no job gets the socket'),
    "containerd": (host("/run//containerd/s"), {}, 'spec.volumes[v].hostPath.path "/run//containerd/s": no job'),
    "a socket elsewhere": (host("/srv/docker.sock"), {}, 'spec.volumes[v].hostPath.path "/srv/docker.sock": no job'),
    "the socket below": (host("/srv"), {"subPath": "docker.sock"}, 'spec.volumes[v].hostPath.path "/srv/docker.sock"'),
    "a path that is not absolute": (host("data"), {}, 'spec.volumes[v].hostPath.path "data": an absolute path'),
    "a path with ..": (host("/a/../b"), {}, 'spec.volumes[v].hostPath.path "/a/../b": an absolute path without ..'),
    "a type of tomorrow": (
        host("/a", "Pipe"),
        {},
        'spec.volumes[v].hostPath.type "Pipe": DirectoryOrCreate, Directory',
    ),
    "out of the volume": (host("/a"), {"subPath": "../b"}, f'{WORKER}.volumeMounts[/data].subPath "../b": a relative'),
    "out of the volume by a variable": (
        host("/a"),
        {"subPathExpr": "$(UP)"},
        f'{WORKER}.volumeMounts[/data].subPathExpr "$(UP)": a relative path without ..',
    ),
    "out of a claim": (claim("data"), {"subPath": "/b"}, f'{WORKER}.volumeMounts[/data].subPath "/b": a relative'),
    "an unknown variable": (
        host("/a"),
        {"subPathExpr": "$(NONE)"},
        f'{WORKER}.volumeMounts[/data].subPathExpr "$(NONE)": the container has no variable NONE',
    ),
    "propagation of tomorrow": (
        host("/a"),
        {"mountPropagation": "Both"},
        f'{WORKER}.volumeMounts[/data].mountPropagation "Both": None, HostToContainer, Bidirectional are allowed',
    ),
    "propagation from a claim": (
        claim("data"),
        {"mountPropagation": "Bidirectional"},
        f'{WORKER}.volumeMounts[/data].mountPropagation "Bidirectional": only a hostPath can have one',
    ),
    "a name that Docker does not take": (
        claim("x"),
        {},
        'spec.volumes[v].persistentVolumeClaim.claimName "x": at least two characters are needed',
    ),
    "a medium of tomorrow": (empty(medium="HugePages"), {}, 'spec.volumes[v].emptyDir.medium "HugePages": Memory'),
    "no size": (empty(sizeLimit="much"), {}, 'spec.volumes[v].emptyDir.sizeLimit "much": a quantity such as 2Gi'),
    "a secret": ({"secret": {"secretName": "s"}}, {}, "spec.volumes[v].secret: there is no Kubernetes API"),
    "a ConfigMap": ({"configMap": {"name": "s"}}, {}, "spec.volumes[v].configMap: there is no Kubernetes API"),
    "storage of a cluster": ({"csi": {"driver": "x"}}, {}, "spec.volumes[v].csi: an engine has no such volumes"),
    "an image": ({"image": {"reference": "x"}}, {}, "spec.volumes[v].image: an engine has no such volumes"),
    "a volume of tomorrow": ({"newKind": {}}, {}, "spec.volumes[v].newKind: this field is not known"),
    "a place that is not absolute": (host("/a"), {"mountPath": "b"}, f'{WORKER}.volumeMounts[b].mountPath "b": an abs'),
    "a place with a colon": (
        host("/a"),
        {"mountPath": "/b:c"},
        f'{WORKER}.volumeMounts[/b:c].mountPath "/b:c": an abs',
    ),
    "a volume that is not there": (
        host("/a"),
        {"name": "w"},
        f'{WORKER}.volumeMounts[/data].name "w": the volumes are v',
    ),
}


@pytest.mark.parametrize(("source", "mount", "message"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.row("B-25")
def test_what_is_refused(source: Body, mount: Body, message: str) -> None:  # F-44
    assert problems(mounting(source, **mount))[0].startswith(message)


def test_an_empty_volume_at_two_places() -> None:
    places = [{"name": "v", "mountPath": path} for path in ("/a", "/b")]
    body = with_spec({"volumes": [{"name": "v", "emptyDir": {}}]}, volumeMounts=places)
    assert problems(body) == (f'{WORKER}.volumeMounts[/b].name "v": Docker mounts an emptyDir at one place only',)


def test_a_volume_without_a_place_is_not_mounted() -> None:
    assert "Mounts" not in host_config(with_spec({"volumes": [{"name": "v", "emptyDir": {}}]}))


def test_a_workspace() -> None:  # F-35
    site = Site(
        limits=(), data_sets={"s": {"d": DataSet.model_validate({"mode": "ro", "hostPath": {"path": "/sets"}})}}
    )
    found = host_config(
        pod(
            worker(0, 0),
            site=site,
            study="s",
            workspace={"hostPath": {"path": "/ws"}, "mountPath": "/mnt", "startup": True, "local": True},
        )
    )
    root, *rest = found["Mounts"]
    assert root == in_memory("50%") | {"Target": "/mnt"}
    assert [(one["Source"], one["Target"], one.get("ReadOnly", False)) for one in rest] == [
        ("/ws/startup", "/mnt/startup", True),
        ("/ws/local", "/mnt/local", True),
        ("/ws/train", "/mnt/train", False),
        ("/sets", "/data/s/d", True),
    ]
