"""This machine's Docker engine: building images, and running jobs as containers."""
