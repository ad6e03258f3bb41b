"""The containers of a job: asked of the engine, and read as the pods that the planner knows."""
