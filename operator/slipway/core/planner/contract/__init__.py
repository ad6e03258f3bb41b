"""What goes into a decision and what comes out: the snapshot, the actions, and how fresh a look must be."""
