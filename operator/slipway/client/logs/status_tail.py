"""What is left of a log in the status of a job, once the pod is gone."""

from slipway.api.places import HEAD, Place, parse_pod_name, pod_name, worker
from slipway.api.status import Attempt
from slipway.client.logs.interface import COMBINED
from slipway.client.logs.items import Item, Line, Note, nanoseconds
from slipway.client.logs.selection import LineFilter, Selection


def root_place(job: str, record: Attempt | None) -> Place | None:
    """The host that ended an attempt; None where none did."""
    root = record.root if record is not None else None
    if root is None:
        return None
    if root.slice is not None and root.host is not None:
        return worker(root.slice, root.host)
    parsed = parse_pod_name(job, root.pod) if root.pod else None
    return HEAD if parsed is not None and parsed[1].is_head else None


def kept_lines(job: str, record: Attempt | None, place: Place, selection: Selection) -> list[Item]:
    """The last lines of a host that the status keeps, after a note that says so; nothing where it keeps none."""
    root = record.root if record is not None else None
    if record is None or root is None or not root.log or root_place(job, record) != place:
        return []
    if selection.stream != COMBINED:
        # The status has the end of both in one.
        return []
    moment = nanoseconds(root.time or record.end_time or record.start_time)
    name, line_filter = root.pod or pod_name(job, record.number, place), LineFilter(selection)
    lines = [line for line in root.log.encode().split(b"\n") if line]
    first = 0 if selection.tail is None else max(0, len(lines) - selection.tail)
    lines = [line + b"\n" for line in lines[first:] if line_filter.matches(line)]
    note = Note(f"the log of {named(record.number, place)} is gone; the job's status keeps these last lines of it")
    return [note, *(Line(record.number, place, name, moment, line) for line in lines)]


def named(attempt: int, place: Place) -> str:
    """A host of an attempt, in words."""
    return f"{place.words} in attempt {attempt}"
