"""What is recorded of decisions: no secrets, bounded, readable by later versions."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slipway.api.names import TAINT_OUT_OF_SERVICE
from slipway.api.pod_parts import EnvVar
from slipway.api.progress import ProgressState
from slipway.controller.recorder import Record, Recorder, line_of, records
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node, NodeMetadata, NodeSpec, Taint
from slipway.core.model.site import Choice, Profile, Site
from slipway.core.model.workload import Kueue
from slipway.core.planner.contract.pool_pinning import NodePools
from slipway.core.planner.contract.snapshot import Printed, Snapshot
from slipway.core.planner.plan import plan
from slipway.core.validation.acceptance import changed_since, resolve
from tests.core.build import START, World

SECRETS = ("hunter2", "opensesame", "hf_abcdefghijklmnopqrstuvwxyz")


def snapshot(**fields: Any) -> Snapshot:
    world = World(**fields)
    world.run()
    world.pod(0, 0).exits(1)
    return world.snapshot


def kept(seen: Snapshot, directory: Path) -> Record:
    Recorder(directory).add(seen, START)
    return list(records(directory / "ml_train.jsonl"))[-1]


def test_a_record_is_what_the_decision_was_made_from(tmp_path: Path) -> None:
    seen = snapshot(slices=2, hosts=2)
    plan(seen, START)
    assert kept(replace(seen, pools=NodePools(nodes={"a": ["a-0"]})), tmp_path) == Record(START, seen)


def test_a_record_has_what_was_read_of_the_log(tmp_path: Path) -> None:
    seen = snapshot(progress={"pattern": r"(?P<step>\d+)"})
    read = ProgressState(attempt=0, step=7, time=START, checkpoint=5, checkpoint_time=START)
    for printed in (Printed(0, opened=True, progress=read), Printed(0, problem=("LogsForbidden", "the role"))):
        whole = replace(seen, printed=printed)
        plan(whole, START)
        assert kept(whole, tmp_path) == Record(START, whole)


KUEUES = {
    "there is quota for more slices": Kueue(version="v", unused={"v5e": {"google.com/tpu": Decimal(32)}}),
    "the queue is not known": Kueue(version="v", topologies=None),
    "Kueue chooses nodes": Kueue(version="v", topologies=frozenset({"google.com/tpu"})),
}


@pytest.mark.parametrize("kueue", KUEUES.values(), ids=KUEUES)
def test_a_record_has_what_was_known_of_kueue(kueue: Kueue, tmp_path: Path) -> None:
    seen = replace(snapshot(), kueue=kueue)
    plan(seen, START)
    assert kept(seen, tmp_path) == Record(START, seen)


def test_values_of_the_environment_and_tokens_are_left_out(tmp_path: Path) -> None:
    seen = snapshot(
        env=[{"name": "PASSPHRASE", "value": SECRETS[0]}],
        podTemplate={"spec": {"containers": [{"name": "side", "env": [{"name": "B", "value": SECRETS[1]}]}]}},
        args=["--token", f"login --password={SECRETS[2]}"],
    )
    line = line_of(Record(START, seen)).decode()
    assert not [secret for secret in SECRETS if secret in line]
    assert "PASSPHRASE" in line


def test_variables_of_the_site_that_the_spec_lacks_are_left_out_with_their_values(tmp_path: Path) -> None:
    hidden = (EnvVar(name="DB_PASSWORD", value=SECRETS[0]),)
    site = Site(Choice(Profile("default"), superseded=True, bare=True), limits=(), hidden=hidden)
    world = World().run()
    world.sited = lambda given, _: (given, site)
    world.pod(0, 0).exits(1, message=f"connecting with {SECRETS[0]}")
    line = line_of(Record(START, world.snapshot))
    assert SECRETS[0] not in line.decode()
    assert kept(world.snapshot, tmp_path).snapshot.job.site.hidden == ()


def test_a_secret_that_is_also_a_value_of_another_field_keeps_nobody_from_recording(tmp_path: Path) -> None:
    seen = snapshot(env=[{"name": "A_PASSWORD", "value": "16Gi"}], shmSize="16Gi")
    plan(seen, START)
    job = kept(seen, tmp_path).snapshot.job
    assert job.spec is None
    assert job.problem.startswith("cannot be recorded without its secrets")


def test_a_spec_without_its_secrets_still_counts_as_the_accepted_one(tmp_path: Path) -> None:
    seen = snapshot(env=[{"name": "PASSPHRASE", "value": SECRETS[0]}])
    job = kept(seen, tmp_path).snapshot.job
    assert job.spec is not None
    assert job.spec != seen.job.spec
    assert not changed_since(job, resolve(job.spec, Settings()))


def test_nodes_of_other_jobs_are_left_out(tmp_path: Path) -> None:
    seen = snapshot()
    more = replace(seen, nodes={**seen.nodes, "elsewhere": Node(NodeMetadata("elsewhere"))})
    assert kept(more, tmp_path).snapshot.nodes == seen.nodes


def test_nodes_of_pods_that_were_removed_of_an_earlier_job_are_kept(tmp_path: Path) -> None:
    before = World().run()
    before.pod(0, 0).vanishes(seen=True)
    out_of_service = NodeSpec(taints=(Taint(TAINT_OUT_OF_SERVICE, "NoExecute"),))
    world = World()
    world.nodes = {"node-0-0": msgspec.structs.replace(before.nodes["node-0-0"], spec=out_of_service)}
    world.vanished_foreign = tuple(before.vanished)
    seen = kept(world.snapshot, tmp_path).snapshot
    assert seen.vanished_foreign == world.vanished_foreign
    assert [plan(one, before.now).status.attempt for one in (world.snapshot, seen)] == [0, 0]


def test_records_of_other_versions_are_read(tmp_path: Path) -> None:
    content = json.loads(line_of(Record(START, snapshot())))
    content["snapshot"]["a_field_of_tomorrow"] = {"a": 1}
    del content["snapshot"]["checked"]
    path = tmp_path / "ml_train.jsonl"
    path.write_text(json.dumps(content) + "\n")
    assert next(records(path)).snapshot.checked is False


def test_the_record_is_bounded(tmp_path: Path) -> None:
    recorder, seen = Recorder(tmp_path, max_bytes=10_000), snapshot()
    for _ in range(100):
        recorder.add(seen, START)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ml_train.jsonl", "ml_train.jsonl.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 40_000


def test_a_disk_that_cannot_be_written_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Recorder(tmp_path / "file").add(snapshot(), START)
    Recorder(None).add(snapshot(), START)


def test_what_cannot_be_recorded_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder, seen = Recorder(tmp_path), snapshot()
    strange: Any = {("a", "b"): 1}
    recorder.add(replace(seen, kueue=Kueue(unused=strange)), START)
    assert "a decision is not recorded" in caplog.text
    recorder.add(seen, START)
    assert len(list(records(tmp_path / "ml_train.jsonl"))) == 1
