"""No value that a job's author wrote where a secret may stand is repeated: in status, Events or the operator's log."""

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.reading import read_spec
from slipway.controller.observability.log_format import Lines
from slipway.core.planner.status.events import cursor_of, news
from slipway.core.validation.warnings import notices
from tests.core.build import World

CANARY: Final = "Tr0ub4dor-and-3-zebra-quartz"
PART: Final = 8
"""Characters of it that stand in a message by no accident."""
ENV: Final = [{"name": "DB_PASSWORD", "value": CANARY}, {"name": "ENDPOINT", "value": f"https://u:{CANARY}@db"}]
MOUNT: Final = {"name": "store", "csi": {"driver": "s", "volumeAttributes": {"password": CANARY, "share": CANARY}}}
CONTAINER: Final = {
    "name": "migrate",
    "image": "x/migrate",
    "command": ["migrate", "--password", CANARY],
    "args": [CANARY],
    "env": ENV,
    "envFrom": [{"prefix": CANARY}],
    "lifecycle": {"postStart": {"exec": {"command": ["login", CANARY]}}},
}
SPEC: Final[dict[str, Any]] = {
    "image": "busybox:1",
    "command": ["train", CANARY],
    "args": [CANARY],
    "env": ENV,
    "volumes": [MOUNT],
    "podTemplate": {
        "metadata": {"annotations": {"note": CANARY}},
        "spec": {
            "containers": [CONTAINER | {"name": "worker"}],
            "initContainers": [CONTAINER],
            "volumes": [MOUNT],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [CANARY]}],
            "dnsConfig": {"options": [{"name": "a", "value": CANARY}]},
        },
    },
}
RAY: Final[dict[str, Any]] = SPEC | {
    "ray": {
        "entrypoint": f"python train.py --token {CANARY}",
        "head": {"env": ENV},
        "runtimeEnv": {"env_vars": {"DB_PASSWORD": CANARY}, "config": {"eager": CANARY}},
    }
}
CASES: Final[dict[str, Any]] = {
    "an init container without a name": SPEC
    | {"podTemplate": {"spec": {"initContainers": [{"image": "x", "env": ENV}]}}},
    "a volume without a name": SPEC | {"podTemplate": {"spec": {"volumes": [{"csi": MOUNT["csi"]}]}}},
    "init containers that are an object": SPEC | {"podTemplate": {"spec": {"initContainers": {"env": ENV}}}},
    "volumes that are a long text": SPEC | {"volumes": "x" * 60 + CANARY},
    "a template that is a list": SPEC | {"podTemplate": [CONTAINER]},
    "an image that is a variable": SPEC | {"image": ENV[0]},
    "a selector that is a variable": SPEC | {"nodeSelector": ENV},
}
"""As they were met."""


def _parts(text: str) -> set[str]:
    return {CANARY[at : at + PART] for at in range(len(CANARY) - PART + 1) if CANARY[at : at + PART] in text}


def written(content: dict[str, Any], log: list[str]) -> str:
    """All that Slipway writes of a job with that spec until it waits, runs or is refused."""
    world = World()
    world.read = read_spec(content)
    before, told = cursor_of(world.status), []
    world.settle()
    job = world.job
    told += [f"{one.reason} {one.message}" for one in news(before, world.status, job.spec)]
    told += [f"{one.reason} {one.message}" for one in notices(job.spec)] if job.spec is not None else []
    record = logging.LogRecord("slipway", logging.INFO, "", 0, "%s: %s", (world.read[1], told), None)
    record.spec = job.spec
    log.append(Lines().format(record))
    return world.status.model_dump_json() + json.dumps(told) + log[-1]


@pytest.mark.parametrize("content", CASES.values(), ids=CASES)
def test_a_value_of_a_malformed_spec_is_not_repeated(content: dict[str, Any]) -> None:
    assert not _parts(written(content, []))


def _places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


def _put(content: Any, path: tuple[Any, ...], change: Any) -> Any:
    key, *rest = path
    copy: Any = dict(content) if isinstance(content, dict) else list(content)
    if rest:
        copy[key] = _put(copy[key], tuple(rest), change)
    elif change is DROPPED:
        del copy[key]
    else:
        copy[key] = change(copy[key])
    return copy


DROPPED: Final = object()
CHANGES: Final[dict[str, Any]] = {
    "dropped": DROPPED,
    "in a list": lambda value: [value],
    "in an object": lambda value: {"value": value},
    "its items": lambda value: list(value.values()) if isinstance(value, dict) else value,
    "its text": json.dumps,
    "a number": lambda value: 5,
    "null": lambda value: None,
    "a field that nobody knows beside it": lambda value: value | {"x": CANARY} if isinstance(value, dict) else value,
}


@given(st.data())
def test_a_value_of_a_mangled_spec_is_not_repeated(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([SPEC, RAY]))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path in _places(content) if path != ("image",)]
        path = data.draw(st.sampled_from(places))
        change = data.draw(st.sampled_from(list(CHANGES)))
        content = _put(content, path, CHANGES[change])
    said = written(content, [])
    assert not _parts(said), said
