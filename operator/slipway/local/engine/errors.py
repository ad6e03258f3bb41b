"""What goes wrong with an engine: it cannot be used, or it does not build or push."""

from __future__ import annotations

from typing import Literal

Stage = Literal["check", "engine", "build", "push", "save"]
"""What failed: the request itself, reaching the engine, the build, the push, or writing an archive."""


class EngineUnavailable(RuntimeError):
    """There is no engine to talk to: what is wrong, the system's own words, and what to do."""

    def __init__(self, what: str, detail: str, hint: str) -> None:
        super().__init__(what, detail, hint)
        self.what, self.detail, self.hint = what, detail, hint

    def __str__(self) -> str:
        said = f"{self.what.rstrip('.')}: {self.detail}." if self.detail else self.what
        return f"{said} {self.hint}"


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
