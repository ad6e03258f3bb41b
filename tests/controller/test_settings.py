from pathlib import Path

import pytest

from slipway.api.profile import ProfileSpec
from slipway.controller.lease import DEFAULT_TIMES, LeaseTimes
from slipway.controller.settings import Flags, OperatorSettings, SettingsError, read_settings

NOWHERE = Path("/nonexistent")


def read(flags: Flags | None = None, **environment: str) -> OperatorSettings:
    return read_settings(flags, environment, NOWHERE)


def test_the_site_is_read_as_json() -> None:
    site = read(SLIPWAY_SITE='{"defaults": {"image": "train:1"}, "limits": {"hostPaths": ["/data"]}}').site
    assert (site.defaults.image, site.limits.host_paths) == ("train:1", ("/data",))
    assert read().site == ProfileSpec()


def test_without_anything_the_defaults_hold() -> None:
    settings = read()
    assert (settings.namespaces, settings.coordinator_port, settings.health_port) == ((), 8081, 8080)
    assert (settings.lease_namespace, settings.metrics_port) == ("default", 8081)
    assert (settings.log_level, settings.log_format) == ("info", "text")
    assert settings.planner.topology_key == "cloud.google.com/gke-nodepool"


def test_a_flag_goes_before_the_environment() -> None:
    settings = read(Flags(coordinator_port="9000", log_format="json"), COORD_PORT="9001", SLIPWAY_HEALTH_PORT="0")
    assert (settings.coordinator_port, settings.health_port, settings.log_format) == (9000, 0, "json")


def test_the_bound_on_pods_reaches_the_planner() -> None:
    assert (read().planner.max_pods, read(SLIPWAY_MAX_PODS="500").planner.max_pods) == (16384, 500)


def test_the_image_reaches_the_planner() -> None:
    assert (read().planner.operator_image, read(SLIPWAY_IMAGE="a/b:1").planner.operator_image) == ("", "a/b:1")


def test_secrets_are_looked_for_on_request() -> None:
    assert (read().read_secrets, read(SLIPWAY_READ_SECRETS="true").read_secrets) == (False, True)


def test_an_id_reaches_the_planner_and_the_name_of_the_lease() -> None:  # N-01
    named = read(SLIPWAY_OPERATOR_ID="team-a")
    assert (named.planner.operator_id, named.lease_name) == ("team-a", "slipway-operator-team-a")
    assert (read().planner.operator_id, read().lease_name) == ("", "slipway-operator")
    assert read(SLIPWAY_OPERATOR_ID="team-a", SLIPWAY_LEASE_NAME="mine").lease_name == "mine"


def test_namespaces_are_separated_by_commas() -> None:
    assert read(SLIPWAY_NAMESPACES="a, b,").namespaces == ("a", "b")


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert read(COORD_PORT="").coordinator_port == 8081


def test_the_lease_is_kept_where_the_operator_runs(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("slipway-system\n")
    assert read_settings(None, {}, file).lease_namespace == "slipway-system"


def test_the_lease_has_the_times_that_are_given() -> None:
    assert read().lease_times == DEFAULT_TIMES
    flags = Flags(lease_duration="120", renew_deadline="100")
    assert read(flags, SLIPWAY_RETRY_PERIOD="5", SLIPWAY_RENEW_DEADLINE="1").lease_times == LeaseTimes(120, 100, 5)


def test_no_two_processes_have_the_same_identity() -> None:
    assert read().identity != read().identity


REFUSED = [
    ("COORD_PORT", "abc", "COORD_PORT 'abc' is not a port: a whole number from 1 to 65535 is needed"),
    ("COORD_PORT", "0", "COORD_PORT '0' is not a port: a whole number from 1 to 65535 is needed"),
    ("COORD_PORT", "70000", "COORD_PORT '70000' is not a port: a whole number from 1 to 65535 is needed"),
    ("COORD_PORT", "-1", "COORD_PORT '-1' is not a port"),
    ("COORD_PORT", "٣", "is not a port"),
    ("SLIPWAY_HEALTH_PORT", "8o80", "a whole number from 0 to 65535 is needed"),
    (
        "SLIPWAY_LEASE_DURATION",
        "8s",
        "SLIPWAY_LEASE_DURATION '8s' is not a number of seconds: a whole number",
    ),
    ("SLIPWAY_RETRY_PERIOD", "0", "SLIPWAY_RETRY_PERIOD '0' is not a number of seconds: a whole number from 1 to 10"),
    (
        "SLIPWAY_RENEW_DEADLINE",
        "1000",
        "SLIPWAY_LEASE_DURATION, SLIPWAY_RENEW_DEADLINE, SLIPWAY_RETRY_PERIOD: a renew deadline of 1000 s is too long",
    ),
    ("SLIPWAY_LOG_LEVEL", "loud", "SLIPWAY_LOG_LEVEL 'loud' is not a log level: debug, info, warning, error"),
    ("SLIPWAY_LOG_FORMAT", "xml", "SLIPWAY_LOG_FORMAT 'xml' is not a log format: text, json"),
    ("SLIPWAY_METRICS_PORT", "70000", "SLIPWAY_METRICS_PORT '70000' is not a port"),
    ("SLIPWAY_NAMESPACES", "a,B", "SLIPWAY_NAMESPACES 'B' is not a Kubernetes name"),
    ("SLIPWAY_OPERATOR_ID", "Team", "SLIPWAY_OPERATOR_ID 'Team' is not an operator id: at most 40 lower-case letters"),
    ("SLIPWAY_OPERATOR_ID", "a" * 41, "is not an operator id: at most 40 lower-case letters"),
    ("SLIPWAY_LEASE_NAME", "a/b", "SLIPWAY_LEASE_NAME 'a/b' is not a Kubernetes name"),
    ("SLIPWAY_MAX_PODS", "0", "SLIPWAY_MAX_PODS '0' is not a number of pods: a whole number from 1 to 9999999"),
    ("SLIPWAY_SITE", "hostPaths: [/]", "SLIPWAY_SITE is not JSON"),
    ("SLIPWAY_SITE", "[]", "SLIPWAY_SITE is not a JSON object with defaults and limits"),
    ("SLIPWAY_SITE", '{"limits": {"maxSlices": 0}}', "SLIPWAY_SITE: site.limits.maxSlices 0: input should be greater"),
    ("SLIPWAY_SITE", '{"default": {}}', "SLIPWAY_SITE: site.default is not a known field of this version of Slipway"),
    ("SLIPWAY_READ_SECRETS", "yes", "SLIPWAY_READ_SECRETS 'yes' is neither true nor false"),
    ("SLIPWAY_MAX_PODS", "many", "SLIPWAY_MAX_PODS 'many' is not a number of pods"),
    ("SLIPWAY_IMAGE", "a b", "SLIPWAY_IMAGE 'a b' is not an image reference"),
    ("SLIPWAY_TOPOLOGY_KEY", "a b", "SLIPWAY_TOPOLOGY_KEY 'a b' is not a label key"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), REFUSED)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(None, {name: value}, NOWHERE)
    assert sentence in str(caught.value)


def test_decisions_are_recorded_on_request_only() -> None:
    assert read().record is None
    assert read(SLIPWAY_RECORD="/tmp/records").record == Path("/tmp/records")
