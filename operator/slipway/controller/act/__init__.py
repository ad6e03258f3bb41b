"""Carries plans out: writes of status, pods, Workloads, Events and history, and the reads that a decision asks for."""
