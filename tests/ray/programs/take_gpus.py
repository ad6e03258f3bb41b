"""Prints how many GPUs the cluster offers, and which of them a task with all of them has."""

import json

import ray

ray.init(log_to_driver=False)


@ray.remote(num_gpus=2)
def take() -> list[int]:
    return list(ray.get_gpu_ids())


print(json.dumps({"offered": ray.cluster_resources().get("GPU"), "taken": len(ray.get(take.remote()))}), flush=True)
