"""Why a pod ended, and with it its attempt."""
