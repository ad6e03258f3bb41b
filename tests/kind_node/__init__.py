"""What clusters of kind need where nothing can be pulled: a node image and an engine, both made on this machine."""
