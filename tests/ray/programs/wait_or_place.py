"""Attempts 0 and 1 wait on every host; attempt 2 reserves both slices by Ray's own helpers and runs on each bundle."""

import json
import os
import time

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from ray.util.tpu import get_num_ready_tpu_slices, slice_placement_group


@ray.remote(resources={"TPU": 4})
def wait(seconds: float) -> None:
    time.sleep(seconds)


@ray.remote(num_cpus=0)
def who() -> tuple[str, str]:
    return os.environ["TPU_NAME"], os.environ["TPU_WORKER_ID"]


def place() -> None:
    ready = get_num_ready_tpu_slices(topology="2x2x2", accelerator_type="TPU-V5P")
    group = slice_placement_group(topology="2x2x2", accelerator_version="v5p", num_slices=2)
    ray.get(group.placement_group.ready(), timeout=280)
    places = [
        who.options(
            resources={"TPU": 4},
            scheduling_strategy=PlacementGroupSchedulingStrategy(group.placement_group, bundle),
        ).remote()
        for bundle in range(group.num_bundles)
    ]
    print(json.dumps({"ready": ready, "hosts": group.num_hosts, "placed": sorted(ray.get(places))}), flush=True)


def main() -> None:
    ray.init(logging_level="warning")
    attempt = int(os.environ["SLIPWAY_ATTEMPT"])
    print(f"begin attempt={attempt}", flush=True)
    if attempt < 2:
        ray.get([wait.remote(600) for _ in range(4)])
    else:
        place()


if __name__ == "__main__":
    main()
