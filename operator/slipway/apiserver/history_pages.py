"""The pages of attempts that have left `status.attempts`: how a ConfigMap holds them, and how all are read."""

import zlib
from typing import Final

import msgspec

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Garbled, NotFound
from slipway.apiserver.owners import OwnedMeta
from slipway.apiserver.wire import JsonObject, decode

PAGE_SIZE: Final = 100
"""Attempts of one page: with the longest log tails a fifth of what a ConfigMap holds."""
KEY: Final = "attempts.json.gz"
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a page that is unpacked."""
_GZIP: Final = 31
"""What tells zlib that there is a gzip header."""
Numbered = dict[int, JsonObject]
"""Attempts as they were in the status, by number."""


class Page(msgspec.Struct, rename="camel"):
    """A ConfigMap with attempts."""

    metadata: OwnedMeta
    binary_data: dict[str, bytes] = {}

    @property
    def attempts(self) -> Numbered:
        """What it holds.

        Raises:
            Garbled: when somebody else has written to it.
        """
        if KEY not in self.binary_data:
            return {}
        try:
            # No more than that: users may edit a page, and one that unpacks to gigabytes would end the process.
            content = zlib.decompressobj(wbits=_GZIP).decompress(self.binary_data[KEY], MAX_BYTES)
            return {int(one["number"]): one for one in decode(list[JsonObject], content)}
        except (zlib.error, Garbled, KeyError, TypeError, ValueError) as error:
            raise Garbled(f"binaryData[{KEY}] is no gzipped list of attempts: {error!r}") from error


def page_name(job: str, page: int) -> str:
    """Name of the ConfigMap."""
    return f"{job}-history-{page}"


async def read(api: ApiConnection, namespace: str, job: str) -> list[JsonObject]:
    """Every attempt of a job but those that only waited, oldest first: those in its pages and those in its status.

    Raises:
        NotFound: when there is no such job.
        Garbled: when a page cannot be read.
    """
    # The status first: what leaves it from now on is seen here, what has left it is in a page.
    found = await api.get(paths.job(namespace, job), JsonObject)
    status, known = found.get("status", {}), Numbered()
    for number in range(status.get("attempt", -1) // PAGE_SIZE + 1):
        page = await read_page(api, namespace, page_name(job, number), found["metadata"]["uid"])
        known |= page.attempts if page is not None else {}
    known |= {attempt["number"]: attempt for attempt in status.get("attempts", ())}
    return [known[number] for number in sorted(known)]


async def read_page(api: ApiConnection, namespace: str, name: str, uid: str) -> Page | None:
    """The page, if there is one of the job of that UID."""
    try:
        page = await api.get(f"{paths.config_maps(namespace)}/{name}", Page)
    except NotFound:
        return None
    return page if page.metadata.of(uid) else None
