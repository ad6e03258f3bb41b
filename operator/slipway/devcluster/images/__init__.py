"""Container images as archives, written without a registry and without an engine."""
