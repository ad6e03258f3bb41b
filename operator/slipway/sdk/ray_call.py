"""A call of the program on the Ray head, through the API server.

It needs no port and no route to the cluster: whoever may `exec` into the pod may call, from a laptop as well as from
a pod.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from importlib import resources
from typing import Any, Final

from slipway.api import names
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.exec_stream import ExecStream, StreamBroken, StreamForbidden, open_exec
from slipway.client.errors import ClusterError, NotAllowed, NotAuthenticated
from slipway.sdk.payload import Call

PROGRAM: Final = resources.files("slipway.sdk").joinpath("host_program.py").read_bytes()
_BEGIN: Final = (
    "import sys; i = sys.stdin.buffer; exec(compile(i.read(int(i.readline())), 'slipway', 'exec'), globals())"
)
_HEARTBEAT_SECONDS: Final = 10.0


async def ask(
    api: ApiConnection,
    namespace: str,
    pod: str,
    call: Call | None = None,
    runtime_env: Mapping[str, Any] | None = None,
) -> bytes:
    """The document with the hosts' answers: to that call, or without one to the job's own.

    Raises:
        StreamBroken: when it did not come; a job's own may be asked for again.
    """
    command = ("python3", "-c", _BEGIN, "fetch" if call is None else "call")
    async with open_exec(api, namespace, pod, names.RAY_CONTAINER, command) as stream:
        await stream.write(b"%d\n" % len(PROGRAM) + PROGRAM)
        if call is not None:
            await stream.write(call.header(runtime_env) + b"\n" + call.content)
        heartbeat = asyncio.create_task(_beat(stream))
        try:
            # Besides heartbeats: what the image's Python prints before the program can keep it out of the stream.
            while not (line := await stream.line()).startswith(b"{"):
                pass
            header = json.loads(line)
            document = await stream.exactly(header["size"])
            if hashlib.sha256(document).hexdigest() != header["sha256"]:
                raise StreamBroken("the answer was damaged on the way")
            await stream.write(b"taken\n")
            with suppress(StreamBroken):
                while True:
                    await stream.line()
        finally:
            heartbeat.cancel()
        return document


async def _beat(stream: ExecStream) -> None:
    """Tell the program that its caller is here, until cancelled."""
    while True:
        await asyncio.sleep(_HEARTBEAT_SECONDS)
        await stream.write(b"here\n")


def refused(error: StreamForbidden, what: str) -> ClusterError:
    """The error that callers see, of what the API server did not allow."""
    kind = NotAuthenticated if error.status == HTTPStatus.UNAUTHORIZED else NotAllowed
    return kind(f"{what}: {error}")
