"""How to reach this machine's Docker engine, and what goes wrong on the way."""
