"""Errors on their way between processes."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from slipway.client import errors
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
