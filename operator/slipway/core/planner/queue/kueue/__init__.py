"""Kueue: what its Workload asks for and is told, and what it answers."""
