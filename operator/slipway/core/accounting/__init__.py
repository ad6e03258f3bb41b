"""Where the time and the chips of a job went."""
