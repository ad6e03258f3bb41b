"""How anybody talks to the API server: credentials, connection, watches, errors, and the streams of pods. No kopf."""
