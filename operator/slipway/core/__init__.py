"""What Slipway knows and decides of a job, without I/O: each room imports from those below it only.

planner       what to write and what to do
accounting    where the time and the chips of a job went
explain       why a job does not run, in words, and the smallest change that helps
validation    whether a spec can run here, and with which values
manifests     the objects that Slipway makes of a job
model         what the API server shows, as structs
vocabulary    the words of a status, and what follows from each
"""
