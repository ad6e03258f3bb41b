"""What a job with a Ray cluster has besides: its head, its objects, and the programs of both containers."""
