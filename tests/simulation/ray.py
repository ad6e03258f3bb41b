"""Ray clusters: the head's driver runs the entrypoint once all workers have joined; workers serve until stopped."""

from slipway.api.places import HEAD
from tests.simulation.program import Ending, Member, Program, Will


class RayProgram(Program[Member]):
    """One attempt of a Ray job: only the head's end is the program's own; the loss of a worker ends the entrypoint."""

    def _work(self) -> None:
        script, head = self.script, self.members[HEAD]
        self.on_joined(head)
        if script.will is Will.HANG:
            return
        succeeds = script.will is Will.SUCCEED
        if succeeds or not script.early:
            ending = Ending(0, "Completed") if succeeds else self._failure()
            self._later(script.after, self.members[HEAD if succeeds else script.place], ending, "will")

    def ended(self, container: Member, clean: bool) -> None:
        """A worker that is gone takes the entrypoint along; workers of a head that is gone notice, and leave."""
        if not clean and not self.broken:
            self._break(container)
