"""Decides what should happen: a pure function from what is seen to what to write and do.

Nothing here does I/O, reads a clock, rolls dice or knows kopf or a client; `plan.plan` is the way in.
"""
