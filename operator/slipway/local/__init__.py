"""Jobs on this machine's Docker engine: everything behind `slipway local` and `slipway build`.

client        the verbs of the client for these jobs
submission    what is checked and fetched before a job begins
supervisor    looks after one job until it is settled
images        images: built, pushed, pulled, and named by what they are
containers    the containers of a job, as the planner's pods
jobs          the files of jobs, and what each is told of this machine
conversion    a pod as containers of Docker, as pure functions
engine        how to reach the engine, and what goes wrong on the way
"""
