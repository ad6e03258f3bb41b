"""Pods for the tests of the local engine: as the planner makes them, with fields of their own."""

from typing import Any

from slipway.api.places import FIRST, Place
from slipway.core.manifests.merge import merged
from slipway.core.model.job import Settings
from slipway.core.model.parts import Body
from slipway.core.model.site import Site
from slipway.core.validation.acceptance import pod_factory
from slipway.local.conversion.convert import ContainerRequest, Surroundings, containers
from tests.core.build import UNLIMITED, world_at


def pod(place: Place = FIRST, *, site: Site = UNLIMITED, **fields: Any) -> Body:
    """The pod of a job with these fields of its spec."""
    settings = Settings(operator_image="slipway.dev/operator:1")
    return pod_factory(world_at(site, **fields).job, settings).pod(0, place)


def with_spec(spec: Body | None = None, **worker: Any) -> Body:
    """A pod with further fields of its PodSpec and of its worker's container."""
    body = pod()
    laid = merged(body["spec"], {"containers": [{"name": "worker"} | worker], **(spec or {})})
    return body | {"spec": laid}


def converted(body: Body, **around: Any) -> Body:
    """The worker of a pod, as the engine is asked for it."""
    return containers(body, Surroundings(**{"network": "slipway", **around}))[-1].body


def host_config(body: Body, **around: Any) -> Body:
    """Its HostConfig."""
    found: Body = converted(body, **around)["HostConfig"]
    return found


def variables(body: Body, **around: Any) -> dict[str, str]:
    """Its environment."""
    return dict(one.split("=", 1) for one in converted(body, **around)["Env"])


def create(client: Any, request: ContainerRequest, name: str = "") -> str:
    """Have a real engine make the container; its id."""
    url = client.api._url("/containers/create")
    answer = client.api._post_json(url, data=request.body, params={"name": name or request.name})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["Id"])
