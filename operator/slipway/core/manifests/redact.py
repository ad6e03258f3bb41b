"""Keeps secrets and control characters out of what is written to status, events and logs."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import MAX_LOG_CHARACTERS
from slipway.core.manifests.containers import objects, part, template_spec
from slipway.core.manifests.merge import MERGE_KEYS

HIDDEN: Final = "[redacted]"

_SECRET_NAME: Final = r"(?i:token|secret|pass(?:wd|word|phrase)|(?:api|access|account|private)[_-]?key|credentials?)"
_SETTING: Final = re.compile(r"true|false|[0-9]{1,7}", re.IGNORECASE)
_QUOTED_OR_WORD: Final = r"""(?:"(?:\\.|[^"\\\n])*|'(?:\\.|[^'\\\n])*|[^\s"',;]+)"""
_FORMS: Final = re.compile(
    "|".join(
        (
            # Authorization: Basic dXNlcjpwYXNz, with any scheme or none
            r"(?P<header>(?i:\b(?:proxy-)?authorization[\"']?\s*[=:]\s*[\"']?))[^\s\"',;]+(?:[ \t]+[^\s\"',;]+)?",
            r"(?P<bearer>(?i:\bbearer)\s+)[^\s\"',;]+",
            # postgres://user:password@host
            r"(?P<scheme>://)"
            r"(?:[^\s\"'/:@]*:(?!\d+(?:/|$))[^\s\"']+|[^\s\"'/]+)(?=@)",
            # --hf-token abc
            rf"(?P<flag>--(?:[A-Za-z0-9]+[-_])*{_SECRET_NAME}\s+){_QUOTED_OR_WORD}",
            # DB_PASSWORD=abc, "apiKey": "a b c"
            rf"(?P<name>(?<!\bLiteral){_SECRET_NAME}[\w-]*[\"']?\s*[=:]\s*){_QUOTED_OR_WORD}",
            # {"name": "DB_PASSWORD", "value": "abc"}, EnvVar{Name:"DB_PASSWORD",Value:"abc"}
            rf"(?P<pair>(?i:\bname)[\"']?\s*[=:]\s*[\"']?[\w-]*{_SECRET_NAME}[\w-]*[\"']?\s*,\s*[\"']?(?i:value)[\"']?"
            rf"\s*[=:]\s*){_QUOTED_OR_WORD}",
            # {"value": "abc", "name": "DB_PASSWORD"}
            rf"(?P<turned>(?i:\bvalue)[\"']?\s*[=:]\s*){_QUOTED_OR_WORD}"
            rf"(?=[\"']?\s*,\s*[\"']?(?i:name)[\"']?\s*[=:]\s*[\"']?[\w-]*{_SECRET_NAME})",
            # Tokens that are known by their own beginning.
            r"(?<![A-Za-z0-9])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|hf_\w{20,}"
            r"|sk-[\w-]{20,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{20,}|ya29\.[\w-]+|eyJ[\w-]{10,}\.[\w-]+\.[\w-]+)",
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        )
    )
)
_ENV_VALUE: Final = re.compile(r"(\benv\[[^\]]*\]\.value: \w+ value: )(\"(?:\\.|[^\"\\])*\"?|[^\s:,]+)")
_INDEXED: Final = re.compile(r"\b\w+(?:\.\w+|\[\d+\])*\[\d+\]")
_STEP: Final = re.compile(r"(\w+)(?:\[(\d+)\])?")
_KNOWN_BY: Final = MERGE_KEYS | {"tolerations": "key"}
_SHORTEST_VALUE: Final = 4
_BRIEF: Final = 512
_MOST_KNOWN: Final = 256
"""Texts of which it is kept how they are written."""
_CUT_AT: Final = 2000
"""Bytes from which on a kubelet may have cut the beginning of a log off."""


class _Redactor:
    """What hides the secrets of one spec; it is made once for all texts of a decision."""

    def __init__(self, spec: SliceJobSpec | None) -> None:
        self.spec = spec
        variables = tuple(_variables(spec)) if spec else ()
        self._values = sorted(_secret_values(variables), key=len, reverse=True)
        names = [re.escape(variable["name"]) for variable in variables if "secretKeyRef" in part(variable, "valueFrom")]
        behind = rf"(\b(?:{'|'.join(names)})\b[\"']?\s*[=:]\s*){_QUOTED_OR_WORD}"
        self._behind = re.compile(behind) if names else None
        self._known: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """The text without the secrets; that of equal texts is found once."""
        if (found := self._known.get(text)) is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[text] = self._hidden(text)
        return found

    def _hidden(self, text: str) -> str:
        for value in self._values:
            text = text.replace(json.dumps(value)[1:-1], HIDDEN).replace(value, HIDDEN)
        text = _FORMS.sub(_kept_and_hidden, text)
        if self._behind is not None:
            text = self._behind.sub(lambda found: found[1] + _opening(found[0][len(found[1]) :]) + HIDDEN, text)
        return _ENV_VALUE.sub(rf"\1{HIDDEN}", text)

    def without_halves(self, text: str) -> str:
        """A text whose beginning was cut off, without the end of a secret that it may begin with."""
        ends = (
            value[at:]
            for value in self._values
            for at in range(max(1, len(value) - len(text)), len(value) - _SHORTEST_VALUE + 1)
        )
        half = max((end for end in ends if text.startswith(end)), key=len, default="")
        return HIDDEN + text[len(half) :] if half else text


_latest: _Redactor | None = None


def _redactor(spec: SliceJobSpec | None) -> _Redactor:
    """That of the spec. A decision asks for one spec again and again, so that the latest one is kept."""
    global _latest
    redactor = _latest
    if redactor is None or redactor.spec is not spec:
        redactor = _latest = _Redactor(spec)
    return redactor


def redacted(text: str, spec: SliceJobSpec | None) -> str:
    """The text without token-like strings and without values that the job keeps secret.

    These are what stands behind the name of a variable from a Secret, and literal values of variables whose names
    say that they are secret.
    """
    return _redactor(spec).hide(text)


def is_secret(name: str, value: str) -> bool:
    """Whether the name of a variable says that its value is secret, and the value may be one."""
    return re.search(_SECRET_NAME, name) is not None and not is_setting(name, value)


def is_setting(name: str, value: str) -> bool:
    """Whether a value shows that TOKEN in a name means no secret: that of MAX_TOKENS or of TOKENIZERS_PARALLELISM."""
    words = {word.lower() for word in re.findall(_SECRET_NAME, name)}
    return words == {"token"} and _SETTING.fullmatch(value) is not None


def printable(text: str) -> str:
    """The text on one line, with control characters written as escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def foreign(text: str, spec: SliceJobSpec | None) -> str:
    """Text of another program as it may stand in a message: on one line, without secrets."""
    return printable(redacted(text, spec))


def brief(text: str, spec: SliceJobSpec | None) -> str:
    """The same of a text that may be long, cut when its secrets are hidden: half of a secret would be none of them."""
    said = foreign(text, spec)
    return said if len(said) <= _BRIEF else said[: _BRIEF - 1] + "…"


def named(text: str, pods: Iterable[Mapping[str, Any]]) -> str:
    """What the API server says of a pod, with names in place of numbers, by which the job's user cannot count.

    Slipway's own variables, volumes and mounts stand in the same lists: `spec.containers[worker].volumeMounts[/data]`.
    """
    pod = next((one for one in pods if f'"{one["metadata"]["name"]}"' in text), None)
    return text if pod is None else _INDEXED.sub(lambda found: _by_name(found[0], pod), text)


def log_tail(text: str, spec: SliceJobSpec | None) -> str | None:
    """The end of a log as it may stand in status: printable, redacted, at most 2 KiB; None when there is nothing."""
    whole = _redactor(spec).without_halves(text) if len(text.encode()) >= _CUT_AT else text
    cleaned = "".join(char if char.isprintable() or char in "\n\t" else "�" for char in redacted(whole, spec))
    tail = cleaned.strip().encode()[-MAX_LOG_CHARACTERS:].decode(errors="ignore")
    return tail or None


def last_line(log: str | None) -> str:
    """The last line of a log tail, short enough for a message."""
    return printable(log.splitlines()[-1].strip()[:200]) if log else ""


def _kept_and_hidden(found: re.Match[str]) -> str:
    kept = next((group for group in found.groups() if group is not None), "")
    if is_setting(kept, found[0][len(kept) :].strip("\"'()")):
        return found[0]
    return kept + _opening(found[0][len(kept) :]) + HIDDEN


def _opening(value: str) -> str:
    """The quote that a value begins with; the one that ends it is not hidden."""
    return value[0] if value[0] in "\"'" else ""


def _variables(spec: SliceJobSpec) -> Iterator[dict[str, Any]]:
    of_head = spec.ray.head.env if spec.ray is not None else ()
    for variable in (*spec.env, *of_head):
        yield variable.model_dump(by_alias=True, exclude_none=True)
    if spec.ray is not None and spec.ray.runtime_env is not None:
        yield from ({"name": name, "value": value} for name, value in spec.ray.runtime_env.env_vars.items())
    template = template_spec(spec)
    for kind in ("containers", "initContainers"):
        for container in objects(template, kind):
            yield from (one for one in objects(container, "env") if isinstance(one.get("name"), str))


def _secret_values(variables: Iterable[dict[str, Any]]) -> Iterator[str]:
    for variable in variables:
        value = variable.get("value")
        if isinstance(value, str) and len(value) >= _SHORTEST_VALUE and is_secret(variable["name"], value):
            yield value


def _by_name(path: str, pod: Mapping[str, Any]) -> str:
    """The path of a field of a pod with names; as it is where it leads nowhere, or where items have no names."""
    here: Any = pod if path.startswith("spec.") else pod["spec"]
    steps = []
    try:
        for field, index in _STEP.findall(path):
            here = here[field]
            if index:
                here = here[int(index)]
                steps.append(f"{field}[{printable(str(here[_KNOWN_BY[field]]))}]")
            else:
                steps.append(field)
    except (KeyError, IndexError, TypeError):
        return path
    return ".".join(steps)
