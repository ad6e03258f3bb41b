"""An attempt from its beginning to its charge, and the fence between two attempts."""
