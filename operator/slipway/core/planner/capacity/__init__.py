"""Waiting for nodes, and letting go of them."""
