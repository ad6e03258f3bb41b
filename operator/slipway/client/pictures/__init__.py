"""What jobs look like, on a terminal and in a notebook."""
