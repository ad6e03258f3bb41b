"""The operator: dry runs, watches, patches of the status, deletions by collection, and what controllers answer."""

import pytest

from tests.controlplane.test_operator import (  # noqa: F401 - they are run from here
    test_a_deleted_job_takes_everything_along,
    test_a_job_runs_and_succeeds,
    test_a_job_waits_for_capacity_and_says_which_nodes_there_are,
    test_a_killed_operator_goes_on_where_it_was,
    test_a_quota_is_waited_for,
    test_applying_the_same_manifest_again_and_again_changes_nothing_while_a_job_runs_and_restarts,
    test_cancel_keeps_the_record,
    test_of_two_operators_one_stands_by,
)

pytestmark = pytest.mark.thorough
