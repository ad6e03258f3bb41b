"""The benchmark works: what it counts is right. How long things take is not asked here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import command_line, tables
from tests.bench.figures import Figures
from tests.bench.records import Record, Run, load
from tests.bench.suites import SUITES
from tests.places import ROOT

pytestmark = [pytest.mark.stage("clusters"), pytest.mark.thorough]

PODS = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, state_folder: Path) -> Run:
    out = tmp_path_factory.mktemp("bench") / "smoke.json"
    command = [sys.executable, "-m", "tests.bench", "run", "smoke", "--patience", "0", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return load(out)


def one(run: Run, workload: str, system: str) -> Record:
    (found,) = (one for one in run.records if (one.workload, one.system) == (workload, system))
    assert found.problem == ""
    return found


def count(record: Record, what: str) -> int:
    return record.requests.get(f"{record.system} {what}", 0)


@pytest.mark.parametrize("suite", SUITES)
def test_there_are_nodes_for_every_workload(suite: str) -> None:
    for entry in SUITES[suite]():
        assert entry.workload.pools


def test_each_pod_is_created_once(run: Run) -> None:
    for system in ("ceiling", "slipway"):
        record = one(run, f"create {PODS}", system)
        assert record.pods == count(record, "create pods") == PODS
        assert record.times.keys() == {"first", "exist", "running", "removed"}


def test_beside_the_model_of_a_cluster_slipway_writes_what_it_writes_to_a_real_one(run: Run) -> None:
    model, real = one(run, f"alone 1x{PODS}", "slipway"), one(run, f"create {PODS}", "slipway")
    for what in ("create pods", "create services", "try-create pods", "try-create services"):
        assert count(model, what) == count(real, what), what
    # A busy machine has a job wait for a while, which is another Event, and may post the last one too late.
    assert count(model, "create events") > 0
    assert count(real, "create events") > 0
    assert model.pods == PODS
    assert model.cpu["controller"] > 0


def test_only_slipway_writes_a_status(run: Run) -> None:
    assert count(one(run, f"create {PODS}", "slipway"), "patch slicejobs/status") >= 1
    assert count(one(run, f"create {PODS}", "ceiling"), "patch slicejobs/status") == 0


def test_a_restart_replaces_every_pod_after_the_old_ones_went(run: Run) -> None:
    for system in ("ceiling", "slipway"):
        record = one(run, f"restart pod {PODS}", system)
        assert record.pods == count(record, "create pods") == PODS
        assert record.times["react"] <= record.times["old_gone"] <= record.times["first_new"] <= record.times["running"]
        assert count(record, "delete pods") == PODS - 1
    assert count(one(run, f"restart pod {PODS}", "slipway"), "deletecollection pods") == 1


def test_a_job_is_seen_to_finish(run: Run) -> None:
    assert one(run, f"finish {PODS}", "slipway").times["done"] > 0


def test_cpu_and_memory_are_those_of_the_controller(run: Run) -> None:
    for record in run.records:
        if record.workload.startswith(("plan", "alone")) or record.workload == command_line.WORKLOAD:
            continue
        assert record.peak_mib > 5
        parts = {"controller", "driver", "etcd", "foreign", "kube-apiserver", "kube-controller-manager", "kwok"}
        assert parts < record.cpu.keys()


def test_the_command_is_timed_beside_click(run: Run) -> None:
    found = [one for one in run.records if one.workload == command_line.WORKLOAD]
    assert [(one.system, one.repetition) for one in found[:4]] == [
        (system, repetition) for repetition in (0, 1) for system in ("click", "slipway")
    ]
    assert all(0 < seconds < 60 for one in found for seconds in one.times.values())
    text = tables.markdown(run)
    for what in ("help", "completion"):
        assert re.search(rf"\| command line: {what} \| ≤ 1\.5 × click \| [0-9.]+ ", text)


def test_records_become_tables_with_ratios(run: Run) -> None:
    text = tables.markdown(run)
    assert f"| create {PODS}: creates of pods | 1 for each | 1.000 | met |" in text
    ratio = Figures(run).ratio((f"create {PODS}", "unthrottled"), "ceiling", "ceiling", lambda one: one.times["exist"])
    assert ratio is not None
    assert ratio.middle == 1.0
