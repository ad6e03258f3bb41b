"""SliceJobs from Python: submit, watch, read logs, cancel."""
