"""Whose Events a job has."""

import json

import pytest
from click.testing import CliRunner

from slipway.apiserver import paths
from slipway.cli.main import main
from tests.cli.api_server import NAMESPACE, NOW, ApiServer, Json, failed

OBJECTS: dict[str, tuple[Json, bool]] = {
    "the job": ({"kind": "SliceJob", "name": "done", "uid": "uid of done"}, True),
    "a worker": ({"kind": "Pod", "name": "done-0-0-0", "uid": "1"}, True),
    "a worker of an earlier attempt": ({"kind": "Pod", "name": "done-12-3-4", "uid": "1"}, True),
    "the Ray head": ({"kind": "Pod", "name": "done-0-head", "uid": "1"}, True),
    "a worker of another job": ({"kind": "Pod", "name": "done-2-0-0-0", "uid": "1"}, False),
    "the Ray head of another job": ({"kind": "Pod", "name": "done-2-0-head", "uid": "1"}, False),
    "a pod that no job has created": ({"kind": "Pod", "name": "done-by-hand", "uid": "1"}, False),
    "an earlier job of its name": ({"kind": "SliceJob", "name": "done", "uid": "uid of an earlier one"}, False),
}


@pytest.mark.parametrize("command", ["describe", "events"])
@pytest.mark.parametrize(("thing", "shown"), OBJECTS.values(), ids=OBJECTS)
def test_events_are_of_the_job_and_its_own_pods(api_server: ApiServer, command: str, thing: Json, shown: bool) -> None:
    api_server.put(failed("done"), failed("done-2"))
    api_server.events = [{"reason": "Failed", "type": "Warning", "lastTimestamp": NOW, "involvedObject": thing}]
    found = json.loads(CliRunner().invoke(main, [command, "done", "-o", "json"]).stdout)
    events = found["events"] if command == "describe" else found
    assert [one["object"] for one in events] == [thing["name"]] * shown


def test_a_job_is_described_with_its_own_events_though_a_later_one_takes_its_name(api_server: ApiServer) -> None:
    about = {"kind": "SliceJob", "name": "done", "uid": "uid of done"}
    api_server.put(failed("done"))
    api_server.events = [{"reason": "Failed", "type": "Warning", "lastTimestamp": NOW, "involvedObject": about}]
    later = failed("done")
    later["metadata"]["uid"] = "uid of a later one"
    api_server.meanwhile[f"GET {paths.pods(NAMESPACE)}"] = lambda: api_server.put(later)
    found = json.loads(CliRunner().invoke(main, ["describe", "done", "-o", "json"]).stdout)
    assert [one["reason"] for one in found["events"]] == ["Failed"]


def test_an_event_that_is_repeated_is_as_old_as_its_last_time(api_server: ApiServer) -> None:
    api_server.put(failed("done"))
    first, last = "2026-01-01T00:00:00.000000Z", "2026-01-01T02:00:00.000000Z"
    about, series = {"kind": "Pod", "name": "done-0-0-0"}, {"count": 7, "lastObservedTime": last}
    event = {"reason": "FailedScheduling", "type": "Warning", "eventTime": first, "firstTimestamp": None}
    api_server.events = [event | {"lastTimestamp": None, "involvedObject": about, "series": series}]
    [found] = json.loads(CliRunner().invoke(main, ["events", "done", "-o", "json"]).stdout)
    assert (found["time"], found["count"]) == ("2026-01-01T02:00:00+00:00", 7)
    assert "(x7)" in CliRunner().invoke(main, ["events", "done"]).stdout


@pytest.mark.parametrize("command", ["describe", "events"])
def test_an_event_forges_nothing_on_a_terminal(api_server: ApiServer, command: str) -> None:
    api_server.put(failed("done"))
    forged = "pulled\x1b[2J\x1b]0;title\x07\x9b31m\x7f\u202egnorw"
    about = {"kind": "Pod", "name": "done-0-0-0"}
    api_server.events = [{"reason": "Pulled", "message": forged, "lastTimestamp": NOW, "involvedObject": about}]
    shown = CliRunner().invoke(main, [command, "done"], color=True).stdout
    assert "pulled�[2J" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)
