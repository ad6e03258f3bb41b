"""The environment of the hosts: one for every runtime, defaults that a job may replace, and its listing."""

from typing import Any

import pytest

from docs.generators.variables import VARIABLES
from slipway.api.places import FIRST, HEAD, Place, Rank, worker
from slipway.client.environment_listing import Listed, Listing, listing
from slipway.core.manifests.peers import Peers
from slipway.core.model.job import Settings
from slipway.core.validation.acceptance import pod_factory, template_hash
from slipway.core.validation.warnings import notices
from tests.core.build import World, spec

TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16"}, "hosts": None}
RAY: dict[str, Any] = {"ray": {"entrypoint": "python3 train.py"}}
DEFAULTS = (
    "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID",
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK",
)  # fmt: skip


def containers(place: Place = FIRST, *, settings: Settings | None = None, **fields: Any) -> dict[str, Any]:
    pod = pod_factory(World(**fields).job, settings or Settings()).pod(0, place)["spec"]
    return {one["name"]: one for one in (*pod["containers"], *pod.get("initContainers", ()))}


def variables(place: Place = FIRST, container: str = "worker", **more: Any) -> list[tuple[str, Any]]:
    """Name and value, or valueFrom, of each variable, in their order."""
    env = containers(place, **more)[container]["env"]
    return [(one["name"], one.get("valueFrom", one.get("value"))) for one in env]


def listed(**fields: Any) -> Listing:
    return listing(World(**fields).job, Settings())


def rows(**fields: Any) -> dict[str, Listed]:
    return {row.name: row for row in listed(**fields).workers}


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def template(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": list(containers)}}}


# What every worker gets.

SHAPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "one CPU host": ({"slices": 1, "hosts": 1}, "1", "0"),
    "one slice": ({"slices": 1} | TPU, "2", "1"),
    "several slices": ({"slices": 3} | TPU, "6", "5"),
    "Ray": ({"slices": 2} | TPU | RAY, "4", "3"),
}


@pytest.mark.parametrize(("fields", "processes", "last"), SHAPES.values(), ids=SHAPES)
def test_every_worker_finds_the_others_by_the_names_of_its_library(  # T-18
    fields: dict[str, Any], processes: str, last: str
) -> None:
    found = rows(**fields)
    meeting = "0-0-0.train.ml.svc"
    same = {name: row.first for name, row in found.items() if name in DEFAULTS and row.first == row.last}
    assert {row.source for name, row in found.items() if name in DEFAULTS} == {"default of Slipway"}
    several = fields["slices"] > 1
    assert same.get("JAX_COORDINATOR_ADDRESS") == (None if several else f"{meeting}:8482")
    assert same.items() >= {
        "JAX_NUM_PROCESSES": processes,
        "MASTER_ADDR": meeting, "MASTER_PORT": "29500", "WORLD_SIZE": processes,
    }.items()  # fmt: skip
    for name in ("JAX_PROCESS_ID", "RANK", "NODE_RANK", "SLIPWAY_RANK"):
        assert (found[name].first, found[name].last) == ("0", last)
    assert found["SLIPWAY_COORDINATOR_ADDRESS"].first == f"{meeting}:8081"
    assert ("MEGASCALE_PORT" in found) == several


def test_the_kubelet_knows_the_rank_before_the_names_that_refer_to_it() -> None:
    names = [name for name, _ in variables(worker(1, 1), slices=2, **TPU)]
    assert all(names.index("SLIPWAY_RANK") < names.index(name) for name in DEFAULTS if name in names)


def test_hosts_of_a_slice_differ_in_no_more_than_before() -> None:
    one, other = (dict(variables(worker(1, host), slices=2, **TPU)) for host in range(2))
    assert {name for name in one if one[name] != other[name]} == {
        "SLIPWAY_HOST", "SLIPWAY_RANK", "EXECUTOR_CALL_INDEX", "TPU_HOST_ID", "TPU_WORKER_ID",
    }  # fmt: skip


def test_a_pod_is_named_by_its_seat_and_its_program_by_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a spare slice: what sits in slice 1 does the work of slice 0, and the other way round."""
    monkeypatch.setattr(Peers, "rank", lambda peers, place: Rank(1 - place.slice, place.host))
    monkeypatch.setattr(Peers, "seat", lambda peers, rank: worker(1 - rank.slice, rank.host))
    pod = pod_factory(World(slices=2, **TPU).job, Settings()).pod(0, worker(1, 1))
    labels, found = pod["metadata"]["labels"], dict(variables(worker(1, 1), slices=2, **TPU))
    assert (pod["spec"]["hostname"], labels["slipway.dev/slice"]) == ("0-1-1", "1")
    assert (found["MEGASCALE_SLICE_ID"], found["TPU_SLICE_NAME"], found["SLIPWAY_RANK"]) == ("0", "train-s0", "1")
    assert found["TPU_WORKER_HOSTNAMES"] == "0-1-0.train,0-1-1.train"
    assert found["MASTER_ADDR"] == "0-1-0.train.ml.svc"


def test_the_ray_head_is_none_of_the_processes() -> None:
    assert not {name for name, _ in variables(HEAD, "ray-head", **TPU, **RAY)} & {*DEFAULTS, "SLIPWAY_RANK"}


# Ports.

PORTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "JAX's port is the coordinator's": ({"coordinator": {"port": 8482}}, "8483", "29500"),
    "torch's port is the coordinator's": ({"coordinator": {"port": 29500}}, "8482", "29501"),
    "a sidecar has them": (
        template({"name": "log", "image": "a:1", "ports": [{"containerPort": port} for port in (8482, 8483, 29500)]}),
        "8484",
        "29501",
    ),
    "the worker declares JAX's": (template({"name": "worker", "ports": [{"containerPort": 8482}]}), "8482", "29500"),
    "the job tells JAX another": ({"env": env(JAX_COORDINATOR_PORT="9000")}, "9000", "29500"),
    "the template tells JAX another": (
        template({"name": "worker", "env": env(JAX_COORDINATOR_PORT="9001")}),
        "9001",
        "29500",
    ),
}


@pytest.mark.parametrize(("fields", "jax", "torch"), PORTS.values(), ids=PORTS)
def test_the_libraries_have_ports_that_nothing_else_in_the_pod_has(
    fields: dict[str, Any], jax: str, torch: str
) -> None:
    found = dict(variables(slices=1, **TPU, **fields))
    assert (found["JAX_COORDINATOR_ADDRESS"], found["MASTER_PORT"]) == (f"0-0-0.train.ml.svc:{jax}", torch)


# What the job says itself.

SECRET = {"secretKeyRef": {"name": "meeting", "key": "where"}}
OVER: dict[str, tuple[dict[str, Any], Any]] = {
    "spec.env": ({"env": env(MASTER_ADDR="mine")}, "mine"),
    "spec.env from a Secret": ({"env": [{"name": "MASTER_ADDR", "valueFrom": SECRET}]}, SECRET),
    "podTemplate": (template({"name": "worker", "env": env(MASTER_ADDR="mine")}), "mine"),
    "podTemplate from a Secret": (
        template({"name": "worker", "env": [{"name": "MASTER_ADDR", "valueFrom": SECRET}]}),
        SECRET,
    ),
    "podTemplate over spec.env": (
        {"env": env(MASTER_ADDR="x"), **template({"name": "worker", "env": env(MASTER_ADDR="mine")})},
        "mine",
    ),
    "a Secret of podTemplate over a value of spec.env": (
        {
            "env": env(MASTER_ADDR="x"),
            **template({"name": "worker", "env": [{"name": "MASTER_ADDR", "valueFrom": SECRET}]}),
        },
        SECRET,
    ),
}


@pytest.mark.parametrize(("fields", "value"), OVER.values(), ids=OVER)
@pytest.mark.parametrize("runtime", [{}, RAY], ids=["containers", "Ray"])
def test_a_default_gives_way_to(fields: dict[str, Any], value: Any, runtime: dict[str, Any]) -> None:  # K-04
    found = [one for one in containers(**TPU, **fields, **runtime)["worker"]["env"] if one["name"] == "MASTER_ADDR"]
    assert found == [{"name": "MASTER_ADDR", ("valueFrom" if value is SECRET else "value"): value}]


@pytest.mark.parametrize("name", DEFAULTS)
def test_each_default_gives_way_where_all_hosts_share_it_or_not(name: str) -> None:
    for host in range(2):
        assert [
            one for one in variables(worker(1, host), slices=2, env=env(**{name: "mine"}), **TPU) if one[0] == name
        ] == [(name, "mine")]


def test_a_variable_of_the_job_may_refer_to_all_of_slipways_and_to_those_before_it() -> None:
    given = env(
        PORT="7", MASTER_PORT="$(PORT)", AT="$(MASTER_ADDR):$(MASTER_PORT) $(RANK) $$(RANK) $(LATER)", LATER="x"
    )
    found = rows(slices=2, env=given, **TPU)
    assert (found["MASTER_PORT"].first, found["MASTER_PORT"].source) == ("7", "spec.env")
    assert found["AT"].last == "0-0-0.train.ml.svc:7 3 $(RANK) $(LATER)"


def test_the_head_has_an_environment_of_its_own() -> None:
    head = {"env": [*env(A="head", RAY_NODE_TYPE_NAME="mine"), {"name": "B", "valueFrom": SECRET}]}
    fields = TPU | {"ray": RAY["ray"] | {"head": head}, "env": env(A="all", B="all", C="all")}
    found = variables(HEAD, "ray-head", **fields)
    assert {name: value for name, value in found if name in {"A", "B", "C", "RAY_NODE_TYPE_NAME"}} == {
        "A": "head", "B": SECRET, "C": "all", "RAY_NODE_TYPE_NAME": "mine",
    }  # fmt: skip
    assert len(found) == len(dict(found))
    assert dict(variables(**fields))["A"] == "all"
    assert {name for name, _ in variables(HEAD, "driver", **fields)} == {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"}


def test_a_literal_secret_of_the_head_is_noticed() -> None:
    [event] = notices(spec(**{"ray": RAY["ray"] | {"head": {"env": env(HF_TOKEN="s3cr3t")}}}))
    assert "spec.ray.head.env[HF_TOKEN]" in event.message


def test_the_hash_of_a_job_from_before_the_heads_environment_is_the_same() -> None:
    head = {"nodeSelector": {"pool": "cpu"}}
    assert template_hash(spec(**{"ray": RAY["ray"] | {"head": head}})) == "v2:80484b66ccaf-44136fa355b3"


# The listing.


def test_the_table_of_the_page_has_what_the_containers_have() -> None:
    jobs: tuple[dict[str, Any], ...] = (
        {"slices": 1, "accelerator": {"type": "tpu7x-16"}, "hosts": None},
        {"slices": 2, "ray": RAY["ray"] | {"args": {"a": 1}}, **TPU},
        {"workspace": {"hostPath": {"path": "/a"}, "pythonPaths": ["a"]}},
        {"volumes": [{"name": "a"}], "output": {"volume": "a", "path": "/out"}},
    )
    found = [row for fields in jobs for part in (listed(**fields).workers, listed(**fields).head) for row in part]
    assert {row.name for row in found} == {row.name for row in VARIABLES}
    assert len(VARIABLES) == len({row.name for row in VARIABLES})
    reserved = {row.name for row in VARIABLES if row.reserved}
    assert {row.name for row in found if row.source == "Slipway"} == reserved


def test_where_each_variable_comes_from() -> None:
    found = rows(
        env=[*env(A="a", B="spec"), {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "more", "key": "c"}}}],
        envFrom=[{"secretRef": {"name": "keys"}, "prefix": "K_"}],
        **template(
            {"name": "worker", "env": env(B="template", TPU_ZONE="mine"), "envFrom": [{"configMapRef": {"name": "m"}}]}
        ),
        **TPU,
    )
    shown = {name: (row.first, row.source) for name, row in found.items()}
    assert (
        shown.items()
        >= {
            "A": ("a", "spec.env"),
            "B": ("template", "spec.podTemplate"),
            "C": ("key c of ConfigMap more", "spec.env"),
            "TPU_ZONE": ("mine", "spec.podTemplate"),
            "TPU_VERSION": ("v5p-16", "Slipway"),
            "K_*": ("every key of Secret keys", "spec.envFrom"),
            "*": ("every key of ConfigMap m", "spec.podTemplate"),
        }.items()
    )


@pytest.mark.parametrize(
    "source",
    [{"secretKeyRef": "x"}, {"secretKeyRef": {"name": "a"}}, {"fileKeyRef": {"path": "a"}}],
    ids=["malformed", "incomplete", "of a later Kubernetes"],
)
def test_a_source_that_is_not_known_is_listed_all_the_same(source: dict[str, Any]) -> None:
    assert rows(env=[{"name": "A", "valueFrom": source}])["A"].first == "another source"


def test_nothing_secret_is_listed() -> None:  # E1-20
    fields = {
        "env": [
            *env(HF_TOKEN="s3cr3t-1", URL="https://me:s3cr3t-2@host", COPY="<$(HF_TOKEN)>", AGAIN="s3cr3t-1!"),
            {"name": "KEY", "valueFrom": SECRET},
            *env(BEHIND="$(KEY)"),
        ],
        "ray": RAY["ray"]
        | {"args": {"api-key": "s3cr3t-3"}, "head": {"env": env(DB_PASSWORD="s3cr3t-4", X="s3cr3t-4")}},
    }
    found = listed(**TPU, **fields)
    assert "s3cr3t" not in repr(found)
    shown = {row.name: row.first for row in found.workers}
    assert (shown["HF_TOKEN"], shown["COPY"]) == ("[redacted]", "<[redacted]>")
    assert (shown["KEY"], shown["BEHIND"]) == ("key where of Secret meeting", "$(KEY)")
    assert {row.name: row.source for row in found.head}["DB_PASSWORD"] == "spec.ray.head.env"


def test_a_long_host_list_is_listed_by_its_config_maps() -> None:
    found = rows(slices=2, accelerator={"type": "v5litepod-256"}, hosts=None)["TPU_WORKER_HOSTNAMES"]
    assert (found.first, found.last) == (
        "key hostnames of ConfigMap train-0-0",
        "key hostnames of ConfigMap train-0-1",
    )


def test_the_listing_is_of_the_current_attempt_with_its_slices() -> None:
    world = World(slices=2, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    found = listing(world.job, Settings())
    assert (found.attempt, found.hosts) == (1, 4)
    assert {row.name: row.first for row in found.workers}["MASTER_ADDR"] == "1-0-0.train.ml.svc"
    world.pods.clear()
    assert listing(world.job, Settings()) == found
