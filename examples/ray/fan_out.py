"""Runs one task on every host of every TPU slice, and prints what each of them answers.

Host 0 of each slice offers the Ray resource TPU-<type>-head, and all hosts of a slice offer the slice's name. So a
task that demands the first finds a slice, and tasks that demand the second reach its hosts.
"""

import argparse
import json
import os
import socket
import time
from itertools import chain

import ray

SHOWN = ("MEGASCALE_", "TPU_", "SLIPWAY_", "EXECUTOR_")


@ray.remote
def on_host(seconds: float) -> dict[str, str]:
    time.sleep(seconds)
    shown = {name: value for name, value in os.environ.items() if name.startswith(SHOWN)}
    return {"hostname": socket.gethostname(), **shown}


@ray.remote
def on_slice(chips: int, hosts: int, seconds: float) -> list[dict[str, str]]:
    name = ray.util.tpu.get_current_pod_name()
    everywhere = on_host.options(resources={name: 1, "TPU": chips})
    return ray.get([everywhere.remote(seconds) for _ in range(hosts)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0, help="how long each task takes")
    seconds = parser.parse_args().seconds
    ray.init(logging_level="warning")
    kind, slices = os.environ["TPU_VERSION"], int(os.environ["TPU_POD_COUNT"])
    hosts = int(os.environ["SLIPWAY_WORLD_SIZE"]) // slices
    chips = int(ray.cluster_resources()["TPU"]) // (slices * hosts)
    print(f"begin attempt={os.environ['SLIPWAY_ATTEMPT']} slices={slices} hosts={hosts} chips={chips}", flush=True)
    heads = on_slice.options(num_cpus=0, resources={f"TPU-{kind}-head": 1})
    answers = ray.get([heads.remote(chips, hosts, seconds) for _ in range(slices)])
    # Which task finds which slice is Ray's choice.
    for answer in sorted(chain.from_iterable(answers), key=lambda one: int(one["SLIPWAY_RANK"])):
        print(json.dumps(answer, sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
