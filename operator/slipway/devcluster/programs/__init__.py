"""The programs that a cluster is made of: found, downloaded or built."""
