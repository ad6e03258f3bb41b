"""Every version that objects have had, told by a watch: a look now and then may miss what lasts for a moment."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kubectl import Kubectl
from tests.waiting import START_SECONDS, until

SECONDS = START_SECONDS
"""How long a watch may be late."""


@contextmanager
def every_version(kubectl: Kubectl, collection: str) -> Iterator[list[Any]]:
    """Gather the events of a watch; nothing is missed from the beginning to the end."""
    events: list[Any] = []
    command = [kubectl.program, "--kubeconfig", str(kubectl.kubeconfig), "get", "--raw", f"{collection}?watch=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = process.stdout
        reader = threading.Thread(target=lambda: events.extend(json.loads(line) for line in lines))
        reader.start()
        try:
            _until_told(kubectl, collection, events)
            yield events
            _until_told(kubectl, collection, events)
            assert process.poll() is None, "the watch broke off"
        finally:
            process.terminate()
            reader.join()


def in_order(*kinds: list[Any]) -> Iterator[dict[tuple[str, str], Any]]:
    """All objects, by kind and name, after each write to any of them."""
    there: dict[tuple[str, str], Any] = {}
    for event in sorted((event for events in kinds for event in events), key=lambda event: version(event["object"])):
        one = event["object"]
        there[one["kind"], one["metadata"]["name"]] = one
        if event["type"] == "DELETED":
            del there[one["kind"], one["metadata"]["name"]]
        yield there


def version(one: Any) -> int:
    """When it was written, by the one counter that the API server has for all objects."""
    return int(one["metadata"]["resourceVersion"])


def _until_told(kubectl: Kubectl, collection: str, events: list[Any]) -> None:
    newest = max(map(version, json.loads(kubectl("get", "--raw", collection).stdout)["items"]), default=0)
    what = f"the watch of {collection} tells of version {newest}"
    until(what, lambda: any(version(event["object"]) >= newest for event in tuple(events)), seconds=SECONDS)
