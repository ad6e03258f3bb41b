"""What the API server refuses and takes: the schema and its CEL rules."""

import pytest

from tests.controlplane.test_crd import *  # noqa: F403 - every test of the CRD, also those to come
from tests.controlplane.test_stored_jobs import *  # noqa: F403 - jobs that were stored before a rule

pytestmark = pytest.mark.thorough
