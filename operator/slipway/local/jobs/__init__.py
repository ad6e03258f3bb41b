"""The files of this machine's jobs, and what each job is told of this machine."""
