"""What a program on real nodes reads: the kubelet puts the rank of its host in."""

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
