"""How the cluster is seen and acted upon: connection, watch, stores, queue, apply. No kopf."""
