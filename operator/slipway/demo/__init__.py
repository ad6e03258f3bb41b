"""The demo: a job on a TPU cluster on this machine loses a node, comes back and finishes.

It uses what a user uses (the local cluster, kubectl, the operator, an example) and then proves, from what the job
itself wrote, that the training went on where it stopped.
"""
