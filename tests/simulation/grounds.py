"""What a history may meet beside the faults of one process and one job; each ground leaves the others room.

Which grounds a seed stands on is chosen apart from everything else, so a history on none is the same whatever is added
here. `python -m tests.simulation --ground NAME` puts every history on one.
"""

import random
from collections.abc import Collection
from typing import Final

STANDBY: Final = "standby"
"""A second process watches from the start, and takes over when the first one goes."""
SLOW_LISTS: Final = "slow lists"
"""LISTs take seconds and are as of their start; watches of nodes expire when a Node goes."""
UNREADABLE_NODES: Final = "unreadable nodes"
"""Processes may not read nodes, for ever or in their first minute."""
CLOCKS: Final = "clocks"
"""Two API servers answer, and their clocks differ."""
CROWD: Final = "crowd"
"""Two to five jobs share nodes."""
QUOTA: Final = "quota"
"""Two to five jobs share nodes and a quota that suffices for the largest of them."""
VERSIONS: Final = "versions"
"""Processes of two versions follow each other, one of which knows words that the other does not."""
STRANGERS: Final = "strangers"
"""People write into the status."""
RAY: Final = "ray"
"""The first job is a Ray job: a head, workers, and an entrypoint in the head."""
SIZES: Final = "sizes"
"""Jobs of dozens to hundreds of hosts."""
PROFILES: Final = "profiles"
"""A SliceJobProfile is created, changed and deleted."""
PROGRESS: Final = "progress"
"""The first job asks for its progress, and the streams of its logs break or are refused."""
QUEUES: Final = "queues"
"""Two to five jobs are in queues of Kueue, which evicts them, is slow, and is away."""
CHOICES: Final = "choices"
"""The first job can run on several numbers of slices; of those in queues every other one can."""
KUBELETS: Final = "kubelet clocks"
"""The clocks of kubelets differ from that of the API server."""
POLICIES: Final = "policies"
"""For a while a policy denies many pods, or deletes them before they have a node."""
HANGS: Final = "hung kubelets"
"""Kubelets are stuck for minutes, while their Nodes stay ready; then their machines may be lost."""
STOPS: Final = "stops"
"""Jobs are suspended for minutes, cancelled, and have deadlines and times to live; people allow more retries."""

WEIGHTS: Final[dict[str, float]] = {
    STANDBY: 0.2,
    SLOW_LISTS: 0.1,
    UNREADABLE_NODES: 0.03,
    CLOCKS: 0.03,
    CROWD: 0.02,
    QUOTA: 0.01,
    VERSIONS: 0.05,
    STRANGERS: 0.03,
    RAY: 0.08,
    SIZES: 0.001,
    PROFILES: 0.03,
    PROGRESS: 0.05,
    # Its histories take seven times as long, and have a test of their own.
    QUEUES: 0.01,
    CHOICES: 0.01,
    KUBELETS: 0.05,
    POLICIES: 0.03,
    STOPS: 0.03,
    # The last: what is added before another ground changes which seeds stand on that.
    HANGS: 0.03,
}
"""Share of the histories on each ground."""


def grounds(seed: int, only: Collection[str] = ()) -> frozenset[str]:
    """The grounds of a history: those that it is told to stand on, or those that its seed chooses."""
    rng = random.Random(f"grounds of {seed}")
    chosen = frozenset(name for name, weight in WEIGHTS.items() if rng.random() < weight)
    return frozenset(only) or chosen
