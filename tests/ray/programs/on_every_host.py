"""Runs a task on every worker. Attempts below FAILS exit 7 then; with WAITS it waits until somebody lets it go."""

import os
import socket
import sys
import time
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
def where() -> tuple[str, str]:
    return os.environ["SLIPWAY_RANK"], socket.gethostname()


def main() -> int:
    ray.init(logging_level="warning")
    attempt = int(os.environ["SLIPWAY_ATTEMPT"])
    print(f"begin attempt={attempt}", flush=True)
    workers = [one["NodeID"] for one in ray.nodes() if "node:__internal_head__" not in one["Resources"]]
    pinned = [NodeAffinitySchedulingStrategy(one, soft=False) for one in workers]
    for rank, hostname in sorted(ray.get([where.options(scheduling_strategy=one).remote() for one in pinned])):
        print(f"answer rank={rank} hostname={hostname}", flush=True)
    while "WAITS" in os.environ and not Path("/tmp/ray/go").exists():
        time.sleep(0.2)
    return 7 if attempt < int(os.environ.get("FAILS", "0")) else 0


if __name__ == "__main__":
    sys.exit(main())
