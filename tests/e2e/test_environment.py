"""What a program on real nodes reads: the kubelet puts the rank of its host in."""

import pytest

from tests.running import Jobs

PROGRAM = """
echo "$RANK $NODE_RANK $JAX_PROCESS_ID of $WORLD_SIZE $JAX_NUM_PROCESSES at $MASTER_ADDR:$MASTER_PORT"
echo "$SLIPWAY_COORDINATOR_ADDRESS $JAX_COORDINATOR_ADDRESS"
"""


def test_each_host_reads_its_own_rank_and_knows_where_host_0_is(real_jobs: Jobs) -> None:
    real_jobs.apply(image="slipway.local/busybox:1", hosts=2, command=["sh", "-c", PROGRAM])
    real_jobs.until("Succeeded")
    first = f"0-0-0.train.{real_jobs.kubectl.namespace}.svc"
    for rank in range(2):
        log = real_jobs.kubectl("logs", f"train-0-0-{rank}").stdout.splitlines()
        assert log[:2] == [f"{rank} {rank} {rank} of 2 2 at {first}:29500", f"{first}:8081 {first}:8482"]


RESOLVES = """
find() { while wget -O /dev/null "http://$1:1" 2>&1 | grep -q "bad address"; do sleep 0.5; done; echo "$1"; }
find "${SLIPWAY_COORDINATOR_ADDRESS%:*}"
find "${TPU_WORKER_HOSTNAMES%%,*}"
find "$(hostname -f)"
sleep 600
"""


@pytest.mark.thorough
def test_hosts_of_several_services_find_each_other(real_jobs: Jobs) -> None:
    # Two slices of 33 hosts are too many for one Service.
    real_jobs.apply(slices=2, hosts=33, command=["sh", "-c", RESOLVES], terminationGracePeriodSeconds=1)
    real_jobs.until("Running")
    space = real_jobs.kubectl.namespace
    wanted = [f"0-0-0.train-g0.{space}.svc", "0-1-0.train-g1", f"0-1-32.train-g1.{space}.svc.cluster.local"]
    real_jobs.until_true(
        "host 32 of slice 1 finds the others",
        lambda: real_jobs.kubectl("logs", "train-0-1-32", check=False).stdout.splitlines() == wanted,
    )
    services = [one["metadata"]["name"] for one in real_jobs.kubectl.get("services")["items"]]
    assert sorted(services) == ["train-g0", "train-g1"]
