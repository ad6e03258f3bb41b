"""Errors on their way between processes."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from slipway.apiserver.errors import from_response
from slipway.client import errors
from slipway.client.api_errors import NO_SLICEJOBS, typed
from slipway.client.errors import HostFailure, JobError, JobInfo

INFO = JobInfo("train", "failed", "TPU")
HOST = HostFailure(0, 1, 1, 3, None, "it broke\n")
KINDS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.SlipwayError)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("travel", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy])
def test_errors_travel(kind: type[errors.SlipwayError], travel: Callable[[Any], Any]) -> None:
    error = kind("no more tries", INFO, HOST) if issubclass(kind, JobError) else kind("no more tries")
    if issubclass(kind, JobError):
        error.outputs = ["out", None]
    found = travel(error)
    assert type(found) is kind
    assert (str(found), vars(found)) == (str(error), vars(error))


NO_KIND = b'{"reason": "NotFound", "message": "the server could not find the requested resource"}'
NO_JOB = b'{"reason": "NotFound", "message": "slicejobs.slipway.dev \\"train\\" not found"}'


@pytest.mark.parametrize(("answer", "kind", "words"), [
    (NO_JOB, errors.NotFound, 'slicejobs.slipway.dev "train" not found'),
    (NO_KIND, errors.NotFound, NO_SLICEJOBS),
    # As the API server answers for the path of a CRD that is not installed.
    (b"404 page not found\n", errors.NotFound, NO_SLICEJOBS),
    # A load balancer in front of it knows of no job.
    (b"default backend - 404", errors.ClusterError, "default backend - 404"),
])  # fmt: skip
def test_what_an_answer_of_404_says_of_the_job(answer: bytes, kind: type[errors.ClusterError], words: str) -> None:
    error = typed(from_response(404, answer))
    assert (type(error), str(error)) == (kind, words)
