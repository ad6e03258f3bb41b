"""The base of every model: camelCase outside, snake_case inside, docstrings as descriptions."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A strict, immutable part of the resource: an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )


class Passthrough(Model):
    """A Kubernetes object that Slipway hands on as it is: fields it does not name are kept."""

    model_config = ConfigDict(extra="allow")


class Part(Model):
    """A part of the status. What another version wrote besides is no error: it stays in the stored object.

    Bounds stand in the schema only: they bind what is written, not what is read.
    """

    model_config = ConfigDict(extra="ignore")


def rfc3339(moment: datetime) -> str:
    """The moment in UTC with milliseconds, as it stands in status."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str)]


def rule(
    expression: str, message: str | None = None, *, computed: str | None = None, path: str | None = None
) -> dict[str, str]:
    """One CEL rule of the CRD: what must hold, what is said when it does not, and which field is named.

    `message` is fixed text; `computed` is a CEL expression that yields the text, for messages that show
    the value. `path` is a JSON path below the place where the rule stands.
    """
    entry = {"rule": expression}
    if message is not None:
        entry["message"] = message
    if computed is not None:
        entry["messageExpression"] = computed
    if path is not None:
        entry["fieldPath"] = path
    return entry


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """`json_schema_extra` that carries CEL rules beside the model they are about."""
    return {"x-kubernetes-validations": list(entries)}
