"""Histories of jobs on one machine: real supervisors against a model engine, people, faults and kills, from a seed.

The supervisors are the production code from their loop down to the calls of the Docker SDK; what they share with each
other and with this process (time, threads, files, the engine) is modelled, and goes step by step.
"""
