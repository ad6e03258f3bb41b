"""kubectl against one namespace of a real API server; what tests ask most often goes to the API server directly.

Each kubectl takes a tenth of a second, and a test asks again and again until something holds.
"""

import json
import subprocess
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from tests.waiting import ANSWER_SECONDS, pause, until

TRIES: Final = 5
READS: Final = ("get", "logs", "wait")
NOT_SENT: Final = ("TLS handshake timeout",)
NOT_ANSWERED: Final = ("etcdserver: request timed out", "client connection lost", "unexpected EOF")
"""What kubectl says of an API server that has too much to do; a read is repeated then, a write if it was not sent."""

_JOBS: Final = "/apis/slipway.dev/v1alpha1/namespaces/{}/slicejobs"
_PODS: Final = "/api/v1/namespaces/{}/pods"
_NODES: Final = "/api/v1/nodes"
_PATHS: Final = {
    "sj": _JOBS,
    "slicejobs": _JOBS,
    "pod": _PODS,
    "pods": _PODS,
    "node": _NODES,
    "nodes": _NODES,
    "events.events.k8s.io": "/apis/events.k8s.io/v1/namespaces/{}/events",
}
"""What tests read most often. kubectl reads the rest."""


class Api:
    """An API server, over connections that are kept."""

    def __init__(self, kubeconfig: Path) -> None:
        config = Configuration()
        load_kube_config(str(kubeconfig), client_configuration=config)  # type: ignore[no-untyped-call]  # The client has no types for it.
        self._server: Final = config.host
        token = config.get_api_key_with_prefix("BearerToken")
        self._headers = {"Authorization": token} if token else {}
        self._pool = urllib3.PoolManager(
            ca_certs=config.ssl_ca_cert,
            cert_file=config.cert_file,
            key_file=config.key_file,
            retries=TRIES,
            timeout=ANSWER_SECONDS,
            maxsize=8,
        )

    def read(self, path: str, **query: str) -> Any:
        """One object or a list.

        Raises:
            AssertionError: when the API server refuses; with its words.
        """
        found = self._asked("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path).json()
        # The API server says once what a list is of, and kubectl with each object.
        for one in found.get("items", ()):
            one |= {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return found

    def has(self, path: str) -> bool:
        """Whether there is an object."""
        return self._asked("GET", path, allowed=404).status != 404

    def create(self, path: str, body: Any, **query: str) -> None:
        """Create an object.

        Raises:
            AssertionError: when the API server refuses; with its words.
        """
        sent = json.dumps(body)
        self._asked("POST", f"{path}?{urllib.parse.urlencode(query)}", body=sent, kind="application/json")

    def patch(self, path: str, body: str, kind: str, **query: str) -> None:
        """Change an object by a patch: `application/merge-patch+json`, `application/apply-patch+yaml`."""
        self._asked("PATCH", f"{path}?{urllib.parse.urlencode(query)}", body=body, kind=kind)

    def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        self._asked("DELETE", path, allowed=404)

    def delete_all(self, path: str) -> None:
        """Delete every object of a collection."""
        self._asked("DELETE", path)

    def _asked(
        self, method: str, path: str, *, allowed: int = 0, body: str | None = None, kind: str = ""
    ) -> urllib3.BaseHTTPResponse:
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        answer = self._pool.request(method, f"{self._server}{path}", headers=headers, body=body)
        if answer.status >= 400 and answer.status != allowed:
            raise AssertionError(f"{method} {path}: {answer.json().get('message')}")
        return answer


def refusal(ask: Callable[[], object]) -> str:
    """What the API server says to what is asked of it; nothing where it does it."""
    try:
        ask()
    except AssertionError as error:
        return str(error)
    return ""


def api_of(kubeconfig: Path) -> Api:
    """The API server that a kubeconfig leads to: one client for all, unless the file is written anew."""
    return _api_of(kubeconfig, kubeconfig.stat().st_mtime_ns)


@cache
def _api_of(kubeconfig: Path, written: int) -> Api:
    return Api(kubeconfig)


@dataclass(frozen=True)
class Kubectl:
    """kubectl against one namespace of a real API server."""

    program: str
    kubeconfig: Path
    namespace: str

    def __call__(
        self, *arguments: str, stdin: Any = None, check: bool = True, seconds: float = 2 * ANSWER_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; `stdin` is an object or text handed to `-f -`."""
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        overloaded = NOT_SENT + NOT_ANSWERED if arguments[0] in READS else NOT_SENT
        for _ in range(TRIES if check else 1):
            done = subprocess.run(
                [self.program, "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments],
                input=text,
                text=True,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
            if done.returncode == 0 or not any(words in done.stderr for words in overloaded):
                break
            pause(1)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done

    def apply(self, *bodies: Any) -> None:
        """Server-side apply, with kubectl's checks."""
        if any(body["kind"] != "SliceJob" for body in bodies):
            self("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": bodies})
            return
        for body in bodies:
            path = f"{_JOBS.format(self.namespace)}/{body['metadata']['name']}"
            strict = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
            api_of(self.kubeconfig).patch(path, json.dumps(body), "application/apply-patch+yaml", **strict)

    def says_to(self, body: Any) -> str:
        """What the API server says to a new SliceJob, which it does not store; nothing where it would."""
        tried = {"dryRun": "All", "fieldValidation": "Strict"}
        return refusal(lambda: api_of(self.kubeconfig).create(_JOBS.format(self.namespace), body, **tried))

    def patch(self, kind: str, name: str, body: Any, *, status: bool = False) -> None:
        """Merge a patch into an object of those that are read directly, or into its status."""
        path = f"{_PATHS[kind].format(self.namespace)}/{name}{'/status' if status else ''}"
        text = body if isinstance(body, str) else json.dumps(body)
        api_of(self.kubeconfig).patch(path, text, "application/merge-patch+json")

    def get(self, what: str, name: str = "", selector: str = "") -> Any:
        """One object, or the list of those that a label selector matches."""
        kind, _, within = what.partition("/")
        name = name or within
        if kind not in _PATHS:
            options = [*([name] if name else []), *(["-l", selector] if selector else [])]
            return json.loads(self("get", kind, *options, "-o", "json").stdout)
        api, path = api_of(self.kubeconfig), _PATHS[kind].format(self.namespace)
        return api.read(f"{path}/{name}") if name else api.read(path, labelSelector=selector)

    def wait(self, *what: str, until: str, seconds: float = ANSWER_SECONDS) -> None:
        """`kubectl wait --for=…`."""
        self("wait", *what, f"--for={until}", f"--timeout={seconds:g}s", seconds=2 * seconds)

    def until_established(self, *plurals: str) -> None:
        """Wait for some CRDs, or all; kubectl itself fails while a CRD has no conditions at all yet."""
        wanted = ",".join(plurals or ("slicejobs", "slicejobprofiles"))
        until(f"the API server serves {wanted}", lambda: self("get", wanted, check=False).returncode == 0)

    def refuses(self, body: Any, *arguments: str) -> str:
        """What the API server says when it refuses a body."""
        done = self("apply", "--server-side", *arguments, "-f", "-", stdin=body, check=False)
        assert done.returncode != 0, f"accepted: {body}"
        return done.stderr
