"""Texts that many objects have are kept once."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from slipway.api import names
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod

JOB_UID = "0b5e-job"


def pod(number: int) -> Pod:
    labels = {
        names.LABEL_JOB_NAME: "train",
        names.LABEL_JOB_UID: JOB_UID,
        names.LABEL_HOST: str(number),
        names.LABEL_NODE_POOL: "pool-of-v5e",
    }
    metadata = {"name": f"train-0-0-{number}", "namespace": "research", "labels": labels}
    conditions = [{"type": "PodScheduled", "status": "True"}]
    containers = [{"name": "worker"}]
    body = {
        "metadata": metadata | {"ownerReferences": [{"uid": JOB_UID}]},
        "spec": {"nodeName": f"node-{number}"},
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": containers},
    }
    return msgspec.json.decode(json.dumps(body), type=Pod)


def node(number: int) -> Node:
    labels = {names.NODE_POOL: "pool-of-v5e"}
    conditions = [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting."}
    ]
    body = {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"conditions": conditions, "allocatable": {names.TPU_RESOURCE: "four"}},
    }
    return msgspec.json.decode(json.dumps(body), type=Node)


def of_conditions(one: Pod | Node) -> Sequence[str]:
    [condition] = one.status.conditions
    return condition.type, condition.status, condition.reason, condition.message


SHARED: dict[str, tuple[Callable[[int], Any], Callable[[Any], Sequence[str]]]] = {
    "labels of a pod": (pod, lambda one: [one.metadata.labels.job_name, one.metadata.labels.node_pool]),
    "owner and label of a pod": (
        pod,
        lambda one: [one.metadata.owner_references[0].uid, one.metadata.labels.job_uid],
    ),
    "namespace of a pod": (pod, lambda one: [one.metadata.namespace]),
    "phase of a pod": (pod, lambda one: [one.status.phase]),
    "conditions of a pod": (pod, of_conditions),
    "containers of a pod": (pod, lambda one: [one.status.container_statuses[0].name]),
    "labels of a node": (node, lambda one: [*one.metadata.labels, *one.metadata.labels.values()]),
    "taints of a node": (node, lambda one: [one.spec.taints[0].key, one.spec.taints[0].value]),
    "conditions of a node": (node, of_conditions),
    "sizes of a node": (node, lambda one: [*one.status.allocatable, *one.status.allocatable.values()]),
}


@pytest.mark.parametrize(("made", "texts"), SHARED.values(), ids=SHARED)
def test_equal_texts_of_two_objects_are_one_string(
    made: Callable[[int], Any], texts: Callable[[Any], Sequence[str]]
) -> None:
    first, second = texts(made(0)), texts(made(1))
    assert first == second
    assert [id(text) for text in first] == [id(text) for text in second]


def test_a_pod_and_its_node_share_the_name() -> None:
    assert pod(3).spec.node_name is node(3).metadata.name


def test_a_pod_and_its_owner_share_the_uid() -> None:
    metadata = pod(0).metadata
    assert metadata.owner_references[0].uid is metadata.labels.job_uid
