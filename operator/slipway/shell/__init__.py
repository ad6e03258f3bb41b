"""How the process lives: settings, kopf, leadership, health, shutdown."""
