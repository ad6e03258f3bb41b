"""Slipway runs container jobs on TPU node pools and survives their preemptions."""
