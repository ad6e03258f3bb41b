"""What a job waits for, told while a call waits for the job."""

import sys
from contextlib import suppress

from slipway.client.view import JobView


class StoryPrinter:
    """Prints the story of one job to standard error, a line for each change."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._said = quiet, ""
        self.last: JobView | None = None
        """The job when it was seen last."""

    def see(self, view: JobView) -> None:
        """Take note of the job, and print what has changed."""
        self.last = view
        if view.over or view.terminating or view.story in ("", self._said):
            return
        self._said = view.story
        self.say(view.metadata.name, view.story)

    def say(self, job: str, words: str) -> None:
        """Print what is worth knowing about a job."""
        if self._quiet:
            return
        # The program that reads standard error may have ended; the job goes on, and so must its call.
        with suppress(OSError, ValueError):
            print(f"SliceJob {job}: {words}", file=sys.stderr, flush=True)
