"""Clusters whose nodes are processes of this machine: real nodes in namespaces, and simulated ones."""
