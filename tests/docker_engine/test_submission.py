"""What is refused when a job is submitted, because waiting for it would never help."""

from typing import Any

import pytest

from slipway.docker_engine.submission import Refused, Wishes, check
from slipway.planner.actions import Body


def job(**spec: Any) -> Body:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}}
    return body | {"spec": {"image": "i:1", "command": ["train"]} | spec}


def ports(*ports: Body, name: str = "worker") -> Body:
    return {"podTemplate": {"spec": {"containers": [{"name": name, "image": "i:1", "ports": list(ports)}]}}}


HTTP: Body = {"containerPort": 80, "hostPort": 18080}
AT_HOME: Body = HTTP | {"hostIP": "127.0.0.1"}


@pytest.mark.parametrize(
    ("spec", "network"),
    [
        pytest.param({"hosts": 2, **ports(HTTP)}, None, id="by two hosts"),
        pytest.param(ports(HTTP, {"containerPort": 81, "hostPort": 18080}), None, id="by two ports of a host"),
        pytest.param(ports(AT_HOME, HTTP), None, id="at one address and at all"),
        pytest.param({"hosts": 2, **ports(HTTP)}, "mine", id="by two hosts in a network that exists"),
    ],
)
def test_a_port_of_this_machine_is_asked_for_twice(spec: Body, network: str | None) -> None:
    words = r"spec\.containers\[worker\]\.ports\.hostPort 18080: several containers of the job ask for this port"
    with pytest.raises(Refused, match=words):
        check(job(**spec), Wishes(network=network))


@pytest.mark.parametrize(
    ("spec", "network"),
    [
        pytest.param(ports(HTTP), None, id="by one host"),
        pytest.param(ports(HTTP, HTTP | {"protocol": "UDP"}), None, id="by two protocols"),
        pytest.param(ports(AT_HOME, HTTP | {"hostIP": "127.0.0.2"}), None, id="at two addresses"),
        pytest.param({"hosts": 2, **ports({"containerPort": 80})}, None, id="in the hosts only"),
        pytest.param({"hosts": 2, **ports(HTTP)}, "host", id="on the network of this machine, where none is opened"),
        pytest.param({"hosts": 2, "hostNetwork": True, **ports(HTTP)}, None, id="with hostNetwork"),
    ],
)
def test_a_port_of_this_machine_is_asked_for_once(spec: Body, network: str | None) -> None:
    assert check(job(**spec), Wishes(network=network))
