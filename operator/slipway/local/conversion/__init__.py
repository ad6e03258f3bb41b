"""A pod as a container: pure functions from the planner's bodies to requests of the Engine API."""
