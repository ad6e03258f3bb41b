"""Whether a spec can run here, and with which values."""
