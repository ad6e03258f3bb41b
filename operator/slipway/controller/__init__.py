"""How the operator lives: what it sees, the loop that decides, what it does, and how the process runs.

seen             what is known of the cluster: one watch and one store for each kind of object
act              what carries a plan out
observability    log lines, metrics, probes
engine           the control loop between them
main             the process, with kopf
"""
