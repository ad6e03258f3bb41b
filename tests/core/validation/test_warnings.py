"""What people are told of a spec that is accepted all the same: names, never values, and once."""

from typing import Any

import pytest

from slipway.core.validation.warnings import notices
from tests.core.build import World, spec

SECRET = "hunter22"


def env(**variables: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def from_secret(name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def template(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": list(containers)}}}


LITERAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a token": ({"env": env(HF_TOKEN=SECRET, A="b")}, ["spec.env[HF_TOKEN]"]),
    "several, in any case": (
        {"env": env(db_password=SECRET, ClientSecret=SECRET)},
        ["spec.env[db_password]", "spec.env[ClientSecret]"],
    ),
    "a password of digits": ({"env": env(DB_PASSWORD="1234")}, ["spec.env[DB_PASSWORD]"]),
    "a sidecar's": (
        template({"name": "worker"}, {"name": "log", "env": env(API_TOKEN=SECRET)}),
        ["spec.podTemplate.spec.containers[1].env[API_TOKEN]"],
    ),
    "Ray's": (
        {"ray": {"entrypoint": "a", "runtimeEnv": {"env_vars": {"HF_TOKEN": SECRET}}}},
        ["spec.ray.runtimeEnv.env_vars[HF_TOKEN]"],
    ),
    "from a Secret": ({"env": [from_secret("HF_TOKEN")]}, []),
    "empty": ({"env": env(HF_TOKEN="")}, []),
    "a setting": ({"env": env(TOKENIZERS_PARALLELISM="false", MAX_TOKENS="4096")}, []),
    "another name": ({"env": env(A="b")}, []),
}


@pytest.mark.parametrize(("fields", "named"), LITERAL.values(), ids=LITERAL.keys())
def test_a_literal_secret_gives_one_warning_that_names_the_variables(fields: dict[str, Any], named: list[str]) -> None:
    """F-33."""
    found = notices(spec(**fields))
    assert [(one.reason, one.warning) for one in found] == ([("LiteralSecret", True)] if named else [])
    for one in found:
        assert one.message.endswith(f"the literal value of {', '.join(named)}")
        assert one.message.startswith("use valueFrom.secretKeyRef")
        assert SECRET not in one.message


def memory(limit: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": limit}}}


SHM: dict[str, tuple[dict[str, Any], str]] = {
    "larger": ({"shmSize": "2Gi"} | memory("1Gi"), "spec.shmSize 2Gi is larger than spec.resources.limits.memory 1Gi"),
    "in other units": ({"shmSize": "2Gi"} | memory("2G"), "larger than spec.resources.limits.memory 2G"),
    "bytes": ({"shmSize": 1025} | memory("1Ki"), "spec.shmSize 1025 is larger than"),
    "an exponent": ({"shmSize": "1e3"} | memory("999"), "spec.shmSize 1e3 is larger than"),
    "than the template's limit": (
        {"shmSize": "2Gi"} | memory("4Gi") | template({"name": "worker", **memory("1Gi")}),
        "larger than spec.podTemplate.spec.containers[0].resources.limits.memory 1Gi",
    ),
    "a sidecar's limit": ({"shmSize": "2Gi"} | template({"name": "log", **memory("1Gi")}), ""),
    "as large": ({"shmSize": "1Gi"} | memory("1024Mi"), ""),
    "no limit": ({"shmSize": "2Gi"}, ""),
    "no size": (memory("1Gi"), ""),
}


@pytest.mark.parametrize(("fields", "said"), SHM.values(), ids=SHM.keys())
@pytest.mark.row("B-26")
def test_shared_memory_that_does_not_fit_gives_a_warning(fields: dict[str, Any], said: str) -> None:
    found = [(one.reason, one.warning) for one in notices(spec(**fields))]
    assert found == ([("ShmSizeAboveLimit", True)] if said else [])
    assert all(said in one.message for one in notices(spec(**fields)))


def test_a_job_warns_when_its_first_attempt_begins_and_never_again() -> None:
    world = World(env=env(HF_TOKEN=SECRET)).run()
    assert world.told.count("LiteralSecret") == 1
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.run()
    assert world.status.attempt == 1
    assert world.told.count("LiteralSecret") == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "takes its pods"),
        (("worker",), "takes its pods"),
        (("log",), "takes its pods; container log of podTemplate runs as a sidecar beside the worker"),
        (("wroker", "worker", "log"), "pods; container wroker of podTemplate runs as a sidecar beside the worker; "),
    ],
    ids=["no template", "the worker", "a sidecar", "a slip of the pen beside another"],
)
def test_the_condition_accepted_says_which_containers_are_sidecars(names: tuple[str, ...], said: str) -> None:
    world = World(**template(*({"name": name} for name in names))).begin()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, said in accepted.message) == ("True", True)
    assert accepted.message.count("sidecar") == len({*names} - {"worker"})
