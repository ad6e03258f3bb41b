"""Prints what a job waits for, while a call waits for the job."""

import sys
from contextlib import suppress

from slipway.client.model import JobState


class StoryPrinter:
    """Prints the story of one job to standard error, a line for each change."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._said = quiet, ""
        self.last: JobState | None = None
        """The job when it was seen last."""

    def see(self, job: JobState) -> None:
        """Take note of the job, and print what has changed."""
        self.last = job
        if job.over or job.terminating or job.story in ("", self._said):
            return
        self._said = job.story
        self.say(job.name, job.story)

    def say(self, job: str, words: str) -> None:
        """Print what is worth knowing about a job."""
        if self._quiet:
            return
        # The program that reads standard error may have ended; the job goes on, and so must its call.
        with suppress(OSError, ValueError):
            print(f"SliceJob {job}: {words}", file=sys.stderr, flush=True)
