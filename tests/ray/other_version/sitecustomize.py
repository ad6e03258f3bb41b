"""Makes the Ray of whichever Python finds this on its path say that it is another version."""

import sys

if sys.argv and "ray" in str(sys.orig_argv):
    import ray

    ray.__version__ = "2.52.0"
