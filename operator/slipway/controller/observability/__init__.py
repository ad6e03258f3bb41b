"""What the operator tells of itself: log lines, metrics and probes."""
