"""Keeps secrets out of what is written to status and events."""

import re
from typing import Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import MAX_LOG_CHARACTERS

HIDDEN: Final = "[redacted]"

_TOKENS: Final = re.compile(
    r"(?P<keep>\b[Bb]earer\s+|(?i:\b[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w-]*[\"']?\s*[=:]\s*[\"']?))"
    r"[^\s\"',;]+"
    r"|\b(?:gh[pousr]_\w{20,}|hf_\w{20,}|sk-[\w-]{20,}|AKIA[0-9A-Z]{16}|ya29\.[\w-]+|eyJ[\w-]{10,}\.[\w-]+\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


def redacted(text: str, spec: SliceJobSpec | None) -> str:
    """The text without token-like strings and without values printed behind the name of a Secret's variable."""
    text = _TOKENS.sub(lambda found: (found["keep"] or "") + HIDDEN, text)
    secret = [
        re.escape(one.name)
        for one in (spec.env if spec else ())
        if one.value_from is not None and "secretKeyRef" in (one.value_from.model_extra or {})
    ]
    if secret:
        text = re.sub(rf"(\b(?:{'|'.join(secret)})\b[\"']?\s*[=:]\s*[\"']?)[^\s\"',;]+", rf"\1{HIDDEN}", text)
    return text


def log_tail(text: str, spec: SliceJobSpec | None) -> str | None:
    """The end of a log as it may stand in status: printable, redacted, at most 2 KiB; None when there is nothing."""
    cleaned = "".join(char if char.isprintable() or char in "\n\t" else "�" for char in redacted(text, spec))
    tail = cleaned.strip().encode()[-MAX_LOG_CHARACTERS:].decode(errors="ignore")
    return tail or None


def last_line(log: str | None) -> str:
    """The last line of a log tail, short enough for a message."""
    return log.splitlines()[-1].strip()[:200] if log else ""
