"""The queues that a job can wait in: what each is asked and told, and what it answers."""
