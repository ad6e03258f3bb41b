"""The exceptions that people see."""

from __future__ import annotations

from pathlib import Path


class LocalClusterError(Exception):
    """Something expected went wrong: one sentence, and where possible what to do about it."""

    def __init__(self, message: str, hint: str | None = None, log: Path | None = None) -> None:
        self.message = message
        self.hint = hint
        self.log = log
        # Who shows the error may have removed the cluster before, with its logs.
        self._last_words = [] if log is None else [f"  {line}" for line in last_lines(log)]
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.log is not None:
            parts += [f"Log: {self.log}" if self.log.exists() else "The end of its log:", *self._last_words]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


class ClusterNotFound(LocalClusterError):
    """There is no cluster of that name; the hint names those that there are."""


def of_system(error: OSError) -> str:
    """What the operating system refuses, in a sentence: it names the file and the reason, such as a full disk."""
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}."


def last_lines(path: Path, count: int = 12, width: int = 300) -> list[str]:
    """Return the last lines of a log, shortened, or nothing when it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 64_000))
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    return [line[:width] for line in text.splitlines()[-count:]]
