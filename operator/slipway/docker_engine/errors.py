"""The one exception of building and pushing."""

from __future__ import annotations

from typing import Literal

Stage = Literal["check", "engine", "build", "push"]
"""What failed: the request itself, reaching the engine, the build, or the push."""


class ImageBuildError(RuntimeError):
    """An image was not built or not pushed: at which stage, with which exit code, and what was last said."""

    def __init__(self, stage: Stage, exit_code: int, stderr: str, what: str, hint: str | None = None) -> None:
        super().__init__(stage, exit_code, stderr, what, hint)
        self.stage: Stage = stage
        self.exit_code = exit_code
        """Exit code of the command that failed in a build, otherwise 1."""
        self.stderr = stderr
        """The last lines of the step that failed, and the engine's own words."""
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.what, *(f"  {line}" for line in self.stderr.splitlines())]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


def refuse(what: str, hint: str | None = None) -> ImageBuildError:
    """Return the error for a request that is wrong in itself."""
    return ImageBuildError("check", 1, "", what, hint)
