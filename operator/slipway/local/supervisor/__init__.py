"""Looks after one job: observe, plan, apply, until the job is settled."""
