"""The same jobs from Python: containers, functions on Ray, and sessions.

Calls are synchronous and safe from any thread. Nothing here tries anything again: the operator does, and counts it.
"""
