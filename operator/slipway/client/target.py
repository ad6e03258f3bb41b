"""Where calls go to: which cluster, or which engine, and which namespace."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from slipway.api import names
from slipway.client import errors
from slipway.core.model.job import UNKNOWN_OPERATOR, Settings

if TYPE_CHECKING:
    from slipway.client.verbs import Verbs


def possible_namespace(name: str) -> str:
    """The name, where a namespace can have it; any other would mean something else in a URL.

    Raises:
        Refused: when none can.
    """
    if problem := names.namespace_problem(name):
        raise errors.Refused(problem)
    return name


@dataclass(frozen=True)
class Target(ABC):
    """Where jobs are, and how they are reached; made without any call."""

    namespace: str | None = None
    """Namespace of the jobs."""

    @property
    @abstractmethod
    def resolved_namespace(self) -> str:
        """The namespace given, or the one that takes its place."""

    @property
    def folder(self) -> Path | None:
        """Where relative sources of mounts begin; None where the jobs run on other machines."""
        return None

    @property
    def settings(self) -> Settings:
        """With which manifests are checked before they are sent."""
        return UNKNOWN_OPERATOR

    @abstractmethod
    def client(self) -> "Verbs":
        """A client of its own for each call, to be opened with `async with`."""

    def within(self, namespace: str) -> Self:
        """The same place with another namespace."""
        return replace(self, namespace=namespace)
