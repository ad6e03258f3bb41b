"""Every request to the API server is counted once, by Kubernetes' verb and by the answer."""

import pytest
from aiohttp import web

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NotFound
from slipway.apiserver.request_counts import NO_ANSWER, Calls, verb_of
from slipway.apiserver.wire import JsonObject
from tests.apiserver.replay import open_access, replaying

PODS = "/api/v1/namespaces/ns/pods"
VERBS: dict[tuple[str, str], str] = {
    ("GET", PODS): "list",
    ("GET", "/api/v1/nodes"): "list",
    ("GET", "/apis/slipway.dev/v1alpha1/slicejobs"): "list",
    ("GET", f"{PODS}/train-0-0-0"): "get",
    ("GET", f"{PODS}/train-0-0-0/log"): "get",
    ("GET", "/api/v1/namespaces/ns"): "get",
    ("GET", "/prefix/of/a/proxy/api/v1/nodes/n1"): "get",
    ("GET", "/version"): "get",
    ("POST", PODS): "create",
    ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/slipway-operator"): "update",
    ("PATCH", "/apis/slipway.dev/v1alpha1/namespaces/ns/slicejobs/train/status"): "patch",
    ("DELETE", f"{PODS}/train-0-0-0"): "delete",
    ("DELETE", PODS): "deletecollection",
}


@pytest.mark.parametrize(("method", "path"), VERBS)
def test_the_verb_of_a_request(method: str, path: str) -> None:
    assert verb_of(method, path) == VERBS[method, path]


async def test_answers_and_their_absence_are_counted_in_every_session() -> None:
    calls = Calls()

    async def empty(_: web.Request) -> web.Response:
        return web.json_response({})

    async def absent(_: web.Request) -> web.Response:
        return web.json_response({"reason": "NotFound"}, status=404)

    async def breaks(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with replaying() as replay, ApiConnection(open_access(replay.url), calls=calls) as api:
        # The connection tries again by itself what got no answer.
        replay.then(breaks, empty, absent, empty)
        await api.get(f"{PODS}/a", JsonObject)
        with pytest.raises(NotFound):
            await api.get(f"{PODS}/a", JsonObject)
        # As kopf watches.
        async with api.new_session() as session, session.get(f"{replay.url}/apis/x/v1/slicejobs?watch=true"):
            pass
    assert calls.counts == {("get", NO_ANSWER): 1, ("get", "200"): 1, ("get", "404"): 1, ("watch", "200"): 1}
    assert calls.last_watched("/apis/x/v1/slicejobs") > 0.0
    assert calls.last_watched("/apis/x/v1/namespaces/ns/slicejobs") == calls.last_watched(f"{PODS}/a") == 0.0
