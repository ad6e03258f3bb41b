"""The verbs of the client for jobs on this machine's Docker engine."""
