"""What Kueue is asked and told, and what it answers."""
