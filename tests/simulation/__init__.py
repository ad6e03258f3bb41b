"""Random histories of a modelled cluster, driven against the real planner, cache and apply code.

`python -m tests.simulation --count N --seed S` runs histories S, S+1, … S+N-1. Every choice comes from the seed, time
is simulated, and each history is judged by invariants after every write and by an oracle that knows what was injected.
"""
