"""A line of the log says what was decided about which job, and never a secret; in both formats."""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.status import Attempt, Cause, Root
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.observability.log_format import FORMATS, JsonLines
from slipway.core.manifests.redact import HIDDEN
from tests.core.build import START, World, spec
from tests.running import Jobs

ENDED = Attempt(
    number=3, start_time=START, cause=Cause.PREEMPTION, reason="NodeLost", root=Root(slice=1, host=0, node="n")
)


def record(message: str, *arguments: Any, error: BaseException | None = None, **extra: Any) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("slipway.x", logging.INFO, "f", 1, message, arguments, info)
    made.created = 0.0
    made.__dict__.update(extra)
    return made


def test_json_has_one_object_a_line_with_what_is_known() -> None:
    job = World().job
    line = JsonLines().format(record("it\n%s", "ends", **log_fields(job, ENDED)))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "slipway.x",
        "message": "it\nends",
        "job": f"{job.namespace}/{job.name}",
        "attempt": 3,
        "slice": 1,
        "host": 0,
        "cause": "preemption",
    }


def test_json_of_what_is_about_no_job_has_no_fields_of_jobs() -> None:
    assert json.loads(JsonLines().format(record("ready"))).keys() == {"time", "level", "logger", "message"}


def raised(words: str) -> BaseException:
    try:
        raise ValueError(words)
    except ValueError:
        error = sys.exc_info()[1]
        assert error is not None
        return error


def test_json_has_the_traceback_in_a_field() -> None:
    said = json.loads(JsonLines().format(record("a mistake", error=raised("no\nnumber"))))
    assert said["error"].startswith("Traceback (most recent call last):")
    assert said["error"].endswith("ValueError: no\nnumber")


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=4, max_size=40).filter(
    lambda text: text == text.strip() and text not in HIDDEN
)
TOKENS: dict[str, str] = {
    "a password in a URL": "https://user:{}@registry.example.com/x",
    "a header": "Authorization: Bearer {}",
    "an option": "--hf-token {}",
    "a variable": "DB_PASSWORD={}",
}


@given(SECRETS, st.sampled_from(sorted(FORMATS)), st.booleans())
def test_no_line_about_a_job_has_the_value_of_a_secret_variable(secret: str, form: str, in_error: bool) -> None:
    given_spec = spec(env=[{"name": "WANDB_API_KEY", "value": secret}])
    error = raised(f"got <{secret}>") if in_error else None
    line = FORMATS[form]().format(record("got <%s>", secret, error=error, spec=given_spec))
    assert f"<{secret}>" not in line
    assert f"<{json.dumps(secret)[1:-1]}>" not in line
    assert line.count(f"<{HIDDEN}>") == 1 + in_error


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", TOKENS)
def test_no_line_has_what_looks_like_a_secret(case: str, form: str) -> None:
    words = TOKENS[case].format("Sup3rS3cret")
    line = FORMATS[form]().format(record("%s", words, error=raised(words)))
    assert "Sup3rS3cret" not in line
    assert line.count(HIDDEN) == 2


def test_the_spec_itself_is_not_logged() -> None:
    job = World().job
    assert "image" not in JsonLines().format(record("says it", **log_fields(job)))


@pytest.fixture
def lines_of(own_jobs: Callable[..., Jobs]) -> Callable[[], list[dict[str, Any]]]:
    """Runs a job that fails for good, under an operator that logs JSON; returns what it logged."""

    def run() -> list[dict[str, Any]]:
        jobs = own_jobs(log_format="json")
        jobs.apply(
            accelerator={"type": "v5p-16", "spot": True},
            env=[{"name": "HF_TOKEN", "value": "hidden-from-all"}],
            retries={"maxFailures": 1},
        )
        jobs.until("Running")
        [*_, last] = jobs.pods()
        failed = '{"status": {"phase": "Failed", "message": "HF_TOKEN is hidden-from-all"}}'
        name = last["metadata"]["name"]
        jobs.kubectl.patch("pod", name, failed, status=True)
        jobs.until("Failed")
        jobs.operator.stop()
        # The interpreter and its libraries have words of their own.
        written = jobs.operator.log.read_text().splitlines()
        return [json.loads(line) for line in written if line.startswith("{")]

    return run


DECISIONS = [
    ("warning", "LiteralSecret"),
    ("info", "Starting"),
    ("info", "creating 2 pod(s)"),
    ("info", "Running"),
    ("info", "Restarting"),
    ("info", "deleting pods"),
    ("warning", "AttemptFailed"),
    ("warning", "Failed"),
]
"""Of a job that fails once. It may have to wait for nodes, too."""


def said(line: dict[str, Any]) -> tuple[str, str]:
    """How serious it is, and what it begins with."""
    return line["level"], line["message"].split(":")[0].split(" of attempt")[0]


def test_the_operator_logs_one_line_for_each_decision(lines_of: Callable[[], list[dict[str, Any]]]) -> None:  # N-39
    lines = lines_of()
    assert "hidden-from-all" not in json.dumps(lines)
    about = [one for one in lines if one.get("job", "").endswith("/train")]
    logged = [said(one) for one in about if said(one) in DECISIONS]
    if any(one["level"] in ("warning", "error") and said(one) not in DECISIONS for one in lines):
        # An API server that is too busy to answer has it do something again.
        logged = list(dict.fromkeys(logged))
    assert logged == DECISIONS
    assert {one["attempt"] for one in about} == {0}
    [judged, *_] = [one for one in about if one["message"].startswith("AttemptFailed")]
    assert (judged["slice"], judged["host"], judged["cause"]) == (0, 1, "failure")
