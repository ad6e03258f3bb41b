"""Which requests were made, from the API server's audit log."""

from collections import Counter
from datetime import datetime
from pathlib import Path

import msgspec


class _Camel(msgspec.Struct, rename="camel"):
    pass


class _User(msgspec.Struct):
    username: str


class _Object(_Camel):
    resource: str = ""
    subresource: str = ""


class _Response(msgspec.Struct):
    code: int = 0


class _Line(_Camel):
    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    user: _User
    request_received_timestamp: datetime
    object_ref: _Object | None = None
    response_status: _Response | None = None


def requests(log: Path, begin: datetime, end: datetime) -> dict[str, int]:
    """Requests for objects between two moments: how many by `user verb resource`.

    ` !code` is added where they failed, and the verb of a dry run begins with `try-`.
    """
    decoder, counts = msgspec.json.Decoder(_Line), Counter[str]()
    with log.open("rb") as lines:
        for text in lines:
            line = decoder.decode(text)
            if line.object_ref is not None and begin <= line.request_received_timestamp <= end:
                counts[_described(line, line.object_ref)] += 1
    return dict(sorted(counts.items()))


def _described(line: _Line, named: _Object) -> str:
    resource = f"{named.resource}/{named.subresource}" if named.subresource else named.resource
    code = line.response_status.code if line.response_status else 0
    failed = f" !{code}" if code >= 400 else ""
    verb = f"try-{line.verb}" if "dryRun=All" in line.request_uri else line.verb
    return f"{line.user.username.rpartition(':')[2]} {verb} {resource}{failed}"


READS = ("get", "list", "watch", "try-create")


def writes(counts: dict[str, int], user: str | None = None) -> int:
    """Writes among counted requests: of one user, or of everybody."""
    return sum(
        count
        for name, count in counts.items()
        if name.split()[1] not in READS and (user is None or name.split()[0] == user)
    )
